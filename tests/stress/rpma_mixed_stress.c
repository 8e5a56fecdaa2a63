// SPDX-License-Identifier: BSD-3-Clause
// One connection, operations of all kinds in any order and size, the send queue filled again and
// again: each completes once, in order, and all bytes are where they belong.
//
//   rpma_mixed_stress [COUNT [SEED]]
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/rpma_rig.h"

enum {
    DEPTH = 64,
    LARGEST = 4 << 20,
    LARGEST_MESSAGE = 64 << 10,
    AREA = 8 << 20,       // written by the client; as large again, and constant: read by it
    SCRATCH = 16 << 20,   // for what reads bring
    VERIFY_EVERY = 2000,  // operations
    CONSTANT_SEED = 99,
    SOURCE_SEED = 98,
};

static unsigned long count = 20000;
static uint64_t seed = 1;

// Half of the operations are tiny, one in a hundred is up to 4 MiB.
static size_t any_size(uint64_t* state, size_t largest) {
    static const size_t limits[] = {9, 257, 4097, 65537, LARGEST + 1};
    const uint64_t dice = rig_random(state, 100);
    const size_t limit = limits[dice < 50 ? 0 : dice < 75 ? 1 : dice < 92 ? 2 : dice < 99 ? 3 : 4];
    const size_t size = rig_random(state, limit);
    return size < largest ? size : largest;
}

// --- the server: lends memory, and takes messages, numbered as they come

enum { RECEIVES = 32, DONE = 0x7FFFFFFF };

static void check_message(const struct ibv_wc* wc, const unsigned char* buffer, unsigned number) {
    CHECK_EQUAL(wc->status, IBV_WC_SUCCESS);
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        CHECK_EQUAL(ntohl(wc->imm_data), wc->byte_len);
        return;
    }
    CHECK_EQUAL(wc->opcode, IBV_WC_RECV);
    if (wc->wc_flags & IBV_WC_WITH_IMM) CHECK_EQUAL(ntohl(wc->imm_data), wc->byte_len);
    CHECK_EQUAL(rig_first_difference(buffer, wc->byte_len, number), wc->byte_len);
}

