// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong is told by the request that did it, with the status that InfiniBand has for it;
// those before it succeed, those behind it are flushed, and the other side learns that it is over.
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpma_rig.h"

enum { REGION = 8192, GAP = 4096 };

// The region's descriptor, as librpma lays it out, for forgeries.
struct __attribute__((packed)) descriptor {
    uint64_t address;
    uint64_t size;
    uint32_t rkey;
    uint8_t usage;
};

static struct descriptor describe(struct rpma_mr_local* mr) {
    struct descriptor descriptor;
    size_t size = 0;
    MUST(rpma_mr_get_descriptor_size(mr, &size));
    CHECK_EQUAL(size, sizeof descriptor);
    MUST(rpma_mr_get_descriptor(mr, &descriptor));
    return descriptor;
}

static struct rpma_mr_remote* remote_of(struct descriptor descriptor) {
    struct rpma_mr_remote* remote = NULL;
    MUST(rpma_mr_remote_from_descriptor(&descriptor, sizeof descriptor, &remote));
    return remote;
}

enum operation { WRITE, READ, FLUSH, ATOMIC_WRITE, WRITE_IMM, SEND, OPERATIONS };
static const char* const operation_names[OPERATIONS] = {"write",        "read",      "flush",
                                                        "atomic write", "write imm", "send"};

// One thing done wrong.
struct misdeed {
    const char* name;
    unsigned operations;   // bits: those that it makes fail
    int usage;             // of the target region
    int64_t move;          // the forged descriptor's address
    uint32_t change_rkey;  // xor
    size_t offset;         // into the target region
    size_t local_offset;   // into the local one
    size_t length;
    bool deregistered;  // the target region is, before the operation
    enum ibv_wc_status status;
};

#define BIT(operation) (1u << (operation))
enum {
    ALL_USAGES = RIG_ALL_USAGES,
    ONE_SIDED = BIT(WRITE) | BIT(READ) | BIT(FLUSH) | BIT(ATOMIC_WRITE) | BIT(WRITE_IMM),
    WRITING = BIT(WRITE) | BIT(ATOMIC_WRITE) | BIT(WRITE_IMM),
    LOCAL = BIT(WRITE) | BIT(READ) | BIT(WRITE_IMM) | BIT(SEND),
};

static const struct misdeed misdeeds[] = {
    {.name = "a key that nobody gave out",
     .operations = ONE_SIDED,
     .usage = ALL_USAGES,
     .change_rkey = 0x100,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "a key of an earlier region",
     .operations = ONE_SIDED,
     .usage = ALL_USAGES,
     .change_rkey = 1,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "a region that was deregistered",
     .operations = ONE_SIDED,
     .usage = ALL_USAGES,
     .length = 8,
     .deregistered = true,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "one byte beyond the end",
     .operations = ONE_SIDED & ~BIT(ATOMIC_WRITE),
     .usage = ALL_USAGES,
     .offset = REGION - 7,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "all beyond the end",
     .operations = ONE_SIDED,
     .usage = ALL_USAGES,
     .offset = REGION,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "one byte before the start",
     .operations = ONE_SIDED,
     .usage = ALL_USAGES,
     .move = -1,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "an address that wraps",
     .operations = ONE_SIDED & ~BIT(ATOMIC_WRITE),
     .usage = ALL_USAGES,
     .offset = SIZE_MAX - 3,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "no right to write",
     .operations = WRITING,
     .usage = ALL_USAGES & ~RPMA_MR_USAGE_WRITE_DST,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "no right to read",
     .operations = BIT(READ),
     .usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV,
     .length = 8,
     .status = IBV_WC_REM_ACCESS_ERR},
    {.name = "local memory one byte too long",
     .operations = LOCAL,
     .usage = ALL_USAGES,
     .local_offset = REGION - 7,
     .length = 8,
     .status = IBV_WC_LOC_PROT_ERR},
    {.name = "local memory beyond the end",
     .operations = LOCAL,
     .usage = ALL_USAGES,
     .local_offset = REGION,
     .length = 1,
     .status = IBV_WC_LOC_PROT_ERR},
};

static void post(struct rpma_conn* conn, enum operation operation, const struct misdeed* misdeed,
                 struct rpma_mr_remote* remote, struct rpma_mr_local* local, int flags,
                 const void* context) {
    const size_t offset = misdeed->offset;
    const size_t from = misdeed->local_offset;
    const size_t length = misdeed->length;
    switch (operation) {
        case WRITE:
            MUST(rpma_write(conn, remote, offset, local, from, length, flags, context));
            break;
        case READ:
            MUST(rpma_read(conn, local, from, remote, offset, length, flags, context));
            break;
        case FLUSH:
            MUST(rpma_flush(conn, remote, offset, length, RPMA_FLUSH_TYPE_VISIBILITY, flags,
                            context));
            break;
        case ATOMIC_WRITE:
            MUST(rpma_atomic_write(conn, remote, offset, "1234567", flags, context));
            break;
        case WRITE_IMM:
            MUST(rpma_write_with_imm(conn, remote, offset, local, from, length, flags, 1, context));
            break;
        default: MUST(rpma_send(conn, local, from, length, flags, context)); break;
    }
}

