# Toolchain of the static helper. SHP_MUSL_GCC is a compiler that links against musl: Debian's musl-gcc,
# or for another architecture the wrapper that scripts/build-helpers makes. Flags are in ShpOptions.cmake:
# what a toolchain file sets is kept in the cache of an existing build.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SHP_MUSL_GCC)
set(CMAKE_C_COMPILER "${SHP_MUSL_GCC}")

execute_process(COMMAND "${SHP_MUSL_GCC}" -dumpmachine
  OUTPUT_VARIABLE shp_musl_machine OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${shp_musl_machine}")

set(CMAKE_BUILD_TYPE MinSizeRel CACHE STRING "" FORCE)
