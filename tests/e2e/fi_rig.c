// SPDX-License-Identifier: BSD-3-Clause
#include "fi_rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rig_role.h"

enum {
    ROLE_SECONDS = 600,
    QUIET_POLLS = 200,
    EVENT_BYTES = 512,
    PAGE = 4096,
    TARGET_MR_MODE = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
};
// Not every device has these, and fi_getinfo() then offers nothing to who asks for them.
static const uint64_t kCapsOfSomeDevices = FI_RMA_EVENT | FI_RMA_PMEM;

// --- checks

void rig_fail(const char* file, int line, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    _exit(EXIT_FAILURE);  // not exit(): what was made is not freed, and that is not the finding
}

void rig_check_code(long code, long wanted, const char* call, const char* file, int line) {
    if (code == wanted) return;
    rig_fail(file, line, "%s gives %ld (%s), not %ld (%s)", call, code, fi_strerror((int)-code),
             wanted, fi_strerror((int)-wanted));
}

double rig_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// --- between the two processes

void rig_say(struct rig* rig, const void* bytes, size_t size) {
    EQUAL(send(rig->other, bytes, size, MSG_NOSIGNAL), size);
}

void rig_hear(struct rig* rig, void* bytes, size_t size) {
    size_t got = 0;
    while (got < size) {
        const ssize_t more = recv(rig->other, (char*)bytes + got, size - got, 0);
        if (more == 0) rig_fail(__FILE__, __LINE__, "the other process is gone");
        if (more < 0 && errno == EINTR) continue;
        CHECK(more > 0);
        got += (size_t)more;
    }
}

void rig_meet(struct rig* rig) {
    char mark = 'm';
    rig_say(rig, &mark, 1);
    rig_hear(rig, &mark, 1);
    EQUAL(mark, 'm');
}

// --- objects

struct fi_info* rig_hints(const struct rig_options* options) {
    struct fi_info* hints = fi_allocinfo();
    CHECK(hints != NULL);
    hints->caps = options->caps != 0 ? options->caps : FI_MSG | FI_RMA;
    hints->mode = options->mode | FI_RX_CQ_DATA;
    hints->ep_attr->type = options->rdm ? FI_EP_RDM : FI_EP_MSG;
    hints->ep_attr->max_msg_size = options->max_msg_size;
    hints->addr_format = FI_SOCKADDR_IN;
    // Connectionless endpoints take local memory without descriptors, and most programs count on
    // it.
    const int any = TARGET_MR_MODE | (options->rdm ? 0 : FI_MR_LOCAL);
    hints->domain_attr->mr_mode = options->mr_mode != 0 ? options->mr_mode : any;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->op_flags = options->op_flags;
    hints->tx_attr->size = options->tx_size;
    hints->rx_attr->size = options->rx_size;
    if (options->shared_receive) hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    if (options->shared_transmit) hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    const char* provider = getenv("FI_RIG_PROVIDER");
    if (provider != NULL) hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

static void open_queues(struct rig* rig) {
    struct fi_cq_attr attr = {.size = rig->options->cq_size,
                              .format = rig->options->rdm ? FI_CQ_FORMAT_TAGGED : FI_CQ_FORMAT_DATA,
                              .wait_obj = rig->options->wait};
    MUST(fi_cq_open(rig->domain, &attr, &rig->tx, NULL));
    MUST(fi_cq_open(rig->domain, &attr, &rig->rx, NULL));
    if (rig->options->counters) {
        struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};
        for (size_t i = 0; i < RIG_LENGTH(rig->counters); ++i)
            MUST(fi_cntr_open(rig->domain, &cntr, &rig->counters[i], NULL));
    }
    if (rig->options->rdm) {
        struct fi_av_attr av = {.type = FI_AV_MAP};
        MUST(fi_av_open(rig->domain, &av, &rig->av, NULL));
    }
    if (rig->options->shared_transmit)
        MUST(fi_stx_context(rig->domain, rig->info->tx_attr, &rig->stx, NULL));
    if (rig->options->shared_receive)
        MUST(fi_srx_context(rig->domain, rig->info->rx_attr, &rig->srx, NULL));
}

