/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program for the distribution's librpma that sends one of everything.
 *   rpma_traffic server ADDRESS PORT     prints "ready" once it listens; serves one connection
 *   rpma_traffic client ADDRESS PORT     every operation, checked; then disconnects
 *   rpma_traffic astray ADDRESS PORT     one write past the end of the server's memory, which must
 *                                        fail as a remote access error
 */
#include <arpa/inet.h>
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGION_BYTES (1U << 20)
#define BIG_WRITE 200000U
#define BIG_READ 150000U
#define MESSAGE_BYTES 3000U
#define UNSIGNALED 8U /* librpma's default send queue has ten places */
#define MESSAGES 3    /* that the client sends: one write with immediate, two Sends */
#define IMMEDIATE 0x01020304U

#define CHECK(call)                                                                               \
    do {                                                                                          \
        const int check_rc = (call);                                                              \
        if (check_rc != 0) {                                                                      \
            (void)fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, rpma_err_2str(check_rc)); \
            exit(EXIT_FAILURE);                                                                   \
        }                                                                                         \
    } while (0)

#define REQUIRE(condition)                                                        \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void)fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            exit(EXIT_FAILURE);                                                   \
        }                                                                         \
    } while (0)

struct end {
    struct rpma_peer* peer;
    struct rpma_mr_local* region; /* what the other side reads and writes, or reads into */
    struct rpma_mr_local* messages;
    struct rpma_conn* conn;
    struct rpma_cq* cq;
    unsigned char* memory;
    unsigned char* message_memory;
};

static void open_end(struct end* end, const char* address, enum rpma_util_ibv_context_type type,
                     int usage) {
    struct ibv_context* context = NULL;
    CHECK(rpma_utils_get_ibv_context(address, type, &context));
    CHECK(rpma_peer_new(context, &end->peer));
    end->memory = calloc(1, REGION_BYTES);
    end->message_memory = calloc(1, (size_t)MESSAGES * MESSAGE_BYTES);
    REQUIRE(end->memory != NULL && end->message_memory != NULL);
    CHECK(rpma_mr_reg(end->peer, end->memory, REGION_BYTES, usage, &end->region));
    CHECK(rpma_mr_reg(end->peer, end->message_memory, (size_t)MESSAGES * MESSAGE_BYTES,
                      RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &end->messages));
}

static void await_event(struct end* end, enum rpma_conn_event expected) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    CHECK(rpma_conn_next_event(end->conn, &event));
    if (event != expected) (void)fprintf(stderr, "event: %s\n", rpma_utils_conn_event_2str(event));
    REQUIRE(event == expected);
}

static struct ibv_wc next_completion(struct end* end) {
    struct ibv_wc wc;
    int rc = rpma_cq_get_wc(end->cq, 1, &wc, NULL);
    while (rc == RPMA_E_NO_COMPLETION) {
        CHECK(rpma_cq_wait(end->cq));
        rc = rpma_cq_get_wc(end->cq, 1, &wc, NULL);
    }
    CHECK(rc);
    return wc;
}

static void await(struct end* end, uint64_t id) {
    const struct ibv_wc wc = next_completion(end);
    if (wc.status != IBV_WC_SUCCESS) (void)fprintf(stderr, "status %d\n", (int)wc.status);
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    REQUIRE(wc.wr_id == id);
}

static const void* context_of(uintptr_t id) {
    return (const void*)id;
}

static void close_end(struct end* end) {
    CHECK(rpma_conn_delete(&end->conn));
    CHECK(rpma_mr_dereg(&end->region));
    CHECK(rpma_mr_dereg(&end->messages));
    CHECK(rpma_peer_delete(&end->peer));
    free(end->memory);
    free(end->message_memory);
}

/* ---- server ---- */

