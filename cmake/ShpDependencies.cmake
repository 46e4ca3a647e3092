# One name per library, whether it is the system's or the part that the static helper compiles itself:
# shp_dep_sodium, shp_dep_uv, shp_dep_cjson, and for the controller shp_dep_sqlite.

if(SHP_HELPER_ONLY)
  include(ShpThirdParty)
  return()
endif()

find_package(PkgConfig REQUIRED)

function(shp_system_library name module)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
  add_library(shp_dep_${name} INTERFACE)
  target_link_libraries(shp_dep_${name} INTERFACE PkgConfig::${name})
endfunction()

shp_system_library(sodium libsodium)
shp_system_library(uv libuv)
shp_system_library(cjson libcjson)
shp_system_library(sqlite sqlite3)
