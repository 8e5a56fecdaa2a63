# SPDX-License-Identifier: BSD-3-Clause
# Targets that look at the code and are too slow, or too talkative, for the tests.

# tidy: clang-tidy over what is shipped, with .clang-tidy's checks
find_program(COMPAT_RUN_CLANG_TIDY NAMES run-clang-tidy-14 run-clang-tidy)
mark_as_advanced(COMPAT_RUN_CLANG_TIDY)
if(COMPAT_RUN_CLANG_TIDY)
    add_custom_target(tidy
        COMMAND ${COMPAT_RUN_CLANG_TIDY} -quiet -p ${PROJECT_BINARY_DIR}
            "${PROJECT_SOURCE_DIR}/(core|fi_compat|rpma_compat)/"
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} USES_TERMINAL VERBATIM)
endif()

# coverage-report: which lines the tests of the coverage preset have not run
find_program(COMPAT_GCOVR gcovr)
mark_as_advanced(COMPAT_GCOVR)
if(COMPAT_COVERAGE AND COMPAT_GCOVR)
    add_custom_target(coverage-report
        COMMAND ${COMPAT_GCOVR} --root ${PROJECT_SOURCE_DIR} --object-directory ${PROJECT_BINARY_DIR}
            --filter "${PROJECT_SOURCE_DIR}/(core|fi_compat|rpma_compat)/"
        USES_TERMINAL VERBATIM)
endif()
