// SPDX-License-Identifier: BSD-3-Clause
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "step_counter.h"

enum { ROLE_SECONDS = 120, SLICES = 5, POLLS_BETWEEN_LOOKS = 4096 };

void bench_fail(const char* file, int line, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    _exit(EXIT_FAILURE);
}

void bench_skip(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "skipped: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    _exit(BENCH_SKIPPED);
}

// --- two processes

// Each process has a CPU for itself, its helper threads included: two that spin on one CPU measure
// the scheduler.
static void take_cpu(bool target) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    int second = first + 1;
    while (!CPU_ISSET(second, &allowed)) ++second;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(target ? first : second, &own);
    (void)sched_setaffinity(0, sizeof own, &own);
}

static pid_t start(bench_role* role, const void* options, bool target, int sockets[2],
                   struct bench_shared* shared, const struct bench_settings* settings) {
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(ROLE_SECONDS);
    if (!settings->unpinned) take_cpu(target);
    close(sockets[target ? 0 : 1]);
    struct bench_side side = {.target = target, .other = sockets[target ? 1 : 0], .shared = shared};
    if (settings->traced && !target) steps_accept_counter();
    role(&side, options);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

static int result_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int bench_run_pair(bench_role* role, const void* options, struct bench_settings settings) {
    struct bench_shared* shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    const pid_t target = start(role, options, true, sockets, shared, &settings);
    const pid_t initiator = start(role, options, false, sockets, shared, &settings);
    close(sockets[0]);
    close(sockets[1]);
    int status = 0;
    if (settings.traced)
        status = steps_count_for(initiator, shared);
    else
        CHECK(waitpid(initiator, &status, 0) == initiator);
    const int result = result_of(status);
    // An initiator that gave up leaves a target that waits for it.
    atomic_store(&shared->stop, 1);
    CHECK(waitpid(target, &status, 0) == target);
    return result != EXIT_SUCCESS ? result : result_of(status);
}

void bench_say(struct bench_side* side, const void* bytes, size_t size) {
    const ssize_t sent = send(side->other, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EPIPE) _exit(EXIT_SUCCESS);  // the other one has ended, and says why
    CHECK(sent == (ssize_t)size);
}

void bench_hear(struct bench_side* side, void* bytes, size_t size) {
    size_t got = 0;
    while (got < size) {
        const ssize_t more = recv(side->other, (char*)bytes + got, size - got, 0);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) _exit(EXIT_SUCCESS);
        got += (size_t)more;
    }
}

void bench_meet(struct bench_side* side) {
    char mark = 'm';
    bench_say(side, &mark, 1);
    bench_hear(side, &mark, 1);
}

double bench_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// --- memory

unsigned char* bench_map(enum bench_memory kind, size_t size, int* fd) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    int file = -1;
    if (kind != BENCH_PRIVATE) {
        file = kind == BENCH_MEMFD ? memfd_create("bench", MFD_CLOEXEC)
                                   : open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        CHECK(file >= 0 && ftruncate(file, (off_t)size) == 0);
        flags = MAP_SHARED;
    }
    unsigned char* at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(at != MAP_FAILED);
    memset(at, 0, size);  // a first touch costs microseconds
    if (fd != NULL) *fd = file;
    return at;
}

static unsigned char byte_at(size_t place, unsigned seed) {
    const uint64_t mixed = (place + 1) * UINT64_C(0x9E3779B97F4A7C15) + seed * UINT64_C(2654435761);
    return (unsigned char)(mixed >> 32);
}

void bench_fill(void* bytes, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; ++i) ((unsigned char*)bytes)[i] = byte_at(i, seed);
}

bool bench_is_filled(const void* bytes, size_t size, unsigned seed) {
    size_t i = 0;
    while (i < size && ((const volatile unsigned char*)bytes)[i] == byte_at(i, seed)) ++i;
    return i == size;
}

// --- timing

static int compare_doubles(const void* left, const void* right) {
    const double a = *(const double*)left;
    const double b = *(const double*)right;
    return (a > b) - (a < b);
}

struct bench_time bench_measure(double milliseconds, bench_body* body, void* context) {
    const double slice = milliseconds / 1e3 / SLICES;
    uint64_t count = 1;
    double took = 0;
    for (;; count *= 2) {
        const double begin = bench_seconds();
        body(context, count);
        took = bench_seconds() - begin;
        if (took >= slice / 4) break;
    }
    const double wanted = (double)count * slice / took;
    count = wanted < 1 ? 1 : (uint64_t)wanted;
    double ns[SLICES];
    for (int i = 0; i < SLICES; ++i) {
        const double begin = bench_seconds();
        body(context, count);
        ns[i] = (bench_seconds() - begin) * 1e9 / (double)count;
    }
    qsort(ns, SLICES, sizeof ns[0], compare_doubles);
    return (struct bench_time){.ns = ns[SLICES / 2], .count = count * SLICES};
}

void bench_wait_on(struct bench_patience* patience, size_t size) {
    if (++patience->polls % POLLS_BETWEEN_LOOKS != 0) return;
    const double now = bench_seconds();
    if (patience->since == 0) patience->since = now;
    if (now - patience->since < BENCH_STALL_SECONDS) return;
    printf("{\"size\": %zu, \"stalled\": true}\n", size);
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

// --- command line and output

int bench_index_of(const char* text, const char* const* names) {
    for (int i = 0; names[i] != NULL; ++i)
        if (strcmp(text, names[i]) == 0) return i;
    bench_fail(__FILE__, __LINE__, "%s is not known", text);
}

struct bench_sizes bench_parse_sizes(const char* text) {
    struct bench_sizes sizes = {0};
    for (;;) {
        char* end = NULL;
        const unsigned long size = strtoul(text, &end, 10);
        CHECK(end != text && size > 0 && sizes.count < BENCH_MAX_SIZES);
        sizes.at[sizes.count++] = size;
        if (*end == '\0') return sizes;
        CHECK(*end == ',');
        text = end + 1;
    }
}

size_t bench_largest(const struct bench_sizes* sizes) {
    size_t largest = 0;
    for (size_t i = 0; i < sizes->count; ++i)
        if (sizes->at[i] > largest) largest = sizes->at[i];
    return largest;
}

long bench_parse_number(const char* text, long least, long most) {
    char* end = NULL;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < least || number > most)
        bench_fail(__FILE__, __LINE__, "%s is no number from %ld to %ld", text, least, most);
    return number;
}

void bench_print_time(size_t size, struct bench_time time) {
    printf("{\"size\": %zu, \"ns\": %.2f, \"count\": %llu}\n", size, time.ns,
           (unsigned long long)time.count);
    fflush(stdout);
}

void bench_add(struct bench_tally* tally, uint64_t steps) {
    if (tally->count == 0 || steps < tally->least) tally->least = steps;
    if (steps > tally->most) tally->most = steps;
    ++tally->count;
}

void bench_print_tally(const char* call, const struct bench_tally* tally) {
    printf("{\"call\": \"%s\", \"steps\": %llu, \"most\": %llu, \"count\": %llu}\n", call,
           (unsigned long long)tally->least, (unsigned long long)tally->most,
           (unsigned long long)tally->count);
    fflush(stdout);
}
