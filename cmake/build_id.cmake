# Run by ShpBuildId.cmake: writes OUTPUT from the helper's inputs below SOURCE_DIR.

cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE inputs RELATIVE "${SOURCE_DIR}"
  "${SOURCE_DIR}/base/*.[ch]" "${SOURCE_DIR}/framing/*.[ch]" "${SOURCE_DIR}/protocol/*.[ch]"
  "${SOURCE_DIR}/transport/*.[ch]" "${SOURCE_DIR}/remote-helper/*.[ch]"
  "${SOURCE_DIR}/cmake/musl*.cmake" "${SOURCE_DIR}/cmake/ShpOptions.cmake"
  "${SOURCE_DIR}/cmake/ShpThirdParty.cmake" "${SOURCE_DIR}/cmake/third-party/*")
foreach(single IN ITEMS spec/messages.json scripts/third-party.sha256)
  if(EXISTS "${SOURCE_DIR}/${single}")
    list(APPEND inputs "${single}")
  endif()
endforeach()
list(SORT inputs)

set(listing "version ${VERSION}\nvariant ${VARIANT}\n")
if(VARIANT STREQUAL "plain" AND EXISTS "${THIRD_PARTY_VERSIONS}")
  file(READ "${THIRD_PARTY_VERSIONS}" versions)
  string(APPEND listing "${versions}")
endif()
foreach(input IN LISTS inputs)
  file(SHA256 "${SOURCE_DIR}/${input}" digest)
  string(APPEND listing "${input} ${digest}\n")
endforeach()
string(SHA256 digest "${listing}")
string(SUBSTRING "${digest}" 0 16 build_id)

file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT
"/* Written by the build; see cmake/build_id.cmake. */
#ifndef SHP_BUILD_ID_H
#define SHP_BUILD_ID_H

#define SHP_VERSION \"@VERSION@\"
#define SHP_BUILD_ID \"@build_id@\"

#endif
")
