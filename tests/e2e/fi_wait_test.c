// SPDX-License-Identifier: BSD-3-Clause
// Waiting: descriptors, fi_trywait(3), sread, signal, counters, poll sets.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fi_rig.h"

enum { KEY = 0x51, REGION = 1 << 16 };

static int rounds(void) {
    const char* asked = getenv("FI_RIG_ROUNDS");
    return asked != NULL ? atoi(asked) : 100000;
}

// --- one message to and fro, each side asleep until the other's comes

static void wait_on_fd(struct rig* rig, struct fid_cq* cq, struct fi_cq_data_entry* entry) {
    int fd = -1;
    struct fid* fids[1] = {&cq->fid};
    MUST(fi_control(&cq->fid, FI_GETWAIT, &fd));
    for (;;) {
        const ssize_t got = fi_cq_read(cq, entry, 1);
        if (got == 1) return;
        CODE(got, -FI_EAGAIN);
        const int safe = fi_trywait(rig->fabric, fids, 1);
        if (safe == -FI_EAGAIN) continue;
        MUST(safe);
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        EQUAL(poll(&ready, 1, RIG_TIMEOUT_MS), 1);
    }
}

static void ping(struct rig* rig, bool first, bool by_fd) {
    uint64_t in = 0;
    MUST(fi_recv(rig->ep, &in, sizeof in, rig_desc(rig, &in, sizeof in), 0, &in));
    rig_meet(rig);
    struct fi_cq_data_entry entry;
    for (uint64_t round = 1; round <= (uint64_t)rounds(); ++round) {
        if (first) POST(rig, fi_inject(rig->ep, &round, sizeof round, 0));
        if (by_fd)
            wait_on_fd(rig, rig->rx, &entry);
        else
            EQUAL(fi_cq_sread(rig->rx, &entry, 1, NULL, RIG_TIMEOUT_MS), 1);
        CHECK(in == round);
        MUST(fi_recv(rig->ep, &in, sizeof in, rig_desc(rig, &in, sizeof in), 0, &in));
        if (!first) POST(rig, fi_inject(rig->ep, &round, sizeof round, 0));
    }
    rig_meet(rig);
}

static void ping_fd(struct rig* rig) {
    ping(rig, true, true);
}
static void pong_fd(struct rig* rig) {
    ping(rig, false, true);
}
static void ping_sread(struct rig* rig) {
    ping(rig, true, false);
}
static void pong_sread(struct rig* rig) {
    ping(rig, false, false);
}

// --- one operation at a time, asleep until it completes

static void serve(struct rig* rig) {
    unsigned char* memory = rig_memory(REGION);
    struct fid_mr* mr = rig_region(rig, memory, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, REGION);
    rig_say(rig, &described, sizeof described);
    rig_meet(rig);
    rig_meet(rig);
    MUST(fi_close(&mr->fid));
}

static struct rig_target hear_target(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    return target;
}

static void use_fd(struct rig* rig) {
    const struct rig_target target = hear_target(rig);
    rig_meet(rig);
    uint64_t value = 0;
    for (int round = 0; round < rounds() / 10; ++round) {
        struct fi_cq_data_entry entry;
        MUST(fi_read(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                     target.address, target.key, rig_context(1)));
        wait_on_fd(rig, rig->tx, &entry);
        CHECK(entry.op_context == rig_context(1));
    }
    rig_meet(rig);
}

// --- timeouts and signals

static void* signal_later(void* cq) {
    usleep(20000);
    MUST(fi_cq_signal(cq));
    return NULL;
}