void rig_open_device(struct rig* rig, const char* port) {
    struct fi_info* hints = rig_hints(rig->options);
    const uint64_t flags = rig->target ? FI_SOURCE : 0;
    const int found = fi_getinfo(FI_VERSION(1, 17), rig_address(), port, flags, hints, &rig->info);
    const bool optional = rig_is_given_an_address() && (hints->caps & kCapsOfSomeDevices) != 0;
    if (optional && found == -FI_ENODATA) rig_skip("the device is not offered with these caps");
    MUST(found);
    fi_freeinfo(hints);
    MUST(fi_fabric(rig->info->fabric_attr, &rig->fabric, NULL));
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    MUST(fi_eq_open(rig->fabric, &attr, &rig->eq, NULL));
    MUST(fi_domain(rig->fabric, rig->info, &rig->domain, NULL));
    open_queues(rig);
}

void rig_listen(struct rig* rig) {
    MUST(fi_passive_ep(rig->fabric, rig->info, &rig->pep, NULL));
    MUST(fi_pep_bind(rig->pep, &rig->eq->fid, 0));
    MUST(fi_listen(rig->pep));
    struct sockaddr_in address;
    size_t length = sizeof address;
    MUST(fi_getname(&rig->pep->fid, &address, &length));
    EQUAL(length, sizeof address);
    char port[8];
    snprintf(port, sizeof port, "%d", ntohs(address.sin_port));
    rig_say(rig, port, sizeof port);
}

struct fi_info* rig_find_target(struct rig* rig) {
    char port[8];
    rig_hear(rig, port, sizeof port);
    struct fi_info* hints = rig_hints(rig->options);
    struct fi_info* info = NULL;
    MUST(fi_getinfo(FI_VERSION(1, 17), rig_address(), port, 0, hints, &info));
    fi_freeinfo(hints);
    return info;
}

struct fid_ep* rig_endpoint(struct rig* rig, struct fi_info* info) {
    struct fid_ep* ep = NULL;
    MUST(fi_endpoint(rig->domain, info, &ep, NULL));
    MUST(fi_ep_bind(ep, rig->options->rdm ? &rig->av->fid : &rig->eq->fid, 0));
    if (rig->options->counters) {
        const uint64_t kinds[] = {FI_WRITE, FI_READ, FI_SEND};
        for (size_t i = 0; i < RIG_LENGTH(kinds); ++i)
            MUST(fi_ep_bind(ep, &rig->counters[i]->fid, kinds[i]));
    } else {
        MUST(fi_ep_bind(ep, &rig->tx->fid, FI_TRANSMIT | rig->options->bind));
    }
    MUST(fi_ep_bind(ep, &rig->rx->fid, FI_RECV));
    if (rig->stx != NULL) MUST(fi_ep_bind(ep, &rig->stx->fid, 0));
    if (rig->srx != NULL) MUST(fi_ep_bind(ep, &rig->srx->fid, 0));
    MUST(fi_enable(ep));
    return ep;
}

static _Alignas(16) char g_event[EVENT_BYTES];
static ssize_t g_event_size;

struct fi_eq_cm_entry* rig_event(struct rig* rig, uint32_t wanted) {
    uint32_t event = 0;
    g_event_size = fi_eq_sread(rig->eq, &event, g_event, sizeof g_event, RIG_TIMEOUT_MS, 0);
    if (g_event_size == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {0};
        fi_eq_readerr(rig->eq, &error, 0);
        rig_fail(__FILE__, __LINE__, "event queue: error %d (%s)", error.err,
                 fi_strerror(error.err));
    }
    CHECK(g_event_size >= (ssize_t)sizeof(struct fi_eq_cm_entry));
    EQUAL(event, wanted);
    return (struct fi_eq_cm_entry*)g_event;
}

ssize_t rig_event_size(void) {
    return g_event_size;
}

