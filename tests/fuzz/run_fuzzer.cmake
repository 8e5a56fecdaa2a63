# SPDX-License-Identifier: BSD-3-Clause
# cmake -DFUZZER=program -DRUNS=n -DCORPUS=directory -P run_fuzzer.cmake
# Writes the fuzzer's seeds, then runs it over them with a bound.
file(MAKE_DIRECTORY ${CORPUS})
set(ENV{COMPAT_FUZZ_WRITE_SEEDS} ${CORPUS})
execute_process(COMMAND ${FUZZER} -runs=0 OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE written)
if(NOT written EQUAL 0)
    message(FATAL_ERROR "writing seeds failed: ${written}")
endif()
unset(ENV{COMPAT_FUZZ_WRITE_SEEDS})
execute_process(COMMAND ${FUZZER} -runs=${RUNS} -max_total_time=60 -seed=1 ${CORPUS}
    RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "the fuzzer found something: ${result}")
endif()
