// SPDX-License-Identifier: BSD-3-Clause
// Measures librpma's one-sided operations. The server lends memory and does nothing; the client
// polls its completion queue. Starts both itself and prints a line of JSON a size.
#include <arpa/inet.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "step_counter.h"

static const char kUsage[] =
    "usage: rpma_bench [options]\n"
    "  --test rate|steps                 operations in flight; user instructions\n"
    "  --op write|read|flush|persist     flush: a write and a flush to visibility behind it;\n"
    "                                    persist: to persistence\n"
    "  --size N,N,...                    bytes\n"
    "  --window N                        operations in flight\n"
    "  --memory private|memfd|file       of the server's region\n"
    "  --ms N                            how long to measure each size\n";

enum test { TEST_RATE, TEST_STEPS };
enum op { OP_WRITE, OP_READ, OP_FLUSH, OP_PERSIST };
enum { PORT_BYTES = 8, DESCRIPTOR_BYTES = 64, QUEUE_SIZE = 256, COMPLETIONS = 16 };

static const char kAddress[] = "127.0.0.1";

struct options {
    enum test test;
    enum op op;
    struct bench_sizes sizes;
    uint64_t window;
    enum bench_memory memory;
    double ms;
};

struct bench {
    const struct options* options;
    struct bench_side* side;
    struct rpma_peer* peer;
    struct rpma_conn* conn;
    struct rpma_cq* cq;
    unsigned char* memory;
    struct rpma_mr_local* local;
    struct rpma_mr_remote* remote;
    size_t size;  // of the operations under way
    uint64_t completed;
    struct bench_patience patience;
};

static void must(int result, const char* call) {
    if (result == RPMA_E_NOSUPP) bench_skip("%s is not supported here", call);
    if (result != 0) bench_fail(__FILE__, __LINE__, "%s: %s", call, rpma_err_2str(result));
}
#define MUST(call) must((call), #call)

static void await_event(struct rpma_conn* conn, enum rpma_conn_event wanted) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    MUST(rpma_conn_next_event(conn, &event));
    if (event != wanted)
        bench_fail(__FILE__, __LINE__, "the event %s", rpma_utils_conn_event_2str(event));
}

// --- operations

static int post(struct bench* bench) {
    struct rpma_conn* conn = bench->conn;
    const size_t size = bench->size;
    const int quiet = RPMA_F_COMPLETION_ON_ERROR;
    const int told = RPMA_F_COMPLETION_ALWAYS;
    const enum op op = bench->options->op;
    if (op == OP_READ) return rpma_read(conn, bench->local, 0, bench->remote, 0, size, told, bench);
    const bool flushes = op != OP_WRITE;
    const int written =
        rpma_write(conn, bench->remote, 0, bench->local, 0, size, flushes ? quiet : told, bench);
    if (written != 0 || !flushes) return written;
    return rpma_flush(conn, bench->remote, 0, size,
                      op == OP_FLUSH ? RPMA_FLUSH_TYPE_VISIBILITY : RPMA_FLUSH_TYPE_PERSISTENT,
                      told, bench);
}

static void reap(struct bench* bench) {
    struct ibv_wc completions[COMPLETIONS];
    int got = 0;
    const int result = rpma_cq_get_wc(bench->cq, COMPLETIONS, completions, &got);
    if (result == RPMA_E_NO_COMPLETION) {
        bench_wait_on(&bench->patience, bench->size);
        return;
    }
    must(result, "rpma_cq_get_wc");
    for (int i = 0; i < got; ++i)
        if (completions[i].status != IBV_WC_SUCCESS)
            bench_fail(__FILE__, __LINE__, "an operation failed: %s",
                       ibv_wc_status_str(completions[i].status));
    bench->completed += (uint64_t)got;
    bench->patience.since = 0;
}

static void run(void* context, uint64_t count) {
    struct bench* bench = context;
    const uint64_t end = bench->completed + count;
    uint64_t posted = bench->completed;
    while (bench->completed < end) {
        for (; posted < end && posted - bench->completed < bench->options->window; ++posted)
            must(post(bench), "a post");
        reap(bench);
    }
}

