// SPDX-License-Identifier: BSD-3-Clause
// Connectionless endpoints (FI_EP_RDM) between two processes: messages, tags, RMA, counters, and
// what happens when the other side is slow, asleep or dead.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fi_rig.h"

enum { KEY = 77 };

static const size_t kSizes[] = {0, 1, 7, 512, 513, 4095, 4096, 4097, 65536, 1 << 20, 5000001};
enum { LARGEST = 5000001 };

// --- messages

static void receive_all_sizes(struct rig* rig) {
    unsigned char* memory = rig_memory(LARGEST);
    for (unsigned i = 0; i < RIG_LENGTH(kSizes); ++i) {
        POST(rig, fi_recv(rig->ep, memory, kSizes[i], NULL, rig->peer, rig_context(i)));
        rig_meet(rig);
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        CHECK(entry.op_context == rig_context(i));
        EQUAL(entry.flags, FI_MSG | FI_RECV | (i % 2 != 0 ? FI_REMOTE_CQ_DATA : 0));
        EQUAL(entry.len, kSizes[i]);
        if (i % 2 != 0) CHECK(entry.data == UINT64_C(0x1122334455667700) + i);
        EQUAL(rig_first_difference(memory, kSizes[i], i), kSizes[i]);
    }
    rig_meet(rig);
}

static void send_all_sizes(struct rig* rig) {
    unsigned char* memory = rig_memory(LARGEST);
    for (unsigned i = 0; i < RIG_LENGTH(kSizes); ++i) {
        rig_fill(memory, kSizes[i], i);
        rig_meet(rig);
        if (i % 2 != 0)
            POST(rig, fi_senddata(rig->ep, memory, kSizes[i], NULL,
                                  UINT64_C(0x1122334455667700) + i, rig->peer, rig_context(i)));
        else
            POST(rig, fi_send(rig->ep, memory, kSizes[i], NULL, rig->peer, rig_context(i)));
        const struct fi_cq_data_entry entry = rig_next(rig, rig->tx);
        CHECK(entry.op_context == rig_context(i));
        EQUAL(entry.flags, FI_MSG | FI_SEND);
    }
    rig_meet(rig);
}

enum { UNEXPECTED = 300 };

static size_t unexpected_size(unsigned i) {
    return i % 10 == 9 ? 50000 + i : 8 + i;
}

// They come before their receives, and in the order in which they were sent.
static void receive_late(struct rig* rig) {
    unsigned char* memory = rig_memory(60000);
    rig_meet(rig);
    for (unsigned i = 0; i < UNEXPECTED; ++i) {
        POST(rig, fi_recv(rig->ep, memory, 60000, NULL, FI_ADDR_UNSPEC, rig_context(i)));
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        CHECK(entry.op_context == rig_context(i));
        EQUAL(entry.len, unexpected_size(i));
        EQUAL(rig_first_difference(memory, entry.len, i), entry.len);
    }
    rig_meet(rig);
}

static void send_early(struct rig* rig) {
    unsigned char* memory = rig_memory(UNEXPECTED * 60000UL);
    unsigned done = 0;
    for (unsigned i = 0; i < UNEXPECTED; ++i) {
        unsigned char* at = memory + i * 60000UL;
        rig_fill(at, unexpected_size(i), i);
        POST(rig, fi_send(rig->ep, at, unexpected_size(i), NULL, rig->peer, rig_context(i)));
        if (i == 100) rig_meet(rig);
    }
    for (; done < UNEXPECTED; ++done) EQUAL(rig_next(rig, rig->tx).flags, FI_MSG | FI_SEND);
    rig_meet(rig);
}

// Both begin at once: of two connections one survives.
static void talk_at_once(struct rig* rig) {
    uint64_t received[50];
    uint64_t sent[50];
    for (unsigned i = 0; i < 50; ++i) {
        sent[i] = i;
        POST(rig, fi_recv(rig->ep, &received[i], 8, NULL, FI_ADDR_UNSPEC, rig_context(i)));
    }
    rig_meet(rig);
    for (unsigned i = 0; i < 50; ++i)
        POST(rig, fi_send(rig->ep, &sent[i], 8, NULL, rig->peer, rig_context(i)));
    for (unsigned i = 0; i < 50; ++i) {
        CHECK(rig_next(rig, rig->rx).op_context == rig_context(i));
        EQUAL(received[i], i);
        CHECK(rig_next(rig, rig->tx).op_context == rig_context(i));
    }
    rig_meet(rig);
}

