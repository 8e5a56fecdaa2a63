// SPDX-License-Identifier: BSD-3-Clause
// fi_cm(3): connecting, refusing, ending; and that nothing is left behind.
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fi_rig.h"
#include "rig_role.h"

enum { MAX_DATA = 512 };

static size_t cm_data_size(struct fid* fid) {
    size_t size = 0;
    size_t length = sizeof size;
    MUST(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &length));
    CHECK(size >= 16 && size < MAX_DATA);
    return size;
}

static struct fi_eq_err_entry event_error(struct rig* rig) {
    uint32_t event;
    char buffer[64];
    EQUAL(fi_eq_sread(rig->eq, &event, buffer, sizeof buffer, RIG_TIMEOUT_MS, 0), -FI_EAVAIL);
    struct fi_eq_err_entry error = {0};
    EQUAL(fi_eq_readerr(rig->eq, &error, 0), sizeof error);
    return error;
}

// --- data of a connection

static void accept_with_data(struct rig* rig) {
    unsigned char data[MAX_DATA];
    rig_listen(rig);
    const size_t size = cm_data_size(&rig->pep->fid);
    struct fi_eq_cm_entry* entry = rig_event(rig, FI_CONNREQ);
    struct fi_info* info = entry->info;
    EQUAL(rig_event_size(), sizeof *entry + size);
    EQUAL(rig_first_difference(entry->data, size, 1), size);
    EQUAL(info->handle->fclass, FI_CLASS_CONNREQ);
    EQUAL(info->fabric_attr->api_version, rig->info->fabric_attr->api_version);
    CHECK(strcmp(info->fabric_attr->prov_name, rig->info->fabric_attr->prov_name) == 0);
    CHECK(info->dest_addr != NULL && info->src_addr != NULL);
    EQUAL(((struct sockaddr_in*)info->dest_addr)->sin_addr.s_addr, inet_addr(rig_address()));
    rig->ep = rig_endpoint(rig, info);
    rig_fill(data, sizeof data, 2);
    CODE(fi_accept(rig->ep, data, size + 1), -FI_EINVAL);
    MUST(fi_accept(rig->ep, data, size));
    entry = rig_event(rig, FI_CONNECTED);
    CHECK(entry->fid == &rig->ep->fid);
    CHECK(entry->info == NULL);
    EQUAL(rig_event_size(), sizeof *entry);
    fi_freeinfo(info);
    rig_meet(rig);
    // The other side leaves.
    CHECK(rig_event(rig, FI_SHUTDOWN)->fid == &rig->ep->fid);
    CODE(fi_shutdown(rig->ep, 0), -FI_ENOTCONN);
}

static void connect_with_data(struct rig* rig) {
    unsigned char data[MAX_DATA];
    struct fi_info* info = rig_find_target(rig);
    rig->ep = rig_endpoint(rig, info);
    const size_t size = cm_data_size(&rig->ep->fid);
    rig_fill(data, sizeof data, 1);
    CODE(fi_connect(rig->ep, info->dest_addr, data, size + 1), -FI_EINVAL);
    CODE(fi_accept(rig->ep, NULL, 0), -FI_EOPBADSTATE);
    MUST(fi_connect(rig->ep, info->dest_addr, data, size));
    CODE(fi_connect(rig->ep, info->dest_addr, data, size), -FI_EOPBADSTATE);
    struct fi_eq_cm_entry* entry = rig_event(rig, FI_CONNECTED);
    CHECK(entry->fid == &rig->ep->fid);
    CHECK(rig_event_size() >= (ssize_t)(sizeof *entry + size));
    EQUAL(rig_first_difference(entry->data, size, 2), size);
    struct sockaddr_in peer;
    size_t length = sizeof peer;
    MUST(fi_getpeer(rig->ep, &peer, &length));
    EQUAL(memcmp(&peer, info->dest_addr, sizeof peer), 0);
    struct sockaddr_in own;
    length = 4;
    CODE(fi_getname(&rig->ep->fid, &own, &length), -FI_ETOOSMALL);
    EQUAL(length, sizeof own);
    MUST(fi_getname(&rig->ep->fid, &own, &length));
    CHECK(own.sin_port != 0);
    fi_freeinfo(info);
    rig_meet(rig);
    MUST(fi_shutdown(rig->ep, 0));
}

// --- refusals

