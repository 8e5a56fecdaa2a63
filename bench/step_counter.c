// SPDX-License-Identifier: BSD-3-Clause
#include "step_counter.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "bench.h"

void steps_accept_counter(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    CHECK(raise(SIGSTOP) == 0);
}

static uint64_t step(pid_t pid, const struct bench_shared* shared, int* status) {
    uint64_t count = 0;
    while (atomic_load_explicit(&shared->stepping, memory_order_relaxed) != 0) {
        CHECK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0);
        CHECK(waitpid(pid, status, 0) == pid);
        if (!WIFSTOPPED(*status)) break;
        ++count;
    }
    return count;
}

int steps_count_for(pid_t pid, struct bench_shared* shared) {
    int status = 0;
    for (;;) {
        CHECK(waitpid(pid, &status, 0) == pid);
        long signal_number = 0;
        if (WIFSTOPPED(status)) {
            signal_number = WSTOPSIG(status);
            if (signal_number == SIGTRAP) {
                atomic_store(&shared->steps, step(pid, shared, &status));
                signal_number = 0;
            } else if (signal_number == SIGSTOP) {
                signal_number = 0;
            }
        }
        if (!WIFSTOPPED(status)) return status;
        CHECK(ptrace(PTRACE_CONT, pid, NULL, signal_number) == 0);
    }
}

static __attribute__((noinline, noclone)) uint64_t count_one(struct bench_shared* shared,
                                                             steps_body* body, void* context) {
    atomic_store(&shared->stepping, 1);
    raise(SIGTRAP);  // the counter wakes up here
    body(context);
    atomic_store_explicit(&shared->stepping, 0, memory_order_relaxed);
    return atomic_load(&shared->steps);
}

uint64_t steps_of(struct bench_side* side, steps_body* body, void* context) {
    return count_one(side->shared, body, context);
}
