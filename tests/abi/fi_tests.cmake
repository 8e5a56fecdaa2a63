# SPDX-License-Identifier: BSD-3-Clause
# libfabric's ABI: headers, exports, and programs of every age.
set(fi_symbols ${PROJECT_SOURCE_DIR}/abi/libfabric.symbols)
set(fi_layout ${PROJECT_SOURCE_DIR}/abi/libfabric.layout)
set(fi_constants ${PROJECT_SOURCE_DIR}/abi/libfabric.constants)
find_path(COMPAT_UPSTREAM_FABRIC_INCLUDE rdma/fabric.h REQUIRED)
find_library(COMPAT_UPSTREAM_FABRIC NAMES libfabric.so.1 REQUIRED)
mark_as_advanced(COMPAT_UPSTREAM_FABRIC_INCLUDE COMPAT_UPSTREAM_FABRIC)
set(COMPAT_UPSTREAM_FABRIC_RELEASE 1.17)

compat_script_test(NAME abi.fi.layout LABELS abi
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fi_layout.py ${CMAKE_C_COMPILER}
        ${PROJECT_SOURCE_DIR}/include ${fi_layout} ${fi_constants})
compat_script_test(NAME abi.fi.layout_of_upstream LABELS abi
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fi_layout.py ${CMAKE_C_COMPILER}
        ${COMPAT_UPSTREAM_FABRIC_INCLUDE} ${fi_layout} ${fi_constants}
        --release ${COMPAT_UPSTREAM_FABRIC_RELEASE})
compat_script_test(NAME abi.fi.inlines LABELS abi
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fi_inlines.py ${CMAKE_C_COMPILER}
        ${COMPAT_UPSTREAM_FABRIC_INCLUDE} ${PROJECT_SOURCE_DIR}/include)

foreach(pair "fabric-compat=libfabric-compat.so.1" "fabric-compat-dropin=libfabric.so.1")
    string(REGEX REPLACE "=.*" "" target ${pair})
    string(REGEX REPLACE ".*=" "" soname ${pair})
    compat_script_test(NAME abi.fi.library.${target} LABELS abi
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/check_library.py
            $<TARGET_FILE:${target}> --symbols ${fi_symbols} --soname ${soname}
            --not-needed libfabric --upstream ${COMPAT_UPSTREAM_FABRIC} ${constructors})
endforeach()

add_executable(test_abi_fi_symbols fi_symbols.c)
target_link_libraries(test_abi_fi_symbols PRIVATE compat_options ${CMAKE_DL_LIBS})
foreach(target fabric-compat fabric-compat-dropin)
    compat_register(abi.fi.symbols.${target} abi 60 "" test_abi_fi_symbols
        $<TARGET_FILE:${target}> ${fi_symbols})
endforeach()
compat_register(abi.fi.load abi 60 "" test_abi_rpma_load
    $<TARGET_FILE:fabric-compat> $<TARGET_FILE:fabric-compat-dropin>)

add_executable(test_abi_fi_early fi_early.c)
target_link_libraries(test_abi_fi_early PRIVATE compat_options fabric-compat)
compat_register(abi.fi.early abi 60 "" test_abi_fi_early)

# One program for each node, with the API version of the release that brought the node.
foreach(age 0=1.0 1=1.5 2=1.7 3=1.9 4=1.12 5=1.13 6=1.14 7=1.20 8=2.0 9=2.5)
    string(REGEX MATCH "^(.)=(.)\\.(.*)$" ignored ${age})
    set(node ${CMAKE_MATCH_1})
    set(api API_MAJOR=${CMAKE_MATCH_2} API_MINOR=${CMAKE_MATCH_3})
    add_executable(test_abi_fi_node_1_${node} fi_node.c)
    target_compile_definitions(test_abi_fi_node_1_${node} PRIVATE NODE=${node} ${api})
    # no include directory and no header of ours: the program brings its own structures
    target_link_libraries(test_abi_fi_node_1_${node} PRIVATE
        compat_options $<TARGET_FILE:fabric-compat>)
    add_dependencies(test_abi_fi_node_1_${node} fabric-compat)
    compat_register(abi.fi.node_1_${node} abi 60 "" test_abi_fi_node_1_${node})
endforeach()

compat_script_test(NAME abi.fi.programs LABELS abi
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fi_programs.py
        $<TARGET_FILE:fabric-compat-dropin> ${COMPAT_SANITIZER_RUNTIME})
