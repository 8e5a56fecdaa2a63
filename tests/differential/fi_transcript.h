// SPDX-License-Identifier: BSD-3-Clause
// A program that says what a libfabric does, one line for each thing it tried: "case: outcome".
// It is compiled against two sets of headers and run on two libraries; the lines must agree.
// Nothing in a line depends on addresses, time or order among independent events.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { kRegionBytes = 4096, kInjectBytes = 64 };
#define TRANSCRIPT_API FI_VERSION(1, 17)

void say(const char* what, const char* format, ...) __attribute__((format(printf, 2, 3)));
/// "case: 0" or "case: -22"
void say_code(const char* what, ssize_t code);
/// Ends the program: what comes next would mean nothing.
void need(const char* what, ssize_t code);

/// Hints for a provider and an endpoint type, for the caller to change.
struct fi_info* make_hints(const char* provider, enum fi_ep_type type, uint64_t caps);

/// A side of the conversation. Both are in this process: what is not progressed by a thread of the
/// library is progressed by whoever waits here.
struct side {
    const char* name;
    struct fid_eq* eq;
    struct fid_cq* cq;
    struct fid_ep* ep;
    struct fid_av* av;
    struct fid_mr* mr;
    fi_addr_t peer;
    char memory[kRegionBytes];
};
struct world {
    struct fi_info* info;
    struct fid_fabric* fabric;
    struct fid_domain* domain;
    struct side active;
    struct side passive;
};
void open_queues(struct world* world, struct side* side, const char* name);
void open_region(struct world* world, struct side* side, uint64_t key, uint64_t access);
void close_side(struct side* side);
uint64_t remote_address(const struct world* world, const struct side* side, size_t offset);

/// Whether a post was refused for now, because a connection is still being made.
bool to_be_tried_again(struct world* world, ssize_t code);

/// The context of an operation whose number a completion's line shows.
void* context_of(unsigned number);
/// Says what completes next at this side: entry, error or nothing.
void say_completion(struct world* world, struct side* side, const char* what);
/// Nothing completes there although the other side is done.
void say_quiet(struct world* world, struct side* side, const char* what);
/// Says the next event of the side's queue. Returns what was connected or asks for it.
struct fi_info* say_event(struct world* world, struct side* side, const char* what,
                          const struct fid* from);

void discover(const char* provider, enum fi_ep_type type);
void make_objects(const char* provider, enum fi_ep_type type);
void converse_connected(const char* provider);
void converse_unconnected(const char* provider);
/// The transfers that both kinds of endpoints offer.
void transfer_messages(struct world* world);
void transfer_memory(struct world* world);
