// SPDX-License-Identifier: BSD-3-Clause
// fi_msg(3), shared contexts, aliases, options.
#include <string.h>

#include "fi_rig.h"

enum { SIZE = 1 << 16 };

// --- the calls

static void receive_calls(struct rig* rig) {
    unsigned char* memory = rig_memory(SIZE);
    struct fid_mr* mr = rig_region(rig, memory, SIZE, FI_RECV, 0, 0);
    void* desc = fi_mr_desc(mr);
    MUST(fi_recv(rig->ep, memory, 100, desc, 0, rig_context(0)));
    struct iovec iov[2] = {{memory + 1000, 10}, {memory + 2000, 90}};
    void* descs[2] = {desc, desc};
    MUST(fi_recvv(rig->ep, iov, descs, 2, 0, rig_context(1)));
    struct fi_msg message = {.msg_iov = iov, .desc = descs, .iov_count = 2};
    iov[0].iov_base = memory + 3000;
    iov[1].iov_base = memory + 4000;
    message.context = rig_context(2);
    MUST(fi_recvmsg(rig->ep, &message, FI_COMPLETION));
    for (uintptr_t i = 3; i < 7; ++i)
        MUST(fi_recv(rig->ep, memory + 5000 + 100 * i, 100,
                     rig_desc(rig, memory + 5000 + 100 * i, 100), 0, rig_context(i)));
    rig_meet(rig);
    const uint64_t mask = rig_data_mask(rig);
    const uint64_t data = mask != 0 ? FI_REMOTE_CQ_DATA : 0;
    const uint64_t flags[7] = {0, 0, data, 0, data, data, 0};
    const size_t lengths[7] = {100, 100, 100, 50, 60, 70, 0};
    for (unsigned i = 0; i < 7; ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        CHECK(entry.op_context == rig_context(i));
        EQUAL(entry.flags, FI_MSG | FI_RECV | flags[i]);
        EQUAL(entry.len, lengths[i]);
        if (flags[i] != 0) CHECK(entry.data == ((UINT64_C(0x1122334455667700) + i) & mask));
        if (i >= 3 && i < 6) {
            CHECK(entry.buf == memory + 5000 + 100 * i);
            EQUAL(rig_first_difference(entry.buf, lengths[i], i), lengths[i]);
        }
    }
    EQUAL(rig_first_difference(memory, 100, 0), 100);
    memmove(memory + 1010, memory + 2000, 90);
    EQUAL(rig_first_difference(memory + 1000, 100, 1), 100);
    rig_expect_nothing(rig->rx);
    rig_meet(rig);
    MUST(fi_close(&mr->fid));
}

