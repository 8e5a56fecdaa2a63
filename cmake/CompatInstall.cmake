# SPDX-License-Identifier: BSD-3-Clause
# What a build machine needs besides the libraries: headers, pkg-config files, the CMake package.
# Headers do not go to the plain include directory: they have upstream's names and would collide
# with libfabric-dev and librpma-dev (docs/decisions/0001).
include(CMakePackageConfigHelpers)

if(EXISTS ${PROJECT_SOURCE_DIR}/include)
    install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fabric-compat COMPONENT dev
        FILES_MATCHING PATTERN "*.h")
endif()

set(COMPAT_PC_PRIVATE "")
if(COMPAT_PMEM2)
    set(COMPAT_PC_PRIVATE "libpmem2")
endif()
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# the prefix as seen from the .pc file: the tree may be moved or staged
string(REGEX REPLACE "[^/]+" ".." COMPAT_PC_PREFIX ${pc_dir})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fabric-compat)
set(any_library OFF)
foreach(library fabric-compat rpma-compat)
    if(TARGET ${library})
        set(any_library ON)
        configure_file(pkgconfig/${library}.pc.in pkgconfig/${library}.pc @ONLY)
        install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${library}.pc DESTINATION ${pc_dir}
            COMPONENT dev)
    endif()
endforeach()

if(any_library)
    install(EXPORT fabric-compat-targets NAMESPACE fabric-compat:: DESTINATION ${package_dir}
        COMPONENT dev)
    foreach(package fabric-compat rpma-compat)
        set(config ${PROJECT_BINARY_DIR}/cmake/${package}-config)
        set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/${package})
        configure_package_config_file(cmake/${package}-config.cmake.in ${config}.cmake
            INSTALL_DESTINATION ${destination})
        write_basic_package_version_file(${config}-version.cmake COMPATIBILITY SameMinorVersion)
        install(FILES ${config}.cmake ${config}-version.cmake DESTINATION ${destination}
            COMPONENT dev)
    endforeach()
endif()
# Laid out as in the sources, so that their links to each other hold.
install(FILES README.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime
    FILES_MATCHING PATTERN "*.md" PATTERN man EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime
    USE_SOURCE_PERMISSIONS PATTERN CMakeLists.txt EXCLUDE)
