// SPDX-License-Identifier: BSD-3-Clause
// The same as rpma_overhead.c over libfabric: fi_write and fi_cq_read on FI_EP_MSG of "verbs".
// usage: fi_overhead COUNT ADDRESS
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fi_link.h"

enum { LENGTH = 8, MEMORY = 4096, QUEUE_SIZE = 64, EVENT_BYTES = 512, EVENT_MS = 20000 };

static const char* const kPort = "7211";

struct ends {
    struct fi_info* info;
    struct fid_fabric* fabric;
    struct fid_eq* eq;
    struct fid_domain* domain;
    struct fid_cq* cq;
    struct fid_mr* mr;
    struct fid_pep* pep;
    struct fid_ep* active;
    struct fid_ep* passive;
};

static struct fi_info* find(const char* address, uint64_t flags) {
    struct fi_info* hints = fi_allocinfo();
    CHECK(hints != NULL);
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup("verbs");
    struct fi_info* info = NULL;
    MUST(fi_getinfo(FI_VERSION(1, 17), address, kPort, flags, hints, &info));
    fi_freeinfo(hints);
    return info;
}

static struct fi_eq_cm_entry* event(const struct ends* ends, uint32_t wanted) {
    static _Alignas(16) char bytes[EVENT_BYTES];
    uint32_t type = 0;
    const ssize_t got = fi_eq_sread(ends->eq, &type, bytes, sizeof bytes, EVENT_MS, 0);
    if (got < 0) bench_fail(__FILE__, __LINE__, "no event %u: %zd", wanted, got);
    CHECK(type == wanted);
    return (struct fi_eq_cm_entry*)bytes;
}

static void open_ends(struct ends* ends, const char* address, void* memory) {
    ends->info = find(address, 0);
    struct fi_info* own = find(address, FI_SOURCE);
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {
        .size = QUEUE_SIZE, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
    MUST(fi_fabric(own->fabric_attr, &ends->fabric, NULL));
    MUST(fi_eq_open(ends->fabric, &eq_attr, &ends->eq, NULL));
    MUST(fi_domain(ends->fabric, ends->info, &ends->domain, NULL));
    MUST(fi_cq_open(ends->domain, &cq_attr, &ends->cq, NULL));
    MUST(fi_mr_reg(ends->domain, memory, MEMORY, FI_WRITE | FI_REMOTE_WRITE, 0, 0, 0, &ends->mr,
                   NULL));
    MUST(fi_passive_ep(ends->fabric, own, &ends->pep, NULL));
    MUST(fi_pep_bind(ends->pep, &ends->eq->fid, 0));
    MUST(fi_listen(ends->pep));
    fi_freeinfo(own);
}

static struct fid_ep* open_endpoint(const struct ends* ends, struct fi_info* info) {
    struct fid_ep* ep = NULL;
    MUST(fi_endpoint(ends->domain, info, &ep, NULL));
    MUST(fi_ep_bind(ep, &ends->eq->fid, 0));
    MUST(fi_ep_bind(ep, &ends->cq->fid, FI_TRANSMIT | FI_RECV));
    MUST(fi_enable(ep));
    return ep;
}

static void connect_ends(struct ends* ends) {
    ends->active = open_endpoint(ends, ends->info);
    MUST(fi_connect(ends->active, ends->info->dest_addr, NULL, 0));
    struct fi_info* request = event(ends, FI_CONNREQ)->info;
    ends->passive = open_endpoint(ends, request);
    MUST(fi_accept(ends->passive, NULL, 0));
    event(ends, FI_CONNECTED);
    event(ends, FI_CONNECTED);
    fi_freeinfo(request);
}

static void write_all(const struct ends* ends, char* memory, long count) {
    void* const descriptor = fi_mr_desc(ends->mr);
    const uint64_t key = fi_mr_key(ends->mr);
    const uint64_t remote = (uintptr_t)memory + MEMORY / 2;
    for (long i = 0; i < count; ++i) {
        MUST((int)fi_write(ends->active, memory, LENGTH, descriptor, 0, remote, key, NULL));
        struct fi_cq_entry entry;
        CHECK(fi_cq_read(ends->cq, &entry, 1) == 1);
    }
}

int main(int argc, char** argv) {
    CHECK(argc == 3);
    static _Alignas(4096) char memory[MEMORY];
    memory[0] = 42;
    struct ends ends = {0};
    open_ends(&ends, argv[2], memory);
    connect_ends(&ends);
    write_all(&ends, memory, atol(argv[1]));
    CHECK(memory[MEMORY / 2] == 42);
    return 0;
}
