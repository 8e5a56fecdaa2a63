// SPDX-License-Identifier: BSD-3-Clause
// Every operation, in the sizes where something changes, with the bytes looked at on the other
// side; where completions go, and what waits.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rpma_rig.h"

enum { MEMORY = 9 << 20, LARGEST = 4 << 20 };
static const size_t sizes[] = {0,     1,      7,      8,      9,       63,      64,     2047,
                               2048,  2049,   4096,   8191,   8192,    8193,    65535,  65536,
                               65537, 131072, 262143, 262144, 1048576, 1048583, LARGEST};
static const size_t offsets[] = {0, 3, 4096};

// The bytes that surround what an operation may touch.
static void check_rest(const struct rig_memory* memory, size_t offset, size_t size) {
    for (size_t i = 0; i < 64 && i < offset; ++i) CHECK_EQUAL(memory->at[offset - 1 - i], 0);
    for (size_t i = 0; i < 64; ++i) CHECK_EQUAL(memory->at[offset + size + i], 0);
}

// --- one-sided

static void lend_memory(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, MEMORY, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    for (size_t i = 0; i < RIG_LENGTH(sizes) * RIG_LENGTH(offsets); ++i) {
        const size_t size = sizes[i / RIG_LENGTH(offsets)];
        const size_t offset = offsets[i % RIG_LENGTH(offsets)];
        rig_meet(rig);
        rig_meet(rig);  // it wrote and flushed
        CHECK_EQUAL(rig_first_difference(memory.at + offset, size, (unsigned)i), size);
        check_rest(&memory, offset, size);
        rig_fill(memory.at + offset, size, (unsigned)i + 1000);
        rig_meet(rig);
        rig_meet(rig);  // it has read
        memset(memory.at, 0, offset + size);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void write_and_read(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, MEMORY, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_cq* cq = rig_cq(conn);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    size_t remote_size = 0;
    MUST(rpma_mr_remote_get_size(remote, &remote_size));
    CHECK_EQUAL(remote_size, MEMORY);
    for (size_t i = 0; i < RIG_LENGTH(sizes) * RIG_LENGTH(offsets); ++i) {
        const size_t size = sizes[i / RIG_LENGTH(offsets)];
        const size_t offset = offsets[i % RIG_LENGTH(offsets)];
        const size_t local = offset + 5;
        rig_meet(rig);
        rig_fill(memory.at + local, size, (unsigned)i);
        MUST(rpma_write(conn, remote, offset, memory.mr, local, size, RPMA_F_COMPLETION_ON_ERROR,
                        NULL));
        MUST(rpma_flush(conn, remote, offset, size, RPMA_FLUSH_TYPE_VISIBILITY,
                        RPMA_F_COMPLETION_ALWAYS, &sizes[0]));
        COMPLETION(cq, &sizes[0], IBV_WC_SUCCESS);
        rig_meet(rig);
        rig_meet(rig);  // it filled its own
        memset(memory.at, 0, local + size);
        MUST(rpma_read(conn, memory.mr, local, remote, offset, size, RPMA_F_COMPLETION_ALWAYS,
                       &sizes[1]));
        const struct ibv_wc wc = rig_completion(cq);
        CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
        CHECK_EQUAL(wc.opcode, IBV_WC_RDMA_READ);
        CHECK_EQUAL(wc.byte_len, size);
        CHECK_EQUAL(rig_first_difference(memory.at + local, size, (unsigned)i + 1000), size);
        check_rest(&memory, local, size);
        memset(memory.at, 0, local + size);
        rig_meet(rig);
    }
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// A completed write has arrived, without a flush behind it.
static void see_completed_writes(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RPMA_MR_USAGE_WRITE_DST);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    for (size_t i = 0; i < RIG_LENGTH(sizes); ++i) {
        rig_meet(rig);
        CHECK_EQUAL(rig_first_difference(memory.at, sizes[i], (unsigned)i), sizes[i]);
        rig_meet(rig);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void complete_writes(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RPMA_MR_USAGE_WRITE_SRC);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (size_t i = 0; i < RIG_LENGTH(sizes); ++i) {
        rig_fill(memory.at, sizes[i], (unsigned)i);
        MUST(
            rpma_write(conn, remote, 0, memory.mr, 0, sizes[i], RPMA_F_COMPLETION_ALWAYS, &memory));
        const struct ibv_wc wc = rig_completion(rig_cq(conn));
        CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
        CHECK_EQUAL(wc.opcode, IBV_WC_RDMA_WRITE);
        CHECK_EQUAL(wc.wr_id, (uintptr_t)&memory);
        uint32_t qp_num = 0;
        MUST(rpma_conn_get_qp_num(conn, &qp_num));
        CHECK_EQUAL(wc.qp_num, qp_num);
        rig_meet(rig);
        rig_meet(rig);
    }
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

enum { ATOMIC_ROUNDS = 200 };

// The word is never torn: both halves always agree.
static void watch_a_word(struct rig* rig) {
    struct rig_memory memory =
        rig_memory(rig, 4096, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    const volatile uint64_t* word = (const volatile uint64_t*)(const void*)(memory.at + 1024);
    uint64_t last = 0;
    while (last != ATOMIC_ROUNDS) {
        const uint64_t value = *word;
        CHECK_EQUAL(value >> 32, value & UINT32_MAX);
        CHECK((value & UINT32_MAX) >= last);
        last = value & UINT32_MAX;
        usleep(10);
    }
    check_rest(&memory, 1024, 8);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void write_a_word(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (uint64_t i = 1; i <= ATOMIC_ROUNDS; ++i) {
        char word[8];
        memcpy(word, &(uint64_t){i << 32 | i}, sizeof word);
        MUST(rpma_atomic_write(conn, remote, 1024, word, RPMA_F_COMPLETION_ALWAYS, word));
        memset(word, 0xAA, sizeof word);  // it was taken
        COMPLETION(rig_cq(conn), word, IBV_WC_SUCCESS);
    }
    CODE(rpma_atomic_write(conn, remote, 1028, (char[8]){0}, RPMA_F_COMPLETION_ALWAYS, NULL),
         RPMA_E_INVAL);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
}

// --- nothing moves

static void take_nothing(struct rig* rig) {
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 20, 0);
    struct rpma_conn* conn = rig_accept(rig, ep, cfg);
    MUST(rpma_recv(conn, NULL, 0, 0, &ep));
    MUST(rpma_recv(conn, NULL, 0, 0, &cfg));
    MUST(rpma_recv(conn, NULL, 0, 0, &conn));
    rig_meet(rig);
    struct ibv_wc wc = rig_completion(rig_cq(conn));
    CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
    CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
    CHECK_EQUAL(wc.byte_len, 0);
    CHECK_EQUAL(wc.wr_id, (uintptr_t)&ep);
    wc = rig_completion(rig_cq(conn));
    CHECK_EQUAL(wc.wr_id, (uintptr_t)&cfg);
    CHECK_EQUAL(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    CHECK_EQUAL(ntohl(wc.imm_data), 5);
    wc = rig_completion(rig_cq(conn));
    CHECK_EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    CHECK_EQUAL(ntohl(wc.imm_data), 6);
    CHECK_EQUAL(wc.byte_len, 0);
    MUST(rpma_conn_cfg_delete(&cfg));
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
}

static void give_nothing(struct rig* rig) {
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_meet(rig);
    char marks[5];
    MUST(rpma_write(conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, &marks[0]));
    MUST(rpma_read(conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, &marks[1]));
    MUST(rpma_send(conn, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, &marks[2]));
    MUST(rpma_send_with_imm(conn, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, 5, &marks[3]));
    MUST(rpma_write_with_imm(conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, 6, &marks[4]));
    for (size_t i = 0; i < sizeof marks; ++i) COMPLETION(rig_cq(conn), &marks[i], IBV_WC_SUCCESS);
    rig_close(rig, &conn);
}

// --- messages

static void receive_messages(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, MEMORY, RPMA_MR_USAGE_RECV);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    for (size_t i = 0; i < RIG_LENGTH(sizes); ++i) {
        MUST(rpma_recv(conn, memory.mr, 64, LARGEST, &memory));
        rig_meet(rig);
        const struct ibv_wc wc = rig_completion(rig_cq(conn));
        CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
        CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
        CHECK_EQUAL(wc.byte_len, sizes[i]);
        const bool with_imm = i % 2 == 1;
        CHECK_EQUAL((wc.wc_flags & IBV_WC_WITH_IMM) != 0, with_imm);
        if (with_imm) CHECK_EQUAL(ntohl(wc.imm_data), 0xF0000000u + i);
        CHECK_EQUAL(rig_first_difference(memory.at + 64, sizes[i], (unsigned)i), sizes[i]);
        check_rest(&memory, 64, sizes[i]);
        memset(memory.at, 0, 64 + sizes[i]);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void send_messages(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    for (size_t i = 0; i < RIG_LENGTH(sizes); ++i) {
        rig_fill(memory.at, sizes[i], (unsigned)i);
        rig_meet(rig);
        if (i % 2 == 1)
            MUST(rpma_send_with_imm(conn, memory.mr, 0, sizes[i], RPMA_F_COMPLETION_ALWAYS,
                                    0xF0000000u + (uint32_t)i, &sizes[i]));
        else
            MUST(rpma_send(conn, memory.mr, 0, sizes[i], RPMA_F_COMPLETION_ALWAYS, &sizes[i]));
        const struct ibv_wc wc = rig_completion(rig_cq(conn));
        CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
        CHECK_EQUAL(wc.opcode, IBV_WC_SEND);
        CHECK_EQUAL(wc.wr_id, (uintptr_t)&sizes[i]);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// Write with immediate: the receive says that all is there, its own buffer is left alone.
static void be_told_of_writes(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, MEMORY, RIG_ALL_USAGES);
    struct rig_memory buffer = rig_memory(rig, 64, RPMA_MR_USAGE_RECV);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    memset(buffer.at, 0x5A, buffer.size);
    for (size_t i = 0; i < RIG_LENGTH(sizes); ++i) {
        MUST(rpma_recv(conn, buffer.mr, 0, 1, &buffer));
        rig_meet(rig);
        const struct ibv_wc wc = rig_completion(rig_cq(conn));
        CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
        CHECK_EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        CHECK_EQUAL(wc.byte_len, sizes[i]);
        CHECK_EQUAL(ntohl(wc.imm_data), i);
        CHECK_EQUAL(rig_first_difference(memory.at, sizes[i], (unsigned)i), sizes[i]);
    }
    for (size_t i = 0; i < buffer.size; ++i) CHECK_EQUAL(buffer.at[i], 0x5A);
    rig_close(rig, &conn);
    rig_forget(&buffer);
    rig_forget(&memory);
}

static void tell_of_writes(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RPMA_MR_USAGE_WRITE_SRC);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (size_t i = 0; i < RIG_LENGTH(sizes); ++i) {
        rig_fill(memory.at, sizes[i], (unsigned)i);
        rig_meet(rig);
        MUST(rpma_write_with_imm(conn, remote, 0, memory.mr, 0, sizes[i], RPMA_F_COMPLETION_ALWAYS,
                                 (uint32_t)i, &sizes[i]));
        COMPLETION(rig_cq(conn), &sizes[i], IBV_WC_SUCCESS);
    }
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// --- a send without a receive

enum { WAITING_SENDS = 5 };

static void receive_late(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RPMA_MR_USAGE_RECV);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    NO_COMPLETION_OF(rig_cq(conn));
    for (unsigned i = 0; i < WAITING_SENDS; ++i) {
        rig_meet(rig);  // it saw that none of the rest has completed
        MUST(rpma_recv(conn, memory.mr, 0, memory.size, &memory));
        COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
        CHECK_EQUAL(rig_first_difference(memory.at, 4096, i), 4096);
        NO_COMPLETION_OF(rig_cq(conn));
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void nothing_completes(struct rpma_cq* cq) {
    for (const double end = rig_seconds() + 0.05; rig_seconds() < end;) NO_COMPLETION_OF(cq);
}

static void send_early(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, WAITING_SENDS * 4096, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    for (unsigned i = 0; i < WAITING_SENDS; ++i) {
        rig_fill(memory.at + 4096 * i, 4096, i);
        MUST(rpma_send(conn, memory.mr, 4096 * i, 4096, RPMA_F_COMPLETION_ALWAYS,
                       memory.at + 4096 * i));
    }
    for (unsigned i = 0; i < WAITING_SENDS; ++i) {
        nothing_completes(rig_cq(conn));
        rig_meet(rig);
        COMPLETION(rig_cq(conn), memory.at + 4096 * i, IBV_WC_SUCCESS);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// What this side asked for goes on while a message of the other waits for a receive of this side.
static void send_then_lend(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_fill(memory.at, LARGEST, 4);
    for (size_t i = 0; i < 3; ++i)
        MUST(rpma_send(conn, memory.mr, 0, 4096, RPMA_F_COMPLETION_ALWAYS, &memory.at[i]));
    rig_lend(rig, memory.mr);
    for (size_t i = 0; i < 3; ++i) COMPLETION(rig_cq(conn), &memory.at[i], IBV_WC_SUCCESS);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void work_then_receive(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    struct rpma_cq* cq = rig_cq(conn);
    nothing_completes(cq);  // the messages are here
    MUST(rpma_read(conn, memory.mr, 0, remote, 0, LARGEST, RPMA_F_COMPLETION_ALWAYS, &remote));
    COMPLETION(cq, &remote, IBV_WC_SUCCESS);
    CHECK_EQUAL(rig_first_difference(memory.at, LARGEST, 4), LARGEST);
    MUST(rpma_write(conn, remote, 8, memory.mr, 8, 64, RPMA_F_COMPLETION_ALWAYS, &memory));
    COMPLETION(cq, &memory, IBV_WC_SUCCESS);
    MUST(rpma_flush(conn, remote, 8, 64, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                    &conn));
    COMPLETION(cq, &conn, IBV_WC_SUCCESS);
    MUST(rpma_atomic_write(conn, remote, 0, (char*)memory.at, RPMA_F_COMPLETION_ALWAYS, &cq));
    COMPLETION(cq, &cq, IBV_WC_SUCCESS);
    for (size_t i = 0; i < 3; ++i) {
        MUST(rpma_recv(conn, memory.mr, 4096, 4096, &memory.at[i]));
        COMPLETION(cq, &memory.at[i], IBV_WC_SUCCESS);
        CHECK_EQUAL(rig_first_difference(memory.at + 4096, 4096, 4), 4096);
    }
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// The passive side may send as soon as it has accepted; receives posted with the request take it.
static void send_at_once(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RPMA_MR_USAGE_SEND);
    rig_fill(memory.at, memory.size, 3);
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    MUST(rpma_ep_next_conn_req(ep, NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    MUST(rpma_send(conn, memory.mr, 0, memory.size, RPMA_F_COMPLETION_ALWAYS, conn));
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    COMPLETION(rig_cq(conn), conn, IBV_WC_SUCCESS);
    rig_close(rig, &conn);
    MUST(rpma_ep_shutdown(&ep));
    rig_forget(&memory);
}

static void be_prepared(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RPMA_MR_USAGE_RECV);
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    rig_find_server(rig);
    MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, NULL, &request));
    MUST(rpma_conn_req_recv(request, memory.mr, 0, memory.size, &memory));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    CHECK_EQUAL(rig_first_difference(memory.at, memory.size, 3), memory.size);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// --- where completions go

enum { MESSAGES = 8, MESSAGE = 128 };

static void exchange_messages(struct rig* rig, const struct rpma_conn_cfg* cfg,
                              void (*take)(struct rpma_conn*, const struct rig_memory*)) {
    struct rig_memory memory =
        rig_memory(rig, 2 * MESSAGES * MESSAGE, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV);
    rig_fill(memory.at, MESSAGES * MESSAGE, 1);
    struct rpma_conn* conn = rig_connection(rig, cfg);
    for (size_t i = MESSAGES; i < 2 * MESSAGES; ++i)
        MUST(rpma_recv(conn, memory.mr, i * MESSAGE, MESSAGE, memory.at + i * MESSAGE));
    rig_meet(rig);
    for (size_t i = 0; i < MESSAGES; ++i)
        MUST(rpma_send(conn, memory.mr, i * MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS,
                       memory.at + i * MESSAGE));
    take(conn, &memory);
    CHECK_EQUAL(rig_first_difference(memory.at + MESSAGES * MESSAGE, MESSAGES * MESSAGE, 1),
                MESSAGES * MESSAGE);
    rig_meet(rig);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void check_receive(const struct ibv_wc* wc, const unsigned char* context) {
    CHECK_EQUAL(wc->status, IBV_WC_SUCCESS);
    CHECK_EQUAL(wc->opcode, IBV_WC_RECV);
    CHECK_EQUAL(wc->wr_id, (uintptr_t)context);
    CHECK_EQUAL(wc->byte_len, MESSAGE);
}

static void take_from_two_queues(struct rpma_conn* conn, const struct rig_memory* memory) {
    for (size_t i = 0; i < MESSAGES; ++i) {
        const struct ibv_wc wc = rig_completion(rig_rcq(conn));
        check_receive(&wc, memory->at + (MESSAGES + i) * MESSAGE);
    }
    for (size_t i = 0; i < MESSAGES; ++i)
        COMPLETION(rig_cq(conn), memory->at + i * MESSAGE, IBV_WC_SUCCESS);
    NO_COMPLETION_OF(rig_cq(conn));
    NO_COMPLETION_OF(rig_rcq(conn));
}

static void use_receive_queue(struct rig* rig) {
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 0, 10);
    exchange_messages(rig, cfg, take_from_two_queues);
    MUST(rpma_conn_cfg_delete(&cfg));
}

static void take_from_shared_channel(struct rpma_conn* conn, const struct rig_memory* memory) {
    CODE(rpma_cq_wait(rig_cq(conn)), RPMA_E_SHARED_CHANNEL);
    CODE(rpma_cq_wait(rig_rcq(conn)), RPMA_E_SHARED_CHANNEL);
    int fd = -1;
    int cq_fd = -2;
    MUST(rpma_conn_get_compl_fd(conn, &fd));
    MUST(rpma_cq_get_fd(rig_cq(conn), &cq_fd));
    CHECK_EQUAL(fd, cq_fd);
    size_t sent = 0;
    size_t received = 0;
    while (sent + received < 2 * MESSAGES) {
        struct rpma_cq* cq = NULL;
        bool is_rcq = false;
        struct ibv_wc wc;
        MUST(rpma_conn_wait(conn, 0, &cq, &is_rcq));
        CHECK(cq == (is_rcq ? rig_rcq(conn) : rig_cq(conn)));
        MUST(rpma_cq_get_wc(cq, 1, &wc, NULL));  // one for each wait is enough
        CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
        if (is_rcq)
            check_receive(&wc, memory->at + (MESSAGES + received++) * MESSAGE);
        else
            CHECK_EQUAL(wc.wr_id, (uintptr_t)(memory->at + sent++ * MESSAGE));
    }
    CHECK_EQUAL(sent, MESSAGES);
}

static void use_shared_channel(struct rig* rig) {
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 0, 10);
    MUST(rpma_conn_cfg_set_compl_channel(cfg, true));
    exchange_messages(rig, cfg, take_from_shared_channel);
    MUST(rpma_conn_cfg_delete(&cfg));
}

static void take_by_epoll(struct rpma_conn* conn, const struct rig_memory* memory) {
    struct rpma_cq* cq = rig_cq(conn);
    int fd = -1;
    MUST(rpma_cq_get_fd(cq, &fd));
    CHECK_EQUAL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    size_t sent = 0;
    size_t received = 0;
    while (sent + received < 2 * MESSAGES) {
        CHECK_EQUAL(epoll_wait(epoll, &event, 1, -1), 1);
        const int waited = rpma_cq_wait(cq);
        if (waited == RPMA_E_NO_COMPLETION) continue;  // of what was taken already
        MUST(waited);
        struct ibv_wc wcs[3];
        int got = 0;
        while (rpma_cq_get_wc(cq, 3, wcs, &got) == 0) {
            CHECK(got >= 1 && got <= 3);
            for (int i = 0; i < got; ++i) {
                if (wcs[i].opcode == IBV_WC_RECV)
                    check_receive(&wcs[i], memory->at + (MESSAGES + received++) * MESSAGE);
                else
                    CHECK_EQUAL(wcs[i].wr_id, (uintptr_t)(memory->at + sent++ * MESSAGE));
            }
        }
    }
    NO_COMPLETION_OF(cq);
    CODE(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
    CHECK_EQUAL(epoll_wait(epoll, &event, 1, 0), 0);
    close(epoll);
}

static void use_epoll(struct rig* rig) {
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 2 * MESSAGES, 0);
    exchange_messages(rig, cfg, take_by_epoll);
    MUST(rpma_conn_cfg_delete(&cfg));
}

// Without O_NONBLOCK, and without a last poll that finds nothing: a readable descriptor promises
// that the wait does not sleep.
static void take_in_batches(struct rpma_conn* conn, const struct rig_memory* memory) {
    struct rpma_cq* cq = rig_cq(conn);
    struct pollfd ready = {.events = POLLIN};
    MUST(rpma_cq_get_fd(cq, &ready.fd));
    size_t left = 2 * MESSAGES;
    (void)memory;
    while (left != 0) {
        CHECK_EQUAL(poll(&ready, 1, -1), 1);
        MUST(rpma_cq_wait(cq));
        struct ibv_wc wcs[2 * MESSAGES + 1];
        int got = 0;
        const int code = rpma_cq_get_wc(cq, 2 * MESSAGES + 1, wcs, &got);
        if (code == RPMA_E_NO_COMPLETION) continue;
        MUST(code);
        for (int i = 0; i < got; ++i) CHECK_EQUAL(wcs[i].status, IBV_WC_SUCCESS);
        left -= (size_t)got;
    }
    CHECK_EQUAL(poll(&ready, 1, 0), 0);
}

static void use_batches(struct rig* rig) {
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 2 * MESSAGES, 0);
    for (int i = 0; i < 20; ++i) exchange_messages(rig, cfg, take_in_batches);
    MUST(rpma_conn_cfg_delete(&cfg));
}

static void take_by_polling(struct rpma_conn* conn, const struct rig_memory* memory) {
    size_t left = 2 * MESSAGES;
    (void)memory;
    while (left != 0) {
        struct ibv_wc wcs[32];
        int got = 0;
        const int code = rpma_cq_get_wc(rig_cq(conn), 32, wcs, &got);
        if (code == RPMA_E_NO_COMPLETION) continue;
        MUST(code);
        for (int i = 0; i < got; ++i) CHECK_EQUAL(wcs[i].status, IBV_WC_SUCCESS);
        left -= (size_t)got;
    }
}

static void use_polling(struct rig* rig) {
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 2 * MESSAGES, 0);
    exchange_messages(rig, cfg, take_by_polling);
    MUST(rpma_conn_cfg_delete(&cfg));
}

// --- shared receive queue

enum { SRQ_CONNS = 3 };
struct srq_routing {
    uint32_t srq_rcq;
    uint32_t conn_rcq;
};
// librpma's table: of the SRQ if it has one, else of the connection if it has one, else its CQ.
static const struct srq_routing routings[] = {{10, 0}, {10, 10}, {0, 10}, {0, 0}};

static struct rpma_cq* receive_queue_of(const struct srq_routing* routing, struct rpma_srq* srq,
                                        struct rpma_conn* conn) {
    struct rpma_cq* rcq = NULL;
    MUST(rpma_srq_get_rcq(srq, &rcq));
    CHECK((rcq != NULL) == (routing->srq_rcq != 0));
    if (rcq != NULL) return rcq;
    MUST(rpma_conn_get_rcq(conn, &rcq));
    CHECK((rcq != NULL) == (routing->conn_rcq != 0));
    return rcq != NULL ? rcq : rig_cq(conn);
}

static void serve_by_srq(struct rig* rig, const struct srq_routing* routing) {
    struct rig_memory memory = rig_memory(rig, SRQ_CONNS * MESSAGE, RPMA_MR_USAGE_RECV);
    struct rpma_srq_cfg* srq_cfg = NULL;
    struct rpma_srq* srq = NULL;
    MUST(rpma_srq_cfg_new(&srq_cfg));
    MUST(rpma_srq_cfg_set_rcq_size(srq_cfg, routing->srq_rcq));
    MUST(rpma_srq_new(rig->peer, srq_cfg, &srq));
    MUST(rpma_srq_cfg_delete(&srq_cfg));
    struct rpma_conn_cfg* cfg = rig_cfg(0, 0, 0, routing->conn_rcq);
    MUST(rpma_conn_cfg_set_srq(cfg, srq));
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn* conns[SRQ_CONNS];
    for (int i = 0; i < SRQ_CONNS; ++i) conns[i] = rig_accept(rig, ep, cfg);
    CODE(rpma_recv(conns[0], memory.mr, 0, MESSAGE, NULL), RPMA_E_PROVIDER);
    for (unsigned i = 0; i < SRQ_CONNS; ++i) {
        // The peer has sent already: the message waits for the receive, whoever gets it.
        rig_meet(rig);
        MUST(rpma_srq_recv(srq, memory.mr, i * MESSAGE, MESSAGE, &memory.at[i * MESSAGE]));
        const struct ibv_wc wc = rig_completion(receive_queue_of(routing, srq, conns[i]));
        check_receive(&wc, &memory.at[i * MESSAGE]);
        uint32_t qp_num = 0;
        MUST(rpma_conn_get_qp_num(conns[i], &qp_num));
        CHECK_EQUAL(wc.qp_num, qp_num);
        CHECK_EQUAL(rig_first_difference(&memory.at[i * MESSAGE], MESSAGE, i), MESSAGE);
    }
    for (int i = 0; i < SRQ_CONNS; ++i) rig_close(rig, &conns[i]);
    MUST(rpma_conn_cfg_delete(&cfg));
    MUST(rpma_ep_shutdown(&ep));
    MUST(rpma_srq_delete(&srq));
    rig_forget(&memory);
}

static void send_to_srq(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, MESSAGE, RPMA_MR_USAGE_SEND);
    struct rpma_conn* conns[SRQ_CONNS];
    rig_find_server(rig);
    for (int i = 0; i < SRQ_CONNS; ++i) conns[i] = rig_connect(rig, NULL);
    for (unsigned i = 0; i < SRQ_CONNS; ++i) {
        rig_fill(memory.at, MESSAGE, i);
        MUST(rpma_send(conns[i], memory.mr, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, &memory));
        rig_meet(rig);
        COMPLETION(rig_cq(conns[i]), &memory, IBV_WC_SUCCESS);
    }
    for (int i = 0; i < SRQ_CONNS; ++i) rig_close(rig, &conns[i]);
    rig_forget(&memory);
}

static void serve_all_srq_routings(struct rig* rig) {
    for (size_t i = 0; i < RIG_LENGTH(routings); ++i) serve_by_srq(rig, &routings[i]);
}

static void send_for_all_srq_routings(struct rig* rig) {
    for (size_t i = 0; i < RIG_LENGTH(routings); ++i) send_to_srq(rig);
}

// --- order

enum { ORDERED = 50 };

// A message behind writes: when it is here, so are they.
static void see_writes_before_message(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST + MESSAGE, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    for (unsigned i = 0; i < ORDERED; ++i) {
        MUST(rpma_recv(conn, memory.mr, LARGEST, MESSAGE, &memory));
        rig_meet(rig);
        COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
        const size_t size = 1000 + (size_t)i * 20000;
        CHECK_EQUAL(rig_first_difference(memory.at, size, i), size);
    }
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void write_then_send(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, LARGEST, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    for (unsigned i = 0; i < ORDERED; ++i) {
        const size_t size = 1000 + (size_t)i * 20000;
        rig_fill(memory.at, size, i);
        rig_meet(rig);
        MUST(rpma_write(conn, remote, 0, memory.mr, 0, size, RPMA_F_COMPLETION_ON_ERROR, NULL));
        MUST(rpma_send(conn, memory.mr, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, &memory));
        COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    }
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

// Operations that asked for no completion give none.
static void lend_for_silence(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, memory.mr);
    MUST(rpma_recv(conn, memory.mr, 2048, 64, &memory));
    MUST(rpma_recv(conn, memory.mr, 2048, 64, &conn));
    rig_meet(rig);
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    COMPLETION(rig_cq(conn), &conn, IBV_WC_SUCCESS);
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void be_silent(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 4096, RIG_ALL_USAGES);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    const int silent = RPMA_F_COMPLETION_ON_ERROR;
    rig_meet(rig);
    MUST(rpma_flush(conn, remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, silent, NULL));
    MUST(rpma_write(conn, remote, 0, memory.mr, 0, 64, silent, NULL));
    MUST(rpma_read(conn, memory.mr, 0, remote, 0, 64, silent, NULL));
    MUST(rpma_atomic_write(conn, remote, 0, "1234567", silent, NULL));
    MUST(rpma_send(conn, memory.mr, 0, 64, silent, NULL));
    MUST(rpma_write_with_imm(conn, remote, 0, memory.mr, 0, 64, silent, 1, NULL));
    MUST(rpma_flush(conn, remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, silent, NULL));
    MUST(rpma_read(conn, memory.mr, 0, remote, 0, 64, RPMA_F_COMPLETION_ALWAYS, &memory));
    COMPLETION(rig_cq(conn), &memory, IBV_WC_SUCCESS);
    NO_COMPLETION_OF(rig_cq(conn));
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static const struct rig_test tests[] = {
    {"writes and reads of any size move exactly their bytes", lend_memory, write_and_read, NULL, 0,
     0},
    {"writes and reads work over IPv6", lend_memory, write_and_read, "::1", 0, 0},
    {"a completed write has arrived", see_completed_writes, complete_writes, NULL, 0, 0},
    {"an atomic write is never torn", watch_a_word, write_a_word, NULL, 0, 0},
    {"operations of zero bytes complete like others", take_nothing, give_nothing, NULL, 0, 0},
    {"messages of any size arrive, with immediate data and without", receive_messages,
     send_messages, NULL, 0, 0},
    {"a write with immediate data takes a receive and leaves its buffer", be_told_of_writes,
     tell_of_writes, NULL, 0, 0},
    {"a send waits for its receive without end", receive_late, send_early, NULL, 0, 0},
    {"a waiting message holds up nothing of the side that it waits for", send_then_lend,
     work_then_receive, NULL, 0, 0},
    {"the server may send before its client knows", send_at_once, be_prepared, NULL, 0, 0},
    {"receives complete in a queue of their own", use_receive_queue, use_receive_queue, NULL, 0, 0},
    {"a shared channel tells which queue has a completion", use_shared_channel, use_shared_channel,
     NULL, 0, 0},
    {"completions can be waited for by epoll", use_epoll, use_epoll, NULL, 0, 0},
    {"a readable completion descriptor promises a wait without sleep", use_batches, use_batches,
     NULL, 0, 0},
    {"completions can be polled for", use_polling, use_polling, NULL, 0, 0},
    {"a shared receive queue serves connections as its queues say", serve_all_srq_routings,
     send_for_all_srq_routings, NULL, 0, 0},
    {"a message arrives behind the writes before it", see_writes_before_message, write_then_send,
     NULL, 0, 0},
    {"success without a wish for a completion gives none", lend_for_silence, be_silent, NULL, 0, 0},
};

RIG_MAIN(tests)
