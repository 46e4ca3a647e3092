# Targets from folders. Sources are found by pattern and looked for again on every build, so adding a
# file to a folder needs no edit here.

# shp_library(<target> SOURCES <files...> LINK <targets...>)
#
# A folder without sources becomes an interface library: the edges between targets hold from the first
# commit on.
function(shp_library target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PUBLIC shp_options shp_generated ${arg_LINK})
    add_dependencies(${target} shp_build_id)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE shp_options shp_generated ${arg_LINK})
  endif()
endfunction()

# shp_program(<target> SOURCES <files...> LINK <targets...>): a program in build/bin; nothing while its
# sources do not exist.
function(shp_program target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  if(NOT arg_SOURCES)
    return()
  endif()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE shp_options shp_generated ${arg_LINK})
  add_dependencies(${target} shp_build_id)
endfunction()

# Everything a test may link.
set(SHP_ALL_LIBRARIES
  shp_controller shp_helper_core shp_installer shp_link shp_transport shp_protocol shp_framing shp_base)
