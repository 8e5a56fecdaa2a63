// SPDX-License-Identifier: BSD-3-Clause
// Processes that are killed in the middle of large writes, at any moment: the other side is told
// within a second, each of its requests completes once, and it goes on with the next peer.
//
//   rpma_kill_stress [KILLS [SEED]]      KILLS: of clients, and as many of servers
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/rpma_rig.h"

enum { LARGE = 4 << 20, DEPTH = 8, LONGEST_LIFE_US = 30000 };

static unsigned long kills = 10;
static uint64_t seed = 1;

static const double told_within = 1.0;  // seconds from the death to the news

// A victim is a child of one of the two roles; it has a peer of its own.
static struct rpma_peer* own_peer(struct rig* rig) {
    struct ibv_context* device = NULL;
    struct rpma_peer* peer = NULL;
    MUST(rpma_utils_get_ibv_context(rig->address, RPMA_UTIL_IBV_CONTEXT_REMOTE, &device));
    MUST(rpma_peer_new(device, &peer));
    return peer;
}

static void kill_after_a_while(pid_t victim, uint64_t* random, double* died) {
    int status = 0;
    usleep((useconds_t)rig_random(random, LONGEST_LIFE_US));
    CHECK_EQUAL(kill(victim, SIGKILL), 0);
    CHECK_EQUAL(waitpid(victim, &status, 0), victim);
    *died = rig_seconds();
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void write_for_ever(struct rpma_conn* conn, struct rpma_mr_remote* remote,
                           struct rpma_mr_local* mr) {
    size_t out = 0;
    for (;;) {
        while (out < DEPTH) {
            MUST(rpma_write(conn, remote, 0, mr, 0, LARGE, RPMA_F_COMPLETION_ALWAYS, NULL));
            ++out;
        }
        COMPLETION(rig_cq(conn), NULL, IBV_WC_SUCCESS);
        --out;
    }
}

// --- clients die

// Round by round: the client's process says when it has killed its child. CLOCK_MONOTONIC is one
// for both.
static void outlive_clients(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGE, RIG_ALL_USAGES);
    struct rpma_ep* ep = rig_listen(rig);
    rig_lend(rig, memory.mr);
    double longest = 0;
    for (unsigned long i = 0; i < kills; ++i) {
        struct rpma_conn* conn = rig_accept(rig, ep, NULL);
        MUST(rpma_recv(conn, memory.mr, 0, 64, &conn));
        rig_meet(rig);
        const enum rpma_conn_event event = rig_next_event(conn);
        const double told = rig_seconds();
        CHECK(event == RPMA_CONN_CLOSED || event == RPMA_CONN_LOST);
        double died = 0;
        rig_hear(rig, &died, sizeof died);
        if (told - died > longest) longest = told - died;
        CHECK(told - died < told_within);
        COMPLETION(rig_cq(conn), &conn, IBV_WC_WR_FLUSH_ERR);
        NO_COMPLETION_OF(rig_cq(conn));
        MUST(rpma_conn_disconnect(conn));
        MUST(rpma_conn_delete(&conn));
    }
    printf("  %lu clients were killed, the server was told within %.0f ms\n", kills,
           longest * 1000);
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);  // as good as new
    MUST(rpma_recv(conn, memory.mr, 0, 64, &conn));
    rig_meet(rig);
    COMPLETION(rig_cq(conn), &conn, IBV_WC_SUCCESS);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
    rig_forget(&memory);
}

