// SPDX-License-Identifier: BSD-3-Clause
// Objects that are opened, misused and closed without a peer.
#include <string.h>

#include "fi_transcript.h"

/// Upstream's layer for FI_EP_RDM breaks what it then does not close, and dies of an endpoint that
/// was never enabled: these are tried with FI_EP_MSG alone.
static void close_busy(struct world* world, const char* what, struct fid* object) {
    if (world->info->ep_attr->type == FI_EP_MSG) say_code(what, fi_close(object));
}

static void try_event_queues(struct world* world) {
    struct fid_eq* eq = NULL;
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE};
    struct fi_eq_entry entry = {.context = context_of(7), .data = 8};
    uint32_t event = 99;
    need("eq with FI_WRITE", fi_eq_open(world->fabric, &attr, &eq, NULL));
    say_code("eq read, empty", fi_eq_read(eq, &event, &entry, sizeof entry, 0));
    say_code("eq wait, empty", fi_eq_sread(eq, &event, &entry, sizeof entry, 1, 0));
    say_code("eq write", fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0));
    memset(&entry, 0, sizeof entry);
    say_code("eq peek", fi_eq_read(eq, &event, &entry, sizeof entry, FI_PEEK));
    say_code("eq read", fi_eq_read(eq, &event, &entry, sizeof entry, 0));
    say("eq entry", "%u %d %d", event, entry.context == context_of(7), (int)entry.data);
    say_code("eq read again", fi_eq_read(eq, &event, &entry, sizeof entry, 0));
    struct fi_eq_err_entry error;
    memset(&error, 0, sizeof error);
    say_code("eq read error, none", fi_eq_readerr(eq, &error, 0));
    close_busy(world, "close with an eq open", &world->fabric->fid);
    say_code("eq close", fi_close(&eq->fid));

    attr.flags = 0;
    need("eq without FI_WRITE", fi_eq_open(world->fabric, &attr, &eq, NULL));
    say_code("eq write, not allowed", fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0));
    say_code("eq close", fi_close(&eq->fid));
    attr.wait_obj = 77;
    say_code("eq with an unknown wait object", fi_eq_open(world->fabric, &attr, &eq, NULL));
    attr.wait_obj = FI_WAIT_UNSPEC;
    attr.flags = FI_MULTICAST;
    say_code("eq with unknown flags", fi_eq_open(world->fabric, &attr, &eq, NULL));
}

static void try_completion_queues(struct world* world) {
    struct fid_cq* cq = NULL;
    struct fi_cq_attr attr = {.size = 16};
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    for (attr.format = FI_CQ_FORMAT_UNSPEC; attr.format <= FI_CQ_FORMAT_TAGGED; ++attr.format) {
        say_code("cq of a format", fi_cq_open(world->domain, &attr, &cq, NULL));
        say_code("cq read, empty", fi_cq_read(cq, &entry, 1));
        say_code("cq read, progress alone", fi_cq_read(cq, NULL, 0));
        memset(&error, 0, sizeof error);
        say_code("cq read error, none", fi_cq_readerr(cq, &error, 0));
        close_busy(world, "close with a cq open", &world->domain->fid);
        say_code("cq close", fi_close(&cq->fid));
    }
    say_code("cq of an unknown format", fi_cq_open(world->domain, &attr, &cq, NULL));
    attr.format = FI_CQ_FORMAT_MSG;
    attr.wait_obj = 77;
    say_code("cq with an unknown wait object", fi_cq_open(world->domain, &attr, &cq, NULL));
    attr.wait_obj = FI_WAIT_SET;
    say_code("cq without its wait set", fi_cq_open(world->domain, &attr, &cq, NULL));
    attr.wait_obj = FI_WAIT_NONE;
    attr.flags = FI_MULTICAST;
    say_code("cq with unknown flags", fi_cq_open(world->domain, &attr, &cq, NULL));
    attr.flags = 0;
    attr.wait_obj = FI_WAIT_FD;
    need("cq with a descriptor", fi_cq_open(world->domain, &attr, &cq, NULL));
    int fd = -1;
    say_code("cq descriptor", fi_control(&cq->fid, FI_GETWAIT, &fd));
    say("cq descriptor", "%s", fd >= 0 ? "open" : "none");
    struct fid* fids[] = {&cq->fid};
    say_code("cq may be waited for", fi_trywait(world->fabric, fids, 1));
    say_code("cq wait, empty", fi_cq_sread(cq, &entry, 1, NULL, 1));
    say_code("cq signal", fi_cq_signal(cq));
    say_code("cq wait, signalled", fi_cq_sread(cq, &entry, 1, NULL, 10000));
    say_code("cq close", fi_close(&cq->fid));
}

