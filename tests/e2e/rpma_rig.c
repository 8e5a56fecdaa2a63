// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_rig.h"

#include <arpa/inet.h>
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

enum { LISTEN_TRIES = 20 };
unsigned rig_role_seconds = 300;

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

void rig_check_code(int code, int wanted, const char* call, const char* file, int line) {
    if (code != wanted)
        rig_fail(file, line, "%s gives %d (%s), not %d (%s)", call, code, rpma_err_2str(code),
                 wanted, rpma_err_2str(wanted));
}

void rig_skip(const char* why) {
    fprintf(stderr, "skipped: %s\n", why);
    _exit(RIG_SKIPPED);
}

double rig_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

uint64_t rig_random(uint64_t* state, uint64_t below) {
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (mixed ^ (mixed >> 31)) % below;
}

// --- between the two processes

void rig_say(struct rig* rig, const void* bytes, size_t size) {
    CHECK_EQUAL(send(rig->other, bytes, size, MSG_NOSIGNAL), size);
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
    CHECK_EQUAL(mark, 'm');
}

void rig_sleep_until_told(struct rig* rig) {
    char mark;
    rig_hear(rig, &mark, 1);
}

// --- connections

static in_port_t* port_of(struct sockaddr_storage* address) {
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6*)address)->sin6_port
                                          : &((struct sockaddr_in*)address)->sin_port;
}

// A port that nobody has now. It may be taken before we listen: then another is tried.
static void find_port(struct rig* rig) {
    struct sockaddr_storage address = {.ss_family = AF_INET};
    socklen_t size = sizeof(struct sockaddr_in);
    if (inet_pton(AF_INET, rig->address, &((struct sockaddr_in*)&address)->sin_addr) != 1) {
        address.ss_family = AF_INET6;
        size = sizeof(struct sockaddr_in6);
        CHECK(inet_pton(AF_INET6, rig->address, &((struct sockaddr_in6*)&address)->sin6_addr) == 1);
    }
    const int probe = socket(address.ss_family, SOCK_STREAM, 0);
    CHECK(probe >= 0);
    CHECK_EQUAL(bind(probe, (struct sockaddr*)&address, size), 0);
    CHECK_EQUAL(getsockname(probe, (struct sockaddr*)&address, &size), 0);
    close(probe);
    snprintf(rig->port, sizeof rig->port, "%d", ntohs(*port_of(&address)));
}

struct rpma_ep* rig_listen(struct rig* rig) {
    struct rpma_ep* ep = NULL;
    int code = 0;
    for (int i = 0; i < LISTEN_TRIES; ++i) {
        find_port(rig);
        code = rpma_ep_listen(rig->peer, rig->address, rig->port, &ep);
        if (code == 0) break;
    }
    CHECK_EQUAL(code, 0);
    rig_say(rig, rig->port, sizeof rig->port);
    return ep;
}

void rig_find_server(struct rig* rig) {
    rig_hear(rig, rig->port, sizeof rig->port);
}

enum rpma_conn_event rig_next_event(struct rpma_conn* conn) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    MUST(rpma_conn_next_event(conn, &event));
    return event;
}