// --- user instructions

struct call {
    struct bench* bench;
    struct ibv_wc completion;
    int result;
};

static void call_post(void* context) {
    struct call* call = context;
    call->result = post(call->bench);
}
static void call_get(void* context) {
    struct call* call = context;
    call->result = rpma_cq_get_wc(call->bench->cq, 1, &call->completion, NULL);
}
static void call_nothing(void* context) {
    (void)context;
}

static void count_steps(struct bench* bench) {
    enum { ROUNDS = 20, WARM_UP = 64 };
    run(bench, WARM_UP);
    struct bench_tally posts = {0};
    struct bench_tally completions = {0};
    struct bench_tally idle = {0};
    struct call call = {.bench = bench};
    for (int round = 0; round < ROUNDS; ++round) {
        const uint64_t around = steps_of(bench->side, call_nothing, &call);
        bench_add(&posts, steps_of(bench->side, call_post, &call) - around);
        must(call.result, "a post");
        do {
            const uint64_t steps = steps_of(bench->side, call_get, &call) - around;
            bench_add(call.result == 0 ? &completions : &idle, steps);
        } while (call.result == RPMA_E_NO_COMPLETION);
        must(call.result, "rpma_cq_get_wc");
        bench_add(&idle, steps_of(bench->side, call_get, &call) - around);
    }
    bench_print_tally("rpma_write", &posts);
    bench_print_tally("completion", &completions);
    bench_print_tally("idle", &idle);
}

// --- connection

static void find_free_port(char* port) {
    const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    CHECK(bind(probe, (struct sockaddr*)&address, length) == 0);
    CHECK(getsockname(probe, (struct sockaddr*)&address, &length) == 0);
    snprintf(port, PORT_BYTES, "%d", ntohs(address.sin_port));
    close(probe);
}

static void open_peer(struct bench* bench, enum rpma_util_ibv_context_type type) {
    struct ibv_context* device = NULL;
    MUST(rpma_utils_get_ibv_context(kAddress, type, &device));
    MUST(rpma_peer_new(device, &bench->peer));
}

static void lend(struct bench* bench) {
    // Whatever memory it is stands in for persistent memory here.
    if (bench->options->op == OP_PERSIST) setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 0);
    const size_t size = bench_largest(&bench->options->sizes);
    bench->memory = bench_map(bench->options->memory, size, NULL);
    int usage =
        RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    if (bench->options->op == OP_PERSIST) usage |= RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    MUST(rpma_mr_reg(bench->peer, bench->memory, size, usage, &bench->local));
}

