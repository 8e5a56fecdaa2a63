// SPDX-License-Identifier: BSD-3-Clause
// Threads: each with a connection of its own, all on one connection, and threads that register
// memory while others use theirs.
//
//   rpma_threads_stress [OPERATIONS]      of each thread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/rpma_rig.h"

enum { THREADS = 8, POSTERS = 4, REGION = 64 << 10, DEPTH = 32, MESSAGE = 512 };

static unsigned long operations = 500;

struct worker {
    pthread_t thread;
    struct rig* rig;
    size_t number;
    struct rpma_conn* conn;
    struct rpma_mr_remote* remote;
    struct rig_memory memory;
};

static void run_all(struct worker* workers, size_t number, void* (*body)(void*)) {
    for (size_t i = 0; i < number; ++i)
        CHECK_EQUAL(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    for (size_t i = 0; i < number; ++i) CHECK_EQUAL(pthread_join(workers[i].thread, NULL), 0);
}

// --- each its own connection, made, used and ended by its thread

static pthread_mutex_t accepting = PTHREAD_MUTEX_INITIALIZER;
static struct rpma_ep* endpoint;

static void* serve_one(void* argument) {
    struct worker* worker = argument;
    struct rig* rig = worker->rig;
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    struct rpma_conn_private_data data = {.len = 21};
    char descriptor[21];
    MUST(rpma_mr_get_descriptor(memory.mr, descriptor));
    data.ptr = descriptor;
    // An endpoint is used by one thread at a time, says librpma.
    CHECK_EQUAL(pthread_mutex_lock(&accepting), 0);
    MUST(rpma_ep_next_conn_req(endpoint, NULL, &request));
    CHECK_EQUAL(pthread_mutex_unlock(&accepting), 0);
    MUST(rpma_conn_req_recv(request, memory.mr, 0, MESSAGE, &memory));
    MUST(rpma_conn_req_connect(&request, &data, &conn));
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    struct rpma_cq* cq = rig_cq(conn);
    for (unsigned long i = 0; i < operations; ++i) {
        COMPLETION(cq, &memory, IBV_WC_SUCCESS);
        CHECK_EQUAL(rig_first_difference(memory.at, MESSAGE, (unsigned)i), MESSAGE);
        CHECK_EQUAL(rig_first_difference(memory.at + MESSAGE, MESSAGE, (unsigned)i + 1), MESSAGE);
        MUST(rpma_recv(conn, memory.mr, 0, MESSAGE, &memory));
        MUST(rpma_send(conn, memory.mr, MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS, &conn));
        COMPLETION(cq, &conn, IBV_WC_SUCCESS);
    }
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
    return NULL;
}

static void* call_one(void* argument) {
    struct worker* worker = argument;
    struct rig* rig = worker->rig;
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    struct rpma_conn_private_data data;
    struct rpma_mr_remote* remote = NULL;
    MUST(rpma_conn_get_private_data(conn, &data));
    MUST(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
    struct rpma_cq* cq = rig_cq(conn);
    for (unsigned long i = 0; i < operations; ++i) {
        // Another region each time, of which the other threads' are neighbours.
        struct rig_memory one = rig_memory(rig, 2 * MESSAGE, RPMA_MR_USAGE_WRITE_SRC);
        MUST(rpma_recv(conn, memory.mr, 0, MESSAGE, &memory));
        rig_fill(one.at, MESSAGE, (unsigned)i);
        rig_fill(one.at + MESSAGE, MESSAGE, (unsigned)i + 1);
        MUST(rpma_write(conn, remote, MESSAGE, one.mr, MESSAGE, MESSAGE, RPMA_F_COMPLETION_ON_ERROR,
                        NULL));
        MUST(rpma_send(conn, one.mr, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, &one));
        for (int completions = 0; completions < 2; ++completions) {
            const struct ibv_wc wc = rig_completion(cq);
            CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
            CHECK_EQUAL(wc.wr_id, wc.opcode == IBV_WC_RECV ? (uintptr_t)&memory : (uintptr_t)&one);
        }
        CHECK_EQUAL(rig_first_difference(memory.at, MESSAGE, (unsigned)i + 1), MESSAGE);
        rig_forget(&one);
    }
    MUST(rpma_conn_disconnect(conn));
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_mr_remote_delete(&remote));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
    return NULL;
}

static void serve_each(struct rig* rig) {
    struct worker workers[THREADS] = {{.rig = rig}};
    for (size_t i = 0; i < THREADS; ++i) workers[i].rig = rig;
    endpoint = rig_listen(rig);
    run_all(workers, THREADS, serve_one);
    MUST(rpma_ep_shutdown(&endpoint));
}

static void call_each(struct rig* rig) {
    struct worker workers[THREADS] = {{.rig = rig}};
    for (size_t i = 0; i < THREADS; ++i) workers[i].rig = rig;
    rig_find_server(rig);
    run_all(workers, THREADS, call_one);
}

// --- several threads post to one connection, and several poll it

static atomic_ulong completed;
static atomic_ulong refused;
static atomic_uchar* seen;  // by context

static void* post_to_shared(void* argument) {
    struct worker* worker = argument;
    for (unsigned long i = 0; i < operations; ++i) {
        const uintptr_t context = worker->number * operations + i;
        const size_t offset = (worker->number * 8 + i % 8) * MESSAGE;
        int code = 0;
        for (;;) {
            code = i % 3 == 0
                       ? rpma_flush(worker->conn, worker->remote, offset, MESSAGE,
                                    RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                                    (void*)context)
                       : rpma_write(worker->conn, worker->remote, offset, worker->memory.mr, offset,
                                    MESSAGE, RPMA_F_COMPLETION_ALWAYS, (void*)context);
            if (code != RPMA_E_PROVIDER) break;
            atomic_fetch_add(&refused, 1);  // full: the pollers make room
        }
        MUST(code);
    }
    return NULL;
}

static void* poll_shared(void* argument) {
    struct worker* worker = argument;
    struct rpma_cq* cq = rig_cq(worker->conn);
    while (atomic_load(&completed) < POSTERS * operations) {
        struct ibv_wc wcs[4];
        int got = 0;
        const int code = rpma_cq_get_wc(cq, 4, wcs, &got);
        if (code == RPMA_E_NO_COMPLETION) continue;
        MUST(code);
        for (int i = 0; i < got; ++i) {
            CHECK_EQUAL(wcs[i].status, IBV_WC_SUCCESS);
            CHECK(wcs[i].wr_id < POSTERS * operations);
            CHECK_EQUAL(atomic_fetch_add(&seen[wcs[i].wr_id], 1), 0);
        }
        atomic_fetch_add(&completed, (unsigned long)got);
    }
    return NULL;
}

static void* post_or_poll(void* argument) {
    struct worker* worker = argument;
    return worker->number < POSTERS ? post_to_shared(argument) : poll_shared(argument);
}

static void lend_to_threads(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    rig_sleep_until_told(rig);
    CHECK_EQUAL(rig_first_difference(memory.at, POSTERS * 8 * MESSAGE, 5), POSTERS * 8 * MESSAGE);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void share_a_connection(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn_cfg* cfg = rig_cfg(DEPTH, 0, DEPTH, 0);
    struct rpma_conn* conn = rig_connection(rig, cfg);
    MUST(rpma_conn_cfg_delete(&cfg));
    struct rpma_mr_remote* remote = rig_borrow(rig);
    struct worker workers[POSTERS + 2];
    rig_fill(memory.at, REGION, 5);
    seen = calloc(POSTERS * operations, sizeof *seen);
    for (size_t i = 0; i < RIG_LENGTH(workers); ++i)
        workers[i] = (struct worker){
            .rig = rig, .number = i, .conn = conn, .remote = remote, .memory = memory};
    run_all(workers, RIG_LENGTH(workers), post_or_poll);
    CHECK_EQUAL(atomic_load(&completed), POSTERS * operations);
    NO_COMPLETION_OF(rig_cq(conn));
    printf("  %lu operations of %d threads, %lu posts refused by a full queue\n",
           POSTERS * operations, POSTERS, atomic_load(&refused));
    rig_say(rig, "!", 1);
    free(seen);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static const struct rig_test tests[] = {
    {"threads with a connection each do not disturb one another", serve_each, call_each, NULL, 0,
     0},
    {"threads that share a connection get each completion once", lend_to_threads,
     share_a_connection, NULL, 0, 0},
};

int main(int argc, char** argv) {
    if (argc > 1) operations = strtoul(argv[1], NULL, 10);
    rig_role_seconds = 300 + (unsigned)(operations / 20);
    return rig_main(tests, RIG_LENGTH(tests), 1, argv);
}