static void accept_one(struct rig* rig) {
    rig_listen(rig);
    struct fi_eq_cm_entry* request = rig_event(rig, FI_CONNREQ);
    CHECK(request->fid == &rig->pep->fid);
    struct fi_info* info = request->info;
    rig->ep = rig_endpoint(rig, info);
    MUST(fi_accept(rig->ep, NULL, 0));
    CHECK(rig_event(rig, FI_CONNECTED)->fid == &rig->ep->fid);
    fi_freeinfo(info);
}

static void connect_one(struct rig* rig) {
    struct fi_info* info = rig_find_target(rig);
    rig->ep = rig_endpoint(rig, info);
    MUST(fi_connect(rig->ep, info->dest_addr, NULL, 0));
    CHECK(rig_event(rig, FI_CONNECTED)->fid == &rig->ep->fid);
    fi_freeinfo(info);
}

fi_addr_t rig_insert_other(struct rig* rig, struct fid_ep* ep) {
    struct sockaddr_in name;
    size_t length = sizeof name;
    MUST(fi_getname(&ep->fid, &name, &length));
    EQUAL(length, sizeof name);
    rig_say(rig, &name, sizeof name);
    rig_hear(rig, &name, sizeof name);
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    EQUAL(fi_av_insert(rig->av, &name, 1, &address, 0, NULL), 1);
    return address;
}

void rig_connect(struct rig* rig) {
    if (rig->options->rdm) {
        rig->ep = rig_endpoint(rig, rig->info);
        rig->peer = rig_insert_other(rig, rig->ep);
        return;
    }
    if (rig->target)
        accept_one(rig);
    else
        connect_one(rig);
}

#define CLOSE(object)                                         \
    do {                                                      \
        if ((object) != NULL) MUST(fi_close(&(object)->fid)); \
        (object) = NULL;                                      \
    } while (0)

void rig_close_endpoint(struct rig* rig) {
    CLOSE(rig->ep);
}

void rig_close(struct rig* rig) {
    CLOSE(rig->ep);
    CLOSE(rig->pep);
    CLOSE(rig->srx);
    CLOSE(rig->stx);
    CLOSE(rig->av);
    while (rig->local_count != 0) MUST(fi_close(&rig->locals[--rig->local_count].mr->fid));
    for (size_t i = 0; i < RIG_LENGTH(rig->counters); ++i) CLOSE(rig->counters[i]);
    CLOSE(rig->tx);
    CLOSE(rig->rx);
    CLOSE(rig->domain);
    CLOSE(rig->eq);
    CLOSE(rig->fabric);
    fi_freeinfo(rig->info);
    rig->info = NULL;
}

struct fid_mr* rig_region(struct rig* rig, void* at, size_t size, uint64_t access, uint64_t key,
                          uint64_t flags) {
    struct fid_mr* mr = NULL;
    MUST(fi_mr_reg(rig->domain, at, size, access, 0, key, flags, &mr, NULL));
    return mr;
}

struct rig_target rig_describe(struct rig* rig, struct fid_mr* mr, void* at, size_t size) {
    const bool by_address =
        (rig->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)) != 0;
    return (struct rig_target){
        .address = by_address ? (uintptr_t)at : 0, .key = fi_mr_key(mr), .size = size};
}

void* rig_desc(struct rig* rig, const void* at, size_t size) {
    const bool needed = (rig->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0 ||
                        (rig->info->mode & FI_LOCAL_MR) != 0;
    if (!needed || size == 0) return NULL;
    const uintptr_t begin = (uintptr_t)at / PAGE * PAGE;
    const uintptr_t end = ((uintptr_t)at + size + PAGE - 1) / PAGE * PAGE;
    for (size_t i = 0; i < rig->local_count; ++i) {
        const struct rig_local* local = &rig->locals[i];
        if (local->begin <= begin && end <= local->end) return fi_mr_desc(local->mr);
    }
    CHECK(rig->local_count < RIG_LOCAL_REGIONS);
    struct fid_mr* mr =
        rig_region(rig, (void*)begin, end - begin, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0);
    rig->locals[rig->local_count++] = (struct rig_local){begin, end, mr};
    return fi_mr_desc(mr);
}

bool rig_chooses_keys(const struct rig* rig) {
    return (rig->info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC)) == 0;
}