static void receive_multiple(struct rig* rig) {
    enum { ROOM = 1000 };
    unsigned char* memory = rig_memory(2 * ROOM);
    size_t least = 64;
    MUST(fi_setopt(&rig->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    for (unsigned i = 0; i < 2; ++i) {
        struct iovec iov = {memory + i * ROOM, ROOM};
        struct fi_msg message = {
            .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = rig_context(i)};
        POST(rig, fi_recvmsg(rig->ep, &message, FI_MULTI_RECV));
    }
    rig_meet(rig);
    unsigned seen = 0;
    unsigned released = 0;
    while (seen < 20) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        if (entry.flags & FI_MULTI_RECV) {
            CHECK(entry.op_context == rig_context(released));
            ++released;
        }
        if (!(entry.flags & FI_RECV)) continue;
        EQUAL(entry.len, 90);
        EQUAL(rig_first_difference(entry.buf, 90, seen), 90);
        ++seen;
    }
    EQUAL(released, 1);
    rig_meet(rig);
}

static void send_twenty(struct rig* rig) {
    unsigned char memory[90];
    rig_meet(rig);
    for (unsigned i = 0; i < 20; ++i) {
        rig_fill(memory, sizeof memory, i);
        POST(rig, fi_inject(rig->ep, memory, sizeof memory, rig->peer));
    }
    rig_meet(rig);
}

static void receive_too_short(struct rig* rig) {
    unsigned char memory[64] = {0};
    POST(rig, fi_recv(rig->ep, memory, 10, NULL, FI_ADDR_UNSPEC, rig_context(1)));
    POST(rig, fi_recv(rig->ep, memory, 64, NULL, FI_ADDR_UNSPEC, rig_context(2)));
    POST(rig, fi_recv(rig->ep, memory, 64, NULL, FI_ADDR_UNSPEC, rig_context(3)));
    MUST(fi_cancel(&rig->ep->fid, rig_context(2)));
    const struct fi_cq_err_entry cancelled = rig_next_error(rig, rig->rx);
    CHECK(cancelled.op_context == rig_context(2));
    EQUAL(cancelled.err, FI_ECANCELED);
    CODE(fi_cancel(&rig->ep->fid, rig_context(2)), -FI_ENOENT);
    rig_meet(rig);
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->rx);
    CHECK(error.op_context == rig_context(1));
    EQUAL(error.err, FI_ETRUNC);
    EQUAL(error.olen, 40);
    CHECK(rig_next(rig, rig->rx).op_context == rig_context(3));
    rig_meet(rig);
}

static void send_two(struct rig* rig) {
    unsigned char memory[50] = {0};
    rig_meet(rig);
    for (unsigned i = 0; i < 2; ++i) {
        POST(rig, fi_send(rig->ep, memory, sizeof memory, NULL, rig->peer, rig_context(i)));
        EQUAL(rig_next(rig, rig->tx).flags, FI_MSG | FI_SEND);
    }
    CODE(fi_send(rig->ep, memory, 8, NULL, rig->peer + 7, NULL), -FI_EINVAL);
    rig_meet(rig);
}

static void receive_from_whom(struct rig* rig) {
    uint64_t value = 0;
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = 0;
    POST(rig, fi_recv(rig->ep, &value, 8, NULL, rig->peer, NULL));
    rig_meet(rig);
    ssize_t count;
    while ((count = fi_cq_readfrom(rig->rx, &entry, 1, &source)) == -FI_EAGAIN) rig_progress(rig);
    EQUAL(count, 1);
    EQUAL(source, rig->peer);
    MUST(fi_av_remove(rig->av, &rig->peer, 1, 0));
    POST(rig, fi_recv(rig->ep, &value, 8, NULL, FI_ADDR_UNSPEC, NULL));
    rig_meet(rig);
    while ((count = fi_cq_readfrom(rig->rx, &entry, 1, &source)) == -FI_EAGAIN) rig_progress(rig);
    EQUAL(count, 1);
    CHECK(source == FI_ADDR_NOTAVAIL);
    rig_meet(rig);
}

