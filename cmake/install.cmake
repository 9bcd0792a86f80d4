# SPDX-License-Identifier: MIT
# What `cmake --install` lays out: both libraries, the headers, a pkg-config file and a CMake package. Tools add their own
# install() rule. The installed tree may be moved: nothing in it holds an absolute path.
include(CMakePackageConfigHelpers)

set(seqmix_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/seqmix)

install(TARGETS seqmix_shared seqmix_static EXPORT seqmixTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/seqmix DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

install(EXPORT seqmixTargets NAMESPACE seqmix:: DESTINATION ${seqmix_package_dir})
configure_package_config_file(cmake/seqmixConfig.cmake.in seqmixConfig.cmake INSTALL_DESTINATION ${seqmix_package_dir})
write_basic_package_version_file(seqmixConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/seqmixConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/seqmixConfigVersion.cmake
  DESTINATION ${seqmix_package_dir})

# The way from the .pc file up to the prefix, so that pkg-config finds a moved tree too.
file(RELATIVE_PATH SEQMIX_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" SEQMIX_PC_TO_PREFIX "${SEQMIX_PC_TO_PREFIX}")
configure_file(pkgconfig/seqmix.pc.in seqmix.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/seqmix.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