static void lend_and_receive(struct rig* rig) {
    struct rig_memory area = rig_memory(rig, 2 * AREA, RIG_ALL_USAGES);
    struct rig_memory buffers = rig_memory(rig, RECEIVES * LARGEST_MESSAGE, RPMA_MR_USAGE_RECV);
    rig_fill(area.at + AREA, AREA, CONSTANT_SEED);
    struct rpma_conn_cfg* cfg = rig_cfg(0, RECEIVES, 0, RECEIVES);
    struct rpma_conn* conn = rig_connection(rig, cfg);
    MUST(rpma_conn_cfg_delete(&cfg));
    struct rpma_cq* rcq = rig_rcq(conn);
    rig_lend(rig, area.mr);
    for (size_t i = 0; i < RECEIVES; ++i)
        MUST(rpma_recv(conn, buffers.mr, i * LARGEST_MESSAGE, LARGEST_MESSAGE, (void*)i));
    for (unsigned number = 0;; ++number) {
        struct ibv_wc wc;
        if (number % 7 == 0) MUST(rpma_cq_wait(rcq));
        int code = 0;
        while ((code = rpma_cq_get_wc(rcq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION) {
        }
        MUST(code);
        CHECK_EQUAL(wc.wr_id, number % RECEIVES);  // taken in the order in which they were posted
        if ((wc.wc_flags & IBV_WC_WITH_IMM) && ntohl(wc.imm_data) == DONE) break;
        const size_t place = wc.wr_id * LARGEST_MESSAGE;
        check_message(&wc, buffers.at + place, number);
        MUST(rpma_recv(conn, buffers.mr, place, LARGEST_MESSAGE, (void*)wc.wr_id));
    }
    rig_close(rig, &conn);
    rig_forget(&buffers);
    rig_forget(&area);
}

// --- the client

enum kind { WRITE, READ, FLUSH, ATOMIC_WRITE, SEND, SEND_IMM, WRITE_IMM, KINDS };

struct operation {
    uintptr_t context;
    enum kind kind;
    bool signaled;
    size_t remote_offset;
    size_t scratch_offset;  // of a read
    size_t size;
};

struct client {
    struct rpma_conn* conn;
    struct rpma_cq* cq;
    struct rpma_mr_remote* remote;
    struct rig_memory source;    // constant
    struct rig_memory messages;  // places for them
    struct rig_memory scratch;
    unsigned char* model;  // what the written area has to hold
    uint64_t random;

    struct operation out[DEPTH];  // a ring: not yet known to be done
    size_t oldest, next;
    size_t scratch_next;
    unsigned messages_sent;
    unsigned long times_full, completions;
};

static struct operation* at(struct client* client, size_t position) {
    return &client->out[position % DEPTH];
}

static void finish(struct client* client, const struct operation* done) {
    if (done->kind != READ) return;
    const unsigned char* bytes = client->scratch.at + done->scratch_offset;
    static unsigned char* wanted;
    if (wanted == NULL) {
        wanted = malloc(AREA);
        rig_fill(wanted, AREA, CONSTANT_SEED);
    }
    CHECK(memcmp(bytes, wanted + done->remote_offset, done->size) == 0);
}

// Takes one completion: of the next signaled operation, and with it all before it are done.
static bool take(struct client* client, bool sleep) {
    struct ibv_wc wc;
    if (sleep) MUST(rpma_cq_wait(client->cq));
    const int code = rpma_cq_get_wc(client->cq, 1, &wc, NULL);
    if (code == RPMA_E_NO_COMPLETION && !sleep) return false;
    MUST(code);
    ++client->completions;
    for (;;) {
        CHECK(client->oldest != client->next);
        const struct operation done = *at(client, client->oldest++);
        if (done.signaled) {
            if (wc.status != IBV_WC_SUCCESS)
                rig_fail(__FILE__, __LINE__, "operation %lu of kind %d, %zu bytes: %s",
                         (unsigned long)done.context, done.kind, done.size,
                         ibv_wc_status_str(wc.status));
            CHECK_EQUAL(wc.wr_id, done.context);
            finish(client, &done);
            return true;
        }
        finish(client, &done);
    }
}

static bool try_post(struct client* client, struct operation* operation);

// Until nothing is out. What is unsignaled is done when something signaled behind it is.
static void drain(struct client* client) {
    if (client->oldest == client->next) return;
    if (!at(client, client->next - 1)->signaled) {
        struct operation last = {.context = 0, .kind = FLUSH, .signaled = true};
        while (!try_post(client, &last)) take(client, true);
    }
    while (client->oldest != client->next) take(client, rig_random(&client->random, 2) == 0);
    NO_COMPLETION_OF(client->cq);
}

static int post_message(struct client* client, const struct operation* operation, int flags) {
    // One place more than can be out: a refused post must not touch what is.
    const size_t place = (client->messages_sent % (DEPTH + 1)) * LARGEST_MESSAGE;
    const void* context = (const void*)operation->context;
    rig_fill(client->messages.at + place, operation->size, client->messages_sent);
    if (operation->kind == SEND)
        return rpma_send(client->conn, client->messages.mr, place, operation->size, flags, context);
    return rpma_send_with_imm(client->conn, client->messages.mr, place, operation->size, flags,
                              (uint32_t)operation->size, context);
}

static int post_write(struct client* client, const struct operation* operation, int flags) {
    const size_t from = rig_random(&client->random, LARGEST);
    const void* context = (const void*)operation->context;
    int code = 0;
    if (operation->kind == WRITE)
        code = rpma_write(client->conn, client->remote, operation->remote_offset, client->source.mr,
                          from, operation->size, flags, context);
    else
        code = rpma_write_with_imm(client->conn, client->remote, operation->remote_offset,
                                   client->source.mr, from, operation->size, flags,
                                   (uint32_t)operation->size, context);
    if (code == 0)
        memcpy(client->model + operation->remote_offset, client->source.at + from, operation->size);
    return code;
}

static int post_word(struct client* client, const struct operation* operation, int flags) {
    const uint64_t word = rig_random(&client->random, UINT64_MAX);
    char bytes[8];
    memcpy(bytes, &word, sizeof bytes);
    const int code = rpma_atomic_write(client->conn, client->remote, operation->remote_offset,
                                       bytes, flags, (const void*)operation->context);
    if (code == 0) memcpy(client->model + operation->remote_offset, bytes, sizeof bytes);
    return code;
}

static int post(struct client* client, struct operation* operation) {
    const int flags = operation->signaled ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR;
    const void* context = (const void*)operation->context;
    switch (operation->kind) {
        case WRITE:
        case WRITE_IMM: return post_write(client, operation, flags);
        case READ:
            return rpma_read(client->conn, client->scratch.mr, operation->scratch_offset,
                             client->remote, AREA + operation->remote_offset, operation->size,
                             flags, context);
        case FLUSH:
            return rpma_flush(client->conn, client->remote, operation->remote_offset,
                              operation->size, RPMA_FLUSH_TYPE_VISIBILITY, flags, context);
        case ATOMIC_WRITE: return post_word(client, operation, flags);
        default: return post_message(client, operation, flags);
    }
}

static bool is_message(enum kind kind) {
    return kind == SEND || kind == SEND_IMM;
}

// Posts it, unless the queue is full.
static bool try_post(struct client* client, struct operation* operation) {
    if (operation->kind == READ) {
        if (client->scratch_next + operation->size > SCRATCH) {
            drain(client);
            client->scratch_next = 0;
        }
        operation->scratch_offset = client->scratch_next;
    }
    // All unsignaled, the queue would stay full.
    if (client->next - client->oldest == DEPTH - 1) operation->signaled = true;
    const int code = post(client, operation);
    if (code != 0) {
        CHECK_EQUAL(code, RPMA_E_PROVIDER);
        CHECK_EQUAL(client->next - client->oldest, DEPTH);  // full is full, and nothing less
        ++client->times_full;
        return false;
    }
    CHECK(client->next - client->oldest < DEPTH);
    *at(client, client->next++) = *operation;
    if (operation->kind == READ) client->scratch_next += operation->size;
    if (is_message(operation->kind) || operation->kind == WRITE_IMM) ++client->messages_sent;
    return true;
}

static struct operation any_operation(struct client* client, uintptr_t context) {
    struct operation operation = {
        .context = context,
        .kind = (enum kind)rig_random(&client->random, KINDS),
        .signaled = rig_random(&client->random, 3) != 0,
    };
    const size_t largest = is_message(operation.kind) ? LARGEST_MESSAGE : LARGEST;
    operation.size = operation.kind == ATOMIC_WRITE ? 8 : any_size(&client->random, largest);
    operation.remote_offset = rig_random(&client->random, AREA - operation.size + 1);
    if (operation.kind == ATOMIC_WRITE) operation.remote_offset &= ~(size_t)7;
    return operation;
}

static void verify(struct client* client) {
    drain(client);
    client->scratch_next = 0;
    MUST(rpma_read(client->conn, client->scratch.mr, 0, client->remote, 0, AREA,
                   RPMA_F_COMPLETION_ALWAYS, client));
    COMPLETION(client->cq, client, IBV_WC_SUCCESS);
    CHECK(memcmp(client->scratch.at, client->model, AREA) == 0);
}

static void do_everything(struct rig* rig) {
    struct client client = {
        .source = rig_memory(rig, 2 * LARGEST, RPMA_MR_USAGE_WRITE_SRC),
        .messages = rig_memory(rig, (DEPTH + 1) * LARGEST_MESSAGE, RPMA_MR_USAGE_SEND),
        .scratch = rig_memory(rig, SCRATCH, RPMA_MR_USAGE_READ_DST),
        .model = calloc(1, AREA),
        .random = seed,
    };
    rig_fill(client.source.at, client.source.size, SOURCE_SEED);
    struct rpma_conn_cfg* cfg = rig_cfg(DEPTH, 0, DEPTH, 0);
    client.conn = rig_connection(rig, cfg);
    MUST(rpma_conn_cfg_delete(&cfg));
    client.cq = rig_cq(client.conn);
    client.remote = rig_borrow(rig);
    for (unsigned long i = 1; i <= count; ++i) {
        struct operation operation = any_operation(&client, i);
        while (!try_post(&client, &operation)) take(&client, rig_random(&client.random, 4) == 0);
        if (rig_random(&client.random, 200) == 0) drain(&client);
        if (i % VERIFY_EVERY == 0) verify(&client);
    }
    verify(&client);
    MUST(rpma_send_with_imm(client.conn, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, DONE, &client));
    COMPLETION(client.cq, &client, IBV_WC_SUCCESS);
    printf("  %lu operations, %lu completions, %lu times the queue was full, seed %lu\n", count,
           client.completions, client.times_full, (unsigned long)seed);
    CHECK(client.times_full > 0);
    MUST(rpma_mr_remote_delete(&client.remote));
    rig_close(rig, &client.conn);
    rig_forget(&client.scratch);
    rig_forget(&client.messages);
    rig_forget(&client.source);
    free(client.model);
}

static const struct rig_test tests[] = {
    {"operations of all kinds and sizes complete once, in order, with their bytes",
     lend_and_receive, do_everything, NULL, 0, 0},
};

int main(int argc, char** argv) {
    if (argc > 1) count = strtoul(argv[1], NULL, 10);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    rig_role_seconds = 300 + (unsigned)(count / 200);
    return rig_main(tests, RIG_LENGTH(tests), 1, argv);
}
