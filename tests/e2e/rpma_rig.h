// SPDX-License-Identifier: BSD-3-Clause
// What the end-to-end programs of librpma share. Each is written as a user of librpma would write
// it and knows nothing of this project. A test is a server and a client, two processes that talk
// through librpma on an address of this host, and tell each other the rest through a socket.
//
// A check that does not hold prints where, and ends its process with status 1.
#pragma once

#include <librpma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RIG_SKIPPED = 77 };

struct rig {
    bool server;
    const char* address;  // where the server listens
    char port[8];         // once rig_listen() or rig_find_server() said so
    int other;            // socket to the other process
    pid_t other_pid;
    struct ibv_context* device;
    struct rpma_peer* peer;
};

typedef void rig_role(struct rig* rig);

struct rig_test {
    const char* name;  // a sentence
    rig_role* server;
    rig_role* client;
    const char* address;  // rig_address() if null
    int server_signal;    // the server is to be killed by it
    int client_signal;
};

// Runs the tests whose names contain the first argument, or all. The result is main()'s: 0, 1, or
// RIG_SKIPPED if all were skipped. Roles run with a peer, which must be free of objects at the end.
int rig_main(const struct rig_test* tests, size_t count, int argc, char** argv);
extern unsigned rig_role_seconds;  // after which a role counts as hanging
#define RIG_MAIN(tests)                                        \
    int main(int argc, char** argv) {                          \
        return rig_main(tests, RIG_LENGTH(tests), argc, argv); \
    }
#define RIG_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

// Ends this process as one that cannot run here; the other must do the same.
_Noreturn void rig_skip(const char* why);

// --- checks

_Noreturn void rig_fail(const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
void rig_check_code(int code, int wanted, const char* call, const char* file, int line);

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) rig_fail(__FILE__, __LINE__, "not so: %s", #condition); \
    } while (0)
#define CHECK_EQUAL(value, wanted)                                                         \
    do {                                                                                   \
        const long long value_ = (long long)(value);                                       \
        const long long wanted_ = (long long)(wanted);                                     \
        if (value_ != wanted_)                                                             \
            rig_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #value, value_, wanted_); \
    } while (0)
// The call gives that RPMA_E_ code; or success.
#define CODE(call, wanted) rig_check_code((call), (wanted), #call, __FILE__, __LINE__)
#define MUST(call) CODE(call, 0)

// --- between the two processes, beside librpma

void rig_say(struct rig* rig, const void* bytes, size_t size);
void rig_hear(struct rig* rig, void* bytes, size_t size);
// Both come here before one goes on.
void rig_meet(struct rig* rig);
// Sleeps in a system call that has nothing to do with librpma until the other says something.
void rig_sleep_until_told(struct rig* rig);

double rig_seconds(void);  // monotonic

// Reproducible: the same seed, the same numbers. [0, below)
uint64_t rig_random(uint64_t* state, uint64_t below);

// --- connections

// Server: listens on a free port and tells the client.
struct rpma_ep* rig_listen(struct rig* rig);
// Client: hears of the port.
void rig_find_server(struct rig* rig);

// Established connections; cfg may be null.
struct rpma_conn* rig_accept(struct rig* rig, struct rpma_ep* ep, const struct rpma_conn_cfg* cfg);
struct rpma_conn* rig_connect(struct rig* rig, const struct rpma_conn_cfg* cfg);
// One connection between the two, for either role.
struct rpma_conn* rig_connection(struct rig* rig, const struct rpma_conn_cfg* cfg);
// Orderly: the client disconnects, both see it, the connection is deleted.
void rig_close(struct rig* rig, struct rpma_conn** conn);

enum rpma_conn_event rig_next_event(struct rpma_conn* conn);
#define EVENT(conn, wanted) CHECK_EQUAL(rig_next_event(conn), wanted)

// Queue sizes as given, 0: the default.
struct rpma_conn_cfg* rig_cfg(uint32_t sq, uint32_t rq, uint32_t cq, uint32_t rcq);

// --- memory

struct rig_memory {
    unsigned char* at;
    size_t size;
    struct rpma_mr_local* mr;
};
enum { RIG_ALL_USAGES = 0xFF & ~RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT };

struct rig_memory rig_memory(struct rig* rig, size_t size, int usage);  // zeroed, page aligned
void rig_forget(struct rig_memory* memory);

// Bytes that depend on the place and the seed, and a look for the first that differs (or size).
void rig_fill(void* bytes, size_t size, unsigned seed);
size_t rig_first_difference(const void* bytes, size_t size, unsigned seed);

// The descriptor of a region goes over; the other makes a remote region of it.
void rig_lend(struct rig* rig, struct rpma_mr_local* mr);
struct rpma_mr_remote* rig_borrow(struct rig* rig);

// --- completions

struct rpma_cq* rig_cq(struct rpma_conn* conn);
struct rpma_cq* rig_rcq(struct rpma_conn* conn);
// Sleeps for the next completion and takes it.
struct ibv_wc rig_completion(struct rpma_cq* cq);
// The next completion is this request's, with that status.
#define COMPLETION(cq, context, wanted_status)                                         \
    do {                                                                               \
        const struct ibv_wc wc_ = rig_completion(cq);                                  \
        CHECK_EQUAL(wc_.wr_id, (uintptr_t)(context));                                  \
        if (wc_.status != (wanted_status))                                             \
            rig_fail(__FILE__, __LINE__, "status of %s is %s, not %s", #context,       \
                     ibv_wc_status_str(wc_.status), ibv_wc_status_str(wanted_status)); \
    } while (0)
// Nothing there now.
#define NO_COMPLETION_OF(cq)                                             \
    do {                                                                 \
        struct ibv_wc none_;                                             \
        CODE(rpma_cq_get_wc(cq, 1, &none_, NULL), RPMA_E_NO_COMPLETION); \
    } while (0)
