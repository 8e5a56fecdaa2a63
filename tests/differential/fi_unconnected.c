// SPDX-License-Identifier: BSD-3-Clause
// Endpoints without connections: addresses, tags, and the transfers of connected ones.
#include <string.h>

#include "fi_transcript.h"

static void open_endpoint(struct world* world, struct side* side) {
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .count = 8};
    need("addresses", fi_av_open(world->domain, &attr, &side->av, NULL));
    need("endpoint", fi_endpoint(world->domain, world->info, &side->ep, NULL));
    need("bind cq", fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    say_code("enable without addresses", fi_enable(side->ep));
    need("bind addresses", fi_ep_bind(side->ep, &side->av->fid, 0));
    need("enable", fi_enable(side->ep));
}

static void learn(struct side* side, const struct side* other) {
    char name[128];
    char again[128];
    size_t length = sizeof name;
    size_t again_length = sizeof again;
    fi_addr_t number = FI_ADDR_UNSPEC;
    need("name", fi_getname(&other->ep->fid, name, &length));
    say("name", "%zu bytes", length);
    say("insert", "%d", fi_av_insert(side->av, name, 1, &number, 0, NULL));
    say("insert", "as %d", (int)number);
    side->peer = number;
    say_code("look up", fi_av_lookup(side->av, number, again, &again_length));
    say("look up", "%zu bytes, %s", again_length,
        memcmp(name, again, length) == 0 ? "the same" : "other");
    again_length = 1;
    say_code("look up into too little", fi_av_lookup(side->av, number, again, &again_length));
    say("look up into too little", "%zu", again_length);
    say("insert again", "%d", fi_av_insert(side->av, name, 1, &number, 0, NULL));
    say("insert again", "as %d", (int)number);
    say_code("bind an address vector when enabled", fi_ep_bind(side->ep, &side->av->fid, 0));
}

/// How often the first message is refused is nobody's business.
static void meet(struct world* world) {
    struct side* const active = &world->active;
    ssize_t code;
    need("receive", fi_recv(world->passive.ep, world->passive.memory, 64, NULL, world->passive.peer,
                            context_of(20)));
    do code = fi_send(active->ep, active->memory, 1, NULL, active->peer, context_of(21));
    while (to_be_tried_again(world, code));
    say_code("first send", code);
    say_completion(world, active, "first send");
    say_completion(world, &world->passive, "first send");
}

static void receive_tag(struct world* world, uint64_t tag, uint64_t ignore, unsigned context) {
    need("receive of a tag", fi_trecv(world->passive.ep, world->passive.memory + 2048, 256, NULL,
                                      FI_ADDR_UNSPEC, tag, ignore, context_of(context)));
}

static void transfer_tagged(struct world* world) {
    struct side* const active = &world->active;
    receive_tag(world, 0x10, 0, 31);
    receive_tag(world, 0x20, 0x0f, 32);
    say_code("send of a tag that is ignored in part",
             fi_tsend(active->ep, active->memory, 30, NULL, active->peer, 0x2a, context_of(33)));
    say_completion(world, &world->passive, "tag ignored in part");
    say_completion(world, active, "tag ignored in part");
    say_code("send of a tag with data", fi_tsenddata(active->ep, active->memory, 40, NULL, 0x66,
                                                     active->peer, 0x10, context_of(34)));
    say_completion(world, &world->passive, "tag with data");
    say_completion(world, active, "tag with data");
    say_code("inject of a tag",
             fi_tinject(active->ep, active->memory, kInjectBytes, active->peer, 0x30));
    receive_tag(world, 0x30, 0, 35);
    say_completion(world, &world->passive, "tag that came before its receive");
    receive_tag(world, 0x40, 0, 36);
    say_code("cancel", fi_cancel(&world->passive.ep->fid, context_of(36)));
    say_completion(world, &world->passive, "cancelled");
}