static void reject_two(struct rig* rig) {
    unsigned char data[MAX_DATA];
    rig_listen(rig);
    const size_t size = cm_data_size(&rig->pep->fid);
    rig_fill(data, sizeof data, 3);
    for (int with_data = 0; with_data < 2; ++with_data) {
        struct fi_info* info = rig_event(rig, FI_CONNREQ)->info;
        CODE(fi_reject(rig->pep, info->handle, data, size + 1), -FI_EINVAL);
        MUST(fi_reject(rig->pep, info->handle, data, with_data ? size : 0));
        fi_freeinfo(info);
    }
    // One that is never answered is refused by closing.
    struct fi_info* info = rig_event(rig, FI_CONNREQ)->info;
    fi_freeinfo(info);
    MUST(fi_close(&rig->pep->fid));
    rig->pep = NULL;
    rig_meet(rig);
}

static void be_rejected(struct rig* rig) {
    struct fi_info* info = rig_find_target(rig);
    for (int round = 0; round < 3; ++round) {
        struct fid_ep* ep = rig_endpoint(rig, info);
        const size_t size = cm_data_size(&ep->fid);
        MUST(fi_connect(ep, info->dest_addr, NULL, 0));
        const struct fi_eq_err_entry error = event_error(rig);
        EQUAL(error.err, FI_ECONNREFUSED);
        CHECK(error.fid == &ep->fid);
        if (round == 1) {
            CHECK(error.err_data_size >= size);
            EQUAL(rig_first_difference(error.err_data, size, 3), size);
        }
        MUST(fi_close(&ep->fid));
    }
    // Nobody listens any more.
    rig_meet(rig);
    struct fid_ep* ep = rig_endpoint(rig, info);
    MUST(fi_connect(ep, info->dest_addr, NULL, 0));
    EQUAL(event_error(rig).err, FI_ECONNREFUSED);
    MUST(fi_close(&ep->fid));
    fi_freeinfo(info);
}

// --- names and handles

static void idle(struct rig* rig) {
    rig_meet(rig);
}

static void use_names(struct rig* rig) {
    struct fi_info* hints = rig_hints(rig->options);
    struct fi_info* info = NULL;
    MUST(fi_getinfo(FI_VERSION(1, 17), rig_address(), "0", FI_SOURCE, hints, &info));
    struct fid_pep* pep = NULL;
    MUST(fi_passive_ep(rig->fabric, info, &pep, NULL));
    CODE(fi_listen(pep), -FI_ENOEQ);
    struct sockaddr_in name;
    size_t length = sizeof name;
    MUST(fi_getname(&pep->fid, &name, &length));
    CHECK(name.sin_port != 0);
    int backlog = 3;
    MUST(fi_control(&pep->fid, FI_BACKLOG, &backlog));
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(rig_address())};
    MUST(fi_setname(&pep->fid, &other, sizeof other));
    MUST(fi_getname(&pep->fid, &name, &length));
    CHECK(name.sin_port != 0);

    // An endpoint takes the address over.
    hints->handle = &pep->fid;
    struct fi_info* active = NULL;
    MUST(fi_getinfo(FI_VERSION(1, 17), rig_address(), "1", 0, hints, &active));
    CHECK(active->handle == &pep->fid);
    struct fid_ep* ep = NULL;
    MUST(fi_endpoint(rig->domain, active, &ep, NULL));
    struct sockaddr_in inherited;
    MUST(fi_getname(&ep->fid, &inherited, &length));
    EQUAL(memcmp(&inherited, &name, sizeof name), 0);
    CODE(fi_endpoint(rig->domain, active, &rig->ep, NULL), -FI_EINVAL);
    MUST(fi_close(&ep->fid));
    MUST(fi_close(&pep->fid));

    MUST(fi_passive_ep(rig->fabric, info, &pep, NULL));
    MUST(fi_pep_bind(pep, &rig->eq->fid, 0));
    CODE(fi_pep_bind(pep, &rig->eq->fid, 0), -FI_EINVAL);
    MUST(fi_listen(pep));
    CODE(fi_listen(pep), -FI_EOPBADSTATE);
    CODE(fi_setname(&pep->fid, &other, sizeof other), -FI_EOPBADSTATE);
    // The port is taken.
    MUST(fi_getname(&pep->fid, &name, &length));
    struct fi_info* taken = fi_dupinfo(info);
    memcpy(taken->src_addr, &name, sizeof name);
    struct fid_pep* second = NULL;
    int result = fi_passive_ep(rig->fabric, taken, &second, NULL);
    if (result == 0) {
        MUST(fi_pep_bind(second, &rig->eq->fid, 0));
        result = fi_listen(second);
        MUST(fi_close(&second->fid));
    }
    CODE(result, -FI_EADDRINUSE);
    MUST(fi_close(&pep->fid));
    hints->handle = NULL;
    fi_freeinfo(taken);
    fi_freeinfo(active);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    rig_meet(rig);
}

// --- a peer that goes

static void serve_until_killed(struct rig* rig) {
    rig_meet(rig);
    for (;;) pause();
}

