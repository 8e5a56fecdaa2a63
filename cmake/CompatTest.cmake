# SPDX-License-Identifier: BSD-3-Clause
# compat_test(NAME unit.soft.crc SOURCES crc_test.cpp LABELS unit [LIBRARIES …] [TIMEOUT seconds])
# A CMocka program of its own over the core's objects.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

function(compat_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    string(REPLACE "." "_" target "${arg_NAME}")
    add_executable(test_${target} ${arg_SOURCES})
    target_link_libraries(test_${target} PRIVATE
        compat_core compat_options ${arg_LIBRARIES} PkgConfig::CMOCKA)
    add_test(NAME ${arg_NAME} COMMAND test_${target})
    set_tests_properties(${arg_NAME} PROPERTIES
        LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()
