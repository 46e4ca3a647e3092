# libsodium, libuv and cJSON for the static helper, compiled from the distribution's sources.
#
# Their own build systems are not used: the helper needs a small part of each, and libsodium's configure
# would have to be generated first. What a build needs to know is written here and is the same for glibc
# and musl. SHP_THIRD_PARTY_DIR is made by scripts/fetch-third-party.

set(shp_sodium "${SHP_THIRD_PARTY_DIR}/libsodium")
set(shp_uv "${SHP_THIRD_PARTY_DIR}/libuv")
set(shp_cjson "${SHP_THIRD_PARTY_DIR}/cjson")
foreach(folder IN ITEMS "${shp_sodium}" "${shp_uv}" "${shp_cjson}")
  if(NOT IS_DIRECTORY "${folder}")
    message(FATAL_ERROR "${folder} does not exist: run scripts/bootstrap")
  endif()
endforeach()

# --- libsodium: X25519, ChaCha20-Poly1305, BLAKE2b, SHA-256, random numbers, utilities ---

file(STRINGS "${shp_sodium}/configure.ac" configure_lines)
foreach(line IN LISTS configure_lines)
  if(line MATCHES "^AC_INIT\\(\\[libsodium\\],\\[([0-9.]+)\\]")
    set(VERSION "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^SODIUM_LIBRARY_VERSION_MAJOR=([0-9]+)")
    set(SODIUM_LIBRARY_VERSION_MAJOR "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^SODIUM_LIBRARY_VERSION_MINOR=([0-9]+)")
    set(SODIUM_LIBRARY_VERSION_MINOR "${CMAKE_MATCH_1}")
  endif()
endforeach()
set(SODIUM_LIBRARY_MINIMAL_DEF "#define SODIUM_LIBRARY_MINIMAL 1")
set(shp_sodium_source "${shp_sodium}/src/libsodium")
set(shp_sodium_generated "${CMAKE_BINARY_DIR}/third-party/include")
configure_file("${shp_sodium_source}/include/sodium/version.h.in"
  "${shp_sodium_generated}/sodium/version.h" @ONLY)
# version.h includes this one from its own folder.
configure_file("${shp_sodium_source}/include/sodium/export.h"
  "${shp_sodium_generated}/sodium/export.h" COPYONLY)

set(sodium_files
  crypto_aead/chacha20poly1305/sodium/aead_chacha20poly1305.c
  crypto_core/ed25519/ref10/ed25519_ref10.c
  crypto_generichash/crypto_generichash.c
  crypto_generichash/blake2b/generichash_blake2.c
  crypto_generichash/blake2b/ref/blake2b-compress-ref.c
  crypto_generichash/blake2b/ref/blake2b-ref.c
  crypto_generichash/blake2b/ref/generichash_blake2b.c
  crypto_hash/sha256/hash_sha256.c
  crypto_hash/sha256/cp/hash_sha256_cp.c
  crypto_onetimeauth/crypto_onetimeauth.c
  crypto_onetimeauth/poly1305/onetimeauth_poly1305.c
  crypto_onetimeauth/poly1305/donna/poly1305_donna.c
  crypto_scalarmult/crypto_scalarmult.c
  crypto_scalarmult/curve25519/scalarmult_curve25519.c
  crypto_scalarmult/curve25519/ref10/x25519_ref10.c
  crypto_stream/chacha20/stream_chacha20.c
  crypto_stream/chacha20/ref/chacha20_ref.c
  crypto_verify/sodium/verify.c
  randombytes/randombytes.c
  randombytes/sysrandom/randombytes_sysrandom.c
  sodium/codecs.c
  sodium/core.c
  sodium/runtime.c
  sodium/utils.c
  sodium/version.c)
list(TRANSFORM sodium_files PREPEND "${shp_sodium_source}/")

set(sodium_definitions
  CONFIGURED=1 NDEBUG _GNU_SOURCE SODIUM_STATIC
  HAVE_ATOMIC_OPS=1 HAVE_C_VARARRAYS=1 HAVE_EXPLICIT_BZERO=1 HAVE_GETPID=1 HAVE_GETRANDOM=1
  HAVE_INLINE_ASM=1 HAVE_MADVISE=1 HAVE_MLOCK=1 HAVE_MMAP=1 HAVE_MPROTECT=1 HAVE_NANOSLEEP=1
  HAVE_PTHREAD=1 HAVE_RAISE=1 HAVE_SYS_MMAN_H=1 HAVE_SYS_RANDOM_H=1 HAVE_SYSCONF=1 HAVE_TI_MODE=1
  HAVE_WEAK_SYMBOLS=1 NATIVE_LITTLE_ENDIAN=1 TLS=_Thread_local)