bool rig_is_iwarp(const struct rig* rig) {
    return strncmp(rig->info->domain_attr->name, "siw", 3) == 0;
}

bool rig_can_cancel(const struct rig* rig) {
    return rig->options->rdm || rig_chooses_keys(rig) || !rig_is_given_an_address();
}

bool rig_delivers(const struct rig* rig) {
    return rig->options->rdm || !rig_is_given_an_address();
}

uint64_t rig_data_mask(const struct rig* rig) {
    const size_t size = rig->info->domain_attr->cq_data_size;
    return size >= sizeof(uint64_t) ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
}

void rig_await_data(struct rig* rig) {
    if ((rig->info->mode & FI_RX_CQ_DATA) == 0) return;
    MUST(fi_recv(rig->ep, NULL, 0, NULL, 0, NULL));
}

void rig_need_waiting_messages(const struct rig* rig) {
    if (rig_is_iwarp(rig)) rig_skip("messages to an iWARP NIC do not wait for receives");
}

void rig_skip(const char* reason) {
    printf("  skipped: %s\n", reason);
    fflush(stdout);
    _exit(RIG_SKIPPED);
}

struct fi_cq_data_entry rig_next(struct rig* rig, struct fid_cq* cq) {
    const struct fi_cq_tagged_entry entry = rig_next_tagged(rig, cq);
    return (struct fi_cq_data_entry){entry.op_context, entry.flags, entry.len, entry.buf,
                                     entry.data};
}

struct fi_cq_tagged_entry rig_next_tagged(struct rig* rig, struct fid_cq* cq) {
    struct fi_cq_tagged_entry entry = {0};
    const double end = rig_seconds() + RIG_TIMEOUT_MS / 1e3;
    ssize_t count;
    while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
        if (rig_seconds() > end) rig_fail(__FILE__, __LINE__, "no completion in time");
        rig_progress(rig);
    }
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(cq, &error, 0);
        rig_fail(__FILE__, __LINE__, "completion: error %d (%s), provider %d (%s)", error.err,
                 fi_strerror(error.err), error.prov_errno,
                 fi_cq_strerror(cq, error.prov_errno, NULL, NULL, 0));
    }
    EQUAL(count, 1);
    return entry;
}

struct fi_cq_err_entry rig_next_error(struct rig* rig, struct fid_cq* cq) {
    struct fi_cq_tagged_entry entry;
    const double end = rig_seconds() + RIG_TIMEOUT_MS / 1e3;
    ssize_t count;
    while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
        if (rig_seconds() > end) rig_fail(__FILE__, __LINE__, "no completion in time");
        rig_progress(rig);
    }
    EQUAL(count, -FI_EAVAIL);
    struct fi_cq_err_entry error = {0};
    EQUAL(fi_cq_readerr(cq, &error, 0), 1);
    return error;
}

void rig_expect_nothing(struct fid_cq* cq) {
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < QUIET_POLLS; ++i) CODE(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
}

void rig_progress(struct rig* rig) {
    fi_cq_read(rig->tx, NULL, 0);
    fi_cq_read(rig->rx, NULL, 0);
}

void* rig_context(uintptr_t number) {
    return (void*)(0x1000 + 16 * number);
}

// --- bytes

unsigned char* rig_memory(size_t size) {
    void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

void rig_free(struct rig* rig, void* at, size_t size) {
    const uintptr_t begin = (uintptr_t)at;
    for (size_t i = 0; i < rig->local_count;) {
        struct rig_local* local = &rig->locals[i];
        if (local->begin < begin + size && begin < local->end) {
            MUST(fi_close(&local->mr->fid));
            *local = rig->locals[--rig->local_count];
        } else {
            ++i;
        }
    }
    EQUAL(munmap(at, size), 0);
}

static unsigned char byte_at(size_t place, unsigned seed) {
    const uint64_t mixed = (place + 1) * UINT64_C(0x9E3779B97F4A7C15) + seed * UINT64_C(2654435761);
    return (unsigned char)(mixed >> 32);
}

void rig_fill(void* bytes, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; ++i) ((unsigned char*)bytes)[i] = byte_at(i, seed);
}

