// SPDX-License-Identifier: BSD-3-Clause
// Two processes connected by libfabric, whoever provides it: nothing here knows this project.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>

#include "bench.h"

enum { LINK_MAX_LANES = 1024, LINK_ENTRIES = 16 };

struct link_options {
    enum fi_ep_type type;  // FI_EP_MSG or FI_EP_RDM
    const char* provider;
    bool deliver;  // completions mean FI_DELIVERY_COMPLETE
    bool threads;  // each lane has a thread and a completion queue of its own
    size_t lanes;  // endpoints on each side, each with its counterpart
};

// What one side knows of a region of the other.
struct link_remote {
    uint64_t address;
    uint64_t key;
};

struct link_lane {
    struct fid_ep* ep;
    struct fid_cq* cq;
    fi_addr_t peer;
    // Taken from the queue so far. With a queue for all lanes only those of lane 0 count.
    uint64_t completed;
    uint64_t arrived;  // writes with data of the other side
    struct bench_patience patience;
};

struct link {
    struct bench_side* side;
    const struct link_options* options;
    struct fi_info* info;
    struct fid_fabric* fabric;
    struct fid_eq* eq;
    struct fid_domain* domain;
    struct fid_pep* pep;
    struct fid_av* av;
    struct link_lane* lanes;
    size_t size;  // of the operations under way, for the report of a stall
};

#define MUST(call)                                                       \
    do {                                                                 \
        const long code_ = (long)(call);                                 \
        if (code_ != 0)                                                  \
            bench_fail(__FILE__, __LINE__, "%s: %ld (%s)", #call, code_, \
                       fi_strerror((int)-code_));                        \
    } while (0)

// Ends the process with BENCH_SKIPPED when there is no such provider.
void link_open(struct link* link, struct bench_side* side, const struct link_options* options);

struct fid_mr* link_register(struct link* link, void* at, size_t size, uint64_t key);
struct link_remote link_describe(struct link* link, struct fid_mr* mr, const void* at);

// Takes what is in the lane's queue, and makes progress.
void link_reap(struct link* link, struct link_lane* lane);
// The same, and gives up when nothing comes for too long.
void link_await(struct link* link, struct link_lane* lane);
