// SPDX-License-Identifier: BSD-3-Clause
#include "fi_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, PORT_BYTES = 8, QUEUE_SIZE = 4096, EVENT_BYTES = 512 };
enum { EVENT_MS = 20000 };

static const char* const kAddress = "127.0.0.1";

static struct fi_info* find(const struct link* link, const char* port, uint64_t flags) {
    const struct link_options* options = link->options;
    struct fi_info* hints = fi_allocinfo();
    CHECK(hints != NULL);
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = 0;
    hints->ep_attr->type = options->type;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = options->threads ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->op_flags = options->deliver ? FI_DELIVERY_COMPLETE : 0;
    if (options->type == FI_EP_RDM) hints->domain_attr->av_type = FI_AV_TABLE;
    if (options->provider != NULL) hints->fabric_attr->prov_name = strdup(options->provider);
    // The provider for shared memory has names, not addresses.
    const bool addressed = options->provider == NULL || strcmp(options->provider, "shm") != 0;
    struct fi_info* info = NULL;
    const int found = fi_getinfo(FI_VERSION(1, 17), addressed ? kAddress : NULL,
                                 addressed ? port : NULL, addressed ? flags : 0, hints, &info);
    if (found == -FI_ENODATA || found == -FI_ENOSYS)
        bench_skip("no provider %s for this", options->provider != NULL ? options->provider : "");
    MUST(found);
    fi_freeinfo(hints);
    return info;
}

static struct fid_cq* open_queue(const struct link* link) {
    struct fi_cq_attr attr = {
        .size = QUEUE_SIZE, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
    struct fid_cq* cq = NULL;
    MUST(fi_cq_open(link->domain, &attr, &cq, NULL));
    return cq;
}

static void open_lanes(struct link* link) {
    link->lanes = calloc(link->options->lanes, sizeof *link->lanes);
    CHECK(link->lanes != NULL);
    struct fid_cq* shared = link->options->threads ? NULL : open_queue(link);
    for (size_t i = 0; i < link->options->lanes; ++i)
        link->lanes[i].cq = shared != NULL ? shared : open_queue(link);
}

static void open_endpoint(struct link* link, struct link_lane* lane, struct fi_info* info) {
    MUST(fi_endpoint(link->domain, info, &lane->ep, NULL));
    if (link->options->type == FI_EP_MSG)
        MUST(fi_ep_bind(lane->ep, &link->eq->fid, 0));
    else
        MUST(fi_ep_bind(lane->ep, &link->av->fid, 0));
    MUST(fi_ep_bind(lane->ep, &lane->cq->fid, FI_TRANSMIT | FI_RECV));
    MUST(fi_enable(lane->ep));
}

// --- FI_EP_MSG

static _Alignas(16) char g_event[EVENT_BYTES];

static struct fi_eq_cm_entry* event(struct link* link, uint32_t wanted) {
    uint32_t type = 0;
    const ssize_t got = fi_eq_sread(link->eq, &type, g_event, sizeof g_event, EVENT_MS, 0);
    if (got < 0) bench_fail(__FILE__, __LINE__, "no event %u: %zd", wanted, got);
    CHECK(type == wanted);
    return (struct fi_eq_cm_entry*)g_event;
}

static void listen_here(struct link* link) {
    MUST(fi_passive_ep(link->fabric, link->info, &link->pep, NULL));
    MUST(fi_pep_bind(link->pep, &link->eq->fid, 0));
    MUST(fi_listen(link->pep));
    struct sockaddr_in address;
    size_t length = sizeof address;
    MUST(fi_getname(&link->pep->fid, &address, &length));
    char port[PORT_BYTES] = {0};
    snprintf(port, sizeof port, "%d", ntohs(address.sin_port));
    bench_say(link->side, port, sizeof port);
}

static void connect_lanes(struct link* link) {
    struct fi_info* info = NULL;
    if (link->side->target) {
        listen_here(link);
    } else {
        char port[PORT_BYTES];
        bench_hear(link->side, port, sizeof port);
        info = find(link, port, 0);
    }
    for (size_t i = 0; i < link->options->lanes; ++i) {
        struct link_lane* lane = &link->lanes[i];
        if (link->side->target) {
            struct fi_info* request = event(link, FI_CONNREQ)->info;
            open_endpoint(link, lane, request);
            MUST(fi_accept(lane->ep, NULL, 0));
            fi_freeinfo(request);
        } else {
            open_endpoint(link, lane, info);
            MUST(fi_connect(lane->ep, info->dest_addr, NULL, 0));
        }
        event(link, FI_CONNECTED);
        bench_meet(link->side);
    }
    fi_freeinfo(info);
}

// --- FI_EP_RDM

static void introduce_lanes(struct link* link) {
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .count = link->options->lanes};
    MUST(fi_av_open(link->domain, &attr, &link->av, NULL));
    for (size_t i = 0; i < link->options->lanes; ++i) {
        struct link_lane* lane = &link->lanes[i];
        open_endpoint(link, lane, link->info);
        char name[NAME_BYTES] = {0};
        size_t length = sizeof name;
        MUST(fi_getname(&lane->ep->fid, name, &length));
        bench_say(link->side, name, sizeof name);
        bench_hear(link->side, name, sizeof name);
        CHECK(fi_av_insert(link->av, name, 1, &lane->peer, 0, NULL) == 1);
    }
}

void link_open(struct link* link, struct bench_side* side, const struct link_options* options) {
    *link = (struct link){.side = side, .options = options};
    link->info = find(link, NULL, side->target || options->type == FI_EP_RDM ? FI_SOURCE : 0);
    MUST(fi_fabric(link->info->fabric_attr, &link->fabric, NULL));
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    if (options->type == FI_EP_MSG) MUST(fi_eq_open(link->fabric, &attr, &link->eq, NULL));
    MUST(fi_domain(link->fabric, link->info, &link->domain, NULL));
    open_lanes(link);
    if (options->type == FI_EP_MSG)
        connect_lanes(link);
    else
        introduce_lanes(link);
}

// --- regions and completions

struct fid_mr* link_register(struct link* link, void* at, size_t size, uint64_t key) {
    struct fid_mr* mr = NULL;
    const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    MUST(fi_mr_reg(link->domain, at, size, access, 0, key, 0, &mr, NULL));
    return mr;
}

struct link_remote link_describe(struct link* link, struct fid_mr* mr, const void* at) {
    const bool by_address = (link->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    return (struct link_remote){.address = by_address ? (uintptr_t)at : 0, .key = fi_mr_key(mr)};
}

static _Noreturn void report(struct fid_cq* cq) {
    struct fi_cq_err_entry error = {0};
    fi_cq_readerr(cq, &error, 0);
    bench_fail(__FILE__, __LINE__, "an operation failed: %d (%s)", error.err,
               fi_strerror(error.err));
}

void link_reap(struct link* link, struct link_lane* lane) {
    (void)link;
    struct fi_cq_data_entry entries[LINK_ENTRIES];
    const ssize_t count = fi_cq_read(lane->cq, entries, LINK_ENTRIES);
    if (count == -FI_EAGAIN) return;
    if (count < 0) report(lane->cq);
    for (ssize_t i = 0; i < count; ++i)
        if ((entries[i].flags & FI_REMOTE_CQ_DATA) != 0)
            ++lane->arrived;
        else
            ++lane->completed;
    lane->patience.since = 0;
}

void link_await(struct link* link, struct link_lane* lane) {
    link_reap(link, lane);
    bench_wait_on(&lane->patience, link->size);
}
