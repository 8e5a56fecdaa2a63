// SPDX-License-Identifier: BSD-3-Clause
// Connected endpoints from the first request to the last event.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fi_transcript.h"

enum { kActiveKey = 1, kPassiveKey = 2 };

static void open_world(struct world* world, const char* provider) {
    memset(world, 0, sizeof *world);
    struct fi_info* const hints = make_hints(provider, FI_EP_MSG, FI_MSG | FI_RMA);
    need("info", fi_getinfo(TRANSCRIPT_API, "127.0.0.1", NULL, FI_SOURCE, hints, &world->info));
    need("fabric", fi_fabric(world->info->fabric_attr, &world->fabric, NULL));
    need("domain", fi_domain(world->fabric, world->info, &world->domain, NULL));
    open_queues(world, &world->active, "active");
    open_queues(world, &world->passive, "passive");
    fi_freeinfo(hints);
}

static struct fid_pep* listen_there(struct world* world, void* address, size_t* length) {
    struct fid_pep* listener = NULL;
    need("listener", fi_passive_ep(world->fabric, world->info, &listener, NULL));
    need("listener's queue", fi_pep_bind(listener, &world->passive.eq->fid, 0));
    need("listen", fi_listen(listener));
    size_t too_little = 1;
    say_code("name into too little", fi_getname(&listener->fid, address, &too_little));
    say("name", "%zu bytes are needed", too_little);
    need("name", fi_getname(&listener->fid, address, length));
    say("name", "%zu bytes", *length);
    return listener;
}

static void open_endpoint(struct world* world, struct side* side, struct fi_info* info) {
    need("endpoint", fi_endpoint(world->domain, info, &side->ep, NULL));
    need("bind eq", fi_ep_bind(side->ep, &side->eq->fid, 0));
    need("bind cq", fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    need("enable", fi_enable(side->ep));
}

static void be_refused(struct world* world, struct fid_pep* listener, const void* address) {
    struct side* const active = &world->active;
    open_endpoint(world, active, world->info);
    need("connect", fi_connect(active->ep, address, "knock", 6));
    struct fi_info* const request = say_event(world, &world->passive, "request", &listener->fid);
    if (request == NULL) exit(1);
    say_code("reject", fi_reject(listener, request->handle, "no", 3));
    say_event(world, active, "refused", &active->ep->fid);
    fi_freeinfo(request);
    say_code("close the refused", fi_close(&active->ep->fid));
    active->ep = NULL;
}

static void miss_the_listener(struct world* world) {
    struct side* const active = &world->active;
    char address[128];
    size_t length = sizeof address;
    // a port that was ours a moment ago is nobody's
    struct fid_pep* const listener = listen_there(world, address, &length);
    need("close the listener", fi_close(&listener->fid));
    open_endpoint(world, active, world->info);
    need("connect", fi_connect(active->ep, address, NULL, 0));
    say_event(world, active, "nobody there", &active->ep->fid);
    say_code("close the lonely", fi_close(&active->ep->fid));
    active->ep = NULL;
}

static void meet(struct world* world, struct fid_pep* listener, const void* address) {
    struct side* const active = &world->active;
    struct side* const passive = &world->passive;
    char name[128];
    size_t length = sizeof name;
    open_endpoint(world, active, world->info);
    say_code("peer before there is one", fi_getpeer(active->ep, name, &length));
    need("connect", fi_connect(active->ep, address, "hello", 6));
    struct fi_info* const request = say_event(world, passive, "request", &listener->fid);
    if (request == NULL) exit(1);
    say("request", "handle %s, type %d, provider %s", request->handle != NULL ? "set" : "none",
        (int)request->ep_attr->type, request->fabric_attr->prov_name);
    open_endpoint(world, passive, request);
    fi_freeinfo(request);
    need("accept", fi_accept(passive->ep, "welcome", 8));
    say_event(world, active, "connected", &active->ep->fid);
    say_event(world, passive, "connected", &passive->ep->fid);
    length = sizeof name;
    say_code("peer", fi_getpeer(active->ep, name, &length));
    say("peer", "%zu bytes, %s", length,
        memcmp(name, address, sizeof(struct sockaddr) / 2) == 0 ? "the listener's" : "another's");
}

/// Receives that nothing has arrived for end with their connection.
static void part(struct world* world) {
    struct side* const active = &world->active;
    struct side* const passive = &world->passive;
    need("receive", fi_recv(passive->ep, passive->memory, 64, NULL, 0, context_of(90)));
    say_code("shut down", fi_shutdown(active->ep, 0));
    say_event(world, passive, "shut down", &passive->ep->fid);
    say_completion(world, passive, "receive of an ended connection");
    say_code("send on an ended connection",
             fi_send(active->ep, active->memory, 8, NULL, 0, context_of(91)));
}

void converse_connected(const char* provider) {
    struct world world;
    char address[128];
    size_t length = sizeof address;
    open_world(&world, provider);
    struct fid_pep* const listener = listen_there(&world, address, &length);
    be_refused(&world, listener, address);
    miss_the_listener(&world);
    meet(&world, listener, address);
    transfer_messages(&world);
    open_region(&world, &world.active, kActiveKey, FI_REMOTE_READ | FI_REMOTE_WRITE);
    open_region(&world, &world.passive, kPassiveKey, FI_REMOTE_READ | FI_REMOTE_WRITE);
    transfer_memory(&world);
    part(&world);
    say_code("close listener", fi_close(&listener->fid));
    close_side(&world.active);
    close_side(&world.passive);
    say_code("close domain", fi_close(&world.domain->fid));
    say_code("close fabric", fi_close(&world.fabric->fid));
    fi_freeinfo(world.info);
}
