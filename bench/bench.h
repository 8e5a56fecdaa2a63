// SPDX-License-Identifier: BSD-3-Clause
// What the measuring programs share: two processes that talk beside what is measured, timing,
// memory, and lines of JSON that bench/run reads.
//
// A program that cannot measure something here ends with BENCH_SKIPPED; one whose operations do not
// complete says so in its output ("stalled") and ends with success.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BENCH_SKIPPED = 77, BENCH_MAX_SIZES = 32, BENCH_STALL_SECONDS = 4 };

// Mapped by both processes, and by the one that counts the instructions of the initiator.
struct bench_shared {
    _Atomic int stop;  // the target may end its loop
    _Atomic int stepping;
    _Atomic uint64_t steps;
};

// One of the two processes.
struct bench_side {
    bool target;
    int other;  // socket to the other one
    struct bench_shared* shared;
};

typedef void bench_role(struct bench_side* side, const void* options);

struct bench_settings {
    bool traced;    // the calling process counts instructions for the initiator (step_counter.h)
    bool unpinned;  // the processes have threads of their own that need all CPUs
};
// Runs the role twice, as target and as initiator. The result is that of main().
int bench_run_pair(bench_role* role, const void* options, struct bench_settings settings);

_Noreturn void bench_fail(const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void bench_skip(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) bench_fail(__FILE__, __LINE__, "not so: %s", #condition); \
    } while (0)

void bench_say(struct bench_side* side, const void* bytes, size_t size);
void bench_hear(struct bench_side* side, void* bytes, size_t size);
void bench_meet(struct bench_side* side);  // both come here before one goes on

double bench_seconds(void);  // monotonic

// --- memory

enum bench_memory { BENCH_PRIVATE, BENCH_MEMFD, BENCH_FILE };  // a file: in /dev/shm
// Mapped, touched, and kept until the process ends. *fd, if asked for, is what it is a mapping of.
unsigned char* bench_map(enum bench_memory kind, size_t size, int* fd);
void bench_fill(void* bytes, size_t size, unsigned seed);
bool bench_is_filled(const void* bytes, size_t size, unsigned seed);

// --- timing

// Does `count` operations.
typedef void bench_body(void* context, uint64_t count);

struct bench_time {
    double ns;       // an operation, in the median slice
    uint64_t count;  // operations in all
};
// Finds out how many operations fill a fifth of milliseconds, and takes five such slices.
struct bench_time bench_measure(double milliseconds, bench_body* body, void* context);

// A loop that waits for something asks this again and again. When nothing has come for
// BENCH_STALL_SECONDS it writes {"stalled": …} and ends the process.
struct bench_patience {
    unsigned polls;
    double since;
};
void bench_wait_on(struct bench_patience* patience, size_t size);

// --- command line and output

int bench_index_of(const char* text, const char* const* names);  // names end with NULL

struct bench_sizes {
    size_t count;
    size_t at[BENCH_MAX_SIZES];
};
struct bench_sizes bench_parse_sizes(const char* text);  // "8,4096"
size_t bench_largest(const struct bench_sizes* sizes);
long bench_parse_number(const char* text, long least, long most);

void bench_print_time(size_t size, struct bench_time time);

// Counts of one call, which differ where it took different ways.
struct bench_tally {
    uint64_t least;
    uint64_t most;
    uint64_t count;
};
void bench_add(struct bench_tally* tally, uint64_t steps);
void bench_print_tally(const char* call, const struct bench_tally* tally);