if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND sodium_definitions
    HAVE_CPUID=1 HAVE_MMINTRIN_H=1 HAVE_EMMINTRIN_H=1 HAVE_PMMINTRIN_H=1 HAVE_TMMINTRIN_H=1
    HAVE_SMMINTRIN_H=1 HAVE_AVXINTRIN_H=1 HAVE_AVX2INTRIN_H=1)
  # Chosen at run time by what the processor has (sodium/runtime.c), so only these files may use the
  # wider instructions.
  function(shp_sodium_simd file)
    set(path "${shp_sodium_source}/${file}")
    set_source_files_properties("${path}" PROPERTIES COMPILE_OPTIONS "${ARGN}")
    set(sodium_files ${sodium_files} "${path}" PARENT_SCOPE)
  endfunction()
  set(ssse3 -msse2 -mssse3)
  set(sse41 ${ssse3} -msse4.1)
  set(avx2 ${sse41} -mavx -mavx2)
  shp_sodium_simd(crypto_generichash/blake2b/ref/blake2b-compress-ssse3.c ${ssse3})
  shp_sodium_simd(crypto_generichash/blake2b/ref/blake2b-compress-sse41.c ${sse41})
  shp_sodium_simd(crypto_generichash/blake2b/ref/blake2b-compress-avx2.c ${avx2})
  shp_sodium_simd(crypto_onetimeauth/poly1305/sse2/poly1305_sse2.c -msse2)
  shp_sodium_simd(crypto_stream/chacha20/dolbeau/chacha20_dolbeau-ssse3.c ${ssse3})
  shp_sodium_simd(crypto_stream/chacha20/dolbeau/chacha20_dolbeau-avx2.c ${avx2})
endif()

# x25519_base.c stands in for these two.
set_source_files_properties("${shp_sodium_source}/crypto_scalarmult/curve25519/scalarmult_curve25519.c"
  PROPERTIES COMPILE_OPTIONS -Dcrypto_scalarmult_curve25519_base=shp_sodium_base_with_table)
set_source_files_properties("${shp_sodium_source}/crypto_scalarmult/curve25519/ref10/x25519_ref10.c"
  PROPERTIES COMPILE_OPTIONS -Dge25519_scalarmult_base=shp_sodium_no_table)

add_library(shp_dep_sodium STATIC ${sodium_files}
  "${CMAKE_SOURCE_DIR}/cmake/third-party/sodium_unused.c"
  "${CMAKE_SOURCE_DIR}/cmake/third-party/x25519_base.c")
target_compile_definitions(shp_dep_sodium PRIVATE ${sodium_definitions} PUBLIC SODIUM_STATIC)
# -Os costs a third of the throughput here, and the hot functions are small.
target_compile_options(shp_dep_sodium PRIVATE -w -O2 -fno-strict-aliasing -fno-strict-overflow)
target_include_directories(shp_dep_sodium SYSTEM
  PUBLIC "${shp_sodium_source}/include" "${shp_sodium_generated}"
  PRIVATE "${shp_sodium_source}/include/sodium" "${shp_sodium_generated}/sodium")

# --- libuv: what its own CMakeLists.txt names for Linux; newer versions renamed some files ---

set(uv_files
  fs-poll idna inet random strscpy strtok thread-common threadpool timer uv-common
  uv-data-getter-setters version
  unix/async unix/core unix/dl unix/fs unix/getaddrinfo unix/getnameinfo unix/loop-watcher unix/loop
  unix/pipe unix/poll unix/process unix/proctitle unix/random-devurandom unix/signal unix/stream
  unix/tcp unix/thread unix/tty unix/udp
  unix/epoll unix/linux unix/linux-core unix/linux-inotify unix/linux-syscalls unix/procfs-exepath
  unix/random-getrandom unix/random-sysctl-linux)
set(uv_sources "")
foreach(name IN LISTS uv_files)
  if(EXISTS "${shp_uv}/src/${name}.c")
    list(APPEND uv_sources "${shp_uv}/src/${name}.c")
  endif()
endforeach()
add_library(shp_dep_uv STATIC ${uv_sources})
target_compile_definitions(shp_dep_uv PRIVATE
  NDEBUG _GNU_SOURCE _POSIX_C_SOURCE=200112 _FILE_OFFSET_BITS=64 _LARGEFILE_SOURCE)
target_compile_options(shp_dep_uv PRIVATE -w -fno-strict-aliasing)
target_include_directories(shp_dep_uv SYSTEM PUBLIC "${shp_uv}/include" PRIVATE "${shp_uv}/src")

# --- cJSON: one file; included as <cjson/cJSON.h> as with the system's package ---

file(MAKE_DIRECTORY "${shp_sodium_generated}/cjson")
configure_file("${shp_cjson}/cJSON.h" "${shp_sodium_generated}/cjson/cJSON.h" COPYONLY)
add_library(shp_dep_cjson STATIC "${shp_cjson}/cJSON.c")
target_compile_definitions(shp_dep_cjson PRIVATE NDEBUG)
target_compile_options(shp_dep_cjson PRIVATE -w)
target_include_directories(shp_dep_cjson SYSTEM PUBLIC "${shp_sodium_generated}" "${shp_sodium_generated}/cjson")
