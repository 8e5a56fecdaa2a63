// SPDX-License-Identifier: BSD-3-Clause
// Making and ending connections: what travels with requests and answers, every way a connection can
// fail to come about, and every way it can end.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rig_role.h"
#include "rpma_rig.h"

enum { MOST_TO_SERVER = 56, MOST_TO_CLIENT = 196 };  // InfiniBand's limits
static const int lengths[][2] = {
    {1, 1}, {28, 28}, {MOST_TO_SERVER, MOST_TO_CLIENT}, {3, 0}, {0, 7}};

// InfiniBand and RoCE deliver the whole field, padded with zeros.
static void check_data(const struct rpma_conn_private_data* data, int length, unsigned seed) {
    if (rig_is_given_an_address()) {
        CHECK(data->len >= length);
    } else {
        CHECK_EQUAL(data->len, length);
        CHECK((data->ptr != NULL) == (length != 0));
    }
    CHECK_EQUAL(rig_first_difference(data->ptr, (size_t)length, seed), length);
}

// Private data of that length, or none.
static const struct rpma_conn_private_data* make_data(struct rpma_conn_private_data* data,
                                                      unsigned char bytes[UINT8_MAX], int length,
                                                      unsigned seed) {
    if (length == 0) return NULL;
    rig_fill(bytes, (size_t)length, seed);
    data->ptr = bytes;
    data->len = (uint8_t)length;
    return data;
}

static void serve_private_data(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    for (size_t i = 0; i < RIG_LENGTH(lengths); ++i) {
        struct rpma_conn_req* request = NULL;
        struct rpma_conn* conn = NULL;
        struct rpma_conn_private_data data;
        struct rpma_conn_private_data answer;
        unsigned char bytes[UINT8_MAX];
        MUST(rpma_ep_next_conn_req(ep, NULL, &request));
        MUST(rpma_conn_req_get_private_data(request, &data));
        check_data(&data, lengths[i][0], 1);
        MUST(rpma_conn_req_connect(&request, make_data(&answer, bytes, lengths[i][1], 2), &conn));
        memset(bytes, 0, sizeof bytes);  // it was copied
        EVENT(conn, RPMA_CONN_ESTABLISHED);
        struct rpma_conn_private_data later;
        MUST(rpma_conn_get_private_data(conn, &later));
        check_data(&later, lengths[i][0], 1);
        CHECK(later.ptr == data.ptr);
        rig_close(rig, &conn);
    }
    MUST(rpma_ep_shutdown(&ep));
}

static void bring_private_data(struct rig* rig) {
    rig_find_server(rig);
    for (size_t i = 0; i < RIG_LENGTH(lengths); ++i) {
        struct rpma_conn_req* request = NULL;
        struct rpma_conn* conn = NULL;
        struct rpma_conn_private_data data;
        unsigned char bytes[UINT8_MAX];
        MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, NULL, &request));
        MUST(rpma_conn_req_get_private_data(request, &data));
        check_data(&data, 0, 0);
        MUST(rpma_conn_req_connect(&request, make_data(&data, bytes, lengths[i][0], 1), &conn));
        memset(bytes, 0, sizeof bytes);
        EVENT(conn, RPMA_CONN_ESTABLISHED);
        MUST(rpma_conn_get_private_data(conn, &data));
        check_data(&data, lengths[i][1], 2);
        rig_close(rig, &conn);
    }
}

// --- one byte too many

static void accept_with_too_much(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    struct rpma_conn_private_data data;
    unsigned char bytes[UINT8_MAX];
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    CODE(rpma_conn_req_connect(&request, make_data(&data, bytes, MOST_TO_CLIENT + 1, 0), &conn),
         RPMA_E_PROVIDER);
    CHECK(request == NULL);
    CHECK(conn == NULL);
    MUST(rpma_ep_shutdown(&ep));
}

static void connect_with_too_much(struct rig* rig) {
    rig_find_server(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    struct rpma_conn_private_data data;
    unsigned char bytes[UINT8_MAX];
    MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, NULL, &request));
    CODE(rpma_conn_req_connect(&request, make_data(&data, bytes, MOST_TO_SERVER + 1, 0), &conn),
         RPMA_E_PROVIDER);
    CHECK(request == NULL);
    CHECK(conn == NULL);
    // Now with nothing wrong on this side: the server fails to accept.
    MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    EVENT(conn, RPMA_CONN_REJECTED);
    MUST(rpma_conn_delete(&conn));
}

// --- no connection

static struct rpma_conn* request_only(struct rig* rig) {
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    return conn;
}

static void expect_rejected(struct rig* rig) {
    struct rpma_conn* conn = request_only(rig);
    EVENT(conn, RPMA_CONN_REJECTED);
    struct rpma_conn_private_data data;
    MUST(rpma_conn_get_private_data(conn, &data));
    check_data(&data, 0, 0);
    (void)rpma_conn_disconnect(conn);  // programs do, whatever it says
    MUST(rpma_conn_delete(&conn));
}