size_t rig_first_difference(const void* bytes, size_t size, unsigned seed) {
    size_t i = 0;
    while (i < size && ((const unsigned char*)bytes)[i] == byte_at(i, seed)) ++i;
    return i;
}

static int count_entries(const char* path) {
    DIR* directory = opendir(path);
    CHECK(directory != NULL);
    int count = 0;
    while (readdir(directory) != NULL) ++count;
    closedir(directory);
    return count;
}

int rig_count_fds(void) {
    return count_entries("/proc/self/fd");
}
int rig_count_threads(void) {
    return count_entries("/proc/self/task");
}

long rig_resident_kib(void) {
    FILE* statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL);
    long pages = 0;
    CHECK(fscanf(statm, "%*d %ld", &pages) == 1);
    fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

// --- running

static void run_role(const struct rig_test* test, bool target, int other, pid_t other_pid) {
    struct rig rig = {
        .target = target, .other = other, .other_pid = other_pid, .options = &test->options};
    alarm(ROLE_SECONDS);
    rig_open_device(&rig, target ? "0" : "1");
    if (!test->unconnected) rig_connect(&rig);
    (target ? test->target : test->initiator)(&rig);
    rig_close(&rig);
    exit(EXIT_SUCCESS);
}

static pid_t start(const struct rig_test* tests, size_t test, bool target, const int sockets[2],
                   pid_t other_pid) {
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(sockets[target ? 1 : 0]);
        const int other = sockets[target ? 0 : 1];
        rig_leave_role_to_upstream(&(struct rig_role){
            .test = test, .passive = target, .other = other, .other_pid = other_pid});
        run_role(&tests[test], target, other, other_pid);
    }
    return pid;
}

enum outcome { FAILED, PASSED, SKIPPED };

// Whether a role ended as the test wants it.
static enum outcome outcome_of(const char* role, pid_t pid, int wanted_signal) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) CHECK(errno == EINTR);
    if (WIFSIGNALED(status) && WTERMSIG(status) == wanted_signal) return PASSED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == RIG_SKIPPED) return SKIPPED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS && wanted_signal == 0)
        return PASSED;
    if (WIFEXITED(status))
        printf("  the %s ended with %d\n", role, WEXITSTATUS(status));
    else
        printf("  the %s was killed: %s\n", role, strsignal(WTERMSIG(status)));
    return FAILED;
}

static enum outcome run(const struct rig_test* tests, size_t number) {
    const struct rig_test* test = &tests[number];
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    const double begin = rig_seconds();
    const pid_t target = start(tests, number, true, sockets, 0);
    const pid_t initiator = start(tests, number, false, sockets, target);
    close(sockets[0]);
    close(sockets[1]);
    const enum outcome of_target = outcome_of("target", target, test->target_signal);
    const enum outcome of_initiator = outcome_of("initiator", initiator, 0);
    const enum outcome outcome = of_target == of_initiator ? of_target : FAILED;
    static const char* const kWords[] = {[FAILED] = "FAIL", [PASSED] = "ok  ", [SKIPPED] = "skip"};
    printf("%s %s (%.2f s)\n", kWords[outcome], test->name, rig_seconds() - begin);
    fflush(stdout);
    return outcome;
}

int rig_main(const struct rig_test* tests, size_t count, int argc, char** argv) {
    size_t ran = 0;
    size_t outcomes[] = {[FAILED] = 0, [PASSED] = 0, [SKIPPED] = 0};
    struct rig_role role;
    if (rig_resumed_role(&role))
        run_role(&tests[role.test], role.passive, role.other, role.other_pid);
    for (size_t i = 0; i < count; ++i) {
        if (argc > 1 && strstr(tests[i].name, argv[1]) == NULL) continue;
        ++ran;
        ++outcomes[run(tests, i)];
    }
    if (ran == 0) {
        fprintf(stderr, "no test has such a name\n");
        return EXIT_FAILURE;
    }
    if (outcomes[FAILED] != 0) return EXIT_FAILURE;
    return outcomes[PASSED] != 0 ? EXIT_SUCCESS : RIG_SKIPPED;
}