static void try_counters(struct world* world) {
    struct fid_cntr* counter = NULL;
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
    say_code("counter", fi_cntr_open(world->domain, &attr, &counter, NULL));
    if (counter == NULL) return;
    say_code("counter add", fi_cntr_add(counter, 5));
    say("counter", "%d", (int)fi_cntr_read(counter));
    say_code("counter wait, reached", fi_cntr_wait(counter, 5, 1));
    say_code("counter wait, not reached", fi_cntr_wait(counter, 6, 1));
    say_code("counter set", fi_cntr_set(counter, 2));
    say_code("counter error add", fi_cntr_adderr(counter, 3));
    say("counter", "%d %d", (int)fi_cntr_read(counter), (int)fi_cntr_readerr(counter));
    say_code("counter wait, errors", fi_cntr_wait(counter, 6, 1));
    say_code("counter close", fi_close(&counter->fid));
    attr.wait_obj = 77;
    say_code("counter with an unknown wait object",
             fi_cntr_open(world->domain, &attr, &counter, NULL));
    attr.wait_obj = FI_WAIT_NONE;
    attr.flags = FI_MULTICAST;
    say_code("counter with unknown flags", fi_cntr_open(world->domain, &attr, &counter, NULL));
}

static void try_region(struct fid_domain* domain, const char* what, uint64_t access,
                       uint64_t flags) {
    static char memory[64];
    struct fid_mr* mr = NULL;
    say_code(what, fi_mr_reg(domain, memory, sizeof memory, access, 0, 9, flags, &mr, NULL));
    if (mr != NULL) need("region close", fi_close(&mr->fid));
}

static void try_regions(struct world* world) {
    static char memory[64];
    struct fid_mr* mr = NULL;
    struct fid_mr* other = NULL;
    struct fid_domain* const domain = world->domain;
    need("region", fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL));
    say("region key", "%d", (int)fi_mr_key(mr));
    say_code("region with the same key",
             fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 9, 0, &other, NULL));
    close_busy(world, "close with a region open", &domain->fid);
    say_code("region close", fi_close(&mr->fid));
    say_code("region with the key again",
             fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL));
    say_code("region close", fi_close(&mr->fid));
    try_region(domain, "region with unknown flags", FI_REMOTE_WRITE, FI_MULTICAST);
    try_region(domain, "region with an unknown right", FI_MULTICAST, 0);
}

static void try_endpoint(struct world* world) {
    struct side side;
    memset(&side, 0, sizeof side);
    open_queues(world, &side, "alone");
    need("endpoint", fi_endpoint(world->domain, world->info, &side.ep, NULL));
    struct fid* const ep = &side.ep->fid;
    say_code("enable without queues", fi_enable(side.ep));
    say_code("bind cq with unknown flags", fi_ep_bind(side.ep, &side.cq->fid, FI_MULTICAST));
    say_code("bind cq", fi_ep_bind(side.ep, &side.cq->fid, FI_TRANSMIT | FI_RECV));
    close_busy(world, "close with the endpoint open", &world->domain->fid);
    size_t length = sizeof(size_t);
    size_t value = 0;
    say_code("get an unknown option", fi_getopt(ep, FI_OPT_ENDPOINT, 9999, &value, &length));
    say_code("get an option of another level", fi_getopt(ep, 77, 0, &value, &length));
    say_code("set an unknown option", fi_setopt(ep, FI_OPT_ENDPOINT, 9999, &value, length));
    length = 1;
    say_code("get an option into too little",
             fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &length));
    say_code("close endpoint", fi_close(ep));
    side.ep = NULL;
    close_side(&side);
}

static void try_fabrics(struct world* world) {
    struct fid_fabric* fabric = NULL;
    struct fi_fabric_attr attr = *world->info->fabric_attr;
    struct fid* opened = NULL;
    attr.prov_name = (char*)(uintptr_t) "none-such";
    say_code("fabric of no provider", fi_fabric(&attr, &fabric, NULL));
    say_code("open what is not", fi_open(TRANSCRIPT_API, "none-such", NULL, 0, 0, &opened, NULL));
}

void make_objects(const char* provider, enum fi_ep_type type) {
    struct world world;
    memset(&world, 0, sizeof world);
    struct fi_info* const hints = make_hints(provider, type, FI_MSG | FI_RMA);
    need("info", fi_getinfo(TRANSCRIPT_API, "127.0.0.1", NULL, 0, hints, &world.info));
    need("fabric", fi_fabric(world.info->fabric_attr, &world.fabric, NULL));
    try_fabrics(&world);
    try_event_queues(&world);
    need("domain", fi_domain(world.fabric, world.info, &world.domain, NULL));
    close_busy(&world, "close with a domain open", &world.fabric->fid);
    try_completion_queues(&world);
    try_counters(&world);
    try_regions(&world);
    if (type == FI_EP_MSG) try_endpoint(&world);
    say_code("close domain", fi_close(&world.domain->fid));
    say_code("close fabric", fi_close(&world.fabric->fid));
    fi_freeinfo(world.info);
    fi_freeinfo(hints);
}