static void send_calls(struct rig* rig) {
    unsigned char* memory = rig_memory(SIZE);
    const uint64_t data = UINT64_C(0x1122334455667700);
    const bool has_data = rig_data_mask(rig) != 0;
    rig_meet(rig);
    rig_fill(memory, 100, 0);
    MUST(fi_send(rig->ep, memory, 100, rig_desc(rig, memory, 100), 0, rig_context(0)));
    rig_fill(memory + 1000, 100, 1);
    struct iovec iov[2] = {{memory + 1000, 33}, {memory + 1033, 67}};
    void* desc = rig_desc(rig, memory, SIZE);
    void* descs[2] = {desc, desc};
    MUST(fi_sendv(rig->ep, iov, descs, 2, 0, rig_context(1)));
    rig_fill(memory + 2000, 100, 2);
    struct iovec other[2] = {{memory + 2000, 33}, {memory + 2033, 67}};
    struct fi_msg message = {.msg_iov = other,
                             .desc = descs,
                             .iov_count = 2,
                             .context = rig_context(2),
                             .data = data + 2};
    if (!has_data) CODE(fi_sendmsg(rig->ep, &message, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
    MUST(fi_sendmsg(rig->ep, &message, (has_data ? FI_REMOTE_CQ_DATA : 0) | FI_COMPLETION));
    rig_fill(memory + 3000, 50, 3);
    MUST(fi_inject(rig->ep, memory + 3000, 50, 0));
    memset(memory + 3000, 0, 50);
    rig_fill(memory + 4000, 60, 4);
    ssize_t sent = fi_senddata(rig->ep, memory + 4000, 60, desc, data + 4, 0, rig_context(4));
    CODE(sent, has_data ? 0 : -FI_EOPNOTSUPP);
    if (!has_data) MUST(fi_send(rig->ep, memory + 4000, 60, desc, 0, rig_context(4)));
    rig_fill(memory + 5000, 70, 5);
    sent = fi_injectdata(rig->ep, memory + 5000, 70, data + 5, 0);
    CODE(sent, has_data ? 0 : -FI_EOPNOTSUPP);
    if (!has_data) MUST(fi_inject(rig->ep, memory + 5000, 70, 0));
    memset(memory + 5000, 0, 70);
    MUST(fi_send(rig->ep, NULL, 0, NULL, 0, rig_context(6)));
    const uintptr_t completing[] = {0, 1, 2, 4, 6};
    for (size_t i = 0; i < RIG_LENGTH(completing); ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->tx);
        CHECK(entry.op_context == rig_context(completing[i]));
        EQUAL(entry.flags, FI_MSG | FI_SEND);
    }
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
}

// --- order and length

static void receive_many(struct rig* rig) {
    enum { WINDOW = 32, COUNT = 3000 };
    rig_need_waiting_messages(rig);
    unsigned char* memory = rig_memory(WINDOW * 1024);
    for (unsigned i = 0; i < WINDOW; ++i)
        MUST(fi_recv(rig->ep, memory + 1024 * i, 1024, rig_desc(rig, memory + 1024 * i, 1024), 0,
                     rig_context(i)));
    rig_meet(rig);
    for (unsigned i = 0; i < COUNT; ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        CHECK(entry.op_context == rig_context(i % WINDOW));
        EQUAL(entry.len, i % 1024);
        EQUAL(rig_first_difference(entry.buf, entry.len, i), entry.len);
        MUST(
            fi_recv(rig->ep, entry.buf, 1024, rig_desc(rig, entry.buf, 1024), 0, entry.op_context));
    }
    rig_meet(rig);
}

static void send_many(struct rig* rig) {
    enum { COUNT = 3000 };
    rig_need_waiting_messages(rig);
    unsigned char* memory = rig_memory(64 * 1024);
    rig_meet(rig);
    unsigned completed = 0;
    for (unsigned i = 0; i < COUNT; ++i) {
        unsigned char* bytes = memory + 1024 * (i % 64);
        while (i - completed >= 64) {
            CHECK(rig_next(rig, rig->tx).op_context == rig_context(completed));
            ++completed;
        }
        rig_fill(bytes, i % 1024, i);
        POST(rig,
             fi_send(rig->ep, bytes, i % 1024, rig_desc(rig, bytes, i % 1024), 0, rig_context(i)));
    }
    for (; completed < COUNT; ++completed)
        CHECK(rig_next(rig, rig->tx).op_context == rig_context(completed));
    rig_meet(rig);
}

static void receive_too_long(struct rig* rig) {
    if (rig_is_iwarp(rig)) rig_skip("an iWARP NIC does not say which receive was too short");
    unsigned char memory[8];
    MUST(fi_recv(rig->ep, memory, sizeof memory, rig_desc(rig, memory, sizeof memory), 0, memory));
    MUST(fi_recv(rig->ep, memory, sizeof memory, rig_desc(rig, memory, sizeof memory), 0,
                 &memory[1]));
    rig_meet(rig);
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->rx);
    CHECK(error.op_context == memory);
    // rxe calls it an invalid request of the peer.
    if (rig_chooses_keys(rig) || error.err != FI_EINVAL) EQUAL(error.err, FI_ETRUNC);
    EQUAL(error.flags, FI_MSG | FI_RECV);
    const struct fi_cq_err_entry other = rig_next_error(rig, rig->rx);
    CHECK(other.op_context == &memory[1]);
    EQUAL(other.err, FI_ECANCELED);
    rig_meet(rig);
}

