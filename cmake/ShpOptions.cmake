# Language, warnings, sanitizers and output folders for every target of ours.
#
# Third-party sources do not get these warnings: they are compiled by ShpThirdParty.cmake.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

# Assertions stay on in every build type: they guard against mistakes of ours that would otherwise
# corrupt state on somebody's machine.
foreach(type IN ITEMS RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${type} "${CMAKE_C_FLAGS_${type}}")
endforeach()

add_library(shp_options INTERFACE)
target_include_directories(shp_options INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(shp_options INTERFACE _GNU_SOURCE)
target_compile_options(shp_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -fno-common -fstack-protector-strong)
if(SHP_WERROR)
  target_compile_options(shp_options INTERFACE -Werror)
endif()

if(SHP_HELPER_ONLY)
  # Small and alone: -Os comes from the build type MinSizeRel; unused functions go at link time.
  add_compile_options(-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-ident)
  add_link_options(-static -s -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,noexecstack
    -Wl,-z,noseparate-code)
elseif(SHP_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SHP_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
  endif()
  target_compile_options(shp_options INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shp_options INTERFACE -fsanitize=address,undefined)
elseif(SHP_SANITIZE)
  target_compile_options(shp_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shp_options INTERFACE -fsanitize=address,undefined)
else()
  target_compile_options(shp_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(shp_options INTERFACE -Wl,-z,relro,-z,now)
endif()