static void peek(struct world* world, uint64_t tag, uint64_t flags, const char* what) {
    struct iovec piece = {world->passive.memory + 2048, 256};
    struct fi_msg_tagged message = {.msg_iov = &piece,
                                    .iov_count = 1,
                                    .addr = FI_ADDR_UNSPEC,
                                    .tag = tag,
                                    .context = context_of(40)};
    say_code(what, fi_trecvmsg(world->passive.ep, &message, flags));
    say_completion(world, &world->passive, what);
}

static void look_before(struct world* world) {
    struct side* const active = &world->active;
    peek(world, 0x50, FI_PEEK, "peek at nothing");
    need("send",
         fi_tsend(active->ep, active->memory, 30, NULL, active->peer, 0x50, context_of(41)));
    say_completion(world, active, "send to peek at");
    // a message that is known to have arrived: the next one has
    receive_tag(world, 0x51, 0, 42);
    need("send", fi_tsend(active->ep, active->memory, 3, NULL, active->peer, 0x51, context_of(43)));
    say_completion(world, active, "send behind it");
    say_completion(world, &world->passive, "send behind it");
    peek(world, 0x50, FI_PEEK, "peek");
    receive_tag(world, 0x50, 0, 44);
    say_completion(world, &world->passive, "receive of what was seen");
}

static void receive_too_little(struct world* world) {
    struct side* const active = &world->active;
    need("short receive", fi_recv(world->passive.ep, world->passive.memory, 10, NULL,
                                  world->passive.peer, context_of(51)));
    say_code("send of too much",
             fi_send(active->ep, active->memory, 30, NULL, active->peer, context_of(52)));
    say_completion(world, &world->passive, "receive of too much");
    say_completion(world, active, "send of too much");
}

/// What a device has to refuse; whether the endpoint can be used after it.
static void misuse_memory(struct world* world, const char* what, uint64_t offset, uint64_t key) {
    struct side* const active = &world->active;
    const uint64_t address = remote_address(world, &world->passive, offset);
    ssize_t code;
    do
        code = fi_write(active->ep, active->memory, 16, NULL, active->peer, address, key,
                        context_of(61));
    while (to_be_tried_again(world, code));
    say_code(what, code);
    say_completion(world, active, what);
}

void converse_unconnected(const char* provider) {
    struct world world;
    memset(&world, 0, sizeof world);
    struct fi_info* const hints = make_hints(provider, FI_EP_RDM, FI_MSG | FI_TAGGED | FI_RMA);
    need("info", fi_getinfo(TRANSCRIPT_API, "127.0.0.1", NULL, FI_SOURCE, hints, &world.info));
    need("fabric", fi_fabric(world.info->fabric_attr, &world.fabric, NULL));
    need("domain", fi_domain(world.fabric, world.info, &world.domain, NULL));
    open_queues(&world, &world.active, "active");
    open_queues(&world, &world.passive, "passive");
    open_endpoint(&world, &world.active);
    open_endpoint(&world, &world.passive);
    learn(&world.active, &world.passive);
    learn(&world.passive, &world.active);
    open_region(&world, &world.active, 1, FI_REMOTE_READ | FI_REMOTE_WRITE);
    open_region(&world, &world.passive, 2, FI_REMOTE_READ | FI_REMOTE_WRITE);
    meet(&world);
    transfer_messages(&world);
    transfer_tagged(&world);
    look_before(&world);
    transfer_memory(&world);
    receive_too_little(&world);  // upstream drops the connection after it
    misuse_memory(&world, "write with a key that is not", 0, 77);
    misuse_memory(&world, "write past the end", kRegionBytes - 8, fi_mr_key(world.passive.mr));
    misuse_memory(&world, "write after misuse", 0, fi_mr_key(world.passive.mr));
    close_side(&world.active);
    close_side(&world.passive);
    say_code("close domain", fi_close(&world.domain->fid));
    say_code("close fabric", fi_close(&world.fabric->fid));
    fi_freeinfo(world.info);
    fi_freeinfo(hints);
}
