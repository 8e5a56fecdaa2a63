# SPDX-License-Identifier: BSD-3-Clause
# The kinds of tests, each with a time limit and exit status 77 for "skipped, reason printed".
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# The runtime of the sanitizers has to be loaded before everything else. A program that was not
# built with it gets it by LD_PRELOAD, in front of the drop-in library.
set(COMPAT_SANITIZER_RUNTIME "")
foreach(pair "address=asan" "thread=tsan")
    string(REGEX REPLACE "=.*" "" sanitizer ${pair})
    string(REGEX REPLACE ".*=" "" runtime ${pair})
    if(sanitizer IN_LIST COMPAT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${runtime}.so
            OUTPUT_VARIABLE COMPAT_SANITIZER_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE
            COMMAND_ERROR_IS_FATAL ANY)
        file(REAL_PATH ${COMPAT_SANITIZER_RUNTIME} COMPAT_SANITIZER_RUNTIME)
    endif()
endforeach()

# compat_preload(variable library…): the value of LD_PRELOAD that puts these drop-in libraries
# (rpma-compat, fabric-compat) into a program that was built without this project.
function(compat_preload variable)
    set(files ${COMPAT_SANITIZER_RUNTIME})
    foreach(library ${ARGN})
        list(APPEND files $<TARGET_FILE:${library}-dropin>)
    endforeach()
    list(JOIN files ":" value)
    set(${variable} ${value} PARENT_SCOPE)
endfunction()

# compat_register(name labels timeout environment command…)
function(compat_register name labels timeout environment)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES
        LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# compat_test(NAME unit.soft.crc SOURCES crc_test.cpp LABELS unit [LIBRARIES …] [TIMEOUT seconds])
# A CMocka program of its own over the core's objects.
function(compat_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    string(REPLACE "." "_" target "${arg_NAME}")
    add_executable(test_${target} ${arg_SOURCES})
    target_link_libraries(test_${target} PRIVATE
        compat_core compat_options ${arg_LIBRARIES} PkgConfig::CMOCKA)
    compat_register(${arg_NAME} "${arg_LABELS}" ${arg_TIMEOUT} "" test_${target})
endfunction()

# compat_e2e_test(NAME e2e.rpma.write LIBRARIES rpma-compat COMMAND program… [DRIVER]
#                 [LABELS …] [TIMEOUT seconds] [ENVIRONMENT NAME=value…])
# Runs a program that was built without this project, with the drop-ins preloaded. With DRIVER the
# command starts such programs itself: it finds the value for their LD_PRELOAD in COMPAT_PRELOAD
# and is not preloaded (a shell or Python under LeakSanitizer fails by itself).
function(compat_e2e_test)
    cmake_parse_arguments(arg "DRIVER" "NAME;TIMEOUT" "LIBRARIES;COMMAND;LABELS;ENVIRONMENT"
        ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS e2e)
    endif()
    compat_preload(preload ${arg_LIBRARIES})
    list(APPEND arg_ENVIRONMENT "COMPAT_PRELOAD=${preload}")
    if(NOT arg_DRIVER)
        list(APPEND arg_ENVIRONMENT "LD_PRELOAD=${preload}")
    endif()
    compat_register(${arg_NAME} "${arg_LABELS}" ${arg_TIMEOUT} "${arg_ENVIRONMENT}" ${arg_COMMAND})
endfunction()

# compat_script_test(NAME lint.includes LABELS lint COMMAND …): a check that is no CMocka program.
function(compat_script_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    compat_register(${arg_NAME} "${arg_LABELS}" ${arg_TIMEOUT} "" ${arg_COMMAND})
endfunction()
