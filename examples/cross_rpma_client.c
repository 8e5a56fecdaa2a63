// SPDX-License-Identifier: BSD-3-Clause
// A program that uses librpma writes into the memory of one that uses libfabric. The peer is
// cross_fi_server.c; docs/cross-api.md says what they agree on.
//
//   cross_rpma_client ADDRESS PORT      where the server listens
//
// Exit status: 0 if the bytes have arrived, 1 if anything failed.
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>

static char text[] = "hello from another process";

static void must(int result, const char* call) {
    if (result == 0) return;
    fprintf(stderr, "%s: %s\n", call, rpma_err_2str(result));
    exit(EXIT_FAILURE);
}

static void must_be(enum rpma_conn_event wanted, struct rpma_conn* conn) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
    if (event == wanted) return;
    fprintf(stderr, "%s, not: %s\n", rpma_utils_conn_event_2str(event),
            rpma_utils_conn_event_2str(wanted));
    exit(EXIT_FAILURE);
}

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s ADDRESS PORT\n", argv[0]);
        return EXIT_FAILURE;
    }

    // The device by which the address is reached, and an object for all that is made on it.
    struct ibv_context* device = NULL;
    must(rpma_utils_get_ibv_context(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &device),
         "rpma_utils_get_ibv_context");
    struct rpma_peer* peer = NULL;
    must(rpma_peer_new(device, &peer), "rpma_peer_new");

    // The memory whose bytes go over.
    struct rpma_mr_local* source = NULL;
    must(rpma_mr_reg(peer, text, sizeof text, RPMA_MR_USAGE_WRITE_SRC, &source), "rpma_mr_reg");

    struct rpma_conn_req* request = NULL;
    must(rpma_conn_req_new(peer, argv[1], argv[2], NULL, &request), "rpma_conn_req_new");
    struct rpma_conn* conn = NULL;
    must(rpma_conn_req_connect(&request, NULL, &conn), "rpma_conn_req_connect");
    must_be(RPMA_CONN_ESTABLISHED, conn);

    // With its acceptance the server has sent the descriptor of its memory. libfabric puts the
    // length of private data in front of them, one byte; what is behind them may be padding.
    struct rpma_conn_private_data data = {NULL, 0};
    must(rpma_conn_get_private_data(conn, &data), "rpma_conn_get_private_data");
    const unsigned char* bytes = data.ptr;
    if (data.len < 1 || bytes[0] > data.len - 1) {
        fprintf(stderr, "the server sent no descriptor\n");
        return EXIT_FAILURE;
    }
    struct rpma_mr_remote* target = NULL;
    must(rpma_mr_remote_from_descriptor(bytes + 1, bytes[0], &target),
         "rpma_mr_remote_from_descriptor");

    // A write without a completion of its own, unless it fails; the flush behind it completes when
    // the bytes are where the server's program sees them.
    must(rpma_write(conn, target, 0, source, 0, sizeof text, RPMA_F_COMPLETION_ON_ERROR, NULL),
         "rpma_write");
    must(rpma_flush(conn, target, 0, sizeof text, RPMA_FLUSH_TYPE_VISIBILITY,
                    RPMA_F_COMPLETION_ALWAYS, text),
         "rpma_flush");

    // Sleep until there is a completion, and take it. It carries the last argument of its call.
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
    must(rpma_cq_wait(cq), "rpma_cq_wait");
    struct ibv_wc completion;
    must(rpma_cq_get_wc(cq, 1, &completion, NULL), "rpma_cq_get_wc");
    if (completion.status != IBV_WC_SUCCESS || completion.wr_id != (uintptr_t)text) {
        fprintf(stderr, "the write failed: %s\n", ibv_wc_status_str(completion.status));
        return EXIT_FAILURE;
    }
    printf("wrote %zu bytes into the memory of another process\n", sizeof text);

    must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
    must_be(RPMA_CONN_CLOSED, conn);
    must(rpma_mr_remote_delete(&target), "rpma_mr_remote_delete");
    must(rpma_conn_delete(&conn), "rpma_conn_delete");
    must(rpma_mr_dereg(&source), "rpma_mr_dereg");
    must(rpma_peer_delete(&peer), "rpma_peer_delete");
    return EXIT_SUCCESS;
}
