// SPDX-License-Identifier: BSD-3-Clause
// Does a known number of operations of each kind between two threads, says how many, and waits for
// its standard input to end: somebody looks at its statistics meanwhile.
//
//   counted [close|fork|idle]    close: all descriptors first, as daemons do; fork: in a child as
//                                well; idle: makes its queues and posts nothing
#include <librpma.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kWrites = 37, kWriteBytes = 100, kSends = 5, kSendBytes = 64, kFlushed = 2, kMemory = 4096 };

static char port[8];
static pthread_barrier_t listening;

static void must(int result, const char* call) {
    if (result == 0) return;
    fprintf(stderr, "%s: %s\n", call, rpma_err_2str(result));
    exit(1);
}

static void must_be(enum rpma_conn_event wanted, struct rpma_conn* conn) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
    if (event == wanted) return;
    fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
    exit(1);
}

/// The next completion, whatever its status.
static enum ibv_wc_status next_status(struct rpma_conn* conn) {
    struct rpma_cq* cq = NULL;
    struct ibv_wc completion;
    must(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
    must(rpma_cq_wait(cq), "rpma_cq_wait");
    must(rpma_cq_get_wc(cq, 1, &completion, NULL), "rpma_cq_get_wc");
    return completion.status;
}

static struct rpma_peer* new_peer(void) {
    struct ibv_context* device = NULL;
    struct rpma_peer* peer = NULL;
    must(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &device), "device");
    must(rpma_peer_new(device, &peer), "rpma_peer_new");
    return peer;
}

static void listen_somewhere(struct rpma_peer* peer, struct rpma_ep** ep) {
    for (int try = 0; try < 50; ++try) {
        snprintf(port, sizeof port, "%d", 20000 + (getpid() + try * 131) % 12000);
        if (rpma_ep_listen(peer, "127.0.0.1", port, ep) == 0) return;
    }
    exit(1);
}

static void* serve(void* unused) {
    static char memory[kMemory];
    static char inbox[kSends * kSendBytes];
    struct rpma_peer* peer = new_peer();
    struct rpma_mr_local* target = NULL;
    struct rpma_mr_local* messages = NULL;
    must(rpma_mr_reg(
             peer, memory, sizeof memory,
             RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
             &target),
         "rpma_mr_reg");
    must(rpma_mr_reg(peer, inbox, sizeof inbox, RPMA_MR_USAGE_RECV, &messages), "rpma_mr_reg");
    char descriptor[64];
    size_t size = 0;
    must(rpma_mr_get_descriptor_size(target, &size), "rpma_mr_get_descriptor_size");
    must(rpma_mr_get_descriptor(target, descriptor), "rpma_mr_get_descriptor");
    struct rpma_ep* ep = NULL;
    listen_somewhere(peer, &ep);
    pthread_barrier_wait(&listening);

    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request), "rpma_ep_next_conn_req");
    for (int at = 0; at < kSends; ++at)
        must(rpma_conn_req_recv(request, messages, (size_t)at * kSendBytes, kSendBytes, NULL),
             "rpma_conn_req_recv");
    const struct rpma_conn_private_data data = {descriptor, (uint8_t)size};
    must(rpma_conn_req_connect(&request, &data, &conn), "rpma_conn_req_connect");
    must_be(RPMA_CONN_ESTABLISHED, conn);
    for (int at = 0; at < kSends; ++at)
        if (next_status(conn) != IBV_WC_SUCCESS) exit(1);
    must_be(RPMA_CONN_CLOSED, conn);
    must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
    must(rpma_conn_delete(&conn), "rpma_conn_delete");
    must(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
    must(rpma_mr_dereg(&messages), "rpma_mr_dereg");
    must(rpma_mr_dereg(&target), "rpma_mr_dereg");
    must(rpma_peer_delete(&peer), "rpma_peer_delete");
    return unused;
}

static void expect(int wanted, struct rpma_conn* conn) {
    const enum ibv_wc_status status = next_status(conn);
    if ((int)status == wanted) return;
    fprintf(stderr, "%s\n", ibv_wc_status_str(status));
    exit(1);
}

