// SPDX-License-Identifier: BSD-3-Clause
// The passive side of the smallest RDMA write: lends a peer a piece of memory and looks at it when
// the peer has gone. The peer is rpma_write_client.c.
//
//   rpma_write_server ADDRESS PORT      ADDRESS: one of this machine
//
// Exit status: 0 if what the peer wrote is what it was to write, 1 if anything failed.
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char expected[] = "hello from another process";

static char memory[4096];  // what the peer writes to
static char descriptor[64];

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

    // The device that owns the address, and an object for all that is made on it.
    struct ibv_context* device = NULL;
    must(rpma_utils_get_ibv_context(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &device),
         "rpma_utils_get_ibv_context");
    struct rpma_peer* peer = NULL;
    must(rpma_peer_new(device, &peer), "rpma_peer_new");

    // Peers may write to this memory, and ask whether their writes have arrived.
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, sizeof memory,
                     RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &region),
         "rpma_mr_reg");

    // Its descriptor is what a peer needs to reach it: address, length, key and rights.
    size_t size = 0;
    must(rpma_mr_get_descriptor_size(region, &size), "rpma_mr_get_descriptor_size");
    if (size > sizeof descriptor) return EXIT_FAILURE;
    must(rpma_mr_get_descriptor(region, descriptor), "rpma_mr_get_descriptor");

    // Wait for a request and accept it. The descriptor travels with the acceptance.
    struct rpma_ep* endpoint = NULL;
    must(rpma_ep_listen(peer, argv[1], argv[2], &endpoint), "rpma_ep_listen");
    printf("listening on %s:%s\n", argv[1], argv[2]);
    fflush(stdout);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(endpoint, NULL, &request), "rpma_ep_next_conn_req");
    const struct rpma_conn_private_data data = {descriptor, (uint8_t)size};
    struct rpma_conn* conn = NULL;
    must(rpma_conn_req_connect(&request, &data, &conn), "rpma_conn_req_connect");
    must_be(RPMA_CONN_ESTABLISHED, conn);

    // Nothing to do here while the peer writes: it needs no help of this program.
    must_be(RPMA_CONN_CLOSED, conn);
    must(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
    must(rpma_conn_delete(&conn), "rpma_conn_delete");

    must(rpma_ep_shutdown(&endpoint), "rpma_ep_shutdown");
    must(rpma_mr_dereg(&region), "rpma_mr_dereg");
    must(rpma_peer_delete(&peer), "rpma_peer_delete");

    if (memcmp(memory, expected, sizeof expected) != 0) {
        fprintf(stderr, "the memory does not hold what the peer was to write\n");
        return EXIT_FAILURE;
    }
    printf("a peer wrote into this process: %s\n", memory);
    return EXIT_SUCCESS;
}
