// SPDX-License-Identifier: BSD-3-Clause
// Processes with a connectionless endpoint each: everyone writes to everyone, data checked. Then a
// quarter of them is killed: the others get errors for exactly those, and finish the rest.
//
//     fi_all_to_all_stress [processes]
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, KEY = 5, SLOT = 4096, PATIENCE_SECONDS = 240 };

struct shared {
    struct sockaddr_in names[MOST];
    atomic_int arrived[4];  // of each stage
    atomic_int failed;
};

struct process {
    int self;
    int count;
    struct shared* shared;
    struct fid_ep* ep;
    struct fid_cq* cq;
    struct fid_av* av;
    fi_addr_t peers[MOST];
    unsigned char* memory;  // a slot for each process: the others write their number there
};

#define MUST(call)                                                                        \
    do {                                                                                  \
        const long result_ = (long)(call);                                                \
        if (result_ != 0) {                                                               \
            fprintf(stderr, "%s:%d: %s gives %ld\n", __FILE__, __LINE__, #call, result_); \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)
#define CHECK(condition) MUST(!(condition))

static void meet(const struct process* own, int stage, int everybody) {
    atomic_fetch_add(&own->shared->arrived[stage], 1);
    while (atomic_load(&own->shared->arrived[stage]) < everybody) {
        CHECK(atomic_load(&own->shared->failed) == 0);
        fi_cq_read(own->cq, NULL, 0);
        usleep(1000);
    }
}

static void open_endpoint(struct process* own) {
    struct fi_info* hints = fi_allocinfo();
    struct fi_info* info = NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->addr_format = FI_SOCKADDR_IN;
    MUST(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", "0", FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
    struct fid_fabric* fabric = NULL;
    struct fid_domain* domain = NULL;
    struct fid_mr* mr = NULL;
    MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
    MUST(fi_domain(fabric, info, &domain, NULL));
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    MUST(fi_cq_open(domain, &cq, &own->cq, NULL));
    MUST(fi_av_open(domain, &av, &own->av, NULL));
    MUST(fi_endpoint(domain, info, &own->ep, NULL));
    MUST(fi_ep_bind(own->ep, &own->av->fid, 0));
    MUST(fi_ep_bind(own->ep, &own->cq->fid, FI_TRANSMIT | FI_RECV));
    MUST(fi_enable(own->ep));
    own->memory = calloc(MOST, SLOT);
    MUST(
        fi_mr_reg(domain, own->memory, (size_t)MOST * SLOT, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
    size_t length = sizeof(struct sockaddr_in);
    MUST(fi_getname(&own->ep->fid, &own->shared->names[own->self], &length));
    fi_freeinfo(info);
}

/// Every peer gets one write; failed[i] says how that to process i ended.
static void write_to_all(struct process* own, const unsigned char* source, bool* failed) {
    static struct fi_context contexts[MOST];
    int posted = 0;
    int ended = 0;
    while (ended < own->count) {
        if (posted < own->count) {
            const int to = (own->self + posted) % own->count;
            const ssize_t result = fi_write(own->ep, source, SLOT, NULL, own->peers[to],
                                            (uint64_t)own->self * SLOT, KEY, &contexts[to]);
            if (result == 0)
                ++posted;
            else
                CHECK(result == -FI_EAGAIN);
        }
        struct fi_cq_entry entry;
        const ssize_t got = fi_cq_read(own->cq, &entry, 1);
        struct fi_cq_err_entry error = {0};
        if (got == -FI_EAGAIN) {
            sched_yield();
            continue;
        }
        if (got == -FI_EAVAIL)
            CHECK(fi_cq_readerr(own->cq, &error, 0) == 1);
        else
            CHECK(got == 1);
        struct fi_context* context = got == 1 ? entry.op_context : error.op_context;
        CHECK(context >= contexts && context < contexts + own->count);
        failed[context - contexts] = got != 1;
        ++ended;
    }
}

static bool dies(int number) {
    return number % 4 == 3;
}

static void run(struct process* own) {
    alarm(PATIENCE_SECONDS);
    bool failed[MOST] = {false};
    unsigned char source[SLOT];
    open_endpoint(own);
    meet(own, 0, own->count);
    for (int i = 0; i < own->count; ++i)
        CHECK(fi_av_insert(own->av, &own->shared->names[i], 1, &own->peers[i], 0, NULL) == 1);
    memset(source, own->self + 1, sizeof source);
    write_to_all(own, source, failed);
    for (int i = 0; i < own->count; ++i) CHECK(!failed[i]);
    meet(own, 1, own->count);
    for (int i = 0; i < own->count; ++i)
        for (int at = 0; at < SLOT; ++at) CHECK(own->memory[i * SLOT + at] == i + 1);
    const int survivors = own->count - own->count / 4;
    meet(own, 2, own->count);
    if (dies(own->self)) raise(SIGKILL);
    // The first write after a death may still find the old connection open: only its end counts.
    usleep(500000);
    memset(source, own->self + 101, sizeof source);
    write_to_all(own, source, failed);
    for (int i = 0; i < own->count; ++i) CHECK(failed[i] == dies(i));
    meet(own, 3, survivors);
    for (int i = 0; i < own->count; ++i)
        for (int at = 0; at < SLOT; ++at)
            CHECK(own->memory[i * SLOT + at] == i + (dies(i) ? 1 : 101));
    _exit(0);
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 16;
    if (count < 4 || count > MOST || count % 4 != 0) return 1;
    struct shared* shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t children[MOST];
    for (int i = 0; i < count; ++i) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            struct process own = {.self = i, .count = count, .shared = shared};
            run(&own);
        }
    }
    int wrong = 0;
    for (int i = 0; i < count; ++i) {
        int status = 0;
        waitpid(children[i], &status, 0);
        const bool well = dies(i) ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                  : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (well) continue;
        atomic_store(&shared->failed, 1);
        printf("process %d ended with %#x\n", i, (unsigned)status);
        ++wrong;
    }
    printf("%d processes, %d wrong\n", count, wrong);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