static void stop_listening(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    MUST(rpma_ep_shutdown(&ep));
    rig_meet(rig);
    rig_meet(rig);
    ep = NULL;
    MUST(rpma_ep_listen(rig->peer, rig->address, rig->port, &ep));
    rig_meet(rig);
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
}

static void find_nobody_then_somebody(struct rig* rig) {
    rig_find_server(rig);
    rig_meet(rig);
    for (int i = 0; i < 3; ++i) expect_rejected(rig);
    rig_meet(rig);
    rig_meet(rig);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    rig_close(rig, &conn);
}

static void delete_requests(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    for (int i = 0; i < 3; ++i) {
        MUST(rpma_ep_next_conn_req(ep, NULL, &request));
        MUST(rpma_conn_req_delete(&request));
    }
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
}

static void be_rejected_then_accepted(struct rig* rig) {
    rig_find_server(rig);
    for (int i = 0; i < 3; ++i) expect_rejected(rig);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    rig_close(rig, &conn);
}

static void shut_down_with_requests_waiting(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct pollfd ready = {.events = POLLIN};
    MUST(rpma_ep_get_fd(ep, &ready.fd));
    CHECK_EQUAL(poll(&ready, 1, -1), 1);
    MUST(rpma_ep_shutdown(&ep));
}

static void find_server_and_be_rejected(struct rig* rig) {
    rig_find_server(rig);
    expect_rejected(rig);
}

static void exit_before_accepting(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    _exit(EXIT_SUCCESS);
}

static void die_before_accepting(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    raise(SIGKILL);
}

static void accept_after_client_is_gone(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    rig_meet(rig);
    rig_meet(rig);  // it has deleted its side
    if (rpma_conn_req_connect(&request, NULL, &conn) == 0) {
        const enum rpma_conn_event event = rig_next_event(conn);
        CHECK(event == RPMA_CONN_CLOSED || event == RPMA_CONN_LOST ||
              event == RPMA_CONN_ESTABLISHED);
        if (event == RPMA_CONN_ESTABLISHED) EVENT(conn, RPMA_CONN_CLOSED);
        MUST(rpma_conn_delete(&conn));
    }
    conn = rig_accept(rig, ep, NULL);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
}

static void delete_while_requesting(struct rig* rig) {
    rig_find_server(rig);
    struct rpma_conn* conn = request_only(rig);
    rig_meet(rig);
    MUST(rpma_conn_delete(&conn));
    rig_meet(rig);
    conn = rig_connect(rig, NULL);
    rig_close(rig, &conn);
}

static void listen_twice(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_ep* second = NULL;
    CODE(rpma_ep_listen(rig->peer, rig->address, rig->port, &second), RPMA_E_PROVIDER);
    CHECK(second == NULL);
    MUST(rpma_ep_shutdown(&ep));
}

static void connect_with_impossible_sizes(struct rig* rig) {
    rig_find_server(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 0, 0);
    MUST(rpma_conn_cfg_set_cq_size(cfg, 0));
    CODE(rpma_conn_req_new(rig->peer, rig->address, rig->port, cfg, &request), RPMA_E_PROVIDER);
    MUST(rpma_conn_cfg_set_cq_size(cfg, 10));
    MUST(rpma_conn_cfg_set_sq_size(cfg, UINT32_MAX));
    CODE(rpma_conn_req_new(rig->peer, rig->address, rig->port, cfg, &request), RPMA_E_PROVIDER);
    CHECK(request == NULL);
    MUST(rpma_conn_cfg_delete(&cfg));
}

// A server whose own configuration is impossible must not leave its client without an answer.
static void accept_with_impossible_sizes(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn_cfg* cfg = rig_cfg(UINT32_MAX, 0, 0, 0);
    CODE(rpma_ep_next_conn_req(ep, cfg, &request), RPMA_E_PROVIDER);
    CHECK(request == NULL);
    MUST(rpma_conn_cfg_delete(&cfg));
    MUST(rpma_ep_shutdown(&ep));
}

// --- the end

static void serve_and_close(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_close(rig, &conn);
}

static void disconnect_again_and_again(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    for (int i = 0; i < 3; ++i) MUST(rpma_conn_disconnect(conn));
    EVENT(conn, RPMA_CONN_CLOSED);
    for (int i = 0; i < 3; ++i) MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
}

static void disconnect_first(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    MUST(rpma_conn_disconnect(conn));
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_delete(&conn));
}

static void delete_at_once(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    MUST(rpma_conn_delete(&conn));
}

static void expect_closed(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
}

static void disconnect_when_both_are_ready(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_meet(rig);
    MUST(rpma_conn_disconnect(conn));
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_delete(&conn));
}

static void be_killed(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_meet(rig);
    CHECK(conn != NULL);
    pause();
}

static void kill_the_other(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_meet(rig);
    const double begin = rig_seconds();
    CHECK_EQUAL(kill(rig->other_pid, SIGKILL), 0);
    const enum rpma_conn_event event = rig_next_event(conn);
    CHECK(event == RPMA_CONN_CLOSED || event == RPMA_CONN_LOST);
    CHECK(rig_seconds() - begin < 1.0);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
}

