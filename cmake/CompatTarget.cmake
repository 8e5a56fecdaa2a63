# SPDX-License-Identifier: BSD-3-Clause
# How every target of the project is compiled, and what a shipped library is.

add_library(compat_options INTERFACE)
target_compile_features(compat_options INTERFACE cxx_std_20 c_std_11)
target_include_directories(compat_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(compat_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
    $<$<BOOL:${COMPAT_WERROR}>:-Werror>)
if(COMPAT_FATAL_ASSERT)
    target_compile_definitions(compat_options INTERFACE COMPAT_FATAL_ASSERT)
endif()
if(COMPAT_SANITIZE)
    list(JOIN COMPAT_SANITIZE "," sanitizers)
    target_compile_options(compat_options INTERFACE
        -fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(compat_options INTERFACE -fsanitize=${sanitizers})
endif()

# compat_library(NAME rpma-compat UPSTREAM rpma SOVERSION 1 UPSTREAM_SOVERSION 0 MAP file)
# Builds lib<NAME>.so.<SOVERSION> and, in fabric-compat/, lib<UPSTREAM>.so.<UPSTREAM_SOVERSION>:
# the same objects under upstream's SONAME, for LD_PRELOAD and LD_LIBRARY_PATH.
function(compat_library)
    cmake_parse_arguments(arg "" "NAME;UPSTREAM;SOVERSION;UPSTREAM_SOVERSION;MAP" "OBJECTS" ${ARGN})
    set(dropin ${arg_NAME}-dropin)
    foreach(target ${arg_NAME} ${dropin})
        add_library(${target} SHARED)
        target_link_libraries(${target} PRIVATE ${arg_OBJECTS} compat_core compat_options)
        target_link_options(${target} PRIVATE
            LINKER:--version-script=${arg_MAP} LINKER:-z,nodelete LINKER:--as-needed)
        if(NOT COMPAT_SANITIZE)
            target_link_options(${target} PRIVATE LINKER:-z,defs)
        endif()
        set_target_properties(${target} PROPERTIES LINK_DEPENDS ${arg_MAP})
    endforeach()
    set_target_properties(${arg_NAME} PROPERTIES
        VERSION ${arg_SOVERSION}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH}
        SOVERSION ${arg_SOVERSION} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    set_target_properties(${dropin} PROPERTIES
        OUTPUT_NAME ${arg_UPSTREAM} SOVERSION ${arg_UPSTREAM_SOVERSION}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/fabric-compat)
    install(TARGETS ${arg_NAME} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        NAMELINK_COMPONENT dev)
    install(TARGETS ${dropin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/fabric-compat
        NAMELINK_SKIP)
endfunction()