static void send_twice(struct rig* rig) {
    uint64_t value = 7;
    for (unsigned i = 0; i < 2; ++i) {
        rig_meet(rig);
        POST(rig, fi_inject(rig->ep, &value, sizeof value, rig->peer));
    }
    rig_meet(rig);
}

// --- tags

static void receive_tagged(struct rig* rig) {
    uint64_t values[4] = {0};
    POST(rig, fi_trecv(rig->ep, &values[0], 8, NULL, FI_ADDR_UNSPEC, 0xa0, 0, rig_context(0)));
    POST(rig, fi_trecv(rig->ep, &values[1], 8, NULL, FI_ADDR_UNSPEC, 0xb0, 0xf, rig_context(1)));
    POST(rig, fi_recv(rig->ep, &values[2], 8, NULL, FI_ADDR_UNSPEC, rig_context(2)));
    rig_meet(rig);
    for (unsigned i = 0; i < 3; ++i) {
        const struct fi_cq_tagged_entry entry = rig_next_tagged(rig, rig->rx);
        if (entry.op_context == rig_context(2)) {
            EQUAL(entry.flags, FI_MSG | FI_RECV);
        } else {
            EQUAL(entry.flags, FI_TAGGED | FI_RECV);
            EQUAL(entry.tag, entry.op_context == rig_context(0) ? 0xa0 : 0xb7);
        }
    }
    EQUAL(values[0], 0xa0);
    EQUAL(values[1], 0xb7);
    EQUAL(values[2], 1);
    rig_meet(rig);
}

static void send_tagged(struct rig* rig) {
    const uint64_t values[] = {0xb7, 1, 0xa0};
    rig_meet(rig);
    POST(rig, fi_tsend(rig->ep, &values[0], 8, NULL, rig->peer, 0xb7, rig_context(0)));
    POST(rig, fi_send(rig->ep, &values[1], 8, NULL, rig->peer, rig_context(1)));
    POST(rig, fi_tinject(rig->ep, &values[2], 8, rig->peer, 0xa0));
    EQUAL(rig_next(rig, rig->tx).flags, FI_TAGGED | FI_SEND);
    EQUAL(rig_next(rig, rig->tx).flags, FI_MSG | FI_SEND);
    rig_meet(rig);
}

static struct fi_cq_tagged_entry peek(struct rig* rig, uint64_t tag, uint64_t flags,
                                      void* context) {
    struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = context};
    POST(rig, fi_trecvmsg(rig->ep, &message, FI_PEEK | flags));
    return rig_next_tagged(rig, rig->rx);
}

