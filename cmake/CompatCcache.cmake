# SPDX-License-Identifier: BSD-3-Clause
# ccache where there is one and nobody chose another launcher.
find_program(COMPAT_CCACHE ccache)
mark_as_advanced(COMPAT_CCACHE)
if(PROJECT_IS_TOP_LEVEL AND COMPAT_CCACHE)
    foreach(language C CXX)
        if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
            set(CMAKE_${language}_COMPILER_LAUNCHER ${COMPAT_CCACHE})
        endif()
    endforeach()
endif()