static void work(struct rpma_conn* conn, struct rpma_mr_local* mr, struct rpma_mr_remote* target) {
    const int flags = RPMA_F_COMPLETION_ALWAYS;
    for (int at = 0; at < kWrites; ++at) {
        must(rpma_write(conn, target, 0, mr, 0, kWriteBytes, flags, NULL), "rpma_write");
        expect(IBV_WC_SUCCESS, conn);
    }
    for (int at = 0; at < kSends; ++at) {
        must(rpma_send(conn, mr, 0, kSendBytes, flags, NULL), "rpma_send");
        expect(IBV_WC_SUCCESS, conn);
    }
    must(rpma_read(conn, mr, 0, target, 0, 8, flags, NULL), "rpma_read");
    expect(IBV_WC_SUCCESS, conn);
    must(rpma_flush(conn, target, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, NULL), "rpma_flush");
    expect(IBV_WC_SUCCESS, conn);
    // beyond the region, and what comes after that
    must(rpma_write(conn, target, kMemory, mr, 0, 1, flags, NULL), "rpma_write");
    expect(IBV_WC_REM_ACCESS_ERR, conn);
    for (int at = 0; at < kFlushed; ++at) {
        must(rpma_write(conn, target, 0, mr, 0, 1, flags, NULL), "rpma_write");
        expect(IBV_WC_WR_FLUSH_ERR, conn);
    }
}

static void be_client(void) {
    static char memory[kMemory];
    struct rpma_peer* peer = new_peer();
    struct rpma_mr_local* mr = NULL;
    must(rpma_mr_reg(peer, memory, sizeof memory,
                     RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND, &mr),
         "rpma_mr_reg");
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    must(rpma_conn_req_new(peer, "127.0.0.1", port, NULL, &request), "rpma_conn_req_new");
    must(rpma_conn_req_connect(&request, NULL, &conn), "rpma_conn_req_connect");
    must_be(RPMA_CONN_ESTABLISHED, conn);
    struct rpma_conn_private_data data = {NULL, 0};
    struct rpma_mr_remote* target = NULL;
    must(rpma_conn_get_private_data(conn, &data), "rpma_conn_get_private_data");
    must(rpma_mr_remote_from_descriptor(data.ptr, data.len, &target), "descriptor");
    work(conn, mr, target);
    must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
    must_be(RPMA_CONN_CLOSED, conn);
    must(rpma_mr_remote_delete(&target), "rpma_mr_remote_delete");
    must(rpma_conn_delete(&conn), "rpma_conn_delete");
    must(rpma_mr_dereg(&mr), "rpma_mr_dereg");
    must(rpma_peer_delete(&peer), "rpma_peer_delete");
}

static void be_idle(void) {
    struct rpma_peer* peer = new_peer();
    struct rpma_conn_req* request = NULL;
    must(rpma_conn_req_new(peer, "127.0.0.1", "1", NULL, &request), "rpma_conn_req_new");
    must(rpma_conn_req_delete(&request), "rpma_conn_req_delete");
    must(rpma_peer_delete(&peer), "rpma_peer_delete");
}

static void print_expected(void) {
    printf(
        "{\"process\": %d, \"sends\": %d, \"writes\": %d, \"reads\": 1, \"atomics\": 0, "
        "\"flushes\": 1, \"receives\": %d, \"send_bytes\": %d, \"write_bytes\": %d, "
        "\"read_bytes\": 8, \"atomic_bytes\": 0, \"flush_bytes\": 8, \"receive_bytes\": %d, "
        "\"queue_full\": 0, \"not_connected\": 0, \"peer_busy\": 0, \"receiver_not_ready\": 0, "
        "\"completions\": %d, \"errors\": 1, \"flushed\": %d}\n",
        getpid(), kSends, kWrites + 1 + kFlushed, kSends, kSends * kSendBytes,
        kWrites * kWriteBytes + 1 + kFlushed, kSends * kSendBytes, kWrites + 2 * kSends + 2,
        kFlushed);
    fflush(stdout);
}

static void wait_for_end_of_input(void) {
    while (getchar() != EOF) {
    }
}

int main(int argc, char** argv) {
    const char* const how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "idle") == 0) {
        be_idle();
        return 0;
    }
    pthread_t server;
    pthread_barrier_init(&listening, NULL, 2);
    if (pthread_create(&server, NULL, serve, NULL) != 0) return 1;
    pthread_barrier_wait(&listening);
    be_client();
    pthread_join(server, NULL);
    if (strcmp(how, "close") == 0)
        for (int fd = 3; fd < 1024; ++fd) close(fd);
    if (strcmp(how, "fork") == 0 && fork() != 0) {
        wait_for_end_of_input();
        return 0;
    }
    print_expected();
    wait_for_end_of_input();
    return 0;
}