static void kill_clients(struct rig* rig) {
    uint64_t random = seed;
    rig_find_server(rig);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (unsigned long i = 0; i < kills; ++i) {
        fflush(NULL);
        const pid_t victim = fork();
        CHECK(victim >= 0);
        if (victim == 0) {
            rig->peer = own_peer(rig);
            struct rig_memory memory = rig_memory(rig, LARGE, RIG_ALL_USAGES);
            write_for_ever(rig_connect(rig, NULL), remote, memory.mr);
        }
        rig_meet(rig);  // the server has its connection
        double died = 0;
        kill_after_a_while(victim, &random, &died);
        rig_say(rig, &died, sizeof died);
    }
    struct rig_memory memory = rig_memory(rig, 64, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    rig_meet(rig);
    MUST(rpma_send(conn, memory.mr, 0, 64, RPMA_F_COMPLETION_ALWAYS, &memory));
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    rig_close(rig, &conn);
    MUST(rpma_mr_remote_delete(&remote));
    rig_forget(&memory);
}

// --- servers die

static void serve_and_be_killed(struct rig* rig) {
    rig->peer = own_peer(rig);
    struct rig_memory memory = rig_memory(rig, LARGE, RIG_ALL_USAGES);
    struct rpma_ep* ep = rig_listen(rig);
    rig_lend(rig, memory.mr);
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    CHECK(conn != NULL);
    pause();
}

static void kill_servers(struct rig* rig) {
    uint64_t random = seed + 1;
    for (unsigned long i = 0; i < kills; ++i) {
        fflush(NULL);
        const pid_t victim = fork();
        CHECK(victim >= 0);
        if (victim == 0) serve_and_be_killed(rig);
        rig_sleep_until_told(rig);  // the client is about to write
        double died = 0;
        kill_after_a_while(victim, &random, &died);
        rig_say(rig, &died, sizeof died);
    }
    struct rig_memory memory = rig_memory(rig, LARGE, RIG_ALL_USAGES);
    struct rpma_ep* ep = rig_listen(rig);
    rig_lend(rig, memory.mr);
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
    rig_forget(&memory);
}

// Writes until one fails: that one's peer is gone, or it was flushed; the rest is flushed.
static unsigned long write_until_it_fails(struct rpma_conn* conn, struct rpma_mr_remote* remote,
                                          struct rpma_mr_local* mr) {
    uintptr_t posted = 0;
    uintptr_t completed = 0;
    bool failed = false;
    while (!failed || completed < posted) {
        while (!failed && posted - completed < DEPTH) {
            ++posted;
            MUST(rpma_write(conn, remote, 0, mr, 0, LARGE, RPMA_F_COMPLETION_ALWAYS,
                            (const void*)posted));
        }
        const struct ibv_wc wc = rig_completion(rig_cq(conn));
        CHECK_EQUAL(wc.wr_id, ++completed);
        if (wc.status == IBV_WC_SUCCESS) {
            CHECK(!failed);
        } else if (failed) {
            CHECK_EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
        } else {
            failed = true;
            CHECK(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_WR_FLUSH_ERR);
        }
    }
    NO_COMPLETION_OF(rig_cq(conn));
    return completed;
}

static void outlive_servers(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGE, RIG_ALL_USAGES);
    double longest = 0;
    unsigned long writes = 0;
    for (unsigned long i = 0; i < kills; ++i) {
        rig_find_server(rig);
        struct rpma_mr_remote* remote = rig_borrow(rig);
        struct rpma_conn* conn = rig_connect(rig, NULL);
        rig_say(rig, "!", 1);
        writes += write_until_it_fails(conn, remote, memory.mr);
        const enum rpma_conn_event event = rig_next_event(conn);
        const double told = rig_seconds();
        CHECK(event == RPMA_CONN_CLOSED || event == RPMA_CONN_LOST);
        double died = 0;
        rig_hear(rig, &died, sizeof died);
        if (told - died > longest) longest = told - died;
        CHECK(told - died < told_within);
        MUST(rpma_conn_disconnect(conn));
        MUST(rpma_mr_remote_delete(&remote));
        MUST(rpma_conn_delete(&conn));
    }
    printf("  %lu servers were killed under %lu writes, the client was told within %.0f ms\n",
           kills, writes, longest * 1000);
    rig_find_server(rig);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    MUST(rpma_write(conn, remote, 0, memory.mr, 0, LARGE, RPMA_F_COMPLETION_ALWAYS, &memory));
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static const struct rig_test tests[] = {
    {"a server outlives clients that are killed while they write", outlive_clients, kill_clients,
     NULL, 0, 0},
    {"a client outlives servers that are killed while it writes", kill_servers, outlive_servers,
     NULL, 0, 0},
};

int main(int argc, char** argv) {
    if (argc > 1) kills = strtoul(argv[1], NULL, 10);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    rig_role_seconds = 300 + (unsigned)(2 * kills);
    return rig_main(tests, RIG_LENGTH(tests), 1, argv);
}
