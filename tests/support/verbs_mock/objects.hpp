// SPDX-License-Identifier: BSD-3-Clause
// What the two mock libraries share. Everything is under one lock; nothing on the data path
// allocates or calls another library, so that measurements of callers can leave it out.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "tests/support/verbs_mock/mock.hpp"

namespace compat::mock {

/// A descriptor that is readable while it counts more than nothing.
class Counted {
public:
    Counted();
    ~Counted();
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    [[nodiscard]] int fd() const noexcept { return fd_; }
    void post() const noexcept;
    /// Blocks unless the descriptor has O_NONBLOCK. False: errno tells.
    [[nodiscard]] bool take() const noexcept;
    void withdraw() const noexcept;

private:
    int fd_;
};

struct Pd : ibv_pd {
    int children = 0;
};

struct Mr : ibv_mr {
    std::uint64_t iova = 0;
    unsigned access = 0;
};

struct Cq;
struct CompletionChannel : ibv_comp_channel {
    Counted ready;
    std::deque<Cq*> events;
};

struct Qp;
struct Entry {
    ibv_wc wc;
    Qp* qp;
    std::uint64_t frees;  ///< the send queue up to here; 0: one receive
    bool of_srq;
};

struct Cq : ibv_cq {
    std::vector<Entry> ring;
    std::size_t head = 0;
    std::size_t size = 0;
    int users = 0;
    bool armed = false;
    bool armed_for_solicited = false;
    unsigned unacknowledged = 0;
};

struct Receive {
    std::uint64_t wr_id;
    int elements;
    std::array<ibv_sge, 32> sge;
};
struct ReceiveRing {
    std::vector<Receive> ring;
    std::uint64_t head = 0;  ///< the next to be filled
    std::uint64_t tail = 0;
    std::uint64_t freed = 0;  ///< those that have been polled
};
struct Srq : ibv_srq {
    ReceiveRing receives;
    int users = 0;
};

struct Request {
    std::uint64_t wr_id;
    ibv_wr_opcode opcode;
    unsigned flags;
    __be32 imm;
    std::uint64_t remote;
    std::uint32_t rkey;
    std::uint64_t compare;
    std::uint64_t swap;
    int elements;
};

struct Qp : ibv_qp {
    ibv_qp_cap cap{};
    bool all_signaled = false;
    std::vector<Request> sends;
    std::vector<ibv_sge> send_sges;
    std::vector<std::byte> inlined;
    std::uint64_t send_head = 0;  ///< the next to be carried out
    std::uint64_t send_tail = 0;
    std::uint64_t send_freed = 0;
    ReceiveRing receives;
    Qp* peer = nullptr;
    unsigned access = 0;
    std::uint8_t rnr_retry = 7;
    bool running = false;
};

struct World {
    std::atomic<bool> held{false};
    Config config;
    ibv_device device{};
    verbs_context context{};
    Counted async_ready;
    std::deque<ibv_async_event> async_events;

    std::array<std::atomic<std::uint64_t>, kCalls> calls{};
    std::array<std::atomic<long>, static_cast<std::size_t>(Kind::count_)> live{};
    std::atomic<long> violations{0};
    std::atomic<int> failing{-1};
    std::atomic<int> fails_in{0};
    std::atomic<int> failing_errno{0};
    std::atomic<bool> failed{false};

    std::vector<Mr*> regions;  ///< by key / 256
    std::vector<Qp*> qps;
    std::uint32_t next_qp = 0x11;
    std::uint32_t generation = 0;
    unsigned last_access = 0;
    bool paused = false;
    std::atomic<bool> dead{false};
    ibv_wc_status next_status = IBV_WC_SUCCESS;
    std::uint32_t next_vendor_error = 0;
    PostedRequest last_request{};

    World();
};
World& world() noexcept;

/// The lock of everything. It spins: what it guards is short, and it is not to be seen among the
/// instructions of the C library.
class Guard {
public:
    Guard() noexcept {
        while (world().held.exchange(true, std::memory_order_acquire)) wait();
    }
    ~Guard() { world().held.store(false, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

private:
    static void wait() noexcept;
};

/// Counts the call; its errno if it is to fail, else 0.
int failure_of(Call call) noexcept;
/// The same, for calls that return -1 or null and set errno.
bool fails(Call call) noexcept;
void count(Kind kind, int change) noexcept;
void violation(const char* text) noexcept;

// With the lock held.

void set_data_path(ibv_context_ops& ops) noexcept;
void set_state(Qp& qp, ibv_qp_state state) noexcept;
void flush(Qp& qp) noexcept;
/// Carries out what can be, on both sides.
void run(Qp& qp) noexcept;
void forget_completions(Cq& cq, const Qp& qp) noexcept;
void raise_async(const ibv_async_event& event) noexcept;
Qp* create_qp(ibv_pd* pd, ibv_qp_init_attr_ex& attr) noexcept;
int destroy_qp(Qp& qp) noexcept;

/// Set by librdmacm.so.1: the device goes.
extern std::atomic<void (*)()> g_on_removal;

}  // namespace compat::mock
