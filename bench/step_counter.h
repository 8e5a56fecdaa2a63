// SPDX-License-Identifier: BSD-3-Clause
// Counts the user instructions of a call exactly: another process lets it run one at a time
// (ptrace). No privilege and no counter of the CPU is needed, so that it works in any machine and
// repeats to the instruction. What the kernel does for a system call counts as one.
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct bench_shared;
struct bench_side;

typedef void steps_body(void* context);

// The calling process agrees to be counted by its parent, which calls steps_count_for().
void steps_accept_counter(void);
// Counts for pid until it ends; the result is its wait status.
int steps_count_for(pid_t pid, struct bench_shared* shared);
// The instructions of one call of body and of what stands around it, which is always the same: the
// difference of two counts is what counts.
uint64_t steps_of(struct bench_side* side, steps_body* body, void* context);
