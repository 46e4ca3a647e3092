# One name per library, whether it is the system's or the part that the static helper compiles itself:
# shp_dep_sodium, shp_dep_uv, shp_dep_cjson, and for the controller shp_dep_sqlite, shp_dep_ssh.

if(SHP_HELPER_ONLY)
  include(ShpThirdParty)
  set(SHP_HAVE_LIBSSH OFF)
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

# Without it every SSH connection is OpenSSH's.
option(SHP_LIBSSH "Use libssh where it is installed" ON)
set(SHP_HAVE_LIBSSH OFF)
if(SHP_LIBSSH)
  pkg_check_modules(ssh IMPORTED_TARGET GLOBAL libssh>=0.10.6)
  if(ssh_FOUND)
    set(SHP_HAVE_LIBSSH ON)
    add_library(shp_dep_ssh INTERFACE)
    # The helper links the transports too, and uses none of it.
    target_link_options(shp_dep_ssh INTERFACE LINKER:--as-needed)
    target_link_libraries(shp_dep_ssh INTERFACE PkgConfig::ssh)
  else()
    message(STATUS "libssh >= 0.10.6 was not found: SSH connections are OpenSSH's alone")
  endif()
endif()
