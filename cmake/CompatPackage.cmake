# SPDX-License-Identifier: BSD-3-Clause
# Debian packages of what is installed: fabric-compat and libfabric-compat-dev. "cpack" in a build
# tree that was configured with -D CMAKE_INSTALL_PREFIX=/usr makes them, libraries in the
# architecture's own directory.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME fabric-compat)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "libfabric and librpma over one RDMA engine")
set(CPACK_PACKAGE_CONTACT "fabric-compat developers <fabric-compat@invalid.example>" CACHE STRING
    "Maintainer of the packages: whoever builds them for others")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME fabric-compat)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Programs of libfabric and librpma run on these libraries
unmodified. Without RDMA hardware a software device takes the place of the
NIC. The tools fabric-compat-run and fabric-compat-info start programs with
them and say what there is.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libfabric-compat-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(dev_depends "fabric-compat (= ${PROJECT_VERSION})" libibverbs-dev)
if(COMPAT_PMEM2)
    list(APPEND dev_depends libpmem2-dev)  # pkg-config looks for private requirements too
endif()
list(JOIN dev_depends ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers, pkg-config files and CMake packages to build
programs against the libraries of fabric-compat, beside those of libfabric-dev
and librpma-dev.")

# What Debian policy wants of every package: the loader's cache renewed, a copyright, a changelog.
file(CONFIGURE OUTPUT package/triggers CONTENT "activate-noawait ldconfig\n")
# Which package a program depends on that is linked to our own names; the drop-ins are private.
file(CONFIGURE OUTPUT package/shlibs CONTENT
    "libfabric-compat 1 fabric-compat (>= ${PROJECT_VERSION})
librpma-compat 1 fabric-compat (>= ${PROJECT_VERSION})
")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
    ${PROJECT_BINARY_DIR}/package/triggers ${PROJECT_BINARY_DIR}/package/shlibs)
file(READ LICENSE license)
file(CONFIGURE OUTPUT package/copyright CONTENT "fabric-compat\n\n@license@" @ONLY)
execute_process(COMMAND gzip -9 --no-name --stdout ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    OUTPUT_FILE ${PROJECT_BINARY_DIR}/package/changelog.gz COMMAND_ERROR_IS_FATAL ANY)
foreach(pair "runtime=fabric-compat" "dev=libfabric-compat-dev")
    string(REGEX REPLACE "=.*" "" component ${pair})
    string(REGEX REPLACE ".*=" "" package ${pair})
    install(FILES ${PROJECT_BINARY_DIR}/package/copyright ${PROJECT_BINARY_DIR}/package/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT ${component})
endforeach()
include(CPack)
