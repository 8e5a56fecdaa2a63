// SPDX-License-Identifier: BSD-3-Clause
// Measures one-sided operations of whatever libfabric.so.1 the dynamic linker finds. Starts its two
// processes itself and prints a line of JSON a size.
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fi_link.h"
#include "step_counter.h"

static const char kUsage[] =
    "usage: fi_bench [options]\n"
    "  --test rate|pingpong|steps   operations in flight; half round trips; user instructions\n"
    "  --op write|read|writedata\n"
    "  --ep msg|rdm                 type of endpoint\n"
    "  --provider NAME\n"
    "  --size N,N,...               bytes\n"
    "  --window N                   operations in flight (rate)\n"
    "  --deliver                    completions mean that the bytes are delivered\n"
    "  --target poll|sleep          what the target's program does meanwhile\n"
    "  --memory private|memfd|file  of the target's region\n"
    "  --lanes N                    pairs of endpoints, used in turn\n"
    "  --threads N                  pairs of endpoints, each with a thread of its own\n"
    "  --regions N                  regions at the target, used in turn\n"
    "  --ms N                       how long to measure each size\n";

enum test { TEST_RATE, TEST_PINGPONG, TEST_STEPS };
enum op { OP_WRITE, OP_READ, OP_WRITEDATA };

struct options {
    enum test test;
    enum op op;
    struct link_options link;
    struct bench_sizes sizes;
    size_t window;
    size_t regions;
    bool target_sleeps;
    enum bench_memory memory;
    double ms;
};

// Of one process.
struct bench {
    const struct options* options;
    struct link link;
    unsigned char* local;  // source of writes, sink of reads
    struct fid_mr* local_mr;
    void* desc;
    unsigned char* region;  // what the other side reaches; regions lie behind each other
    size_t region_size;
    struct link_remote* remotes;  // of the other side
    size_t size;                  // of the operations under way
    size_t turn;
    uint64_t sequence;  // of ping-pong by polling on memory
};

// --- one operation

static ssize_t post(struct bench* bench, struct link_lane* lane, size_t turn) {
    const struct link_remote* remote = &bench->remotes[turn % bench->options->regions];
    switch (bench->options->op) {
        case OP_WRITE:
            return fi_write(lane->ep, bench->local, bench->size, bench->desc, lane->peer,
                            remote->address, remote->key, bench);
        case OP_READ:
            return fi_read(lane->ep, bench->local, bench->size, bench->desc, lane->peer,
                           remote->address, remote->key, bench);
        default:
            return fi_writedata(lane->ep, bench->local, bench->size, bench->desc, turn, lane->peer,
                                remote->address, remote->key, bench);
    }
}

static void must_post(ssize_t posted) {
    if (posted != 0 && posted != -FI_EAGAIN)
        bench_fail(__FILE__, __LINE__, "a post gives %zd (%s)", posted, fi_strerror((int)-posted));
}

// --- rate

// Operations over lanes [first, first + lanes), whose completions come to lane `first`.
static void run_window(struct bench* bench, size_t first, size_t lanes, uint64_t count) {
    struct link_lane* const queue = &bench->link.lanes[first];
    const uint64_t end = queue->completed + count;
    uint64_t posted = queue->completed;
    size_t turn = bench->turn;
    while (queue->completed < end) {
        while (posted < end && posted - queue->completed < bench->options->window) {
            const ssize_t result = post(bench, &bench->link.lanes[first + turn % lanes], turn);
            must_post(result);
            if (result != 0) break;
            ++posted;
            ++turn;
        }
        link_await(&bench->link, queue);
    }
    if (!bench->options->link.threads) bench->turn = turn;
}

static void run_alone(void* context, uint64_t count) {
    struct bench* bench = context;
    run_window(bench, 0, bench->options->link.lanes, count);
}

struct worker {
    struct bench* bench;
    size_t lane;
    uint64_t count;
    pthread_t thread;
};

static void* work(void* context) {
    const struct worker* worker = context;
    run_window(worker->bench, worker->lane, 1, worker->count);
    return NULL;
}

