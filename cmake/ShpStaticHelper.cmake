# Decides how build/bin/shepherdr-helper is linked (SHP_HELPER_KIND), and builds the static one.
#
# The static helper is this same tree, configured a second time with the musl toolchain and
# SHP_HELPER_ONLY: one set of folder targets serves both programs.

find_program(SHP_MUSL_GCC musl-gcc)

set(shp_static_possible FALSE)
if(SHP_MUSL_GCC AND EXISTS "${SHP_THIRD_PARTY_DIR}/libsodium")
  set(shp_static_possible TRUE)
endif()

if(SHP_SANITIZE OR SHP_FUZZ OR SHP_HELPER STREQUAL "dynamic")
  set(SHP_HELPER_KIND dynamic)
elseif(shp_static_possible)
  set(SHP_HELPER_KIND static)
elseif(SHP_HELPER STREQUAL "static")
  message(FATAL_ERROR
    "The static helper needs musl-gcc and the sources in ${SHP_THIRD_PARTY_DIR}: run scripts/bootstrap")
else()
  message(WARNING "No musl-gcc or no third-party sources: the helper is linked dynamically and "
    "serves this machine only. scripts/bootstrap brings what is missing.")
  set(SHP_HELPER_KIND dynamic)
endif()

file(GLOB shp_helper_main CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/remote-helper/main.c")
if(SHP_HELPER_KIND STREQUAL "dynamic" OR NOT shp_helper_main)
  return()
endif()

include(ExternalProject)

# shp_static_helper(<target> <compiler> <file name in build/bin>)
function(shp_static_helper target compiler name)
  ExternalProject_Add(${target}
    SOURCE_DIR "${CMAKE_SOURCE_DIR}"
    BINARY_DIR "${CMAKE_BINARY_DIR}/${target}"
    CMAKE_ARGS
      "-DCMAKE_TOOLCHAIN_FILE=${CMAKE_SOURCE_DIR}/cmake/musl.cmake"
      "-DSHP_MUSL_GCC=${compiler}"
      -DSHP_HELPER_ONLY=ON
      "-DSHP_WERROR=${SHP_WERROR}"
      "-DSHP_THIRD_PARTY_DIR=${SHP_THIRD_PARTY_DIR}"
      "-DSHP_GENERATED_DIR=${SHP_GENERATED_DIR}"
      "-DSHP_HELPER_OUTPUT_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
      "-DSHP_HELPER_OUTPUT_NAME=${name}"
    BUILD_ALWAYS ON
    BUILD_BYPRODUCTS "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}"
    INSTALL_COMMAND ""
    DEPENDS shp_build_id)
endfunction()

shp_static_helper(shp_static_helper "${SHP_MUSL_GCC}" shepherdr-helper)

# Set by scripts/build-helpers, which makes the cross compiler.
if(SHP_MUSL_GCC_OTHER AND EXISTS "${SHP_MUSL_GCC_OTHER}")
  shp_static_helper(shp_static_helper_other "${SHP_MUSL_GCC_OTHER}"
    "helper-linux-${SHP_OTHER_ARCHITECTURE}")
endif()
