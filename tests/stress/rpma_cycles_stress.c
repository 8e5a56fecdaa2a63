// SPDX-License-Identifier: BSD-3-Clause
// Connections that come and go, and many at once: neither side keeps anything of them.
//
//   rpma_cycles_stress [CYCLES [CONNECTIONS_AT_ONCE]]
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/e2e/rpma_rig.h"

// A connection's end may be under way when it is counted.
enum { REGION = 64 << 10, MESSAGE = 256, GROWTH_KIB = 1024, ENDING = 2 };

static unsigned long cycles = 300;
static size_t at_once = 200;

// --- what a process holds

struct usage {
    size_t descriptors, threads;
    long resident_kib;
};

static size_t entries(const char* path) {
    size_t number = 0;
    DIR* directory = opendir(path);
    CHECK(directory != NULL);
    while (readdir(directory) != NULL) ++number;
    closedir(directory);
    return number;
}

static struct usage usage(void) {
    struct usage now = {entries("/proc/self/fd"), entries("/proc/self/task"), 0};
    long pages = 0;
    FILE* statm = fopen("/proc/self/statm", "re");
    CHECK(statm != NULL);
    CHECK_EQUAL(fscanf(statm, "%*d %ld", &pages), 1);
    fclose(statm);
    now.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    return now;
}

// A sanitizer keeps freed memory for a while.
static bool memory_counts(void) {
    return dlsym(RTLD_DEFAULT, "__asan_init") == NULL && dlsym(RTLD_DEFAULT, "__tsan_init") == NULL;
}

static void check_flat(const struct usage* before, const char* who) {
    const struct usage now = usage();
    printf("  %s: descriptors %zu then %zu, threads %zu then %zu, resident KiB %ld then %ld\n", who,
           before->descriptors, now.descriptors, before->threads, now.threads, before->resident_kib,
           now.resident_kib);
    CHECK(now.descriptors <= before->descriptors + ENDING);
    CHECK_EQUAL(now.threads, before->threads);
    if (memory_counts()) CHECK(now.resident_kib - before->resident_kib < GROWTH_KIB);
}

// --- one after the other

