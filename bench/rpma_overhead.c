// SPDX-License-Identifier: BSD-3-Clause
// 8-byte writes over librpma, each with its completion, both ends of the connection in one process
// and one thread: for counting instructions on a device that costs none (bench/overhead).
// usage: rpma_overhead COUNT ADDRESS
#include <librpma.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench.h"

enum { LENGTH = 8, MEMORY = 4096, DESCRIPTOR = 64 };

#define MUST(call) CHECK((call) == 0)

static const char* const kPort = "7210";

struct ends {
    const char* address;
    struct rpma_peer* peer;
    struct rpma_mr_local* local;
    struct rpma_mr_remote* remote;
    struct rpma_ep* ep;
    struct rpma_conn* active;
    struct rpma_conn* passive;
};

static void open_ends(struct ends* ends, void* memory) {
    struct ibv_context* context = NULL;
    MUST(rpma_utils_get_ibv_context(ends->address, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
    MUST(rpma_peer_new(context, &ends->peer));
    MUST(rpma_mr_reg(ends->peer, memory, MEMORY, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST,
                     &ends->local));
    char descriptor[DESCRIPTOR];
    size_t length = 0;
    MUST(rpma_mr_get_descriptor_size(ends->local, &length));
    MUST(rpma_mr_get_descriptor(ends->local, descriptor));
    MUST(rpma_mr_remote_from_descriptor(descriptor, length, &ends->remote));
    MUST(rpma_ep_listen(ends->peer, ends->address, kPort, &ends->ep));
}

static void connect_ends(struct ends* ends) {
    struct rpma_conn_req* request = NULL;
    MUST(rpma_conn_req_new(ends->peer, ends->address, kPort, NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &ends->active));
    MUST(rpma_ep_next_conn_req(ends->ep, NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &ends->passive));
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    MUST(rpma_conn_next_event(ends->active, &event));
    CHECK(event == RPMA_CONN_ESTABLISHED);
    MUST(rpma_conn_next_event(ends->passive, &event));
    CHECK(event == RPMA_CONN_ESTABLISHED);
}

static void write_all(const struct ends* ends, long count) {
    struct rpma_cq* cq = NULL;
    MUST(rpma_conn_get_cq(ends->active, &cq));
    for (long i = 0; i < count; ++i) {
        MUST(rpma_write(ends->active, ends->remote, MEMORY / 2, ends->local, 0, LENGTH,
                        RPMA_F_COMPLETION_ALWAYS, NULL));
        struct ibv_wc wc;
        MUST(rpma_cq_get_wc(cq, 1, &wc, NULL));
        CHECK(wc.status == IBV_WC_SUCCESS);
    }
}

int main(int argc, char** argv) {
    CHECK(argc == 3);
    static _Alignas(4096) char memory[MEMORY];
    memory[0] = 42;
    struct ends ends = {.address = argv[2]};
    open_ends(&ends, memory);
    connect_ends(&ends);
    write_all(&ends, atol(argv[1]));
    CHECK(memory[MEMORY / 2] == 42);
    return 0;
}
