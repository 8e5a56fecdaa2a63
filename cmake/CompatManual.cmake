# SPDX-License-Identifier: BSD-3-Clause
# Manual pages, where scdoc is installed. That of the environment variables is printed from their
# table, that of the limits made from the compatibility matrix.
find_program(COMPAT_SCDOC scdoc)
mark_as_advanced(COMPAT_SCDOC)
if(NOT COMPAT_SCDOC)
    message(STATUS "no scdoc: no manual pages")
    return()
endif()
set(sources ${PROJECT_SOURCE_DIR}/docs/man)
set(folder ${PROJECT_BINARY_DIR}/man)
file(MAKE_DIRECTORY ${folder})
set(pages "")
foreach(page fabric-compat-run.1 fabric-compat-info.1 fabric-compat.7 rpma-compat.7)
    add_custom_command(OUTPUT ${folder}/${page} DEPENDS ${sources}/${page}.scd
        COMMAND ${COMPAT_SCDOC} < ${sources}/${page}.scd > ${folder}/${page} VERBATIM)
    list(APPEND pages ${folder}/${page})
endforeach()
set(page ${folder}/fabric-compat-environment.7)
add_custom_command(OUTPUT ${page} DEPENDS print-settings
    COMMAND print-settings --manual > ${page}.scd
    COMMAND ${COMPAT_SCDOC} < ${page}.scd > ${page} VERBATIM)
list(APPEND pages ${page})
set(page ${folder}/fabric-compat-limits.7)
set(tables ${PROJECT_SOURCE_DIR}/docs/compatibility.md)
set(to_page ${PROJECT_SOURCE_DIR}/cmake/CompatLimitsPage.cmake)
add_custom_command(OUTPUT ${page} DEPENDS ${tables} ${to_page}
    COMMAND ${CMAKE_COMMAND} -D FROM=${tables} -D TO=${page}.scd -P ${to_page}
    COMMAND ${COMPAT_SCDOC} < ${page}.scd > ${page} VERBATIM)
list(APPEND pages ${page})

set(zipped "")
foreach(page ${pages})
    add_custom_command(OUTPUT ${page}.gz DEPENDS ${page}
        COMMAND gzip -9 --no-name --keep --force ${page} VERBATIM)
    list(APPEND zipped ${page}.gz)
    string(REGEX MATCH "[0-9]$" section ${page})
    install(FILES ${page}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT runtime)
endforeach()
add_custom_target(manual ALL DEPENDS ${zipped})
