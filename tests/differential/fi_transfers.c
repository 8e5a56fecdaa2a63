// SPDX-License-Identifier: BSD-3-Clause
// Messages and remote memory between two endpoints that know each other.
#include <string.h>

#include "fi_transcript.h"

static void fill(struct side* side, size_t offset, size_t length, int seed) {
    for (size_t i = 0; i < length; ++i) side->memory[offset + i] = (char)(seed + (int)i * 7);
}

static const char* same(const struct world* world, size_t from, size_t to, size_t length) {
    return memcmp(world->active.memory + from, world->passive.memory + to, length) == 0 ? "the same"
                                                                                        : "other";
}

/// One message with one receive posted before; both completions in the order in which they must be.
static void pass(struct world* world, const char* what, ssize_t posted, bool completes) {
    say_code(what, posted);
    if (completes) say_completion(world, &world->active, what);
    say_completion(world, &world->passive, what);
}

static void receive(struct world* world, size_t length) {
    struct side* const passive = &world->passive;
    need("receive",
         fi_recv(passive->ep, passive->memory + 1024, length, NULL, passive->peer, context_of(1)));
}

void transfer_messages(struct world* world) {
    struct side* const active = &world->active;
    struct iovec pieces[2] = {{active->memory, 100}, {active->memory + 100, 100}};
    struct fi_msg message = {.msg_iov = pieces,
                             .iov_count = 2,
                             .addr = active->peer,
                             .context = context_of(6),
                             .data = 0x99};
    fill(active, 0, 512, 3);

    receive(world, 512);
    pass(world, "send", fi_send(active->ep, active->memory, 512, NULL, active->peer, context_of(2)),
         true);
    say("send", "bytes are %s", same(world, 0, 1024, 512));
    receive(world, 512);
    pass(world, "send of nothing", fi_send(active->ep, NULL, 0, NULL, active->peer, context_of(3)),
         true);
    receive(world, 512);
    pass(world, "send of pieces",
         fi_sendv(active->ep, pieces, NULL, 2, active->peer, context_of(4)), true);
    say("send of pieces", "bytes are %s", same(world, 0, 1024, 200));
    receive(world, 512);
    pass(world, "send with data",
         fi_senddata(active->ep, active->memory, 10, NULL, 0x1234567890abcdef, active->peer,
                     context_of(5)),
         true);
    receive(world, 512);
    pass(world, "inject", fi_inject(active->ep, active->memory, kInjectBytes, active->peer), false);
    receive(world, 512);
    pass(world, "inject with data",
         fi_injectdata(active->ep, active->memory, kInjectBytes, 0x55, active->peer), false);
    say_quiet(world, active, "inject");
    receive(world, 512);
    pass(world, "sendmsg", fi_sendmsg(active->ep, &message, 0), true);
    receive(world, 512);
    pass(world, "sendmsg with data", fi_sendmsg(active->ep, &message, FI_REMOTE_CQ_DATA), true);
    pieces[0].iov_len = 20;
    pieces[1].iov_len = 20;
    receive(world, 512);
    pass(world, "sendmsg with FI_INJECT", fi_sendmsg(active->ep, &message, FI_INJECT), true);
    receive(world, 512);
    pass(world, "sendmsg delivered", fi_sendmsg(active->ep, &message, FI_DELIVERY_COMPLETE), true);
}

static void say_bytes(const struct world* world, const char* what, size_t length) {
    say(what, "bytes are %s", same(world, 0, 0, length));
}

void transfer_memory(struct world* world) {
    struct side* const active = &world->active;
    struct side* const passive = &world->passive;
    const uint64_t address = remote_address(world, passive, 0);
    const uint64_t key = fi_mr_key(passive->mr);
    struct iovec pieces[2] = {{active->memory, 150}, {active->memory + 150, 50}};
    struct fi_rma_iov targets[2] = {{address, 20, key}, {address + 20, 180, key}};
    struct fi_msg_rma request = {.msg_iov = pieces,
                                 .iov_count = 2,
                                 .addr = active->peer,
                                 .rma_iov = targets,
                                 .rma_iov_count = 2,
                                 .context = context_of(14),
                                 .data = 0x77};
    fill(active, 0, 2048, 40);
    say_code("write", fi_write(active->ep, active->memory, 2048, NULL, active->peer, address, key,
                               context_of(11)));
    say_completion(world, active, "write");
    say_bytes(world, "write", 2048);
    say_quiet(world, passive, "write");

    fill(passive, 0, 2048, 77);
    say_code("read", fi_read(active->ep, active->memory, 2048, NULL, active->peer, address, key,
                             context_of(12)));
    say_completion(world, active, "read");
    say_bytes(world, "read", 2048);

    fill(active, 0, 200, 5);
    say_code("write of pieces",
             fi_writev(active->ep, pieces, NULL, 2, active->peer, address, key, context_of(13)));
    say_completion(world, active, "write of pieces");
    say_bytes(world, "write of pieces", 200);

    fill(active, 0, 200, 6);
    say_code("write to pieces", fi_writemsg(active->ep, &request, FI_DELIVERY_COMPLETE));
    say_completion(world, active, "write to pieces");
    say_bytes(world, "write to pieces", 200);
    fill(passive, 0, 200, 7);
    say_code("read of pieces", fi_readmsg(active->ep, &request, FI_COMPLETION));
    say_completion(world, active, "read of pieces");
    say_bytes(world, "read of pieces", 200);

    fill(active, 0, 64, 8);
    say_code("write with data", fi_writedata(active->ep, active->memory, 64, NULL, 0x4242,
                                             active->peer, address, key, context_of(15)));
    say_completion(world, active, "write with data");
    say_completion(world, passive, "write with data");
    say_bytes(world, "write with data", 64);
    fill(active, 0, kInjectBytes, 9);
    say_code("inject a write with data",
             fi_inject_writedata(active->ep, active->memory, kInjectBytes, 0x4343, active->peer,
                                 address, key));
    say_completion(world, passive, "inject a write with data");
    say_bytes(world, "inject a write with data", kInjectBytes);
    fill(active, 0, kInjectBytes, 10);
    say_code("inject a write",
             fi_inject_write(active->ep, active->memory, kInjectBytes, active->peer, address, key));
    say_quiet(world, active, "inject a write");
    say_code("write of nothing",
             fi_write(active->ep, NULL, 0, NULL, active->peer, address, key, context_of(16)));
    say_completion(world, active, "write of nothing");
    say_bytes(world, "inject a write", kInjectBytes);
    say_code("read of nothing",
             fi_read(active->ep, NULL, 0, NULL, active->peer, address, key, context_of(17)));
    say_completion(world, active, "read of nothing");
}