struct rpma_conn* rig_accept(struct rig* rig, struct rpma_ep* ep, const struct rpma_conn_cfg* cfg) {
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    (void)rig;
    MUST(rpma_ep_next_conn_req(ep, cfg, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    return conn;
}

struct rpma_conn* rig_connect(struct rig* rig, const struct rpma_conn_cfg* cfg) {
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* conn = NULL;
    MUST(rpma_conn_req_new(rig->peer, rig->address, rig->port, cfg, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &conn));
    EVENT(conn, RPMA_CONN_ESTABLISHED);
    return conn;
}

struct rpma_conn* rig_connection(struct rig* rig, const struct rpma_conn_cfg* cfg) {
    if (!rig->server) {
        rig_find_server(rig);
        return rig_connect(rig, cfg);
    }
    struct rpma_ep* ep = rig_listen(rig);
    struct rpma_conn* conn = rig_accept(rig, ep, cfg);
    MUST(rpma_ep_shutdown(&ep));
    return conn;
}

void rig_close(struct rig* rig, struct rpma_conn** conn) {
    if (!rig->server) MUST(rpma_conn_disconnect(*conn));
    EVENT(*conn, RPMA_CONN_CLOSED);
    if (rig->server) MUST(rpma_conn_disconnect(*conn));
    MUST(rpma_conn_delete(conn));
}

struct rpma_conn_cfg* rig_cfg(uint32_t sq, uint32_t rq, uint32_t cq, uint32_t rcq) {
    struct rpma_conn_cfg* cfg = NULL;
    MUST(rpma_conn_cfg_new(&cfg));
    if (sq != 0) MUST(rpma_conn_cfg_set_sq_size(cfg, sq));
    if (rq != 0) MUST(rpma_conn_cfg_set_rq_size(cfg, rq));
    if (cq != 0) MUST(rpma_conn_cfg_set_cq_size(cfg, cq));
    if (rcq != 0) MUST(rpma_conn_cfg_set_rcq_size(cfg, rcq));
    return cfg;
}

// --- memory

struct rig_memory rig_memory(struct rig* rig, size_t size, int usage) {
    struct rig_memory memory = {.size = size};
    void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    memory.at = at;
    MUST(rpma_mr_reg(rig->peer, at, size, usage, &memory.mr));
    return memory;
}

void rig_forget(struct rig_memory* memory) {
    MUST(rpma_mr_dereg(&memory->mr));
    CHECK_EQUAL(munmap(memory->at, memory->size), 0);
    memory->at = NULL;
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

enum { DESCRIPTOR_SIZE = 64 };

void rig_lend(struct rig* rig, struct rpma_mr_local* mr) {
    char descriptor[DESCRIPTOR_SIZE] = "";
    size_t size = 0;
    MUST(rpma_mr_get_descriptor_size(mr, &size));
    CHECK(size <= sizeof descriptor);
    MUST(rpma_mr_get_descriptor(mr, descriptor));
    rig_say(rig, descriptor, sizeof descriptor);
}

struct rpma_mr_remote* rig_borrow(struct rig* rig) {
    char descriptor[DESCRIPTOR_SIZE];
    struct rpma_mr_remote* remote = NULL;
    rig_hear(rig, descriptor, sizeof descriptor);
    MUST(rpma_mr_remote_from_descriptor(descriptor, sizeof descriptor, &remote));
    return remote;
}

// --- completions

struct rpma_cq* rig_cq(struct rpma_conn* conn) {
    struct rpma_cq* cq = NULL;
    MUST(rpma_conn_get_cq(conn, &cq));
    CHECK(cq != NULL);
    return cq;
}

struct rpma_cq* rig_rcq(struct rpma_conn* conn) {
    struct rpma_cq* rcq = NULL;
    MUST(rpma_conn_get_rcq(conn, &rcq));
    CHECK(rcq != NULL);
    return rcq;
}

struct ibv_wc rig_completion(struct rpma_cq* cq) {
    struct ibv_wc wc;
    MUST(rpma_cq_wait(cq));
    MUST(rpma_cq_get_wc(cq, 1, &wc, NULL));
    return wc;
}

// --- running

_Noreturn static void run_role(const struct rig_test* test, bool server, int other) {
    struct rig rig = {.server = server,
                      .address = test->address != NULL ? test->address : rig_address(),
                      .other = other};
    if (test->address != NULL && rig_is_given_an_address())
        rig_skip("it has an address of its own");
    alarm(rig_role_seconds);
    rig_say(&rig, &(pid_t){getpid()}, sizeof(pid_t));
    rig_hear(&rig, &rig.other_pid, sizeof rig.other_pid);
    MUST(rpma_utils_get_ibv_context(
        rig.address, server ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE,
        &rig.device));
    MUST(rpma_peer_new(rig.device, &rig.peer));
    (server ? test->server : test->client)(&rig);
    MUST(rpma_peer_delete(&rig.peer));
    close(other);
    exit(EXIT_SUCCESS);  // with all that a checking run time does at exit
}

static pid_t start_role(const struct rig_test* tests, size_t test, bool server,
                        const int sockets[2]) {
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child != 0) return child;
    close(sockets[server ? 1 : 0]);
    const int other = sockets[server ? 0 : 1];
    rig_leave_role_to_upstream(&(struct rig_role){.test = test, .passive = server, .other = other});
    run_role(&tests[test], server, other);
}

// Whether that process ended as the test wants it.
static bool judge(const char* role, int status, int wanted_signal) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == wanted_signal) return true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && wanted_signal == 0) return true;
    if (WIFEXITED(status))
        printf("  the %s ended with %d\n", role, WEXITSTATUS(status));
    else
        printf("  the %s was killed: %s\n", role, strsignal(WTERMSIG(status)));
    return false;
}

static int run_test(const struct rig_test* tests, size_t number) {
    const struct rig_test* test = &tests[number];
    int sockets[2];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const pid_t pids[2] = {start_role(tests, number, true, sockets),
                           start_role(tests, number, false, sockets)};
    close(sockets[0]);
    close(sockets[1]);
    bool good = true;
    bool skipped = false;
    for (int ended = 0; ended < 2; ++ended) {
        int one = 0;
        const pid_t pid = waitpid(-1, &one, 0);
        const int who = pid == pids[0] ? 0 : 1;
        CHECK_EQUAL(pid, pids[who]);
        skipped = skipped || (WIFEXITED(one) && WEXITSTATUS(one) == RIG_SKIPPED);
        const int wanted = who == 0 ? test->server_signal : test->client_signal;
        if (!skipped && good && !judge(who == 0 ? "server" : "client", one, wanted)) {
            good = false;
            kill(pids[1 - who], SIGKILL);
        }
    }
    return skipped ? RIG_SKIPPED : good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int rig_main(const struct rig_test* tests, size_t count, int argc, char** argv) {
    int failed = 0;
    size_t ran = 0;
    size_t skipped = 0;
    struct rig_role role;
    if (rig_resumed_role(&role)) run_role(&tests[role.test], role.passive, role.other);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < count; ++i) {
        if (argc > 1 && strstr(tests[i].name, argv[1]) == NULL) continue;
        const double begin = rig_seconds();
        const int result = run_test(tests, i);
        const char* text = result == 0 ? "ok" : result == RIG_SKIPPED ? "skipped" : "FAILED";
        printf("%-7s %s (%.1f s)\n", text, tests[i].name, rig_seconds() - begin);
        ++ran;
        skipped += result == RIG_SKIPPED;
        failed += result == EXIT_FAILURE;
    }
    if (ran == 0) {
        printf("no test has such a name\n");
        return EXIT_FAILURE;
    }
    return failed != 0 ? EXIT_FAILURE : skipped == ran ? RIG_SKIPPED : EXIT_SUCCESS;
}
