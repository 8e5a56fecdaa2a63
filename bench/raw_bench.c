// SPDX-License-Identifier: BSD-3-Clause
// What this machine can do at best: the lines that results are compared with. Starts its two
// processes itself and prints a line of JSON a size.
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

static const char kUsage[] =
    "usage: raw_bench [options]\n"
    "  --test memcpy|cma|shm|tcp|stream  copies into memory that another process has mapped;\n"
    "                                    process_vm_writev() into its private memory; half round\n"
    "                                    trips by shared memory and by TCP, both sides spinning;\n"
    "                                    bytes through TCP\n"
    "  --size N,N,...                    bytes\n"
    "  --ms N                            how long to measure each size\n";

enum test { TEST_MEMCPY, TEST_CMA, TEST_SHM, TEST_TCP, TEST_STREAM };

struct options {
    enum test test;
    struct bench_sizes sizes;
    double ms;
};

struct bench {
    const struct options* options;
    struct bench_side* side;
    unsigned char* local;
    unsigned char* shared;  // mapped by both; its second half is the way back
    unsigned char* remote;  // where the private memory of the target is in the target
    pid_t target;
    int tcp;
    size_t half;
    size_t size;
    uint64_t sequence;
};

// --- one-sided

static void run_memcpy(void* context, uint64_t count) {
    struct bench* bench = context;
    for (uint64_t i = 0; i < count; ++i) {
        memcpy(bench->shared, bench->local, bench->size);
        __asm__ volatile("" ::: "memory");
    }
}

static void run_cma(void* context, uint64_t count) {
    struct bench* bench = context;
    const struct iovec from = {bench->local, bench->size};
    const struct iovec to = {bench->remote, bench->size};
    for (uint64_t i = 0; i < count; ++i)
        if (process_vm_writev(bench->target, &from, 1, &to, 1, 0) != (ssize_t)bench->size)
            bench_skip("process_vm_writev() is not allowed");
}

// --- round trips: the number of the ball is its last word

static _Atomic uint64_t* ball_of(unsigned char* at, size_t size) {
    return (_Atomic uint64_t*)(at + size - sizeof(uint64_t));
}

static void throw_shm(struct bench* bench, unsigned char* to) {
    memcpy(to, bench->local, bench->size - sizeof(uint64_t));
    atomic_store_explicit(ball_of(to, bench->size), bench->sequence, memory_order_release);
}

// False: it was called off.
static bool catch_shm(struct bench* bench, unsigned char* at) {
    const _Atomic uint64_t* ball = ball_of(at, bench->size);
    while (atomic_load_explicit(ball, memory_order_acquire) != bench->sequence)
        if (atomic_load_explicit(&bench->side->shared->stop, memory_order_relaxed) != 0)
            return false;
    return true;
}

static void run_shm(void* context, uint64_t count) {
    struct bench* bench = context;
    for (uint64_t i = 0; i < count; i += 2) {
        ++bench->sequence;
        throw_shm(bench, bench->shared);
        CHECK(catch_shm(bench, bench->shared + bench->half));
    }
}

static void answer_shm(struct bench* bench) {
    for (;;) {
        ++bench->sequence;
        if (!catch_shm(bench, bench->shared)) return;
        throw_shm(bench, bench->shared + bench->half);
    }
}

// --- TCP

