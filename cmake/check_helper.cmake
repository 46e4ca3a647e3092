# Run after the static helper was linked: HELPER must start on any machine of its architecture with
# nothing beside it, and must stay small enough to be sent on first connect.

cmake_minimum_required(VERSION 3.25)

set(size_max 327680) # 320 KiB
set(size_aim 262144) # 256 KiB

execute_process(COMMAND "${READELF}" --wide --program-headers --dynamic "${HELPER}"
  OUTPUT_VARIABLE headers RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "readelf cannot read ${HELPER}")
endif()
if(headers MATCHES "INTERP")
  message(FATAL_ERROR "${HELPER} asks for a dynamic loader; it must be fully static")
endif()
if(headers MATCHES "\\(NEEDED\\)")
  message(FATAL_ERROR "${HELPER} needs shared libraries; it must be fully static")
endif()

file(SIZE "${HELPER}" size)
math(EXPR kib "(${size} + 1023) / 1024")
if(size GREATER size_max)
  message(FATAL_ERROR "${HELPER} has ${size} bytes (${kib} KiB); the limit is 320 KiB")
elseif(size GREATER size_aim)
  message(STATUS "shepherdr-helper: static, ${kib} KiB (limit 320, aim 256)")
else()
  message(STATUS "shepherdr-helper: static, ${kib} KiB")
endif()