/* In posting order: the receive of the write with immediate, then the two messages. */
static void take_messages(struct end* end) {
    for (uintptr_t id = 0; id < MESSAGES; ++id) {
        const struct ibv_wc wc = next_completion(end);
        if (wc.status != IBV_WC_SUCCESS) return; /* the client went astray */
        REQUIRE(wc.wr_id == id);
        const int with_immediate = id != 1;
        REQUIRE(((wc.wc_flags & (unsigned)IBV_WC_WITH_IMM) != 0) == with_immediate);
        if (with_immediate) REQUIRE(ntohl(wc.imm_data) == IMMEDIATE);
        if (id != 0) REQUIRE(wc.byte_len == MESSAGE_BYTES);
    }
    CHECK(rpma_send(end->conn, end->messages, 0, MESSAGE_BYTES, RPMA_F_COMPLETION_ALWAYS,
                    context_of(MESSAGES)));
    await(end, MESSAGES);
}

static void serve(const char* address, const char* port) {
    struct end end;
    struct rpma_ep* listener = NULL;
    struct rpma_conn_req* request = NULL;
    open_end(
        &end, address, RPMA_UTIL_IBV_CONTEXT_LOCAL,
        RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    CHECK(rpma_ep_listen(end.peer, address, port, &listener));
    (void)printf("ready\n");
    (void)fflush(stdout);
    CHECK(rpma_ep_next_conn_req(listener, NULL, &request));
    for (uintptr_t id = 0; id < MESSAGES; ++id)
        CHECK(rpma_conn_req_recv(request, end.messages, id * MESSAGE_BYTES, MESSAGE_BYTES,
                                 context_of(id)));
    unsigned char descriptor[64];
    size_t size = 0;
    CHECK(rpma_mr_get_descriptor_size(end.region, &size));
    REQUIRE(size <= sizeof(descriptor));
    CHECK(rpma_mr_get_descriptor(end.region, descriptor));
    const struct rpma_conn_private_data data = {.ptr = descriptor, .len = (uint8_t)size};
    CHECK(rpma_conn_req_connect(&request, &data, &end.conn));
    CHECK(rpma_conn_get_cq(end.conn, &end.cq));
    await_event(&end, RPMA_CONN_ESTABLISHED);
    take_messages(&end);
    await_event(&end, RPMA_CONN_CLOSED);
    CHECK(rpma_conn_disconnect(end.conn));
    CHECK(rpma_ep_shutdown(&listener));
    close_end(&end);
}

/* ---- client ---- */

static struct rpma_mr_remote* connect_end(struct end* end, const char* address, const char* port) {
    struct rpma_conn_req* request = NULL;
    open_end(end, address, RPMA_UTIL_IBV_CONTEXT_REMOTE,
             RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC);
    CHECK(rpma_conn_req_new(end->peer, address, port, NULL, &request));
    CHECK(rpma_conn_req_recv(request, end->messages, 0, MESSAGE_BYTES, context_of(100)));
    CHECK(rpma_conn_req_connect(&request, NULL, &end->conn));
    CHECK(rpma_conn_get_cq(end->conn, &end->cq));
    await_event(end, RPMA_CONN_ESTABLISHED);
    struct rpma_conn_private_data data;
    struct rpma_mr_remote* remote = NULL;
    CHECK(rpma_conn_get_private_data(end->conn, &data));
    CHECK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
    return remote;
}

static void fill(unsigned char* bytes, size_t size, unsigned seed) {
    for (size_t index = 0; index < size; ++index)
        bytes[index] = (unsigned char)((index * 31 + seed) % 251);
}

/* Writes of several sizes, then everything is read back and compared. */
static void write_and_read_back(struct end* end, struct rpma_mr_remote* remote) {
    const size_t sizes[] = {1, 8, 1500, BIG_WRITE};
    size_t at = 0;
    fill(end->memory, BIG_WRITE, 7);
    for (size_t index = 0; index < sizeof(sizes) / sizeof(sizes[0]); ++index) {
        CHECK(rpma_write(end->conn, remote, at, end->region, 0, sizes[index],
                         RPMA_F_COMPLETION_ALWAYS, context_of(index)));
        await(end, index);
        at += sizes[index];
    }
    for (unsigned index = 0; index < UNSIGNALED; ++index)
        CHECK(rpma_write(end->conn, remote, at + index, end->region, index, 1,
                         RPMA_F_COMPLETION_ON_ERROR, context_of(200)));
    CHECK(rpma_flush(end->conn, remote, 0, at, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                     context_of(10)));
    await(end, 10);
    const size_t big_at = at - BIG_WRITE;
    unsigned char* copy = end->memory + REGION_BYTES / 2;
    CHECK(rpma_read(end->conn, end->region, REGION_BYTES / 2, remote, big_at, BIG_READ,
                    RPMA_F_COMPLETION_ALWAYS, context_of(11)));
    await(end, 11);
    REQUIRE(memcmp(copy, end->memory, BIG_READ) == 0);
}

static void write_atomically(struct end* end, struct rpma_mr_remote* remote) {
    const char word[8] = {'a', 't', 'o', 'm', 'i', 'c', '!', '\n'};
    const size_t at = REGION_BYTES - sizeof(word);
    CHECK(rpma_atomic_write(end->conn, remote, at, word, RPMA_F_COMPLETION_ALWAYS, context_of(12)));
    await(end, 12);
    CHECK(rpma_read(end->conn, end->region, 0, remote, at, sizeof(word), RPMA_F_COMPLETION_ALWAYS,
                    context_of(13)));
    await(end, 13);
    REQUIRE(memcmp(end->memory, word, sizeof(word)) == 0);
}

static void send_messages(struct end* end, struct rpma_mr_remote* remote) {
    const size_t from = MESSAGE_BYTES;
    CHECK(rpma_write_with_imm(end->conn, remote, 0, end->region, 0, 100, RPMA_F_COMPLETION_ALWAYS,
                              IMMEDIATE, context_of(14)));
    await(end, 14);
    CHECK(rpma_send(end->conn, end->messages, from, MESSAGE_BYTES, RPMA_F_COMPLETION_ALWAYS,
                    context_of(15)));
    await(end, 15);
    CHECK(rpma_send_with_imm(end->conn, end->messages, from, MESSAGE_BYTES,
                             RPMA_F_COMPLETION_ON_ERROR, IMMEDIATE, context_of(16)));
    await(end, 100); /* the server's answer */
}

static void leave(struct end* end, struct rpma_mr_remote** remote) {
    CHECK(rpma_mr_remote_delete(remote));
    CHECK(rpma_conn_disconnect(end->conn));
    await_event(end, RPMA_CONN_CLOSED);
    close_end(end);
}

static void run_client(const char* address, const char* port) {
    struct end end;
    struct rpma_mr_remote* remote = connect_end(&end, address, port);
    write_and_read_back(&end, remote);
    write_atomically(&end, remote);
    send_messages(&end, remote);
    leave(&end, &remote);
}

static void run_astray(const char* address, const char* port) {
    struct end end;
    struct rpma_mr_remote* remote = connect_end(&end, address, port);
    CHECK(rpma_write(end.conn, remote, 0, end.region, 0, 64, RPMA_F_COMPLETION_ALWAYS,
                     context_of(1)));
    await(&end, 1);
    CHECK(rpma_write(end.conn, remote, REGION_BYTES - 8, end.region, 0, 16,
                     RPMA_F_COMPLETION_ALWAYS, context_of(2)));
    struct ibv_wc wc = next_completion(&end);
    REQUIRE(wc.wr_id == 2);
    REQUIRE(wc.status == IBV_WC_REM_ACCESS_ERR);
    wc = next_completion(&end);
    REQUIRE(wc.wr_id == 100);
    REQUIRE(wc.status == IBV_WC_WR_FLUSH_ERR);
    leave(&end, &remote);
}

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*run)(const char* address, const char* port);
    } roles[] = {{"server", serve}, {"client", run_client}, {"astray", run_astray}};
    for (size_t index = 0; argc == 4 && index < sizeof(roles) / sizeof(roles[0]); ++index) {
        if (strcmp(argv[1], roles[index].name) != 0) continue;
        roles[index].run(argv[2], argv[3]);
        return EXIT_SUCCESS;
    }
    (void)fprintf(stderr, "usage: rpma_traffic server|client|astray ADDRESS PORT\n");
    return EXIT_FAILURE;
}