static void receive_the_last_send(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RPMA_MR_USAGE_RECV);
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    MUST(rpma_conn_req_recv(request, memory.mr, 0, memory.size, &memory));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    CHECK_EQUAL(rig_first_difference(memory.at, memory.size, 7), memory.size);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
    rig_forget(&memory);
}

static void send_and_disconnect(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RPMA_MR_USAGE_SEND);
    rig_fill(memory.at, memory.size, 7);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    MUST(rpma_send(conn, memory.mr, 0, memory.size, RPMA_F_COMPLETION_ON_ERROR, NULL));
    MUST(rpma_conn_disconnect(conn));
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

// --- descriptors

static void set_nonblocking(int fd) {
    CHECK_EQUAL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static int epoll_of(int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK(epoll >= 0);
    CHECK_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    return epoll;
}

static void is_readable(int epoll, int wait_ms, int wanted) {
    struct epoll_event event;
    CHECK_EQUAL(epoll_wait(epoll, &event, 1, wait_ms), wanted);
}

enum { LONG_MS = 60000 };

static void serve_by_epoll(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int fd = -1;
    MUST(rpma_ep_get_fd(ep, &fd));
    set_nonblocking(fd);
    int epoll = epoll_of(fd);
    is_readable(epoll, 0, 0);
    CODE(rpma_ep_next_conn_req(ep, NULL, &request), RPMA_E_NO_EVENT);
    rig_meet(rig);
    is_readable(epoll, LONG_MS, 1);
    is_readable(epoll, 0, 1);  // level-triggered
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    is_readable(epoll, 0, 0);
    CODE(rpma_ep_next_conn_req(ep, NULL, &(struct rpma_conn_req*){NULL}), RPMA_E_NO_EVENT);
    close(epoll);

    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    MUST(rpma_conn_get_event_fd(conn, &fd));
    set_nonblocking(fd);
    epoll = epoll_of(fd);
    is_readable(epoll, LONG_MS, 1);
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    is_readable(epoll, 0, 0);
    CODE(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
    rig_meet(rig);
    is_readable(epoll, LONG_MS, 1);
    EVENT(conn, RPMA_CONN_CLOSED);
    CODE(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
    close(epoll);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    MUST(rpma_ep_shutdown(&ep));
}

static void connect_for_epoll(struct rig* rig) {
    rig_find_server(rig);
    rig_meet(rig);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    rig_meet(rig);
    rig_close(rig, &conn);
}

static const struct rig_test tests[] = {
    {"private data arrive both ways in their exact length", serve_private_data, bring_private_data,
     NULL, 0, 0},
    {"private data arrive over IPv6", serve_private_data, bring_private_data, "::1", 0, 0},
    {"private data one byte too long are a provider error", accept_with_too_much,
     connect_with_too_much, NULL, 0, 0},
    {"a port without a listener rejects until there is one", stop_listening,
     find_nobody_then_somebody, NULL, 0, 0},
    {"a deleted request is a rejection", delete_requests, be_rejected_then_accepted, NULL, 0, 0},
    {"an endpoint that goes rejects the requests that wait", shut_down_with_requests_waiting,
     find_server_and_be_rejected, NULL, 0, 0},
    {"a server that exits before it accepts is a rejection", exit_before_accepting,
     find_server_and_be_rejected, NULL, 0, 0},
    {"a server that is killed before it accepts is a rejection", die_before_accepting,
     find_server_and_be_rejected, NULL, SIGKILL, 0},
    {"a client may give up while the server decides", accept_after_client_is_gone,
     delete_while_requesting, NULL, 0, 0},
    {"a taken port is a provider error", listen_twice, rig_find_server, NULL, 0, 0},
    {"queue sizes that no device has are a provider error", accept_with_impossible_sizes,
     find_server_and_be_rejected, NULL, 0, 0},
    {"queue sizes are checked before anything goes out", listen_twice,
     connect_with_impossible_sizes, NULL, 0, 0},
    {"disconnecting again and after the end succeeds", serve_and_close, disconnect_again_and_again,
     NULL, 0, 0},
    {"the server may disconnect first", disconnect_first, expect_closed, NULL, 0, 0},
    {"both may disconnect at once", disconnect_when_both_are_ready, disconnect_when_both_are_ready,
     NULL, 0, 0},
    {"a deleted connection is closed for the client", delete_at_once, expect_closed, NULL, 0, 0},
    {"a deleted connection is closed for the server", expect_closed, delete_at_once, NULL, 0, 0},
    {"a client notices within a second that the server was killed", be_killed, kill_the_other, NULL,
     SIGKILL, 0},
    {"a server notices within a second that the client was killed", kill_the_other, be_killed, NULL,
     0, SIGKILL},
    {"the last unsignaled send arrives before the disconnect", receive_the_last_send,
     send_and_disconnect, NULL, 0, 0},
    {"descriptors tell of events and never block with O_NONBLOCK", serve_by_epoll,
     connect_for_epoll, NULL, 0, 0},
};

RIG_MAIN(tests)