static void use_sread(struct rig* rig) {
    struct fi_cq_data_entry entry;
    hear_target(rig);
    rig_meet(rig);
    double begin = rig_seconds();
    CODE(fi_cq_sread(rig->tx, &entry, 1, NULL, 50), -FI_EAGAIN);
    CHECK(rig_seconds() - begin >= 0.049);
    CODE(fi_cq_sread(rig->tx, &entry, 1, NULL, 0), -FI_EAGAIN);
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, signal_later, rig->tx), 0);
    begin = rig_seconds();
    CODE(fi_cq_sread(rig->tx, &entry, 1, NULL, -1), -FI_EAGAIN);
    CHECK(rig_seconds() - begin < 10);
    EQUAL(pthread_join(thread, NULL), 0);
    // A signal waits for the next one who sleeps, and only for one.
    MUST(fi_cq_signal(rig->tx));
    CODE(fi_cq_sread(rig->tx, &entry, 1, NULL, -1), -FI_EAGAIN);
    begin = rig_seconds();
    CODE(fi_cq_sread(rig->tx, &entry, 1, NULL, 20), -FI_EAGAIN);
    CHECK(rig_seconds() - begin >= 0.019);
    enum fi_wait_obj kind;
    MUST(fi_control(&rig->tx->fid, FI_GETWAITOBJ, &kind));
    EQUAL(kind, FI_WAIT_FD);
    rig_meet(rig);
}