static void serve(struct bench* bench) {
    open_peer(bench, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    lend(bench);
    char port[PORT_BYTES] = {0};
    find_free_port(port);
    struct rpma_ep* endpoint = NULL;
    MUST(rpma_ep_listen(bench->peer, kAddress, port, &endpoint));
    bench_say(bench->side, port, sizeof port);
    struct rpma_conn_req* request = NULL;
    MUST(rpma_ep_next_conn_req(endpoint, NULL, &request));
    char descriptor[DESCRIPTOR_BYTES];
    size_t length = 0;
    MUST(rpma_mr_get_descriptor_size(bench->local, &length));
    CHECK(length <= sizeof descriptor);
    MUST(rpma_mr_get_descriptor(bench->local, descriptor));
    const struct rpma_conn_private_data data = {descriptor, (uint8_t)length};
    MUST(rpma_conn_req_connect(&request, &data, &bench->conn));
    await_event(bench->conn, RPMA_CONN_ESTABLISHED);
}

static void reach(struct bench* bench) {
    const size_t size = bench_largest(&bench->options->sizes);
    open_peer(bench, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    bench->memory = bench_map(BENCH_PRIVATE, size, NULL);
    MUST(rpma_mr_reg(bench->peer, bench->memory, size,
                     RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &bench->local));
    struct rpma_conn_cfg* config = NULL;
    MUST(rpma_conn_cfg_new(&config));
    MUST(rpma_conn_cfg_set_sq_size(config, QUEUE_SIZE));
    MUST(rpma_conn_cfg_set_cq_size(config, QUEUE_SIZE));
    char port[PORT_BYTES];
    bench_hear(bench->side, port, sizeof port);
    struct rpma_conn_req* request = NULL;
    MUST(rpma_conn_req_new(bench->peer, kAddress, port, config, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &bench->conn));
    await_event(bench->conn, RPMA_CONN_ESTABLISHED);
    MUST(rpma_conn_get_cq(bench->conn, &bench->cq));
    struct rpma_conn_private_data data = {NULL, 0};
    MUST(rpma_conn_get_private_data(bench->conn, &data));
    MUST(rpma_mr_remote_from_descriptor(data.ptr, data.len, &bench->remote));
    if (bench->options->op != OP_PERSIST) return;
    struct rpma_peer_cfg* peer = NULL;
    MUST(rpma_peer_cfg_new(&peer));
    MUST(rpma_peer_cfg_set_direct_write_to_pmem(peer, true));
    MUST(rpma_conn_apply_remote_peer_cfg(bench->conn, peer));
}

// --- the two processes

enum { SEED = 7, OTHER_SEED = 8 };

// One more operation, whose bytes must be where they belong.
static void verify(struct bench* bench, bool client) {
    const bool reads = bench->options->op == OP_READ;
    bench_fill(bench->memory, bench->size, client == reads ? OTHER_SEED : SEED);
    bench_meet(bench->side);
    if (client) run(bench, 1);
    bench_meet(bench->side);
    if (client == reads && !bench_is_filled(bench->memory, bench->size, SEED))
        bench_fail(__FILE__, __LINE__, "%zu bytes are wrong", bench->size);
}

static void role(struct bench_side* side, const void* options) {
    struct bench bench = {.options = options, .side = side};
    const bool client = !side->target;
    if (client)
        reach(&bench);
    else
        serve(&bench);
    for (size_t i = 0; i < bench.options->sizes.count; ++i) {
        bench.size = bench.options->sizes.at[i];
        if (client && bench.options->test == TEST_STEPS)
            count_steps(&bench);
        else if (client)
            bench_print_time(bench.size, bench_measure(bench.options->ms, run, &bench));
        verify(&bench, client);
    }
}

int main(int argc, char** argv) {
    static const struct option kOptions[] = {{"test", required_argument, NULL, 't'},
                                             {"op", required_argument, NULL, 'o'},
                                             {"size", required_argument, NULL, 's'},
                                             {"window", required_argument, NULL, 'w'},
                                             {"memory", required_argument, NULL, 'm'},
                                             {"ms", required_argument, NULL, 'M'},
                                             {NULL, 0, NULL, 0}};
    static const char* const kTests[] = {"rate", "steps", NULL};
    static const char* const kOps[] = {"write", "read", "flush", "persist", NULL};
    static const char* const kMemories[] = {"private", "memfd", "file", NULL};
    struct options options = {.sizes = bench_parse_sizes("8"), .window = 1, .ms = 100};
    for (int letter; (letter = getopt_long(argc, argv, "", kOptions, NULL)) != -1;) {
        switch (letter) {
            case 't': options.test = (enum test)bench_index_of(optarg, kTests); break;
            case 'o': options.op = (enum op)bench_index_of(optarg, kOps); break;
            case 's': options.sizes = bench_parse_sizes(optarg); break;
            // A flush is two requests.
            case 'w': options.window = (uint64_t)bench_parse_number(optarg, 1, 64); break;
            case 'm': options.memory = (enum bench_memory)bench_index_of(optarg, kMemories); break;
            case 'M': options.ms = (double)bench_parse_number(optarg, 1, 60000); break;
            default: fprintf(stderr, "%s", kUsage); return EXIT_FAILURE;
        }
    }
    return bench_run_pair(role, &options,
                          (struct bench_settings){.traced = options.test == TEST_STEPS});
}
