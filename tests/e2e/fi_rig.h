// SPDX-License-Identifier: BSD-3-Clause
// What the end-to-end programs of libfabric share. Each is written as a user of libfabric would
// write it and knows nothing of this project. A test is two processes, a target that listens and an
// initiator that connects on an address of this host; they tell each other the rest by a socket.
//
// A check that does not hold prints where, and ends its process with status 1.
#pragma once

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RIG_SKIPPED = 77, RIG_TIMEOUT_MS = 60000, RIG_LOCAL_REGIONS = 64 };

// How a test wants its endpoint.
struct rig_options {
    bool rdm;       // connectionless endpoints: rig.peer is the other one
    uint64_t caps;  // FI_MSG | FI_RMA if 0
    uint64_t mode;
    uint64_t op_flags;      // tx_attr.op_flags
    uint64_t bind;          // FI_SELECTIVE_COMPLETION, or nothing
    int mr_mode;            // 0: whatever the provider wants; the rig follows what the info says
    enum fi_wait_obj wait;  // of the CQs
    size_t cq_size;
    size_t tx_size;
    size_t rx_size;
    size_t max_msg_size;
    bool counters;  // no CQ for transmits: rig.counters instead
    bool shared_receive;
    bool shared_transmit;
};

struct rig {
    bool target;
    int other;  // socket to the other process
    pid_t other_pid;
    const struct rig_options* options;
    struct fi_info* info;
    struct fid_fabric* fabric;
    struct fid_eq* eq;
    struct fid_domain* domain;
    struct fid_cq* tx;
    struct fid_cq* rx;
    struct fid_pep* pep;
    struct fid_ep* ep;
    struct fid_av* av;
    fi_addr_t peer;
    struct fid_stx* stx;
    struct fid_ep* srx;
    struct fid_cntr* counters[3];  // FI_WRITE, FI_READ, FI_SEND
    struct rig_local {             // what rig_desc() has registered
        uintptr_t begin;
        uintptr_t end;
        struct fid_mr* mr;
    } locals[RIG_LOCAL_REGIONS];
    size_t local_count;
};

typedef void rig_role(struct rig* rig);

struct rig_test {
    const char* name;  // a sentence
    rig_role* target;
    rig_role* initiator;
    struct rig_options options;
    bool unconnected;   // the roles start with fabric, EQ, domain and CQs only
    int target_signal;  // the target is to be killed by it
};

// Runs the tests whose names contain the first argument, or all. Result: of main().
int rig_main(const struct rig_test* tests, size_t count, int argc, char** argv);
#define RIG_LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define RIG_MAIN(tests)                                        \
    int main(int argc, char** argv) {                          \
        return rig_main(tests, RIG_LENGTH(tests), argc, argv); \
    }

// --- checks

_Noreturn void rig_fail(const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
void rig_check_code(long code, long wanted, const char* call, const char* file, int line);

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) rig_fail(__FILE__, __LINE__, "not so: %s", #condition); \
    } while (0)
#define EQUAL(value, wanted)                                                               \
    do {                                                                                   \
        const long long value_ = (long long)(value);                                       \
        const long long wanted_ = (long long)(wanted);                                     \
        if (value_ != wanted_)                                                             \
            rig_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #value, value_, wanted_); \
    } while (0)
// The call gives that number: 0, or a negative fabric errno.
#define CODE(call, wanted) rig_check_code((long)(call), (wanted), #call, __FILE__, __LINE__)
#define MUST(call) CODE(call, 0)

// --- between the two processes, beside libfabric

void rig_say(struct rig* rig, const void* bytes, size_t size);
void rig_hear(struct rig* rig, void* bytes, size_t size);
void rig_meet(struct rig* rig);  // both come here before one goes on
double rig_seconds(void);        // monotonic

// --- objects

void rig_open_device(struct rig* rig, const char* port);  // info, fabric, EQ, domain, CQs
struct fi_info* rig_hints(const struct rig_options* options);
void rig_listen(struct rig* rig);                  // and tells the other where
struct fi_info* rig_find_target(struct rig* rig);  // an info with the address to connect to
struct fid_ep* rig_endpoint(struct rig* rig, struct fi_info* info);  // bound and enabled
struct fi_eq_cm_entry* rig_event(struct rig* rig, uint32_t wanted);  // the next event is that one
ssize_t rig_event_size(void);                                        // bytes of the last event
void rig_connect(struct rig* rig);  // one connection, or a peer's address, from nothing
fi_addr_t rig_insert_other(struct rig* rig, struct fid_ep* ep);  // both exchange their names
void rig_close_endpoint(struct rig* rig);
void rig_close(struct rig* rig);  // everything

struct fid_mr* rig_region(struct rig* rig, void* at, size_t size, uint64_t access, uint64_t key,
                          uint64_t flags);
// What the initiator needs to reach a region.
struct rig_target {
    uint64_t address;
    uint64_t key;
    uint64_t size;
};
struct rig_target rig_describe(struct rig* rig, struct fid_mr* mr, void* at, size_t size);

// The descriptor of local memory where the info asks for one (FI_MR_LOCAL), else null. The memory
// stays registered until rig_free() or the end.
void* rig_desc(struct rig* rig, const void* at, size_t size);
// What differs between providers, as a program can tell by its info.
bool rig_chooses_keys(const struct rig* rig);   // and then errors distinguish key, range and rights
bool rig_is_iwarp(const struct rig* rig);       // as NICs have it: remote errors name no request
bool rig_can_cancel(const struct rig* rig);     // what the device holds
bool rig_delivers(const struct rig* rig);       // FI_DELIVERY_COMPLETE
uint64_t rig_data_mask(const struct rig* rig);  // 0: no data with writes and messages
// Before a peer's write with data: where that takes a receive, posts one.
void rig_await_data(struct rig* rig);
// The test sends before there are receives: iWARP NICs end the connection then.
void rig_need_waiting_messages(const struct rig* rig);
// The test cannot run here, and why. Both roles must come to the same end.
_Noreturn void rig_skip(const char* reason);

// The next entry of a queue, which is a success. Queues of connectionless endpoints have tags.
struct fi_cq_data_entry rig_next(struct rig* rig, struct fid_cq* cq);
struct fi_cq_tagged_entry rig_next_tagged(struct rig* rig, struct fid_cq* cq);
// The next one is a failure.
struct fi_cq_err_entry rig_next_error(struct rig* rig, struct fid_cq* cq);
void rig_expect_nothing(struct fid_cq* cq);  // nothing there, after some polling
// Repeats a post while it says -FI_EAGAIN, with progress between.
#define POST(rig, call)                                              \
    do {                                                             \
        ssize_t posted_;                                             \
        while ((posted_ = (call)) == -FI_EAGAIN) rig_progress(rig);  \
        rig_check_code((long)posted_, 0, #call, __FILE__, __LINE__); \
    } while (0)
void rig_progress(struct rig* rig);

void* rig_context(uintptr_t number);

// --- bytes

unsigned char* rig_memory(size_t size);  // mapped, zero
void rig_free(struct rig* rig, void* at, size_t size);
void rig_fill(void* bytes, size_t size, unsigned seed);
size_t rig_first_difference(const void* bytes, size_t size,
                            unsigned seed);  // size if there is none

int rig_count_fds(void);
int rig_count_threads(void);
long rig_resident_kib(void);
