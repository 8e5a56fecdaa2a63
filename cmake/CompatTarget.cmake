# SPDX-License-Identifier: BSD-3-Clause
# How every target of the project is compiled, and what a shipped library is.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(compat_options INTERFACE)
target_compile_features(compat_options INTERFACE cxx_std_20 c_std_11)
target_include_directories(compat_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(compat_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
    $<$<BOOL:${COMPAT_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651: a literal + std::string is said to overlap itself
    target_compile_options(compat_options INTERFACE -Wno-restrict)
endif()
if(COMPAT_FATAL_ASSERT)
    target_compile_definitions(compat_options INTERFACE COMPAT_FATAL_ASSERT)
endif()
if(COMPAT_SANITIZE)
    list(JOIN COMPAT_SANITIZE "," sanitizers)
    target_compile_options(compat_options INTERFACE
        -fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(compat_options INTERFACE -fsanitize=${sanitizers})
endif()
if(COMPAT_COVERAGE)
    target_compile_options(compat_options INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(compat_options INTERFACE --coverage)
endif()

# compat_fills_requests(target source…)
# Two stores of four bytes are cheaper than the vector that they could become.
function(compat_fills_requests target)
    set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} APPEND PROPERTY
        COMPILE_OPTIONS -fno-tree-slp-vectorize)
endfunction()

# compat_library(NAME rpma-compat UPSTREAM rpma SOVERSION 1 UPSTREAM_SOVERSION 0 MAP file
#                OBJECTS target… [INTERFACE_LIBRARIES name…])
# Builds lib<NAME>.so.<SOVERSION> and, in fabric-compat/, lib<UPSTREAM>.so.<UPSTREAM_SOVERSION>:
# the same objects under upstream's SONAME, for LD_PRELOAD and LD_LIBRARY_PATH (target
# <NAME>-dropin). INTERFACE_LIBRARIES are what a program that uses the header links besides.
function(compat_library)
    cmake_parse_arguments(arg "" "NAME;UPSTREAM;SOVERSION;UPSTREAM_SOVERSION;MAP"
        "OBJECTS;INTERFACE_LIBRARIES" ${ARGN})
    cmake_path(ABSOLUTE_PATH arg_MAP BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set(dropin ${arg_NAME}-dropin)
    set_target_properties(${arg_OBJECTS} PROPERTIES
        POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
        VISIBILITY_INLINES_HIDDEN ON)
    foreach(target ${arg_NAME} ${dropin})
        add_library(${target} SHARED)
        target_link_libraries(${target} PRIVATE ${arg_OBJECTS} compat_core compat_options)
        # nodelete: dlclose() would unmap code under a running helper thread
        target_link_options(${target} PRIVATE
            LINKER:--version-script=${arg_MAP} LINKER:-z,nodelete LINKER:--as-needed)
        if(NOT COMPAT_SANITIZE)  # the sanitizers' runtime comes with the program
            target_link_options(${target} PRIVATE LINKER:-z,defs)
        endif()
        if(COMPAT_STATIC_RUNTIME)
            target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
        endif()
        set_target_properties(${target} PROPERTIES
            LINKER_LANGUAGE CXX LINK_DEPENDS ${arg_MAP})
    endforeach()
    set_target_properties(${arg_NAME} PROPERTIES
        VERSION ${arg_SOVERSION}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH}
        SOVERSION ${arg_SOVERSION} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    set_target_properties(${dropin} PROPERTIES
        OUTPUT_NAME ${arg_UPSTREAM} SOVERSION ${arg_UPSTREAM_SOVERSION}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/fabric-compat)

    target_include_directories(${arg_NAME} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/fabric-compat>)
    target_link_libraries(${arg_NAME} INTERFACE ${arg_INTERFACE_LIBRARIES})
    install(TARGETS ${arg_NAME} EXPORT fabric-compat-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
    install(TARGETS ${dropin}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/fabric-compat COMPONENT runtime NAMELINK_SKIP)
endfunction()
