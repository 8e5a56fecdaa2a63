// SPDX-License-Identifier: BSD-3-Clause
// A send queue of n requests takes n, and one more is refused; polling makes room, for ever.
#include <stdlib.h>

#include "rig_role.h"
#include "rpma_rig.h"

enum { REGION = 4096 };
static const uint32_t depths[] = {1, 2, 3, 10, 128};

static void lend_for_each_depth(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_ep* ep = rig_listen(rig);
    for (size_t i = 0; i < RIG_LENGTH(depths); ++i) {
        struct rpma_conn* conn = rig_accept(rig, ep, NULL);
        rig_lend(rig, memory.mr);
        rig_close(rig, &conn);
    }
    MUST(rpma_ep_shutdown(&ep));
    rig_forget(&memory);
}

struct client {
    struct rpma_conn* conn;
    struct rpma_cq* cq;
    struct rpma_mr_remote* remote;
    struct rig_memory memory;
    uintptr_t posted;    // all that were
    uintptr_t expected;  // the next completion
};

// One of the kinds in turn; flags as given. The context is the number of the post.
static int post(struct client* client, int flags) {
    const void* context = (const void*)(client->posted + 1);
    int code = 0;
    switch (client->posted % 4) {
        case 0:
            code = rpma_write(client->conn, client->remote, 0, client->memory.mr, 0, 16, flags,
                              context);
            break;
        case 1:
            code = rpma_read(client->conn, client->memory.mr, 64, client->remote, 0, 16, flags,
                             context);
            break;
        case 2:
            code = rpma_flush(client->conn, client->remote, 0, 16, RPMA_FLUSH_TYPE_VISIBILITY,
                              flags, context);
            break;
        default:
            code = rpma_atomic_write(client->conn, client->remote, 128, "1234567", flags, context);
            break;
    }
    if (code == 0) ++client->posted;
    return code;
}

// Takes completions of signaled posts, every one of them a step on.
static void take(struct client* client, uintptr_t count, uintptr_t step) {
    for (uintptr_t i = 0; i < count; ++i) {
        client->expected += step;
        COMPLETION(client->cq, client->expected, IBV_WC_SUCCESS);
    }
}

static void all_signaled(struct client* client, uint32_t depth) {
    for (uint32_t i = 0; i < depth; ++i) MUST(post(client, RPMA_F_COMPLETION_ALWAYS));
    CODE(post(client, RPMA_F_COMPLETION_ALWAYS), RPMA_E_PROVIDER);
    CODE(post(client, RPMA_F_COMPLETION_ALWAYS), RPMA_E_PROVIDER);
    // One slot for each that is polled, no matter how many have completed.
    for (uint32_t i = 0; i < depth; ++i) {
        take(client, 1, 1);
        MUST(post(client, RPMA_F_COMPLETION_ALWAYS));
        CODE(post(client, RPMA_F_COMPLETION_ALWAYS), RPMA_E_PROVIDER);
    }
    take(client, depth, 1);
    NO_COMPLETION_OF(client->cq);
}

static void last_signaled(struct client* client, uint32_t depth) {
    for (uint32_t i = 0; i + 1 < depth; ++i) MUST(post(client, RPMA_F_COMPLETION_ON_ERROR));
    MUST(post(client, RPMA_F_COMPLETION_ALWAYS));
    CODE(post(client, RPMA_F_COMPLETION_ON_ERROR), RPMA_E_PROVIDER);
    take(client, 1, depth);
    NO_COMPLETION_OF(client->cq);
}

// An emulated machine takes milliseconds for each round trip.
static int checked_rounds(void) {
    return rig_is_given_an_address() ? 3 : 20;
}
static uintptr_t posts_at_least(void) {
    return rig_is_given_an_address() ? 200 : 10000;
}

static void fill_each_depth(struct rig* rig) {
    struct client client = {.memory = rig_memory(rig, REGION, RIG_ALL_USAGES)};
    rig_find_server(rig);
    for (size_t i = 0; i < RIG_LENGTH(depths); ++i) {
        struct rpma_conn_cfg* cfg = rig_cfg(depths[i], 0, depths[i], 0);
        client.conn = rig_connect(rig, cfg);
        client.cq = rig_cq(client.conn);
        client.remote = rig_borrow(rig);
        client.posted = client.expected = 0;
        // The first times with checks at every step, then the plain cycle many times.
        for (int round = 0; round < checked_rounds(); ++round) {
            all_signaled(&client, depths[i]);
            last_signaled(&client, depths[i]);
        }
        while (client.posted < posts_at_least()) last_signaled(&client, depths[i]);
        MUST(rpma_mr_remote_delete(&client.remote));
        rig_close(rig, &client.conn);
        MUST(rpma_conn_cfg_delete(&cfg));
    }
    rig_forget(&client.memory);
}

// Nothing signaled: nothing is ever polled, and the queue stays full, as verbs have it.
static void fill_and_stay_full(struct rig* rig) {
    struct client client = {.memory = rig_memory(rig, REGION, RIG_ALL_USAGES)};
    rig_find_server(rig);
    for (size_t i = 0; i < RIG_LENGTH(depths); ++i) {
        struct rpma_conn_cfg* cfg = rig_cfg(depths[i], 0, depths[i], 0);
        client.conn = rig_connect(rig, cfg);
        client.cq = rig_cq(client.conn);
        client.remote = rig_borrow(rig);
        client.posted = 0;
        for (uint32_t post_number = 0; post_number < depths[i]; ++post_number)
            MUST(post(&client, RPMA_F_COMPLETION_ON_ERROR));
        const double end = rig_seconds() + 0.1;
        while (rig_seconds() < end) {
            NO_COMPLETION_OF(client.cq);
            CODE(post(&client, RPMA_F_COMPLETION_ON_ERROR), RPMA_E_PROVIDER);
        }
        MUST(rpma_mr_remote_delete(&client.remote));
        rig_close(rig, &client.conn);
        MUST(rpma_conn_cfg_delete(&cfg));
    }
    rig_forget(&client.memory);
}

static const struct rig_test tests[] = {
    {"a send queue takes exactly as many as it was made for, again and again", lend_for_each_depth,
     fill_each_depth, NULL, 0, 0},
    {"a send queue full of unsignaled requests stays full", lend_for_each_depth, fill_and_stay_full,
     NULL, 0, 0},
};

RIG_MAIN(tests)