static void look_before_receiving(struct rig* rig) {
    uint64_t value = 0;
    struct fi_context claim;
    struct fi_msg_tagged nothing = {.addr = FI_ADDR_UNSPEC, .tag = 99, .context = rig_context(9)};
    POST(rig, fi_trecvmsg(rig->ep, &nothing, FI_PEEK));
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->rx);
    EQUAL(error.err, FI_ENOMSG);
    CHECK(error.op_context == rig_context(9));
    rig_meet(rig);
    rig_meet(rig);  // all four are here
    struct fi_cq_tagged_entry entry = peek(rig, 5, 0, rig_context(1));
    EQUAL(entry.len, 8);
    EQUAL(entry.tag, 5);
    entry = peek(rig, 6, FI_CLAIM, &claim);
    EQUAL(entry.len, 8);
    peek(rig, 7, FI_DISCARD, rig_context(2));
    // What is claimed is nobody else's.
    struct fi_msg_tagged again = {.addr = FI_ADDR_UNSPEC, .tag = 6, .context = rig_context(3)};
    POST(rig, fi_trecvmsg(rig->ep, &again, FI_PEEK));
    EQUAL(rig_next_error(rig, rig->rx).err, FI_ENOMSG);
    struct iovec iov = {&value, sizeof value};
    struct fi_msg_tagged claimed = {
        .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 6, .context = &claim};
    POST(rig, fi_trecvmsg(rig->ep, &claimed, FI_CLAIM));
    CHECK(rig_next(rig, rig->rx).op_context == &claim);
    EQUAL(value, 6);
    CODE(fi_trecvmsg(rig->ep, &claimed, FI_DISCARD), -FI_EINVAL);
    entry = peek(rig, 8, FI_CLAIM, &claim);
    EQUAL(entry.tag, 8);
    struct fi_msg_tagged unwanted = {.addr = FI_ADDR_UNSPEC, .tag = 8, .context = &claim};
    POST(rig, fi_trecvmsg(rig->ep, &unwanted, FI_CLAIM | FI_DISCARD));
    entry = rig_next_tagged(rig, rig->rx);
    CHECK(entry.op_context == &claim);
    EQUAL(entry.tag, 8);
    POST(rig, fi_trecv(rig->ep, &value, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    rig_next(rig, rig->rx);
    EQUAL(value, 5);
    rig_meet(rig);
}

static void send_five_to_eight(struct rig* rig) {
    rig_meet(rig);
    for (uint64_t tag = 5; tag <= 8; ++tag) {
        POST(rig, fi_tsend(rig->ep, &tag, sizeof tag, NULL, rig->peer, tag, NULL));
        rig_next(rig, rig->tx);
    }
    rig_meet(rig);
    rig_meet(rig);
}

// --- RMA

static void be_memory(struct rig* rig) {
    unsigned char* memory = rig_memory(LARGEST);
    struct fid_mr* mr = rig_region(rig, memory, LARGEST, FI_REMOTE_WRITE | FI_REMOTE_READ, KEY, 0);
    const struct rig_target target = rig_describe(rig, mr, memory, LARGEST);
    rig_say(rig, &target, sizeof target);
    for (unsigned i = 0; i < RIG_LENGTH(kSizes); ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
        EQUAL(entry.len, kSizes[i]);
        EQUAL(entry.data, i);
        EQUAL(rig_first_difference(memory, kSizes[i], i), kSizes[i]);
        rig_meet(rig);
    }
    MUST(fi_close(&mr->fid));
    rig_meet(rig);
    rig_meet(rig);  // not before the initiator has met the closed region
}

static void write_and_read(struct rig* rig) {
    unsigned char* memory = rig_memory(LARGEST);
    unsigned char* back = rig_memory(LARGEST);
    void* desc = rig_desc(rig, memory, LARGEST);
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    for (unsigned i = 0; i < RIG_LENGTH(kSizes); ++i) {
        rig_fill(memory, kSizes[i], i);
        memset(back, 0, kSizes[i]);
        POST(rig, fi_write(rig->ep, memory, kSizes[i], desc, rig->peer, target.address, target.key,
                           rig_context(1)));
        POST(rig, fi_read(rig->ep, back, kSizes[i], rig_desc(rig, back, LARGEST), rig->peer,
                          target.address, target.key, rig_context(2)));
        const struct fi_cq_data_entry written = rig_next(rig, rig->tx);
        CHECK(written.op_context == rig_context(1));
        EQUAL(written.flags, FI_RMA | FI_WRITE);
        const struct fi_cq_data_entry read = rig_next(rig, rig->tx);
        CHECK(read.op_context == rig_context(2));
        EQUAL(read.flags, FI_RMA | FI_READ);
        EQUAL(rig_first_difference(back, kSizes[i], i), kSizes[i]);
        POST(rig, fi_writedata(rig->ep, memory, kSizes[i], desc, i, rig->peer, target.address,
                               target.key, rig_context(3)));
        CHECK(rig_next(rig, rig->tx).op_context == rig_context(3));
        rig_meet(rig);
    }
    rig_meet(rig);            // the region is gone
    if (rig_is_iwarp(rig)) {  // a completed write has been sent, and its fault names no request
        rig_meet(rig);
        return;
    }
    POST(rig,
         fi_write(rig->ep, memory, 8, desc, rig->peer, target.address, target.key, rig_context(4)));
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
    CHECK(error.op_context == rig_context(4));
    CHECK(error.err == FI_ENOKEY || error.err == FI_EACCES);
    EQUAL(error.flags, FI_RMA | FI_WRITE);
    rig_meet(rig);
}

static void need_rights(const struct rig* rig) {
    if (rig_is_iwarp(rig)) rig_skip("queue pairs of an iWARP NIC enforce no rights");
}

// The first attempts may still go to the connection that the refused write has ended.
static void send_until_taken(struct rig* rig, const void* memory, size_t length) {
    struct fi_cq_tagged_entry entry;
    ssize_t count;
    do {
        POST(rig, fi_send(rig->ep, memory, length, NULL, rig->peer, rig_context(1)));
        while ((count = fi_cq_read(rig->tx, &entry, 1)) == -FI_EAGAIN) rig_progress(rig);
        struct fi_cq_err_entry error = {0};
        if (count == -FI_EAVAIL) EQUAL(fi_cq_readerr(rig->tx, &error, 0), 1);
    } while (count == -FI_EAVAIL);
    EQUAL(count, 1);
    CHECK(entry.op_context == rig_context(1));
}

// The endpoints are opened without FI_REMOTE_WRITE: a write fails, a message gets through.
static void allow_no_writes(struct rig* rig) {
    need_rights(rig);
    static unsigned char memory[100000];
    struct fid_mr* mr = rig_region(rig, memory, sizeof memory, FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target target = rig_describe(rig, mr, memory, sizeof memory);
    rig_say(rig, &target, sizeof target);
    rig_meet(rig);
    for (size_t at = 0; at < sizeof memory; ++at) EQUAL(memory[at], 0);
    rig_fill(memory, sizeof memory, 5);
    send_until_taken(rig, memory, sizeof memory);
    rig_meet(rig);
    MUST(fi_close(&mr->fid));
}

static void try_to_write(struct rig* rig) {
    need_rights(rig);
    static unsigned char memory[100000];
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    rig_fill(memory, sizeof memory, 1);
    POST(rig,
         fi_write(rig->ep, memory, 8, NULL, rig->peer, target.address, target.key, rig_context(4)));
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
    CHECK(error.op_context == rig_context(4));
    // NICs may call a right that the queue pair lacks an invalid request.
    CHECK(error.err == FI_EACCES || error.err == FI_EREMOTEIO);
    POST(rig, fi_recv(rig->ep, memory, sizeof memory, NULL, FI_ADDR_UNSPEC, rig_context(5)));
    rig_meet(rig);
    EQUAL(rig_next(rig, rig->rx).len, sizeof memory);
    EQUAL(rig_first_difference(memory, sizeof memory, 5), sizeof memory);
    rig_meet(rig);
}

// Nothing is called while the writes come.
static void sleep_meanwhile(struct rig* rig) {
    unsigned char* memory = rig_memory(65536);
    struct fid_mr* mr = rig_region(rig, memory, 65536, FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target target = rig_describe(rig, mr, memory, 65536);
    rig_say(rig, &target, sizeof target);
    rig_meet(rig);
    EQUAL(rig_first_difference(memory, 65536, 4), 65536);
    MUST(fi_close(&mr->fid));
}

static void write_to_a_sleeper(struct rig* rig) {
    unsigned char* memory = rig_memory(65536);
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    rig_fill(memory, 65536, 4);
    POST(rig, fi_write(rig->ep, memory, 65536, NULL, rig->peer, target.address, target.key, NULL));
    EQUAL(rig_next(rig, rig->tx).flags, FI_RMA | FI_WRITE);
    rig_meet(rig);
}

static void count_what_peers_do(struct rig* rig) {
    enum { WRITES = 40 };
    unsigned char* memory = rig_memory(65536);
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr* writes = NULL;
    MUST(fi_cntr_open(rig->domain, &attr, &writes, NULL));
    struct fid_ep* ep = NULL;
    MUST(fi_endpoint(rig->domain, rig->info, &ep, NULL));
    MUST(fi_ep_bind(ep, &rig->av->fid, 0));
    MUST(fi_ep_bind(ep, &rig->rx->fid, FI_RECV));
    MUST(fi_ep_bind(ep, &rig->tx->fid, FI_TRANSMIT));
    MUST(fi_ep_bind(ep, &writes->fid, FI_REMOTE_WRITE));
    MUST(fi_enable(ep));
    rig_insert_other(rig, ep);
    struct fid_mr* mr = rig_region(rig, memory, 65536, FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target target = rig_describe(rig, mr, memory, 65536);
    rig_say(rig, &target, sizeof target);
    MUST(fi_cntr_wait(writes, WRITES, RIG_TIMEOUT_MS));
    EQUAL(rig_first_difference(memory, 65536, 9), 65536);
    CODE(fi_cntr_wait(writes, WRITES + 1, 50), -FI_ETIMEDOUT);
    rig_meet(rig);
    MUST(fi_close(&ep->fid));
    MUST(fi_close(&mr->fid));
    MUST(fi_close(&writes->fid));
}

static void write_forty(struct rig* rig) {
    unsigned char* memory = rig_memory(65536);
    const fi_addr_t peer = rig_insert_other(rig, rig->ep);
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    rig_fill(memory, 65536, 9);
    for (unsigned i = 0; i < 40; ++i) {
        POST(rig, fi_write(rig->ep, memory, 65536, NULL, peer, target.address, target.key, NULL));
        rig_next(rig, rig->tx);
    }
    rig_meet(rig);
}

// --- pressure and death

enum { FLOOD = 20000 };

static void receive_a_flood_late(struct rig* rig) {
    uint64_t values[32];
    rig_meet(rig);  // the sender was held back at least once, or is done
    for (unsigned i = 0; i < 32; ++i)
        POST(rig, fi_recv(rig->ep, &values[i], 8, NULL, FI_ADDR_UNSPEC, &values[i]));
    for (uint64_t i = 0; i < FLOOD; ++i) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
        uint64_t* value = entry.op_context;
        EQUAL(*value, i);
        if (i + 32 < FLOOD) POST(rig, fi_recv(rig->ep, value, 8, NULL, FI_ADDR_UNSPEC, value));
    }
    rig_meet(rig);
}

static void send_a_flood(struct rig* rig) {
    bool met = false;
    unsigned held_back = 0;
    for (uint64_t i = 0; i < FLOOD; ++i) {
        ssize_t posted;
        while ((posted = fi_inject(rig->ep, &i, sizeof i, rig->peer)) == -FI_EAGAIN) {
            rig_progress(rig);
            if (++held_back > 1000 && !met) {
                rig_meet(rig);
                met = true;
            }
        }
        MUST(posted);
    }
    if (!met) rig_meet(rig);
    rig_meet(rig);
}

static void die(struct rig* rig) {
    unsigned char* memory = rig_memory(65536);
    struct fid_mr* mr = rig_region(rig, memory, 65536, FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target target = rig_describe(rig, mr, memory, 65536);
    rig_say(rig, &target, sizeof target);
    rig_meet(rig);
    for (;;) pause();
}

// Every accepted operation ends, each once.
static void outlive(struct rig* rig) {
    enum { WRITES = 64 };
    unsigned char* memory = rig_memory(65536);
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    POST(rig, fi_write(rig->ep, memory, 8, NULL, rig->peer, target.address, target.key, NULL));
    rig_next(rig, rig->tx);
    rig_meet(rig);
    kill(rig->other_pid, SIGKILL);
    unsigned accepted = 0;
    unsigned ended = 0;
    unsigned failed = 0;
    const double end = rig_seconds() + 30;
    // A process that is being killed has its memory for a moment still.
    while ((ended < accepted || ended < WRITES || failed == 0) && rig_seconds() < end) {
        const bool more = accepted < WRITES || (failed == 0 && ended == accepted);
        if (more && fi_write(rig->ep, memory, 65536, NULL, rig->peer, target.address, target.key,
                             rig_context(accepted)) == 0)
            ++accepted;
        struct fi_cq_tagged_entry entry;
        const ssize_t count = fi_cq_read(rig->tx, &entry, 1);
        if (count == 1) {
            ++ended;
        } else if (count == -FI_EAVAIL) {
            struct fi_cq_err_entry error = {0};
            EQUAL(fi_cq_readerr(rig->tx, &error, 0), 1);
            CHECK(error.op_context >= rig_context(0) && error.op_context < rig_context(accepted));
            ++failed;
            ++ended;
        }
    }
    CHECK(accepted >= WRITES);
    EQUAL(ended, accepted);
    CHECK(failed > 0);
    rig_expect_nothing(rig->tx);
}

static void receive_shared(struct rig* rig) {
    uint64_t values[16];
    for (unsigned i = 0; i < 16; ++i)
        POST(rig, fi_recv(rig->srx, &values[i], 8, NULL, FI_ADDR_UNSPEC, &values[i]));
    CODE(fi_recv(rig->ep, values, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPNOTSUPP);
    rig_meet(rig);
    for (uint64_t i = 0; i < 100; ++i) {
        uint64_t* value = rig_next(rig, rig->rx).op_context;
        EQUAL(*value, i);
        POST(rig, fi_recv(rig->srx, value, 8, NULL, FI_ADDR_UNSPEC, value));
    }
    MUST(fi_cancel(&rig->srx->fid, &values[0]));
    EQUAL(rig_next_error(rig, rig->rx).err, FI_ECANCELED);
    rig_meet(rig);
}

static void send_hundred(struct rig* rig) {
    rig_meet(rig);
    for (uint64_t i = 0; i < 100; ++i) POST(rig, fi_inject(rig->ep, &i, sizeof i, rig->peer));
    rig_meet(rig);
}

static void wait_asleep(struct rig* rig) {
    uint64_t value = 0;
    struct fi_cq_tagged_entry entry;
    for (uint64_t i = 0; i < 20; ++i) {
        POST(rig, fi_recv(rig->ep, &value, 8, NULL, FI_ADDR_UNSPEC, NULL));
        rig_meet(rig);
        EQUAL(fi_cq_sread(rig->rx, &entry, 1, NULL, RIG_TIMEOUT_MS), 1);
        EQUAL(value, i);
    }
    CODE(fi_cq_sread(rig->rx, &entry, 1, NULL, 20), -FI_EAGAIN);
    rig_meet(rig);
}

static void wake_the_other(struct rig* rig) {
    for (uint64_t i = 0; i < 20; ++i) {
        rig_meet(rig);
        usleep(i % 4 == 0 ? 20000 : 0);
        POST(rig, fi_inject(rig->ep, &i, sizeof i, rig->peer));
    }
    rig_meet(rig);
}

#define RDM .rdm = true

static const struct rig_test kTests[] = {
    {"messages of every size arrive whole", receive_all_sizes, send_all_sizes, {RDM}, false, 0},
    {"messages wait for their receives in order", receive_late, send_early, {RDM}, false, 0},
    {"two that begin at once get on", talk_at_once, talk_at_once, {RDM}, false, 0},
    {"one buffer takes several messages",
     receive_multiple,
     send_twenty,
     {RDM, .caps = FI_MSG | FI_MULTI_RECV},
     false,
     0},
    {"receives can be too short or cancelled", receive_too_short, send_two, {RDM}, false, 0},
    {"a message tells who sent it",
     receive_from_whom,
     send_twice,
     {RDM, .caps = FI_MSG | FI_SOURCE | FI_DIRECTED_RECV},
     false,
     0},
    {"tags select receives",
     receive_tagged,
     send_tagged,
     {RDM, .caps = FI_MSG | FI_TAGGED},
     false,
     0},
    {"messages can be looked at, claimed and dropped",
     look_before_receiving,
     send_five_to_eight,
     {RDM, .caps = FI_TAGGED},
     false,
     0},
    {"memory is written and read without its owner", be_memory, write_and_read, {RDM}, false, 0},
    {"so with keys and addresses of the provider",
     be_memory,
     write_and_read,
     {RDM, .mr_mode = FI_MR_BASIC},
     false,
     0},
    {"so with local memory that the program has registered",
     be_memory,
     write_and_read,
     {RDM, .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY},
     false,
     0},
    {"but not written when the owner's endpoint does not let it",
     allow_no_writes,
     try_to_write,
     {RDM, .caps = FI_MSG | FI_RMA | FI_WRITE | FI_READ},
     false,
     0},
    {"and while the owner sleeps", sleep_meanwhile, write_to_a_sleeper, {RDM}, false, 0},
    {"a counter tells what peers wrote",
     count_what_peers_do,
     write_forty,
     {RDM, .caps = FI_MSG | FI_RMA | FI_RMA_EVENT},
     false,
     0},
    {"a flood without receives is held back and lost by nobody",
     receive_a_flood_late,
     send_a_flood,
     {RDM},
     false,
     0},
    {"a killed peer ends every operation once", die, outlive, {RDM}, false, SIGKILL},
    {"endpoints share receives",
     receive_shared,
     send_hundred,
     {RDM, .shared_receive = true},
     false,
     0},
    {"a sleeper is woken by each message",
     wait_asleep,
     wake_the_other,
     {RDM, .wait = FI_WAIT_FD},
     false,
     0},
};

RIG_MAIN(kTests)
