// SPDX-License-Identifier: BSD-3-Clause
// A target program that does something else: sleeps in a call of its own, computes, or has polled
// until a moment ago. What its peer does to its memory completes all the same.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpma_rig.h"

enum { SIZE = 1 << 20, ROUNDS = 30 };

// Everything that needs no receive, each waited for.
static void work(struct rpma_conn* conn, struct rpma_mr_remote* remote,
                 const struct rig_memory* memory, unsigned seed) {
    struct rpma_cq* cq = rig_cq(conn);
    char mark;
    const int always = RPMA_F_COMPLETION_ALWAYS;
    rig_fill(memory->at, SIZE, seed);
    MUST(rpma_write(conn, remote, 0, memory->mr, 0, SIZE, always, &mark));
    COMPLETION(cq, &mark, IBV_WC_SUCCESS);
    MUST(rpma_flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY, always, &mark));
    COMPLETION(cq, &mark, IBV_WC_SUCCESS);
    MUST(rpma_atomic_write(conn, remote, SIZE, (const char*)memory->at, always, &mark));
    COMPLETION(cq, &mark, IBV_WC_SUCCESS);
    memset(memory->at, 0, SIZE + 8);
    MUST(rpma_read(conn, memory->mr, 0, remote, 0, SIZE + 8, always, &mark));
    COMPLETION(cq, &mark, IBV_WC_SUCCESS);
    CHECK_EQUAL(rig_first_difference(memory->at, SIZE, seed), SIZE);
    CHECK(memcmp(memory->at, memory->at + SIZE, 8) == 0);
}

static void work_on_it(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE + 8, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (unsigned i = 0; i < ROUNDS; ++i) work(conn, remote, &memory, i);
    rig_say(rig, "!", 1);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void sleep_in_a_call(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE + 8, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    rig_sleep_until_told(rig);
    CHECK_EQUAL(rig_first_difference(memory.at, SIZE, ROUNDS - 1), SIZE);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// A poller looks like somebody who will poll again.
static void poll_then_sleep(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE + 8, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    for (int i = 0; i < 1000; ++i) NO_COMPLETION_OF(rig_cq(conn));
    rig_lend(rig, memory.mr);
    rig_sleep_until_told(rig);
    CHECK_EQUAL(rig_first_difference(memory.at, SIZE, ROUNDS - 1), SIZE);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// Watches a byte of its memory, as programs do that know what their peer writes last.
static void watch_memory(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE + 8, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    volatile unsigned char* last = memory.at + SIZE - 1;
    for (unsigned i = 0; i < ROUNDS; ++i) {
        rig_meet(rig);
        while (*last == 0) usleep(10);
        CHECK_EQUAL(rig_first_difference(memory.at, SIZE - 1, i), SIZE - 1);
        memset(memory.at, 0, SIZE);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void write_whole_pages_of_news(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (unsigned i = 0; i < ROUNDS; ++i) {
        rig_fill(memory.at, SIZE, i);
        memory.at[SIZE - 1] = 1;
        rig_meet(rig);
        MUST(rpma_write(conn, remote, 0, memory.mr, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, &memory));
        COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    }
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// Waiting for one connection's completions must not stop the service of another's memory.
static void wait_on_another(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE + 8, RIG_ALL_USAGES);
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn* lent = rig_accept(rig, ep, NULL);
    struct rpma_conn* waited = rig_accept(rig, ep, NULL);
    rig_lend(rig, memory.mr);
    MUST(rpma_recv(waited, memory.mr, 0, 8, &memory));
    COMPLETION(rig_cq(waited), &memory, IBV_WC_SUCCESS);
    rig_close(rig, &lent);
    rig_close(rig, &waited);
    MUST(rpma_ep_shutdown(&ep));
    rig_forget(&memory);
}

static void work_on_one_then_send(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE + 8, RIG_ALL_USAGES);
    rig_find_server(rig);
    struct rpma_conn* lent = rig_connect(rig, NULL);
    struct rpma_conn* waited = rig_connect(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (unsigned i = 0; i < ROUNDS; ++i) work(lent, remote, &memory, i);
    MUST(rpma_send(waited, memory.mr, 0, 8, RPMA_F_COMPLETION_ALWAYS, &memory));
    COMPLETION(rig_cq(waited), &memory, IBV_WC_SUCCESS);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &lent);
    rig_close(rig, &waited);
    rig_forget(&memory);
}

static const struct rig_test tests[] = {
    {"a target asleep in a call of its own is written and read", sleep_in_a_call, work_on_it, NULL,
     0, 0},
    {"a target that has just polled is written and read", poll_then_sleep, work_on_it, NULL, 0, 0},
    {"a target that watches the last byte sees all bytes before it", watch_memory,
     write_whole_pages_of_news, NULL, 0, 0},
    {"a target that waits on one connection is written through another", wait_on_another,
     work_on_one_then_send, NULL, 0, 0},
};

RIG_MAIN(tests)