static bool transfer(struct bench* bench, bool out) {
    for (size_t done = 0; done < bench->size;) {
        void* at = bench->local + done;
        const size_t left = bench->size - done;
        const ssize_t moved = out ? send(bench->tcp, at, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : recv(bench->tcp, at, left, MSG_DONTWAIT);
        if (moved > 0) done += (size_t)moved;
        if (moved == 0) return false;
        if (atomic_load_explicit(&bench->side->shared->stop, memory_order_relaxed) != 0)
            return false;
    }
    return true;
}

static void run_tcp(void* context, uint64_t count) {
    struct bench* bench = context;
    for (uint64_t i = 0; i < count; i += 2) CHECK(transfer(bench, true) && transfer(bench, false));
}

static void answer_tcp(struct bench* bench) {
    while (transfer(bench, false) && transfer(bench, true)) {
    }
}

static void run_stream(void* context, uint64_t count) {
    struct bench* bench = context;
    for (uint64_t i = 0; i < count; ++i) CHECK(transfer(bench, true));
}

static void drain_stream(struct bench* bench) {
    while (transfer(bench, false)) {
    }
}

static void connect_tcp(struct bench* bench) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    bench->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bench->side->target) {
        const int listener = bench->tcp;
        CHECK(bind(listener, (struct sockaddr*)&address, length) == 0 && listen(listener, 1) == 0);
        CHECK(getsockname(listener, (struct sockaddr*)&address, &length) == 0);
        bench_say(bench->side, &address, sizeof address);
        bench->tcp = accept(listener, NULL, NULL);
        close(listener);
    } else {
        bench_hear(bench->side, &address, sizeof address);
        CHECK(connect(bench->tcp, (struct sockaddr*)&address, length) == 0);
    }
    const int on = 1;
    CHECK(setsockopt(bench->tcp, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
}

// --- the two processes

struct row {
    bench_body* initiator;
    void (*target)(struct bench* bench);  // null: it sleeps
};
static const struct row kRows[] = {
    [TEST_MEMCPY] = {run_memcpy, NULL},         [TEST_CMA] = {run_cma, NULL},
    [TEST_SHM] = {run_shm, answer_shm},         [TEST_TCP] = {run_tcp, answer_tcp},
    [TEST_STREAM] = {run_stream, drain_stream},
};

static void share_memory(struct bench* bench) {
    char path[64] = {0};
    bench->half = (bench_largest(&bench->options->sizes) + 4095) / 4096 * 4096;
    bench->local = bench_map(BENCH_PRIVATE, bench->half, NULL);
    if (bench->side->target) {
        int fd = -1;
        bench->shared = bench_map(BENCH_MEMFD, 2 * bench->half, &fd);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
        bench_say(bench->side, path, sizeof path);
        bench_say(bench->side, &bench->local, sizeof bench->local);
        bench->target = getpid();
        bench_say(bench->side, &bench->target, sizeof bench->target);
        bench_meet(bench->side);
        return;
    }
    bench_hear(bench->side, path, sizeof path);
    bench_hear(bench->side, &bench->remote, sizeof bench->remote);
    bench_hear(bench->side, &bench->target, sizeof bench->target);
    FILE* file = fopen(path, "r+");
    CHECK(file != NULL);
    bench->shared =
        mmap(NULL, 2 * bench->half, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(bench->shared != MAP_FAILED);
    for (size_t at = 0; at < 2 * bench->half; at += 4096) ((volatile char*)bench->shared)[at] = 0;
    bench_meet(bench->side);
}

static void role(struct bench_side* side, const void* options) {
    struct bench bench = {.options = options, .side = side};
    share_memory(&bench);
    const struct row* row = &kRows[bench.options->test];
    const bool by_tcp = bench.options->test >= TEST_TCP;
    for (size_t i = 0; i < bench.options->sizes.count; ++i) {
        bench.size = bench.options->sizes.at[i];
        bench.sequence = 0;
        if (by_tcp) connect_tcp(&bench);
        if (side->target) {
            memset(bench.shared, 0, 2 * bench.half);
            bench_meet(side);
            if (row->target != NULL) row->target(&bench);
        } else {
            bench_meet(side);
            bench_print_time(bench.size, bench_measure(bench.options->ms, row->initiator, &bench));
            atomic_store(&side->shared->stop, 1);
        }
        bench_meet(side);
        if (by_tcp) close(bench.tcp);
        if (side->target) atomic_store(&side->shared->stop, 0);
    }
}

int main(int argc, char** argv) {
    static const struct option kOptions[] = {{"test", required_argument, NULL, 't'},
                                             {"size", required_argument, NULL, 's'},
                                             {"ms", required_argument, NULL, 'M'},
                                             {NULL, 0, NULL, 0}};
    static const char* const kTests[] = {"memcpy", "cma", "shm", "tcp", "stream", NULL};
    struct options options = {.sizes = bench_parse_sizes("8"), .ms = 100};
    for (int letter; (letter = getopt_long(argc, argv, "", kOptions, NULL)) != -1;) {
        switch (letter) {
            case 't': options.test = (enum test)bench_index_of(optarg, kTests); break;
            case 's': options.sizes = bench_parse_sizes(optarg); break;
            case 'M': options.ms = (double)bench_parse_number(optarg, 1, 60000); break;
            default: fprintf(stderr, "%s", kUsage); return EXIT_FAILURE;
        }
    }
    return bench_run_pair(role, &options, (struct bench_settings){0});
}