static void use_no_wait(struct rig* rig) {
    struct fi_cq_data_entry entry;
    int fd;
    hear_target(rig);
    rig_meet(rig);
    CODE(fi_cq_sread(rig->tx, &entry, 1, NULL, 0), -FI_ENOSYS);
    CODE(fi_cq_signal(rig->tx), -FI_ENOSYS);
    CODE(fi_control(&rig->tx->fid, FI_GETWAIT, &fd), -FI_ENODATA);
    CODE(fi_control(&rig->tx->fid, FI_ENABLE, NULL), -FI_ENOSYS);
    struct fi_cq_attr attr = {.format = 77};
    struct fid_cq* cq;
    CODE(fi_cq_open(rig->domain, &attr, &cq, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_obj = 77};
    CODE(fi_cq_open(rig->domain, &attr, &cq, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_obj = FI_WAIT_MUTEX_COND};
    CODE(fi_cq_open(rig->domain, &attr, &cq, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_obj = FI_WAIT_SET};
    CODE(fi_cq_open(rig->domain, &attr, &cq, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.flags = FI_MULTI_RECV};
    CODE(fi_cq_open(rig->domain, &attr, &cq, NULL), -FI_EINVAL);
    rig_meet(rig);
}

// --- several threads at one queue

enum { SLEEPERS = 3, OPS = 3000 };
static atomic_int g_taken;

static void* take_entries(void* argument) {
    struct rig* rig = argument;
    struct fi_cq_data_entry entry;
    while (atomic_load(&g_taken) < OPS) {
        const ssize_t got = fi_cq_sread(rig->tx, &entry, 1, NULL, -1);
        if (got == 1) {
            if (atomic_fetch_add(&g_taken, 1) + 1 < OPS) continue;
            for (int i = 0; i < SLEEPERS; ++i) {
                MUST(fi_cq_signal(rig->tx));
                usleep(1000);
            }
        } else {
            CODE(got, -FI_EAGAIN);  // signalled
            if (atomic_load(&g_taken) >= OPS) MUST(fi_cq_signal(rig->tx));
        }
    }
    return NULL;
}

static void use_threads(struct rig* rig) {
    pthread_t threads[SLEEPERS];
    const struct rig_target target = hear_target(rig);
    rig_meet(rig);
    for (int i = 0; i < SLEEPERS; ++i)
        EQUAL(pthread_create(&threads[i], NULL, take_entries, rig), 0);
    uint64_t value = 0;
    for (int i = 0; i < OPS; ++i) {
        ssize_t result;
        while (
            (result = fi_write(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value),
                               0, target.address, target.key, &value)) == -FI_EAGAIN)
            usleep(10);
        MUST(result);
        if (i % 50 == 0) usleep(100);
    }
    for (int i = 0; i < SLEEPERS; ++i) EQUAL(pthread_join(threads[i], NULL), 0);
    EQUAL(atomic_load(&g_taken), OPS);
    struct fi_cq_data_entry entry;
    fi_cq_sread(rig->tx, &entry, 1, NULL, 0);  // a signal may be left
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
}

// --- counters

static void use_counters(struct rig* rig) {
    struct fid_cntr* writes = rig->counters[0];
    struct fid_cntr* reads = rig->counters[1];
    struct fid_cntr* sends = rig->counters[2];
    uint64_t value = 0;
    const struct rig_target target = hear_target(rig);
    rig_meet(rig);
    for (uint64_t i = 1; i <= 500; ++i) {
        POST(rig, fi_write(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                           target.address, target.key, NULL));
        POST(rig, fi_inject_write(rig->ep, &value, sizeof value, 0, target.address, target.key));
        POST(rig, fi_read(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                          target.address, target.key, NULL));
        MUST(fi_cntr_wait(writes, 2 * i, RIG_TIMEOUT_MS));
        MUST(fi_cntr_wait(reads, i, RIG_TIMEOUT_MS));
    }
    EQUAL(fi_cntr_read(writes), 1000);
    EQUAL(fi_cntr_read(reads), 500);
    EQUAL(fi_cntr_read(sends), 0);
    EQUAL(fi_cntr_readerr(writes), 0);
    const double begin = rig_seconds();
    CODE(fi_cntr_wait(writes, 1001, 30), -FI_ETIMEDOUT);
    CHECK(rig_seconds() - begin >= 0.029);
    MUST(fi_cntr_set(writes, 5));
    MUST(fi_cntr_add(writes, 2));
    EQUAL(fi_cntr_read(writes), 7);
    MUST(fi_cntr_seterr(writes, 3));
    MUST(fi_cntr_adderr(writes, 1));
    EQUAL(fi_cntr_readerr(writes), 4);
    CODE(fi_close(&writes->fid), -FI_EBUSY);
    // A failure counts as one, where the request that failed is known.
    if (!rig_is_iwarp(rig)) {
        POST(rig, fi_write(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                           target.address, target.key + 1, NULL));
        CODE(fi_cntr_wait(writes, 8, RIG_TIMEOUT_MS), -FI_EAVAIL);
        EQUAL(fi_cntr_readerr(writes), 5);
        EQUAL(fi_cntr_read(writes), 7);
    }
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
}

// --- counters of what peers do

static void serve_events(struct rig* rig) {
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr* region_writes;
    struct fid_cntr* region_reads;
    struct fid_cntr* endpoint_writes;
    unsigned char* memory = rig_memory(REGION);
    MUST(fi_cntr_open(rig->domain, &attr, &region_writes, rig_context(1)));
    MUST(fi_cntr_open(rig->domain, &attr, &region_reads, rig_context(2)));
    MUST(fi_cntr_open(rig->domain, &attr, &endpoint_writes, rig_context(3)));
    struct fid_mr* mr =
        rig_region(rig, memory, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY, FI_RMA_EVENT);
    struct fid_mr* other = rig_region(rig, memory, REGION, FI_REMOTE_WRITE, KEY + 1, 0);
    MUST(fi_mr_bind(mr, &region_writes->fid, FI_REMOTE_WRITE));
    MUST(fi_mr_bind(mr, &region_reads->fid, FI_REMOTE_READ));
    CODE(fi_mr_bind(mr, &region_reads->fid, FI_REMOTE_READ), -FI_EINVAL);
    CODE(fi_mr_bind(mr, &region_reads->fid, FI_SEND), -FI_EBADFLAGS);
    MUST(fi_mr_enable(mr));

    rig_listen(rig);
    struct fi_info* info = rig_event(rig, FI_CONNREQ)->info;
    struct fid_ep* ep;
    MUST(fi_endpoint(rig->domain, info, &ep, NULL));
    MUST(fi_ep_bind(ep, &rig->eq->fid, 0));
    MUST(fi_ep_bind(ep, &rig->tx->fid, FI_TRANSMIT));
    MUST(fi_ep_bind(ep, &rig->rx->fid, FI_RECV));
    MUST(fi_ep_bind(ep, &endpoint_writes->fid, FI_REMOTE_WRITE));
    MUST(fi_accept(ep, NULL, 0));
    rig_event(rig, FI_CONNECTED);
    fi_freeinfo(info);
    struct fid_poll* set;
    struct fi_poll_attr poll_attr = {0};
    MUST(fi_poll_open(rig->domain, &poll_attr, &set));
    MUST(fi_poll_add(set, &region_writes->fid, 0));
    MUST(fi_poll_add(set, &rig->tx->fid, 0));
    void* contexts[4];
    EQUAL(fi_poll(set, contexts, 4), 0);
    rig_meet(rig);

    // By the call that waits, and by the descriptor.
    MUST(fi_cntr_wait(region_writes, 100, RIG_TIMEOUT_MS));
    int fd;
    struct fid* fids[1] = {&region_reads->fid};
    MUST(fi_control(&region_reads->fid, FI_GETWAIT, &fd));
    rig_meet(rig);
    while (fi_cntr_read(region_reads) < 50) {
        const int safe = fi_trywait(rig->fabric, fids, 1);
        if (safe == -FI_EAGAIN) continue;
        MUST(safe);
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        EQUAL(poll(&ready, 1, RIG_TIMEOUT_MS), 1);
    }
    MUST(fi_cntr_wait(endpoint_writes, 110, RIG_TIMEOUT_MS));
    EQUAL(fi_poll(set, contexts, 4), 1);
    CHECK(contexts[0] == rig_context(1));
    EQUAL(fi_cntr_read(region_writes), 100);
    EQUAL(fi_cntr_read(endpoint_writes), 110);
    rig_expect_nothing(rig->rx);
    rig_meet(rig);
    MUST(fi_poll_del(set, &rig->tx->fid, 0));
    MUST(fi_close(&set->fid));
    CODE(fi_close(&region_writes->fid), -FI_EBUSY);
    MUST(fi_close(&ep->fid));
    MUST(fi_close(&mr->fid));
    MUST(fi_close(&other->fid));
    MUST(fi_close(&region_writes->fid));
    MUST(fi_close(&region_reads->fid));
    MUST(fi_close(&endpoint_writes->fid));
}

static void use_events(struct rig* rig) {
    uint64_t value = 0;
    rig_connect(rig);
    rig_meet(rig);
    for (int i = 0; i < 100; ++i) {
        POST(rig, fi_write(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0, 0,
                           KEY, NULL));
        rig_next(rig, rig->tx);
    }
    rig_meet(rig);
    for (int i = 0; i < 50; ++i) {
        POST(rig, fi_read(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0, 0,
                          KEY, NULL));
        rig_next(rig, rig->tx);
    }
    for (int i = 0; i < 10; ++i) {
        POST(rig, fi_write(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0, 0,
                           KEY + 1, NULL));
        rig_next(rig, rig->tx);
    }
    rig_meet(rig);
}

static const struct rig_test kTests[] = {
    {"messages wake who sleeps on a descriptor", pong_fd, ping_fd, {.wait = FI_WAIT_FD}, false, 0},
    {"messages wake who sleeps in sread",
     pong_sread,
     ping_sread,
     {.wait = FI_WAIT_UNSPEC},
     false,
     0},
    {"completions wake who sleeps on a descriptor", serve, use_fd, {.wait = FI_WAIT_FD}, false, 0},
    {"sread ends with its time or a signal", serve, use_sread, {.wait = FI_WAIT_FD}, false, 0},
    {"a queue without a wait object says so", serve, use_no_wait, {0}, false, 0},
    {"threads asleep at one queue lose nothing",
     serve,
     use_threads,
     {.wait = FI_WAIT_UNSPEC},
     false,
     0},
    {"counters take the place of a queue", serve, use_counters, {.counters = true}, false, 0},
    {"counters tell what peers did",
     serve_events,
     use_events,
     {.caps = FI_MSG | FI_RMA | FI_RMA_EVENT},
     true,
     0},
};

RIG_MAIN(kTests)
