// SPDX-License-Identifier: BSD-3-Clause
// A client whose peer is no librpma program, or one that never decides: the server's role is played
// by bare sockets.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpma_rig.h"

enum { TIMEOUT_MS = 200 };

static int listen_by_hand(struct rig* rig, struct sockaddr_in* address, int backlog) {
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    CHECK_EQUAL(inet_pton(AF_INET, rig->address, &address->sin_addr), 1);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0);
    CHECK_EQUAL(bind(listener, (struct sockaddr*)address, size), 0);
    CHECK_EQUAL(getsockname(listener, (struct sockaddr*)address, &size), 0);
    CHECK_EQUAL(listen(listener, backlog), 0);
    snprintf(rig->port, sizeof rig->port, "%d", ntohs(address->sin_port));
    return listener;
}

static void announce(struct rig* rig) {
    rig_say(rig, rig->port, sizeof rig->port);
}

// To a listener with a full queue Linux gives no answer at all: a black hole.
static void be_a_black_hole(struct rig* rig) {
    struct sockaddr_in address;
    const int listener = listen_by_hand(rig, &address, 0);
    int fillers[64];
    size_t filled = 0;
    bool full = false;
    while (!full) {
        CHECK(filled < RIG_LENGTH(fillers));
        const int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(one, (struct sockaddr*)&address, sizeof address);
        struct pollfd connected = {.fd = one, .events = POLLOUT};
        full = poll(&connected, 1, 300) == 0;
        fillers[filled++] = one;
    }
    announce(rig);
    rig_sleep_until_told(rig);
    while (filled > 0) close(fillers[--filled]);
    close(listener);
}

static struct rpma_conn* call(struct rig* rig) {
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 0, 0);
    MUST(rpma_conn_cfg_set_timeout(cfg, TIMEOUT_MS));
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, cfg, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    MUST(rpma_conn_cfg_delete(&cfg));
    return conn;
}

static void expect_unreachable(struct rig* rig, double at_least) {
    const double begin = rig_seconds();
    struct rpma_conn* conn = call(rig);
    EVENT(conn, RPMA_CONN_UNREACHABLE);
    const double took = rig_seconds() - begin;
    CHECK(took >= at_least);
    CHECK(took < at_least + 5.0);
    (void)rpma_conn_disconnect(conn);  // programs do, whatever it says
    MUST(rpma_conn_delete(&conn));
}

static void call_the_black_hole(struct rig* rig) {
    rig_find_server(rig);
    for (int i = 0; i < 3; ++i) expect_unreachable(rig, TIMEOUT_MS / 1000.0);
    struct rpma_conn* conn = call(rig);
    MUST(rpma_conn_delete(&conn));  // nobody waits for the outcome
    rig_say(rig, "!", 1);
}

// A librpma server that never looks at its requests.
static void never_decide(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    rig_sleep_until_told(rig);
    MUST(rpma_ep_shutdown(&ep));
}

static void wait_for_a_decision(struct rig* rig) {
    const char* timeout_ms = getenv("FABRIC_COMPAT_CONNECT_TIMEOUT_MS");
    CHECK(timeout_ms != NULL);  // read before the first role runs: it is the whole program's
    rig_find_server(rig);
    expect_unreachable(rig, atoi(timeout_ms) / 1000.0);
    rig_say(rig, "!", 1);
}

// What a foreign service says when it is spoken to.
struct reply {
    const char* bytes;
    size_t size;
    enum rpma_conn_event event;
};
static const struct reply replies[] = {
    {"", 0, RPMA_CONN_REJECTED},  // it hangs up
    {"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", 30, RPMA_CONN_LOST},
    {"MPA ID Req Frame\0\1\0\0", 20, RPMA_CONN_LOST},  // a request where a reply has to be
    {"MPA ID Rep Frame\0\7\0\0", 20, RPMA_CONN_LOST},  // of a revision that does not exist
    {"MPA ID Rep Frame\0\1\377\377", 20, RPMA_CONN_LOST},
    {"MPA ID Rep Fr", 13, RPMA_CONN_REJECTED},  // and then it hangs up
};

static void be_a_foreign_service(struct rig* rig) {
    struct sockaddr_in address;
    const int listener = listen_by_hand(rig, &address, 8);
    announce(rig);
    for (size_t i = 0; i < RIG_LENGTH(replies); ++i) {
        const int one = accept(listener, NULL, NULL);
        CHECK(one >= 0);
        char request[20];
        CHECK_EQUAL(recv(one, request, sizeof request, MSG_WAITALL), sizeof request);
        CHECK_EQUAL(send(one, replies[i].bytes, replies[i].size, MSG_NOSIGNAL), replies[i].size);
        CHECK_EQUAL(shutdown(one, SHUT_WR), 0);
        while (recv(one, request, sizeof request, 0) > 0) {
        }
        close(one);
    }
    close(listener);
}

static void call_a_foreign_service(struct rig* rig) {
    rig_find_server(rig);
    for (size_t i = 0; i < RIG_LENGTH(replies); ++i) {
        struct rpma_conn* conn = call(rig);
        EVENT(conn, replies[i].event);
        MUST(rpma_conn_delete(&conn));
    }
}

// A librpma server is called by who knows nothing of it, and serves the next one.
static const struct {
    const char* bytes;
    size_t size;
} calls[] = {{"", 0},
             {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35},
             {"MPA ID Rep Frame\0\1\0\0", 20},
             {"MPA ID Req Frame\0\1\377\377", 20},
             {"MPA ID Req Frame\0\1\0\0and more", 28},
             {"MPA ID Req", 10}};

static void serve_after_nonsense(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
}

static void call_with_nonsense(struct rig* rig) {
    rig_find_server(rig);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)atoi(rig->port))};
    CHECK_EQUAL(inet_pton(AF_INET, rig->address, &address.sin_addr), 1);
    for (size_t i = 0; i < RIG_LENGTH(calls); ++i) {
        const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQUAL(connect(one, (struct sockaddr*)&address, sizeof address), 0);
        CHECK_EQUAL(send(one, calls[i].bytes, calls[i].size, MSG_NOSIGNAL), calls[i].size);
        CHECK_EQUAL(shutdown(one, SHUT_WR), 0);
        char byte;
        CHECK(recv(one, &byte, 1, 0) <= 0);  // it hangs up
        close(one);
    }
    struct rpma_conn* conn = rig_connect(rig, NULL);
    rig_close(rig, &conn);
}

static const struct rig_test tests[] = {
    {"a host that does not answer is unreachable after the timeout", be_a_black_hole,
     call_the_black_hole, NULL, 0, 0},
    {"a program that does not decide is unreachable after its own timeout", never_decide,
     wait_for_a_decision, NULL, 0, 0},
    {"a service that is no RDMA server ends the attempt", be_a_foreign_service,
     call_a_foreign_service, NULL, 0, 0},
    {"a server survives callers that talk nonsense", serve_after_nonsense, call_with_nonsense, NULL,
     0, 0},
};

RIG_MAIN(tests)
