// SPDX-License-Identifier: BSD-3-Clause
// usage: transcript msg|rdm
#include "fi_transcript.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kPatienceMs = 10000, kQuietMs = 200 };

void say(const char* what, const char* format, ...) {
    va_list arguments;
    printf("%s: ", what);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void say_code(const char* what, ssize_t code) {
    say(what, "%zd", code);
}

void need(const char* what, ssize_t code) {
    if (code == 0) return;
    say(what, "%zd, which ends it", code);
    exit(1);
}

struct fi_info* make_hints(const char* provider, enum fi_ep_type type, uint64_t caps) {
    struct fi_info* const hints = fi_allocinfo();
    if (hints == NULL) exit(1);
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = type;
    hints->caps = caps;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_SCALABLE;
    return hints;
}

void open_queues(struct world* world, struct side* side, const char* name) {
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 128};
    side->name = name;
    side->peer = FI_ADDR_UNSPEC;
    need("eq", fi_eq_open(world->fabric, &eq_attr, &side->eq, NULL));
    need("cq", fi_cq_open(world->domain, &cq_attr, &side->cq, NULL));
}

void open_region(struct world* world, struct side* side, uint64_t key, uint64_t access) {
    need("region", fi_mr_reg(world->domain, side->memory, sizeof side->memory, access, 0, key, 0,
                             &side->mr, NULL));
}

void close_side(struct side* side) {
    if (side->ep != NULL) say_code("close endpoint", fi_close(&side->ep->fid));
    if (side->mr != NULL) say_code("close region", fi_close(&side->mr->fid));
    if (side->av != NULL) say_code("close addresses", fi_close(&side->av->fid));
    if (side->cq != NULL) say_code("close completion queue", fi_close(&side->cq->fid));
    if (side->eq != NULL) say_code("close event queue", fi_close(&side->eq->fid));
}

uint64_t remote_address(const struct world* world, const struct side* side, size_t offset) {
    const bool virtual = (world->info->domain_attr->mr_mode & FI_MR_BASIC) != 0 ||
                         (world->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    return (virtual ? (uintptr_t)side->memory : 0) + offset;
}

void* context_of(unsigned number) {
    static char numbers[256];
    return &numbers[number];
}

static long number_of(const void* context) {
    return context == NULL ? -1 : (long)((const char*)context - (const char*)context_of(0));
}

static long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void progress(struct side* side) {
    uint32_t event;
    char unused;
    if (side->cq != NULL) (void)fi_cq_read(side->cq, NULL, 0);
    if (side->eq != NULL) (void)fi_eq_read(side->eq, &event, &unused, 0, FI_PEEK);
}

bool to_be_tried_again(struct world* world, ssize_t code) {
    progress(&world->active);
    progress(&world->passive);
    return code == -FI_EAGAIN;
}

/// The result of the first read that finds something.
static ssize_t next_entry(struct world* world, struct side* side, struct fi_cq_tagged_entry* entry,
                          long patience) {
    const long until = now_ms() + patience;
    struct side* const other = side == &world->active ? &world->passive : &world->active;
    ssize_t rc;
    do {
        progress(other);
        rc = fi_cq_read(side->cq, entry, 1);
    } while (rc == -FI_EAGAIN && now_ms() < until);
    return rc;
}

static void say_error(struct side* side, const char* what) {
    struct fi_cq_err_entry error;
    memset(&error, 0, sizeof error);
    const ssize_t rc = fi_cq_readerr(side->cq, &error, 0);
    say(what, "%s: %zd error %d of %ld, flags %" PRIx64 ", olen %zu", side->name, rc, error.err,
        number_of(error.op_context), error.flags, error.olen);
}

void say_completion(struct world* world, struct side* side, const char* what) {
    struct fi_cq_tagged_entry entry;
    memset(&entry, 0, sizeof entry);
    const ssize_t rc = next_entry(world, side, &entry, kPatienceMs);
    if (rc == -FI_EAVAIL) {
        say_error(side, what);
        return;
    }
    if (rc != 1) {
        say(what, "%s: %zd", side->name, rc);
        return;
    }
    // fi_cq(3): what else there is in an entry of the sending side is nobody's business
    const bool arrived = (entry.flags & (FI_RECV | FI_REMOTE_WRITE)) != 0;
    const bool has_data = (entry.flags & FI_REMOTE_CQ_DATA) != 0;
    say(what, "%s: done %ld, flags %" PRIx64 ", length %zu, data %" PRIx64 ", tag %" PRIx64,
        side->name, number_of(entry.op_context), entry.flags, arrived ? entry.len : 0,
        has_data ? entry.data : 0, arrived && (entry.flags & FI_TAGGED) != 0 ? entry.tag : 0);
}

void say_quiet(struct world* world, struct side* side, const char* what) {
    struct fi_cq_tagged_entry entry;
    const ssize_t rc = next_entry(world, side, &entry, kQuietMs);
    say(what, "%s: %s", side->name, rc == -FI_EAGAIN ? "nothing" : "something");
}

struct fi_info* say_event(struct world* world, struct side* side, const char* what,
                          const struct fid* from) {
    const long until = now_ms() + kPatienceMs;
    struct side* const other = side == &world->active ? &world->passive : &world->active;
    union {
        struct fi_eq_cm_entry cm;
        char bytes[512];
    } read;
    uint32_t event = 99;
    ssize_t rc;
    memset(&read, 0, sizeof read);
    do {
        progress(other);
        (void)fi_cq_read(side->cq, NULL, 0);
        rc = fi_eq_read(side->eq, &event, &read, sizeof read, 0);
    } while (rc == -FI_EAGAIN && now_ms() < until);
    if (rc == -FI_EAVAIL) {
        struct fi_eq_err_entry error;
        memset(&error, 0, sizeof error);
        rc = fi_eq_readerr(side->eq, &error, 0);
        say(what, "%s: %zd error %d, %s, data \"%.*s\"", side->name, rc, error.err,
            error.fid == from ? "of this" : "of another", (int)error.err_data_size,
            error.err_data != NULL ? (const char*)error.err_data : "");
        return NULL;
    }
    const ssize_t extra = rc - (ssize_t)sizeof read.cm;
    say(what, "%s: event %u, %s, data \"%.*s\"", side->name, event,
        read.cm.fid == from ? "of this" : "of another", extra > 0 ? (int)extra : 0,
        (const char*)read.bytes + sizeof read.cm);
    return event == FI_CONNREQ ? read.cm.info : NULL;
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const bool connected = strcmp(argv[1], "msg") == 0;
    const char* const provider = connected ? "tcp" : "tcp;ofi_rxm";
    const enum fi_ep_type type = connected ? FI_EP_MSG : FI_EP_RDM;
    discover(provider, type);
    make_objects(provider, type);
    if (connected)
        converse_connected(provider);
    else
        converse_unconnected(provider);
    say("end", "reached");
    return 0;
}
