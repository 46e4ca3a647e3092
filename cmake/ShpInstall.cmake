# `make install`: the command in bin, what it sends to other machines in libexec.

include(GNUInstallDirs)

if(TARGET shepherdr)
  install(TARGETS shepherdr RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(PROGRAMS "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/shepherdr-helper"
  DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/shepherdr")
# Bundled by `make build` after cmake's part.
install(FILES "${CMAKE_BINARY_DIR}/pi-ext/pi-ext.mjs" DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/shepherdr")
# Helpers for other architectures, where `make helpers` built them.
install(DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/" DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/shepherdr"
  USE_SOURCE_PERMISSIONS FILES_MATCHING PATTERN "helper-linux-*")
