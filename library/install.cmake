# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs beside the command: libraries, worker, headers, ductile.pc and the CMake
# package. The build folder is a CMake package, too (Ductile_DIR).
include(CMakePackageConfigHelpers)

install(TARGETS ductile EXPORT DuctileTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/ductile" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
if(TARGET ductile_archive)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/libductile.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(DUCTILE_LLVM)
  install(TARGETS ductile-jit LIBRARY DESTINATION "${DUCTILE_JITDIR}")
  install(TARGETS ductile-worker RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}")
  install(FILES "${PROJECT_SOURCE_DIR}/docs/man/ductile-worker.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()

# The .pc file finds its prefix from its own place, so an installed tree can be moved.
file(RELATIVE_PATH DT_PC_UP "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
string(REGEX REPLACE "/$" "" DT_PC_UP "${DT_PC_UP}")
configure_file(ductile.pc.in ductile.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/ductile.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Ductile")
configure_file(DuctileConfig.cmake.in "${PROJECT_BINARY_DIR}/DuctileConfig.cmake" COPYONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/DuctileConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
export(EXPORT DuctileTargets NAMESPACE Ductile:: FILE "${PROJECT_BINARY_DIR}/DuctileTargets.cmake")
install(EXPORT DuctileTargets NAMESPACE Ductile:: DESTINATION "${package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/DuctileConfig.cmake" "${PROJECT_BINARY_DIR}/DuctileConfigVersion.cmake"
        DESTINATION "${package_dir}")