static void cycle_as_server(struct rig* rig, struct rpma_ep* ep) {
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    MUST(rpma_recv(conn, memory.mr, 0, MESSAGE, &memory));
    rig_lend(rig, memory.mr);
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    CHECK_EQUAL(rig_first_difference(memory.at, MESSAGE, 1), MESSAGE);
    CHECK_EQUAL(rig_first_difference(memory.at + REGION / 2, REGION / 2, 2), REGION / 2);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void cycle_as_client(struct rig* rig, unsigned long number) {
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    rig_fill(memory.at, MESSAGE, 1);
    rig_fill(memory.at + REGION / 2, REGION / 2, 2);
    MUST(rpma_write(conn, remote, REGION / 2, memory.mr, REGION / 2, REGION / 2,
                    RPMA_F_COMPLETION_ON_ERROR, NULL));
    // In every second one the last send is not waited for.
    const bool waits = number % 2 == 0;
    MUST(rpma_send(conn, memory.mr, 0, MESSAGE,
                   waits ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR, &memory));
    if (waits) COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static unsigned long warm_up(void) {
    return cycles / 5 + 20;
}

static void serve_cycles(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    for (unsigned long i = 0; i < warm_up(); ++i) cycle_as_server(rig, ep);
    const struct usage before = usage();
    for (unsigned long i = 0; i < cycles; ++i) cycle_as_server(rig, ep);
    check_flat(&before, "server");
    MUST(rpma_ep_shutdown(&ep));
}

static void run_cycles(struct rig* rig) {
    rig_find_server(rig);
    for (unsigned long i = 0; i < warm_up(); ++i) cycle_as_client(rig, i);
    const struct usage before = usage();
    for (unsigned long i = 0; i < cycles; ++i) cycle_as_client(rig, i);
    check_flat(&before, "client");
}

// --- many at once

enum { ROUNDS = 3 };

struct one {
    struct rpma_conn* conn;
    struct rpma_mr_remote* remote;
    int fd;
};

static void allow_descriptors(void) {
    struct rlimit limit;
    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// One thread, one epoll: a message of each connection is answered by its own bytes.
static void serve_many(struct rig* rig) {
    allow_descriptors();
    struct rig_memory memory = rig_memory(rig, at_once * MESSAGE * 2, RIG_ALL_USAGES);
    struct one* ones = calloc(at_once, sizeof *ones);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct rpma_ep* ep = rig_listen(rig);
    rig_lend(rig, memory.mr);
    for (size_t i = 0; i < at_once; ++i) {
        struct rpma_conn_req* request = NULL;
        MUST(rpma_ep_next_conn_req(ep, NULL, &request));
        MUST(rpma_conn_req_recv(request, memory.mr, i * MESSAGE, MESSAGE, &ones[i]));
        MUST(rpma_conn_req_connect(&request, NULL, &ones[i].conn));
        EVENT(ones[i].conn, RPMA_CONN_ESTABLISHED);
        MUST(rpma_cq_get_fd(rig_cq(ones[i].conn), &ones[i].fd));
        CHECK_EQUAL(fcntl(ones[i].fd, F_SETFL, fcntl(ones[i].fd, F_GETFL) | O_NONBLOCK), 0);
        struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
        CHECK_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, ones[i].fd, &event), 0);
    }
    for (size_t answered = 0; answered < at_once * ROUNDS;) {
        struct epoll_event event;
        CHECK_EQUAL(epoll_wait(epoll, &event, 1, -1), 1);
        const size_t i = event.data.u64;
        struct rpma_cq* cq = rig_cq(ones[i].conn);
        struct ibv_wc wc;
        if (rpma_cq_wait(cq) == RPMA_E_NO_COMPLETION) continue;
        while (rpma_cq_get_wc(cq, 1, &wc, NULL) == 0) {
            CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
            if (wc.opcode == IBV_WC_SEND) continue;
            CHECK_EQUAL(wc.wr_id, (uintptr_t)&ones[i]);
            CHECK_EQUAL(rig_first_difference(memory.at + i * MESSAGE, MESSAGE, (unsigned)i),
                        MESSAGE);
            memcpy(memory.at + (at_once + i) * MESSAGE, memory.at + i * MESSAGE, MESSAGE);
            MUST(rpma_recv(ones[i].conn, memory.mr, i * MESSAGE, MESSAGE, &ones[i]));
            MUST(rpma_send(ones[i].conn, memory.mr, (at_once + i) * MESSAGE, MESSAGE,
                           RPMA_F_COMPLETION_ALWAYS, NULL));
            ++answered;
        }
    }
    for (size_t i = 0; i < at_once; ++i) rig_close(rig, &ones[i].conn);
    MUST(rpma_ep_shutdown(&ep));
    close(epoll);
    free(ones);
    rig_forget(&memory);
}

static void be_many(struct rig* rig) {
    allow_descriptors();
    struct rig_memory memory = rig_memory(rig, at_once * MESSAGE, RIG_ALL_USAGES);
    struct one* ones = calloc(at_once, sizeof *ones);
    rig_find_server(rig);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    // All requests first: the server finds them waiting.
    for (size_t i = 0; i < at_once; ++i) {
        struct rpma_conn_req* request = NULL;
        MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, NULL, &request));
        MUST(rpma_conn_req_recv(request, memory.mr, i * MESSAGE, MESSAGE, &ones[i]));
        MUST(rpma_conn_req_connect(&request, NULL, &ones[i].conn));
    }
    for (size_t i = 0; i < at_once; ++i) EVENT(ones[i].conn, RPMA_CONN_ESTABLISHED);
    for (int round = 0; round < ROUNDS; ++round) {
        for (size_t i = 0; i < at_once; ++i) {
            unsigned char* place = memory.at + i * MESSAGE;
            if (round != 0)
                MUST(rpma_recv(ones[i].conn, memory.mr, i * MESSAGE, MESSAGE, &ones[i]));
            rig_fill(place, MESSAGE, (unsigned)i);
            MUST(rpma_write(ones[i].conn, remote, (at_once + i) * MESSAGE, memory.mr, i * MESSAGE,
                            MESSAGE, RPMA_F_COMPLETION_ALWAYS, place));
            MUST(rpma_flush(ones[i].conn, remote, 0, MESSAGE, RPMA_FLUSH_TYPE_VISIBILITY,
                            RPMA_F_COMPLETION_ALWAYS, place));
            MUST(rpma_send(ones[i].conn, memory.mr, i * MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS,
                           place));
        }
        for (size_t i = 0; i < at_once; ++i) {
            int completions = 0;
            while (completions < 4) {
                const struct ibv_wc wc = rig_completion(rig_cq(ones[i].conn));
                CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
                ++completions;
                if (wc.opcode == IBV_WC_RECV) CHECK_EQUAL(wc.byte_len, MESSAGE);
            }
            NO_COMPLETION_OF(rig_cq(ones[i].conn));
            CHECK_EQUAL(rig_first_difference(memory.at + i * MESSAGE, MESSAGE, (unsigned)i),
                        MESSAGE);
        }
    }
    for (size_t i = 0; i < at_once; ++i) rig_close(rig, &ones[i].conn);
    MUST(rpma_mr_remote_delete(&remote));
    free(ones);
    rig_forget(&memory);
}

static const struct rig_test tests[] = {
    {"connections that come and go leave nothing behind", serve_cycles, run_cycles, NULL, 0, 0},
    {"one server serves many connections at once", serve_many, be_many, NULL, 0, 0},
};

int main(int argc, char** argv) {
    if (argc > 1) cycles = strtoul(argv[1], NULL, 10);
    if (argc > 2) at_once = strtoul(argv[2], NULL, 10);
    rig_role_seconds = 300 + (unsigned)(cycles / 5);
    return rig_main(tests, RIG_LENGTH(tests), 1, argv);
}
