# Toolchain of the static helper. SHP_MUSL_GCC is a compiler that links against musl: Debian's musl-gcc,
# or for another architecture the wrapper that scripts/musl-aarch64 makes.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SHP_MUSL_GCC)
set(CMAKE_C_COMPILER "${SHP_MUSL_GCC}")

execute_process(COMMAND "${SHP_MUSL_GCC}" -dumpmachine
  OUTPUT_VARIABLE shp_musl_machine OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${shp_musl_machine}")

set(CMAKE_C_FLAGS_INIT "-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-ident")
set(CMAKE_C_FLAGS_MINSIZEREL_INIT "-Os")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -s -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,noexecstack")
set(CMAKE_BUILD_TYPE MinSizeRel CACHE STRING "" FORCE)
