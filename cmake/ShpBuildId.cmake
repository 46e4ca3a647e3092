# build/generated/shp_build_id.h: the version and the build id that controller and helper compare.
#
# The id is a digest over everything that shapes the helper: its sources, the pinned third-party sources,
# the flags. It does not depend on machine, path, time or architecture. Checked on every build, rewritten
# only when it changed.

set(SHP_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated" CACHE PATH
  "Where generated headers are; the inner build uses the outer one's")

add_library(shp_generated INTERFACE)
target_include_directories(shp_generated INTERFACE "${SHP_GENERATED_DIR}")

if(SHP_HELPER_ONLY)
  add_custom_target(shp_build_id)
  return()
endif()

if(SHP_SANITIZE)
  set(shp_build_variant sanitize)
elseif(SHP_FUZZ)
  set(shp_build_variant fuzz)
else()
  set(shp_build_variant plain)
endif()

set(shp_build_id_command "${CMAKE_COMMAND}"
  "-DSOURCE_DIR=${CMAKE_SOURCE_DIR}" "-DVERSION=${PROJECT_VERSION}"
  "-DVARIANT=${shp_build_variant}"
  "-DTHIRD_PARTY_VERSIONS=${SHP_THIRD_PARTY_DIR}/VERSIONS"
  "-DOUTPUT=${SHP_GENERATED_DIR}/shp_build_id.h"
  -P "${CMAKE_SOURCE_DIR}/cmake/build_id.cmake")

add_custom_target(shp_build_id
  COMMAND ${shp_build_id_command}
  BYPRODUCTS "${SHP_GENERATED_DIR}/shp_build_id.h"
  COMMENT "Checking the build id"
  VERBATIM)