// count operations in all
static void run_threads(void* context, uint64_t count) {
    struct bench* bench = context;
    const size_t lanes = bench->options->link.lanes;
    struct worker workers[LINK_MAX_LANES];
    for (size_t i = 0; i < lanes; ++i) {
        workers[i] = (struct worker){.bench = bench, .lane = i, .count = count / lanes + 1};
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (size_t i = 0; i < lanes; ++i) CHECK(pthread_join(workers[i].thread, NULL) == 0);
}

// --- ping-pong: with data the completion queue tells, else the last bytes of the region

static volatile uint64_t* last_word(unsigned char* start, size_t size) {
    return (volatile uint64_t*)(start + (size > sizeof(uint64_t) ? size - sizeof(uint64_t) : 0));
}

static void send_ball(struct bench* bench) {
    struct link_lane* lane = bench->link.lanes;
    ++bench->sequence;
    if (bench->options->op == OP_WRITE) *last_word(bench->local, bench->size) = bench->sequence;
    ssize_t posted;
    while ((posted = post(bench, lane, 0)) == -FI_EAGAIN) link_await(&bench->link, lane);
    must_post(posted);
}

static bool ball_is_here(struct bench* bench, uint64_t number) {
    struct link_lane* lane = bench->link.lanes;
    if (bench->options->op == OP_WRITE) return *last_word(bench->region, bench->size) == number;
    return lane->arrived >= number;
}

static void run_pingpong(void* context, uint64_t count) {
    struct bench* bench = context;
    struct link_lane* lane = bench->link.lanes;
    for (uint64_t i = 0; i < count; i += 2) {  // an operation is half a round trip
        send_ball(bench);
        while (!ball_is_here(bench, bench->sequence)) link_await(&bench->link, lane);
    }
    // The source must not change under the last one.
    while (lane->completed < bench->sequence) link_await(&bench->link, lane);
}

static void answer_pingpong(struct bench* bench) {
    struct link_lane* lane = bench->link.lanes;
    const struct bench_shared* shared = bench->link.side->shared;
    for (;;) {
        while (!ball_is_here(bench, bench->sequence + 1)) {
            link_reap(&bench->link, lane);
            if (atomic_load_explicit(&shared->stop, memory_order_relaxed) != 0) return;
        }
        send_ball(bench);
    }
}

// --- user instructions

struct call {
    struct bench* bench;
    struct fid_ep* ep;
    struct fid_cq* cq;
    struct fi_cq_data_entry entry;
    ssize_t result;
};

static void call_post(void* context) {
    struct call* call = context;
    struct bench* bench = call->bench;
    call->result =
        fi_write(call->ep, bench->local, bench->size, bench->desc, bench->link.lanes->peer,
                 bench->remotes->address, bench->remotes->key, bench);
}

static void call_read(void* context) {
    struct call* call = context;
    call->result = fi_cq_read(call->cq, &call->entry, 1);
}

// Calls that do nothing in two instructions: what they cost is the caller's part.
enum { STUB_STEPS = 2 };
static ssize_t stub_write(struct fid_ep* ep, const void* buffer, size_t length, void* desc,
                          fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
    (void)ep, (void)buffer, (void)length, (void)desc, (void)peer, (void)address, (void)key;
    (void)context;
    return 0;
}
static ssize_t stub_read(struct fid_cq* cq, void* buffer, size_t count) {
    (void)cq, (void)buffer, (void)count;
    return 0;
}

static void count_steps(struct bench* bench) {
    enum { ROUNDS = 20, WARM_UP = 64, IDLE = 4 };
    struct bench_side* side = bench->link.side;
    struct link_lane* lane = bench->link.lanes;
    run_window(bench, 0, 1, WARM_UP);

    struct fi_ops_rma stub_rma = {.size = sizeof stub_rma, .write = stub_write};
    struct fi_ops_cq stub_ops = {.size = sizeof stub_ops, .read = stub_read};
    struct fid_ep stub_ep = {.rma = &stub_rma};
    struct fid_cq stub_cq = {.ops = &stub_ops};
    struct call stub = {.bench = bench, .ep = &stub_ep, .cq = &stub_cq};
    struct call real = {.bench = bench, .ep = lane->ep, .cq = lane->cq};
    struct bench_tally write = {0};
    struct bench_tally completion = {0};
    struct bench_tally idle = {0};
    for (int round = 0; round < ROUNDS; ++round) {
        const uint64_t around_post = steps_of(side, call_post, &stub) - STUB_STEPS;
        const uint64_t around_read = steps_of(side, call_read, &stub) - STUB_STEPS;
        bench_add(&write, steps_of(side, call_post, &real) - around_post);
        must_post(real.result);
        CHECK(real.result == 0);
        for (int idle_reads = 0; idle_reads < IDLE;) {
            const uint64_t steps = steps_of(side, call_read, &real) - around_read;
            if (real.result == 1)
                bench_add(&completion, steps);
            else
                bench_add(&idle, steps);
            if (completion.count == (uint64_t)round + 1) ++idle_reads;
            bench_wait_on(&lane->patience, bench->size);
        }
    }
    bench_print_tally("write", &write);
    bench_print_tally("completion", &completion);
    bench_print_tally("idle", &idle);
}

// --- the two processes: in each phase the initiator works, and the target serves it

static void begin_phase(struct bench* bench) {
    bench_meet(bench->link.side);
}
static void end_phase(struct bench* bench) {
    struct bench_shared* shared = bench->link.side->shared;
    if (!bench->link.side->target) atomic_store(&shared->stop, 1);
    bench_meet(bench->link.side);
    if (bench->link.side->target) atomic_store(&shared->stop, 0);
}

enum { SEED = 7, OTHER_SEED = 8 };
enum service { SERVE_BY_POLLING, SERVE_ASLEEP, SERVE_UNTIL_FILLED };

static void serve(struct bench* bench, enum service service) {
    const struct bench_shared* shared = bench->link.side->shared;
    const size_t queues = bench->options->link.threads ? bench->options->link.lanes : 1;
    struct bench_patience patience = {0};
    bool over = service == SERVE_ASLEEP;
    begin_phase(bench);
    while (!over) {
        for (size_t i = 0; i < queues; ++i) link_reap(&bench->link, &bench->link.lanes[i]);
        over = atomic_load_explicit(&shared->stop, memory_order_relaxed) != 0;
        if (over && service == SERVE_UNTIL_FILLED) {
            // A completion need not mean that the bytes are here: they are on their way.
            over = bench_is_filled(bench->region, bench->size, SEED);
            bench_wait_on(&patience, bench->size);
        }
    }
    end_phase(bench);
}

// Connections are made, lazily made ones too.
static void warm_up(struct bench* bench) {
    const size_t lanes = bench->options->link.lanes;
    begin_phase(bench);
    if (!bench->options->link.threads) run_alone(bench, lanes);
    for (size_t i = 0; bench->options->link.threads && i < lanes; ++i) run_window(bench, i, 1, 1);
    end_phase(bench);
}

// One more operation, whose bytes must be where they belong.
static void verify(struct bench* bench) {
    const bool target = bench->link.side->target;
    const bool reads = bench->options->op == OP_READ;
    unsigned char* const bytes = target ? bench->region : bench->local;
    bench_fill(bytes, bench->size, target == reads ? SEED : OTHER_SEED);
    if (target) {
        serve(bench, reads ? SERVE_BY_POLLING : SERVE_UNTIL_FILLED);
        return;
    }
    bench->turn = 0;
    begin_phase(bench);
    run_window(bench, 0, 1, 1);
    if (reads && !bench_is_filled(bench->local, bench->size, SEED))
        bench_fail(__FILE__, __LINE__, "%zu bytes that were read are wrong", bench->size);
    end_phase(bench);
}

static void open_bench(struct bench* bench, struct bench_side* side) {
    const struct options* options = bench->options;
    link_open(&bench->link, side, &options->link);
    const size_t largest = bench_largest(&options->sizes);
    bench->region_size = (largest + 63) / 64 * 64;
    bench->local = bench_map(BENCH_PRIVATE, bench->region_size, NULL);
    bench->local_mr = link_register(&bench->link, bench->local, bench->region_size, 0);
    bench->desc = fi_mr_desc(bench->local_mr);
    bench->region = bench_map(options->memory, bench->region_size * options->regions, NULL);
    bench->remotes = calloc(options->regions, sizeof *bench->remotes);
    CHECK(bench->remotes != NULL);
}

// Lends all regions to the other side, and says what a registration took.
static void exchange_regions(struct bench* bench, bool lends) {
    const size_t count = bench->options->regions;
    if (!lends) {
        bench_hear(bench->link.side, bench->remotes, count * sizeof *bench->remotes);
        return;
    }
    struct link_remote* own = calloc(count, sizeof *own);
    CHECK(own != NULL);
    const double begin_time = bench_seconds();
    for (size_t i = 0; i < count; ++i) {
        unsigned char* at = bench->region + i * bench->region_size;
        struct fid_mr* mr = link_register(&bench->link, at, bench->region_size, i + 1);
        own[i] = link_describe(&bench->link, mr, at);
    }
    const double took = bench_seconds() - begin_time;
    if (count > 1)
        printf("{\"regions\": %zu, \"register_ns\": %.1f}\n", count, took * 1e9 / (double)count);
    fflush(stdout);
    bench_say(bench->link.side, own, count * sizeof *own);
    free(own);
}

static void time_operations(struct bench* bench) {
    const bool threads = bench->options->link.threads;
    bench_print_time(bench->size,
                     bench_measure(bench->options->ms, threads ? run_threads : run_alone, bench));
}

static void measure_operations(struct bench* bench) {
    const struct options* options = bench->options;
    if (bench->link.side->target) {
        serve(bench, SERVE_BY_POLLING);
        serve(bench, options->target_sleeps ? SERVE_ASLEEP : SERVE_BY_POLLING);
    } else {
        warm_up(bench);
        begin_phase(bench);
        if (options->test == TEST_STEPS)
            count_steps(bench);
        else
            time_operations(bench);
        end_phase(bench);
    }
    verify(bench);
}

static void measure_pingpong(struct bench* bench) {
    struct link_lane* lane = bench->link.lanes;
    bench->sequence = lane->arrived = lane->completed = 0;
    memset(bench->region, 0, bench->size);
    begin_phase(bench);
    if (bench->link.side->target)
        answer_pingpong(bench);
    else
        bench_print_time(bench->size, bench_measure(bench->options->ms, run_pingpong, bench));
    end_phase(bench);
}

static void role(struct bench_side* side, const void* context) {
    struct bench bench = {.options = context};
    open_bench(&bench, side);
    exchange_regions(&bench, side->target);
    if (bench.options->test == TEST_PINGPONG) exchange_regions(&bench, !side->target);
    for (size_t i = 0; i < bench.options->sizes.count; ++i) {
        bench.size = bench.link.size = bench.options->sizes.at[i];
        if (bench.options->test == TEST_PINGPONG)
            measure_pingpong(&bench);
        else
            measure_operations(&bench);
    }
}

// --- command line

int main(int argc, char** argv) {
    static const struct option kOptions[] = {
        {"test", required_argument, NULL, 't'},    {"op", required_argument, NULL, 'o'},
        {"ep", required_argument, NULL, 'e'},      {"provider", required_argument, NULL, 'p'},
        {"size", required_argument, NULL, 's'},    {"window", required_argument, NULL, 'w'},
        {"deliver", no_argument, NULL, 'd'},       {"target", required_argument, NULL, 'T'},
        {"memory", required_argument, NULL, 'm'},  {"lanes", required_argument, NULL, 'l'},
        {"threads", required_argument, NULL, 'n'}, {"regions", required_argument, NULL, 'r'},
        {"ms", required_argument, NULL, 'M'},      {NULL, 0, NULL, 0}};
    static const char* const kTests[] = {"rate", "pingpong", "steps", NULL};
    static const char* const kOps[] = {"write", "read", "writedata", NULL};
    static const char* const kTypes[] = {"msg", "rdm", NULL};
    static const char* const kTargets[] = {"poll", "sleep", NULL};
    static const char* const kMemories[] = {"private", "memfd", "file", NULL};
    struct options options = {.link = {.type = FI_EP_MSG, .lanes = 1},
                              .sizes = bench_parse_sizes("8"),
                              .window = 1,
                              .regions = 1,
                              .ms = 100};
    for (int letter; (letter = getopt_long(argc, argv, "", kOptions, NULL)) != -1;) {
        switch (letter) {
            case 't': options.test = (enum test)bench_index_of(optarg, kTests); break;
            case 'o': options.op = (enum op)bench_index_of(optarg, kOps); break;
            case 'e':
                options.link.type = bench_index_of(optarg, kTypes) ? FI_EP_RDM : FI_EP_MSG;
                break;
            case 'p': options.link.provider = optarg; break;
            case 's': options.sizes = bench_parse_sizes(optarg); break;
            case 'w': options.window = (size_t)bench_parse_number(optarg, 1, 1024); break;
            case 'd': options.link.deliver = true; break;
            case 'T': options.target_sleeps = bench_index_of(optarg, kTargets) == 1; break;
            case 'm': options.memory = (enum bench_memory)bench_index_of(optarg, kMemories); break;
            case 'n': options.link.threads = true;  // fall through
            case 'l':
                options.link.lanes = (size_t)bench_parse_number(optarg, 1, LINK_MAX_LANES);
                break;
            case 'r': options.regions = (size_t)bench_parse_number(optarg, 1, 1000000); break;
            case 'M': options.ms = (double)bench_parse_number(optarg, 1, 60000); break;
            default: fprintf(stderr, "%s", kUsage); return EXIT_FAILURE;
        }
    }
    return bench_run_pair(role, &options,
                          (struct bench_settings){.traced = options.test == TEST_STEPS,
                                                  .unpinned = options.link.threads});
}