static void notice_death(struct rig* rig) {
    char memory[2][8] = {{0}};
    MUST(fi_recv(rig->ep, memory[0], 8, rig_desc(rig, memory[0], 8), 0, memory[0]));
    MUST(fi_recv(rig->ep, memory[1], 8, rig_desc(rig, memory[1], 8), 0, memory[1]));
    rig_meet(rig);
    kill(rig->other_pid, SIGKILL);
    CHECK(rig_event(rig, FI_SHUTDOWN)->fid == &rig->ep->fid);
    for (int i = 0; i < 2; ++i) {
        const struct fi_cq_err_entry error = rig_next_error(rig, rig->rx);
        CHECK(error.op_context == memory[i]);
        EQUAL(error.err, FI_ECANCELED);
    }
    uint64_t value = 0;
    MUST(fi_send(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0, &value));
    EQUAL(rig_next_error(rig, rig->tx).err, FI_ECANCELED);
}

// --- nothing is left behind

static int cycles(void) {
    const char* asked = getenv("FI_RIG_CYCLES");
    return asked != NULL ? atoi(asked) : 3000;
}

struct usage {
    int fds;
    int threads;
    long kib;
};

static void check_usage(int cycle, struct usage* first) {
    const struct usage now = {rig_count_fds(), rig_count_threads(), rig_resident_kib()};
    if (cycle == 200) *first = now;
    if (cycle <= 200) return;
    // A connection that has just ended may still be on its way out.
    CHECK(now.fds <= first->fds + 4);
    EQUAL(now.threads, first->threads);
    if (now.kib > first->kib + 8192)
        rig_fail(__FILE__, __LINE__, "%ld KiB after 200 cycles, %ld after %d", first->kib, now.kib,
                 cycle);
}

static void serve_cycles(struct rig* rig) {
    struct usage first;
    const int count = cycles();
    uint64_t memory[2];
    struct fid_mr* mr = rig_region(rig, memory, sizeof memory, FI_REMOTE_WRITE, 5, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, sizeof memory);
    rig_listen(rig);
    rig_say(rig, &described, sizeof described);
    for (int cycle = 0; cycle < count; ++cycle) {
        struct fi_info* info = rig_event(rig, FI_CONNREQ)->info;
        rig->ep = rig_endpoint(rig, info);
        MUST(fi_recv(rig->ep, memory, 8, rig_desc(rig, memory, 8), 0, NULL));
        MUST(fi_accept(rig->ep, NULL, 0));
        rig_event(rig, FI_CONNECTED);
        fi_freeinfo(info);
        rig_event(rig, FI_SHUTDOWN);
        rig_close_endpoint(rig);
        struct fi_cq_data_entry entry;
        struct fi_cq_err_entry error = {0};
        while (fi_cq_read(rig->rx, &entry, 1) != -FI_EAGAIN) fi_cq_readerr(rig->rx, &error, 0);
        if (cycle % 100 == 0) check_usage(cycle, &first);
    }
    MUST(fi_close(&mr->fid));
}

static void use_cycles(struct rig* rig) {
    struct usage first;
    const int count = cycles();
    uint64_t value = 7;
    struct fi_info* info = rig_find_target(rig);
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    for (int cycle = 0; cycle < count; ++cycle) {
        rig->ep = rig_endpoint(rig, info);
        MUST(fi_connect(rig->ep, info->dest_addr, NULL, 0));
        rig_event(rig, FI_CONNECTED);
        struct fid_mr* mr = rig_region(rig, &value, sizeof value, FI_WRITE, 0, 0);
        MUST(fi_write(rig->ep, &value, sizeof value, fi_mr_desc(mr), 0, target.address + 8,
                      target.key, &value));
        if (cycle % 2 == 0) CHECK(rig_next(rig, rig->tx).op_context == &value);
        MUST(fi_close(&mr->fid));
        rig_close_endpoint(rig);
        struct fi_cq_data_entry entry;
        struct fi_cq_err_entry error = {0};
        while (fi_cq_read(rig->tx, &entry, 1) != -FI_EAGAIN) fi_cq_readerr(rig->tx, &error, 0);
        if (cycle % 100 == 0) check_usage(cycle, &first);
    }
    fi_freeinfo(info);
}

static const struct rig_test kTests[] = {
    {"data goes both ways with the connection", accept_with_data, connect_with_data, {0}, true, 0},
    {"refusals are told with their data", reject_two, be_rejected, {0}, true, 0},
    {"names are set, told and handed over", idle, use_names, {0}, true, 0},
    {"a killed peer is a shutdown and cancels what is posted",
     serve_until_killed,
     notice_death,
     {0},
     false,
     SIGKILL},
    {"thousands of connections leave nothing behind", serve_cycles, use_cycles, {0}, true, 0},
};

RIG_MAIN(kTests)