static void send_too_long(struct rig* rig) {
    if (rig_is_iwarp(rig)) rig_skip("an iWARP NIC does not say which receive was too short");
    unsigned char memory[9] = {0};
    rig_meet(rig);
    MUST(fi_send(rig->ep, memory, sizeof memory, rig_desc(rig, memory, sizeof memory), 0, NULL));
    rig_meet(rig);
}

// --- one buffer for several messages

static void receive_multiple(struct rig* rig) {
    enum { BUFFER = 4096, COUNT = 500 };
    rig_need_waiting_messages(rig);
    unsigned char* memory = rig_memory(2 * BUFFER);
    size_t least = 512;
    MUST(fi_setopt(&rig->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    size_t got = 0;
    size_t length = sizeof got;
    MUST(fi_getopt(&rig->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &got, &length));
    EQUAL(got, 512);
    struct iovec iov = {.iov_len = BUFFER};
    void* desc = rig_desc(rig, memory, 2 * BUFFER);
    struct fi_msg message = {.msg_iov = &iov, .desc = &desc, .iov_count = 1};
    for (unsigned half = 0; half < 2; ++half) {
        iov.iov_base = memory + half * BUFFER;
        message.context = iov.iov_base;
        MUST(fi_recvmsg(rig->ep, &message, FI_MULTI_RECV));
    }
    rig_meet(rig);
    unsigned released = 0;
    for (unsigned i = 0; i < COUNT; ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        EQUAL(entry.len, i % 512);
        unsigned char* buffer = entry.op_context;
        const unsigned char* place = entry.buf;
        CHECK(place >= buffer && place + entry.len <= buffer + BUFFER);
        EQUAL(rig_first_difference(place, entry.len, i), entry.len);
        EQUAL(entry.flags & ~FI_MULTI_RECV, FI_MSG | FI_RECV);
        if ((entry.flags & FI_MULTI_RECV) == 0) continue;
        ++released;
        CHECK(place + entry.len + least > buffer + BUFFER);
        iov.iov_base = buffer;
        message.context = buffer;
        MUST(fi_recvmsg(rig->ep, &message, FI_MULTI_RECV));
    }
    CHECK(released > 5);
    rig_meet(rig);
}

static void send_multiple(struct rig* rig) {
    rig_need_waiting_messages(rig);
    unsigned char* memory = rig_memory(512);
    rig_meet(rig);
    for (unsigned i = 0; i < 500; ++i) {
        rig_fill(memory, i % 512, i);
        POST(rig, fi_send(rig->ep, memory, i % 512, rig_desc(rig, memory, i % 512), 0, memory));
        rig_next(rig, rig->tx);
    }
    rig_meet(rig);
}

// --- cancelling

static void receive_cancelled(struct rig* rig) {
    unsigned char memory[3][8];
    for (unsigned i = 0; i < 3; ++i)
        MUST(fi_recv(rig->ep, memory[i], 8, rig_desc(rig, memory[i], 8), 0, rig_context(i)));
    CODE(fi_cancel(&rig->ep->fid, rig_context(9)), -FI_ENOENT);
    if (!rig_can_cancel(rig)) {  // and then nothing has changed
        CODE(fi_cancel(&rig->ep->fid, rig_context(1)), -FI_EOPNOTSUPP);
        rig_meet(rig);
        for (unsigned i = 0; i < 3; ++i) CHECK(rig_next(rig, rig->rx).op_context == rig_context(i));
        rig_meet(rig);
        return;
    }
    MUST(fi_cancel(&rig->ep->fid, rig_context(1)));
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->rx);
    CHECK(error.op_context == rig_context(1));
    EQUAL(error.err, FI_ECANCELED);
    EQUAL(error.flags, FI_MSG | FI_RECV);
    CODE(fi_cancel(&rig->ep->fid, rig_context(1)), -FI_ENOENT);
    MUST(fi_recv(rig->ep, memory[1], 8, rig_desc(rig, memory[1], 8), 0, rig_context(1)));
    rig_meet(rig);
    const uintptr_t expected[] = {0, 2, 1};
    for (unsigned i = 0; i < 3; ++i)
        CHECK(rig_next(rig, rig->rx).op_context == rig_context(expected[i]));
    rig_meet(rig);
}

static void send_three(struct rig* rig) {
    uint64_t value = 7;
    rig_meet(rig);
    for (unsigned i = 0; i < 3; ++i) MUST(fi_inject(rig->ep, &value, sizeof value, 0));
    rig_meet(rig);
}

// --- shared contexts

enum { PEERS = 3, EACH = 200 };

static void receive_shared(struct rig* rig) {
    rig_need_waiting_messages(rig);
    unsigned char* memory = rig_memory(16 * 64);
    struct fid_ep* eps[PEERS];
    struct sockaddr_in unused;
    size_t unused_length = sizeof unused;
    rig_listen(rig);
    for (unsigned i = 0; i < PEERS; ++i) {
        struct fi_info* info = rig_event(rig, FI_CONNREQ)->info;
        eps[i] = rig_endpoint(rig, info);
        MUST(fi_accept(eps[i], NULL, 0));
        CHECK(rig_event(rig, FI_CONNECTED)->fid == &eps[i]->fid);
        MUST(fi_getpeer(eps[i], &unused, &unused_length));
        fi_freeinfo(info);
        CODE(fi_recv(eps[i], memory, 64, NULL, 0, NULL), -FI_EOPNOTSUPP);
    }
    for (unsigned i = 0; i < 16; ++i)
        MUST(fi_recv(rig->srx, memory + 64 * i, 64, rig_desc(rig, memory + 64 * i, 64), 0,
                     memory + 64 * i));
    CODE(fi_send(rig->srx, memory, 8, NULL, 0, NULL), -FI_ENOSYS);
    rig_meet(rig);
    unsigned seen[PEERS] = {0};
    for (unsigned i = 0; i < PEERS * EACH; ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        EQUAL(entry.len, 8);
        uint32_t who[2];
        memcpy(who, entry.buf, sizeof who);
        CHECK(who[0] < PEERS);
        EQUAL(who[1], seen[who[0]]);
        ++seen[who[0]];
        MUST(fi_recv(rig->srx, entry.op_context, 64, rig_desc(rig, entry.op_context, 64), 0,
                     entry.op_context));
    }
    CODE(fi_cancel(&rig->srx->fid, memory), rig_can_cancel(rig) ? 0 : -FI_EOPNOTSUPP);
    if (rig_can_cancel(rig)) EQUAL(rig_next_error(rig, rig->rx).err, FI_ECANCELED);
    rig_meet(rig);
    CODE(fi_close(&rig->srx->fid), -FI_EBUSY);
    for (unsigned i = 0; i < PEERS; ++i) MUST(fi_close(&eps[i]->fid));
}

static void send_shared(struct rig* rig) {
    rig_need_waiting_messages(rig);
    struct fid_ep* eps[PEERS];
    struct fi_info* info = rig_find_target(rig);
    for (unsigned i = 0; i < PEERS; ++i) {
        eps[i] = rig_endpoint(rig, info);
        MUST(fi_connect(eps[i], info->dest_addr, NULL, 0));
        CHECK(rig_event(rig, FI_CONNECTED)->fid == &eps[i]->fid);
    }
    fi_freeinfo(info);
    rig_meet(rig);
    for (uint32_t i = 0; i < EACH; ++i) {
        for (uint32_t peer = 0; peer < PEERS; ++peer) {
            const uint32_t who[2] = {peer, i};
            POST(rig, fi_inject(eps[peer], who, sizeof who, 0));
        }
    }
    rig_meet(rig);
    CODE(fi_close(&rig->stx->fid), -FI_EBUSY);
    for (unsigned i = 0; i < PEERS; ++i) MUST(fi_close(&eps[i]->fid));
}

// --- aliases and default flags

static void receive_aliased(struct rig* rig) {
    unsigned char memory[5][8];
    for (unsigned i = 0; i < 5; ++i)
        MUST(fi_recv(rig->ep, memory[i], 8, rig_desc(rig, memory[i], 8), 0, rig_context(i)));
    rig_meet(rig);
    for (unsigned i = 0; i < 5; ++i) CHECK(rig_next(rig, rig->rx).op_context == rig_context(i));
    rig_meet(rig);
}

static void send_aliased(struct rig* rig) {
    uint64_t value = 1;
    uint64_t flags = FI_TRANSMIT;
    struct fid_ep* alias = NULL;
    rig_meet(rig);
    CODE(fi_ep_alias(rig->ep, &alias, FI_COMPLETION), -FI_EINVAL);
    MUST(fi_ep_alias(rig->ep, &alias, FI_TRANSMIT | FI_COMPLETION));
    MUST(fi_send(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                 rig_context(0)));
    MUST(fi_send(alias, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                 rig_context(1)));
    CHECK(rig_next(rig, rig->tx).op_context == rig_context(1));
    MUST(fi_control(&alias->fid, FI_GETOPSFLAG, &flags));
    EQUAL(flags, FI_TRANSMIT | FI_COMPLETION);
    flags = FI_TRANSMIT;
    MUST(fi_control(&rig->ep->fid, FI_GETOPSFLAG, &flags));
    EQUAL(flags, FI_TRANSMIT);
    MUST(fi_control(&alias->fid, FI_SETOPSFLAG, &flags));
    MUST(fi_send(alias, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                 rig_context(2)));
    flags = FI_TRANSMIT | FI_COMPLETION | (rig_delivers(rig) ? FI_DELIVERY_COMPLETE : 0);
    MUST(fi_control(&rig->ep->fid, FI_SETOPSFLAG, &flags));
    MUST(fi_send(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                 rig_context(3)));
    CHECK(rig_next(rig, rig->tx).op_context == rig_context(3));
    flags = FI_TRANSMIT | FI_PEEK;
    CODE(fi_control(&rig->ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
    CODE(fi_close(&rig->ep->fid), -FI_EBUSY);
    MUST(fi_close(&alias->fid));
    MUST(fi_send(rig->ep, &value, sizeof value, rig_desc(rig, &value, sizeof value), 0,
                 rig_context(4)));
    CHECK(rig_next(rig, rig->tx).op_context == rig_context(4));
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
}

// --- options

static void idle(struct rig* rig) {
    rig_meet(rig);
}

static void use_options(struct rig* rig) {
    struct fid_ep* ep = NULL;
    size_t value = 0;
    size_t length = sizeof value;
    MUST(fi_endpoint(rig->domain, rig->info, &ep, NULL));
    struct fid* fid = &ep->fid;
    MUST(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &length));
    CHECK(value >= 16);
    length = 4;
    CODE(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &length), -FI_ETOOSMALL);
    EQUAL(length, sizeof value);
    CODE(fi_getopt(fid, FI_OPT_ENDPOINT + 1, FI_OPT_CM_DATA_SIZE, &value, &length),
         -FI_ENOPROTOOPT);
    CODE(fi_getopt(fid, FI_OPT_ENDPOINT, 9999, &value, &length), -FI_ENOPROTOOPT);
    CODE(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 4), -FI_EINVAL);
    CODE(fi_setopt(fid, FI_OPT_ENDPOINT, 9999, &value, sizeof value), -FI_ENOPROTOOPT);
    MUST(fi_close(fid));
    rig_meet(rig);
}

static const struct rig_test kTests[] = {
    {"every call of a message reaches its receive", receive_calls, send_calls, {0}, false, 0},
    {"messages come in order and whole", receive_many, send_many, {.rx_size = 64}, false, 0},
    {"a message that is too long is truncated", receive_too_long, send_too_long, {0}, false, 0},
    {"one buffer takes several messages", receive_multiple, send_multiple, {0}, false, 0},
    {"a receive can be cancelled", receive_cancelled, send_three, {0}, false, 0},
    {"peers share receives",
     receive_shared,
     send_shared,
     {.shared_receive = true, .shared_transmit = true},
     true,
     0},
    {"an alias differs in its flags alone",
     receive_aliased,
     send_aliased,
     {.bind = FI_SELECTIVE_COMPLETION},
     false,
     0},
    {"options are sizes within limits", idle, use_options, {0}, true, 0},
};

RIG_MAIN(kTests)