static int run_of(const struct misdeed* misdeed, enum operation operation) {
    return (misdeed->operations & BIT(operation)) != 0;
}

static void be_wronged_by(struct rig* rig, struct rpma_ep* ep, const struct misdeed* misdeed) {
    // Memory around the region shows whether a refused operation wrote.
    struct rig_memory memory = rig_memory(rig, GAP + REGION + GAP, RPMA_MR_USAGE_RECV);
    struct rpma_mr_local* mr = NULL;
    MUST(rpma_mr_reg(rig->peer, memory.at + GAP, REGION, misdeed->usage, &mr));
    struct rpma_conn* conn = rig_accept(rig, ep, NULL);
    const struct descriptor descriptor = describe(mr);
    struct rig_memory good = rig_memory(rig, 64, RIG_ALL_USAGES);
    rig_lend(rig, good.mr);
    rig_say(rig, &descriptor, sizeof descriptor);
    MUST(rpma_recv(conn, memory.mr, 0, 64, &descriptor));
    if (misdeed->deregistered) MUST(rpma_mr_dereg(&mr));
    rig_meet(rig);
    // The receive is taken by nobody.
    COMPLETION(rig_cq(conn), &descriptor, IBV_WC_WR_FLUSH_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    // In the error state posts are taken and flushed.
    MUST(rpma_recv(conn, memory.mr, 0, 64, &mr));
    COMPLETION(rig_cq(conn), &mr, IBV_WC_WR_FLUSH_ERR);
    for (size_t i = 0; i < memory.size; ++i) CHECK_EQUAL(memory.at[i], 0);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    if (mr != NULL) MUST(rpma_mr_dereg(&mr));
    rig_forget(&good);
    rig_forget(&memory);
}

static void do_wrong(struct rig* rig, const struct misdeed* misdeed, enum operation operation) {
    struct rig_memory memory = rig_memory(rig, REGION, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connect(rig, NULL);
    struct rpma_mr_remote* good = rig_borrow(rig);
    struct descriptor descriptor;
    rig_hear(rig, &descriptor, sizeof descriptor);
    descriptor.address += (uint64_t)misdeed->move;
    descriptor.rkey ^= misdeed->change_rkey;
    // What the library refuses by itself is no business of this test.
    descriptor.usage |= RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    struct rpma_mr_remote* remote = remote_of(descriptor);
    struct rpma_cq* cq = rig_cq(conn);
    char marks[8];
    rig_meet(rig);
    memset(memory.at, 0x77, REGION);
    const int always = RPMA_F_COMPLETION_ALWAYS;
    const int on_error = RPMA_F_COMPLETION_ON_ERROR;
    MUST(rpma_recv(conn, memory.mr, 0, 64, &marks[7]));
    MUST(rpma_write(conn, good, 0, memory.mr, 0, 64, always, &marks[0]));
    MUST(rpma_read(conn, memory.mr, 0, good, 0, 64, always, &marks[1]));
    MUST(rpma_write(conn, good, 0, memory.mr, 0, 64, on_error, &marks[2]));
    post(conn, operation, misdeed, remote, memory.mr, on_error, &marks[3]);
    MUST(rpma_write(conn, good, 0, memory.mr, 0, 64, on_error, &marks[4]));
    MUST(rpma_read(conn, memory.mr, 0, good, 0, 64, always, &marks[5]));
    COMPLETION(cq, &marks[0], IBV_WC_SUCCESS);
    COMPLETION(cq, &marks[1], IBV_WC_SUCCESS);
    COMPLETION(cq, &marks[3], misdeed->status);
    bool receive_seen = false;
    for (int next = 4; next < 6 || !receive_seen;) {
        const struct ibv_wc wc = rig_completion(cq);
        CHECK_EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
        if (wc.wr_id == (uintptr_t)&marks[7])
            receive_seen = true;
        else
            CHECK_EQUAL(wc.wr_id, (uintptr_t)&marks[next++]);
    }
    NO_COMPLETION_OF(cq);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_write(conn, good, 0, memory.mr, 0, 64, on_error, &marks[6]));
    COMPLETION(cq, &marks[6], IBV_WC_WR_FLUSH_ERR);
    NO_COMPLETION_OF(cq);
    MUST(rpma_mr_remote_delete(&remote));
    MUST(rpma_mr_remote_delete(&good));
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

static void be_wronged(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    for (size_t i = 0; i < RIG_LENGTH(misdeeds); ++i)
        for (int operation = 0; operation < OPERATIONS; ++operation)
            if (run_of(&misdeeds[i], (enum operation)operation))
                be_wronged_by(rig, ep, &misdeeds[i]);
    MUST(rpma_ep_shutdown(&ep));
}

static void do_all_wrongs(struct rig* rig) {
    rig_find_server(rig);
    for (size_t i = 0; i < RIG_LENGTH(misdeeds); ++i) {
        for (int operation = 0; operation < OPERATIONS; ++operation) {
            if (!run_of(&misdeeds[i], (enum operation)operation)) continue;
            printf("  %s: %s\n", operation_names[operation], misdeeds[i].name);
            do_wrong(rig, &misdeeds[i], (enum operation)operation);
        }
    }
}

// --- messages and receives that do not fit

static void receive_too_little(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 256, RPMA_MR_USAGE_RECV);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    char marks[3];
    MUST(rpma_recv(conn, memory.mr, 0, 64, &marks[0]));
    MUST(rpma_recv(conn, memory.mr, 64, 63, &marks[1]));
    MUST(rpma_recv(conn, memory.mr, 128, 64, &marks[2]));
    rig_meet(rig);
    COMPLETION(rig_cq(conn), &marks[0], IBV_WC_SUCCESS);
    COMPLETION(rig_cq(conn), &marks[1], IBV_WC_LOC_LEN_ERR);
    COMPLETION(rig_cq(conn), &marks[2], IBV_WC_WR_FLUSH_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    CHECK_EQUAL(rig_first_difference(memory.at, 64, 1), 64);
    for (size_t i = 127; i < memory.size; ++i) CHECK_EQUAL(memory.at[i], 0);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

static void send_too_much(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 64, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    char marks[3];
    rig_fill(memory.at, 64, 1);
    rig_meet(rig);
    for (int i = 0; i < 3; ++i)
        MUST(rpma_send(conn, memory.mr, 0, 64, RPMA_F_COMPLETION_ALWAYS, &marks[i]));
    COMPLETION(rig_cq(conn), &marks[0], IBV_WC_SUCCESS);
    COMPLETION(rig_cq(conn), &marks[1], IBV_WC_REM_INV_REQ_ERR);
    COMPLETION(rig_cq(conn), &marks[2], IBV_WC_WR_FLUSH_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

// Only the receiver knows what is wrong with its memory.
static void receive_beyond_the_end(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 256, RPMA_MR_USAGE_RECV);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    MUST(rpma_recv(conn, memory.mr, memory.size - 32, 64, &memory));
    rig_meet(rig);
    COMPLETION(rig_cq(conn), &memory, IBV_WC_LOC_PROT_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

static void send_innocently(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 64, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_meet(rig);
    MUST(rpma_send(conn, memory.mr, 0, 64, RPMA_F_COMPLETION_ALWAYS, &memory));
    COMPLETION(rig_cq(conn), &memory, IBV_WC_REM_OP_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

// --- more posts than slots

static void receive_three(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 64, RPMA_MR_USAGE_RECV);
    struct rpma_conn_cfg* cfg = rig_cfg(0, 3, 0, 0);
    struct rpma_conn* conn = rig_connection(rig, cfg);
    MUST(rpma_conn_cfg_delete(&cfg));
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 3; ++i) MUST(rpma_recv(conn, memory.mr, 0, 64, &memory));
        CODE(rpma_recv(conn, memory.mr, 0, 64, &conn), RPMA_E_PROVIDER);
        rig_meet(rig);
        for (int i = 0; i < 3; ++i) COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void send_three(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 64, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    for (int round = 0; round < 3; ++round) {
        rig_meet(rig);
        for (int i = 0; i < 3; ++i) {
            MUST(rpma_send(conn, memory.mr, 0, 64, RPMA_F_COMPLETION_ALWAYS, &memory));
            COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
        }
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// --- a log function that calls back

static struct rpma_conn* logged;
static atomic_int said;

static void end_connection(enum rpma_log_level level, const char* file, const int line,
                           const char* function, const char* format, ...) {
    (void)file, (void)line, (void)function, (void)format;
    if (level > RPMA_LOG_LEVEL_WARNING || logged == NULL) return;
    (void)rpma_conn_disconnect(logged);
    ++said;
}

static void log_by_ending_the_connection(struct rpma_conn* conn) {
    logged = conn;
    MUST(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING));
    MUST(rpma_log_set_function(end_connection));
}

// The peer's reason arrives on a thread of the library's.
static void log_what_the_peer_says(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    log_by_ending_the_connection(conn);
    rig_meet(rig);
    EVENT(conn, RPMA_CONN_CLOSED);
    while (said == 0) sched_yield();
    MUST(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
    MUST(rpma_conn_delete(&conn));
}

static void log_a_post_that_fails(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 64, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    log_by_ending_the_connection(conn);
    rig_meet(rig);
    MUST(rpma_send(conn, memory.mr, 32, 64, RPMA_F_COMPLETION_ALWAYS, &memory));
    CHECK(said != 0);
    COMPLETION(rig_cq(conn), &memory, IBV_WC_LOC_PROT_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

static const struct rig_test tests[] = {
    {"a refused operation fails alone and flushes what is behind it", be_wronged, do_all_wrongs,
     NULL, 0, 0},
    {"a message too long for its receive fails on both sides", receive_too_little, send_too_much,
     NULL, 0, 0},
    {"a receive into memory that is not registered fails on both sides", receive_beyond_the_end,
     send_innocently, NULL, 0, 0},
    {"a log function may call the library back", log_what_the_peer_says, log_a_post_that_fails,
     NULL, 0, 0},
    {"a receive queue takes exactly as many as it was made for", receive_three, send_three, NULL, 0,
     0},
};

RIG_MAIN(tests)
