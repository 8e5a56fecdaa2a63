# SPDX-License-Identifier: BSD-3-Clause
# `cmake --build … --target tidy`: clang-tidy over what is shipped, with .clang-tidy's checks.
find_program(COMPAT_RUN_CLANG_TIDY NAMES run-clang-tidy-14 run-clang-tidy)
mark_as_advanced(COMPAT_RUN_CLANG_TIDY)
if(COMPAT_RUN_CLANG_TIDY)
    add_custom_target(tidy
        COMMAND ${COMPAT_RUN_CLANG_TIDY} -quiet -p ${PROJECT_BINARY_DIR}
            "${PROJECT_SOURCE_DIR}/(core|fi_compat|rpma_compat)/"
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} USES_TERMINAL VERBATIM)
endif()
