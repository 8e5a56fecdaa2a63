# SPDX-License-Identifier: BSD-3-Clause
# cmake -D FROM=compatibility.md -D TO=page.scd -P …: the tables of the software device as a manual
# page (scdoc).
file(STRINGS ${FROM} lines)
set(page "fabric-compat-limits(7)

# NAME

fabric-compat-limits - capabilities and limits on the software device

# DESCRIPTION

What *fabric-compat-info*(1) prints where only the software device is used. On other machines it prints the tables of
theirs. *-* is no, or nothing; *any* has no limit.
")
set(begins_table OFF)
foreach(line IN LISTS lines)
    if(line MATCHES "^## (.*)")
        string(TOUPPER "${CMAKE_MATCH_1}" title)
        string(APPEND page "\n# ${title}\n\n")
        set(begins_table ON)
    elseif(line MATCHES "^\\|(.*) \\|$")
        string(REPLACE " | " "\n:  " row "| ${CMAKE_MATCH_1}")
        string(REPLACE "`" "" row "${row}")
        if(begins_table)  # the first row says how its columns are aligned
            string(REGEX REPLACE "^\\| *" "|[ " row "${row}")
            string(REPLACE ":  " ":[ " row "${row}")
            set(begins_table OFF)
        endif()
        string(APPEND page "${row}\n")
    endif()
endforeach()
string(APPEND page "\n# SEE ALSO\n\n*fabric-compat-info*(1), *fabric-compat*(7), *rpma-compat*(7)\n")
file(WRITE ${TO} "${page}")
