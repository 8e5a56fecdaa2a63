// SPDX-License-Identifier: BSD-3-Clause
// What a device must do: the objects of libibverbs and librdmacm, one semantics for every device.
// tests/contract runs the rules below against each of them.
//
// Rules that hold for all devices (InfiniBand RC, as programs expect it):
//  - Completions of one QP's send queue come in posting order. The first failed request completes
//    with its status even if it was unsignaled; all later ones, and every receive, complete with
//    WcStatus::flushed, each once. Requests before the failed one complete normally.
//  - A send queue slot is in use from the post until its own completion, or that of a later
//    signaled request, has been polled. A queue of depth n takes exactly n requests; the next post
//    is would_block. A receive queue slot is in use until its completion has been polled.
//  - A signaled write, atomic write, send or flush completes when the target device has placed the
//    bytes (flush: has made them visible or persistent), a read or atomic when the result is in
//    local memory.
//  - A CQ never loses a completion of a QP attached to it.
//  - Destroying a QP removes its completions from the CQs; afterwards nothing of it touches the
//    caller's memory. Deregistering a region ends every access to it before the call returns.
//  - Parents outlive children: PD, CQ, SRQ and CmId before the QP, channel before CQ and CmId.
//  - Every call may be made from any thread. Two threads posting to one QP are serialised.
//  - A child process (fork) that inherited objects cannot use them; closing them there does nothing
//    to the parent's.
//  - Nothing blocks but get_event() on a descriptor without O_NONBLOCK and resolve().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/socket_address.hpp"
#include "core/base/statistics.hpp"
#include "core/model/types.hpp"

struct ibv_context;
struct ibv_wc;

namespace compat::core {

class CompletionQueue;
class QueuePair;
class CmId;

enum class Transport : std::uint8_t { infiniband, iwarp };

/// What a device can do. Every number is true: at the limit it works, beyond it fails.
struct Limits {
    std::string name;  ///< "compat0", "rxe0"
    Transport transport = Transport::infiniband;
    std::uint32_t max_qp_wr = 0;
    std::uint32_t max_sge = 0;       ///< sends, writes, receives
    std::uint32_t max_sge_read = 0;  ///< reads
    std::uint32_t max_inline = 0;    ///< bytes
    std::uint64_t max_message = 0;   ///< bytes in one work request
    std::uint32_t max_cqe = 0;
    std::uint32_t max_srq_wr = 0;
    std::uint32_t max_rd_atomic = 0;  ///< reads and atomics in flight, per QP and direction
    std::uint32_t imm_bytes = 0;      ///< 4 or 8; 0: no immediate data
    bool atomics = false;
    bool flush = false;                         ///< Opcode::flush is native
    bool atomic_write = false;                  ///< Opcode::atomic_write is native
    bool read_sink_needs_remote_write = false;  ///< iWARP NICs
    bool on_demand_paging = false;
    bool unregistered_local = false;    ///< kUnregisteredLkey is good for any local memory
    bool requested_keys = false;        ///< MrAttr::requested_rkey works
    bool remote_access_events = false;  ///< RemoteAccessObserver works
    bool imm_without_receive = false;   ///< QpAttr::imm_without_receive works
    /// A write completes when the target's memory holds it. Else the target's device has it.
    bool placed_when_complete = false;
    std::uint8_t max_connect_data = 0;  ///< private data, bytes
    std::uint8_t max_accept_data = 0;
    std::uint8_t max_reject_data = 0;
};

/// Told of what peers did to a region or through a QP; called by the thread that did it, after the
/// bytes are visible. It must be quick and must not call the device.
class RemoteAccessObserver {
public:
    virtual ~RemoteAccessObserver() = default;
    virtual void remote_access(Opcode opcode, std::uint64_t bytes) noexcept = 0;
};

class MemoryRegion {
public:
    virtual ~MemoryRegion() = default;  ///< deregisters
    [[nodiscard]] virtual std::uint32_t lkey() const noexcept = 0;
    [[nodiscard]] virtual std::uint32_t rkey() const noexcept = 0;
    /// Null ends it; when the call returns the old observer is not and will not be called.
    /// Needs Limits::remote_access_events, else not_supported.
    virtual Status set_observer(RemoteAccessObserver* observer) noexcept = 0;
    /// ibv_advise_mr(3): PREFETCH, PREFETCH_WRITE, PREFETCH_NO_FAULT.
    /// Errors: invalid_argument (range, advice, flags), not_supported, device.
    virtual Status advise(std::uint64_t offset, std::size_t length, int advice,
                          std::uint32_t flags) noexcept = 0;
};

struct MrAttr {
    void* address = nullptr;
    std::size_t length = 0;  ///< bytes; 0 is allowed: no access to it ever passes
    AccessFlags access{};
    std::optional<std::uint64_t> iova{};  ///< what peers call the first byte; else its address
    std::optional<std::uint32_t> requested_rkey{};  ///< no_key when it is taken in this PD
};

class SharedReceiveQueue {
public:
    virtual ~SharedReceiveQueue() = default;
    /// Errors: would_block (full), invalid_argument (too many SGEs).
    virtual Status post_receive(const ReceiveRequest& request) noexcept = 0;
    /// As QueuePair::cancel_receive().
    virtual Status cancel_receive(std::uint64_t) noexcept { return failure(Errc::not_supported); }
};

class ProtectionDomain {
public:
    virtual ~ProtectionDomain() = default;
    /// Errors: access_denied (memory not mapped, or read-only and local_write asked),
    /// no_key, not_supported (on_demand), no_memory, device.
    virtual Result<std::unique_ptr<MemoryRegion>> register_memory(const MrAttr& attr) noexcept = 0;
    /// depth entries of up to max_sge elements.
    virtual Result<std::unique_ptr<SharedReceiveQueue>> create_srq(
        std::uint32_t depth, std::uint32_t max_sge) noexcept = 0;
    /// Whether something made from this PD still lives (ibv_dealloc_pd would fail).
    [[nodiscard]] virtual bool in_use() const noexcept = 0;
};

class CompletionChannel {
public:
    virtual ~CompletionChannel() = default;
    [[nodiscard]] virtual int fd() const noexcept = 0;  ///< readable while an event waits
    /// Takes (and acknowledges) one event. Blocks unless the fd has O_NONBLOCK.
    /// Errors: would_block, interrupted, device.
    virtual Result<CompletionQueue*> get_event() noexcept = 0;
};

class CompletionQueue {
public:
    virtual ~CompletionQueue() = default;
    /// Fills wcs from the front; 0 when there is none. Drives the device's progress when empty.
    /// Errors: device.
    virtual Result<std::size_t> poll(std::span<WorkCompletion> wcs) noexcept = 0;
    /// One event on the channel for the next completion added after this call (solicited_only: the
    /// next solicited or failed one). One event per arming. Errors: device.
    virtual Status request_notify(bool solicited_only) noexcept = 0;
    /// A hint: at least one completion could be polled right now. Never wrong when it says yes.
    [[nodiscard]] virtual bool has_completions() const noexcept = 0;

    /// poll() for who wants completions as libibverbs gives them, straight from the device: the
    /// number of those taken, or a negative errno. The device counts them. Not while hindered.
    virtual int poll_native(int most, ibv_wc* wcs) noexcept;
    /// Before the first native poll; the block is the device's until the queue's end.
    void count_native_polls(StatBlock& block) noexcept { native_polls_ = &block; }
    /// While one of these bits is set all polls come by poll(). Bits below kOfDevice are the
    /// user's.
    void hinder_native(std::uint8_t bits) noexcept { hindrances_.fetch_or(bits); }
    void allow_native(std::uint8_t bits) noexcept {
        hindrances_.fetch_and(static_cast<std::uint8_t>(~bits));
    }
    [[nodiscard]] bool is_hindered(std::uint8_t bits = 0xff) const noexcept {
        return (hindrances_.load(std::memory_order_acquire) & bits) != 0;
    }
    static constexpr std::uint8_t kOfDevice = 0x80;  ///< set until the device can

protected:
    StatBlock* native_polls_ = nullptr;

private:
    std::atomic<std::uint8_t> hindrances_{kOfDevice};
};

struct QpAttr {
    ProtectionDomain* pd = nullptr;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* receive_cq = nullptr;
    SharedReceiveQueue* srq = nullptr;  ///< receives come from here, if set
    std::uint32_t send_depth = 0;
    std::uint32_t receive_depth = 0;
    std::uint32_t max_send_sge = 1;
    std::uint32_t max_receive_sge = 1;
    std::uint32_t max_inline = 0;  ///< bytes
    /// write_imm completes at the target without taking a posted receive; wr_id is then 0. Both
    /// sides of the connection need not agree: it is the target's own bookkeeping. Back-pressure
    /// stops the peer while receive_depth such completions wait to be polled.
    bool imm_without_receive = false;
    /// Of remote_write, remote_read and remote_atomic, what the peer may do through this QP, beside
    /// what each region allows. Without the right an access is a remote access error at the peer,
    /// but for one of no bytes; NICs may refuse that, too, and call it remote_invalid_request.
    /// iWARP NICs enforce no rights of a QP. read_source allows to read regions that have it;
    /// hardware cannot tell them from others, and allows to read all that can be read.
    AccessFlags access = kRemoteAccess;
    bool plain_posts = true;                ///< false: post_send() is to see every request
    StatScope scope = StatScope::internal;  ///< of plain posts
};

/// A connected (RC) queue pair. post_receive() works from creation, post_send() once the
/// connection is established (passive side: once accepted).
class QueuePair {
public:
    virtual ~QueuePair() = default;
    [[nodiscard]] virtual std::uint32_t number() const noexcept = 0;
    /// Posts in order and rings one doorbell. On failure *posted requests are in the queue, the
    /// rest are not. Errors: would_block (queue full), invalid_argument (too many SGEs, too much
    /// inline data or any of a request that reads, misaligned atomic), too_long (max_message),
    /// not_supported (opcode), wrong_state (not connected yet). In the error state posts succeed
    /// and are flushed.
    virtual Status post_send(std::span<const WorkRequest> requests,
                             std::size_t* posted = nullptr) noexcept = 0;
    /// Whether what moves so many bytes may be posted by the three calls below, right now.
    [[nodiscard]] bool is_plain(std::uint64_t length) const noexcept {
        return length < plain_end_.load(std::memory_order_relaxed);
    }
    // As post_send(), each for the opcode that it is named for. With StatScope::program they count
    // what they post.
    virtual Status plain_write(PlainRequest& request) noexcept;
    virtual Status plain_read(PlainRequest& request) noexcept;
    virtual Status plain_send(PlainRequest& request) noexcept;
    /// Errors: would_block (full), invalid_argument (too many SGEs, or the QP has an SRQ).
    virtual Status post_receive(const ReceiveRequest& request) noexcept = 0;
    /// Withdraws the receive with that wr_id, which no message has reached yet: its buffers are the
    /// caller's, its slot is free and no completion follows.
    /// Errors: invalid_argument (not there any more), not_supported (hardware cannot).
    virtual Status cancel_receive(std::uint64_t) noexcept { return failure(Errc::not_supported); }
    /// As MemoryRegion::set_observer, for everything that arrives through this QP.
    virtual Status set_observer(RemoteAccessObserver* observer) noexcept = 0;
    /// To the error state at once: everything outstanding is flushed.
    virtual void fail() noexcept = 0;

protected:
    /// Shorter requests are plain; 0: none are.
    std::atomic<std::uint64_t> plain_end_{0};
};

enum class CmEventType : std::uint8_t {
    connect_request,
    established,
    rejected,       ///< by the peer's program, or nobody listens there
    unreachable,    ///< no answer in time
    connect_error,  ///< the connection broke before it stood
    disconnected,   ///< once per connection, whoever ended it and however
    device_removed,
    count_
};

struct ConnectionParameters {
    std::span<const std::byte> private_data{};  ///< copied
    std::uint8_t responder_resources = 255;     ///< inbound reads and atomics; 255: device maximum
    std::uint8_t initiator_depth = 255;         ///< outbound reads and atomics
    std::uint8_t rnr_retry_count = 7;           ///< 7: without end
};

struct CmEvent {
    CmEventType type = CmEventType::disconnected;
    CmId* id = nullptr;                   ///< whom it concerns; the listener for connect_request
    std::unique_ptr<CmId> request;        ///< connect_request: the new identifier
    std::vector<std::byte> private_data;  ///< of the request, the reply or the rejection
};

class CmChannel {
public:
    virtual ~CmChannel() = default;
    [[nodiscard]] virtual int fd() const noexcept = 0;  ///< readable while an event waits
    /// Takes one event. Blocks unless the fd has O_NONBLOCK.
    /// Errors: would_block, interrupted, device.
    virtual Result<CmEvent> get_event() noexcept = 0;
};

/// An rdma_cm identifier: a listener, or one end of a connection.
/// Destroying it ends the connection (the peer sees disconnected) and drops its queued events; a
/// request that was neither accepted nor rejected is rejected.
class CmId {
public:
    virtual ~CmId() = default;

    /// Errors: no_device, address_in_use, device.
    virtual Status bind(const SocketAddress& local) noexcept = 0;
    /// Errors: address_in_use, wrong_state, device. backlog 0: the system's default.
    virtual Status listen(int backlog) noexcept = 0;

    /// rdma_resolve_addr and rdma_resolve_route; may block up to 2 x timeout_ms. local may be
    /// empty. No traffic reaches the peer's program. timeout_ms also bounds the wait of connect()
    /// for the peer's host (not for its program's answer). Errors: unreachable, no_device, device.
    virtual Status resolve(const SocketAddress& local, const SocketAddress& peer,
                           int timeout_ms) noexcept = 0;

    /// The id's one QP. Errors: invalid_argument (limits, foreign PD), no_memory, device.
    virtual Result<std::unique_ptr<QueuePair>> create_qp(const QpAttr& attr) noexcept = 0;

    /// Starts connecting; the outcome is an event. Errors: too_long (private data), wrong_state,
    /// device.
    virtual Status connect(const ConnectionParameters& parameters) noexcept = 0;
    /// Accepts a connect_request; established follows. Errors as connect().
    virtual Status accept(const ConnectionParameters& parameters) noexcept = 0;
    virtual Status reject(std::span<const std::byte> private_data) noexcept = 0;
    /// Requests already posted still reach the peer; then both sides get disconnected and both QPs
    /// flush. Again, or after the peer did it: success. Errors: wrong_state (never connected).
    virtual Status disconnect() noexcept = 0;

    /// Later events, and those that wait already, go to the other channel.
    virtual Status migrate(CmChannel& channel) noexcept = 0;
    [[nodiscard]] virtual SocketAddress local_address() const noexcept = 0;
    [[nodiscard]] virtual SocketAddress peer_address() const noexcept = 0;

    void set_context(void* context) noexcept { context_ = context; }
    [[nodiscard]] void* context() const noexcept { return context_; }

private:
    void* context_ = nullptr;
};

class Device {
public:
    virtual ~Device() = default;
    [[nodiscard]] virtual const Limits& limits() const noexcept = 0;
    /// The libibverbs context of a hardware device; null for the software device.
    [[nodiscard]] virtual ibv_context* native_context() const noexcept = 0;

    virtual Result<std::unique_ptr<ProtectionDomain>> allocate_pd() noexcept = 0;
    virtual Result<std::unique_ptr<CompletionChannel>> create_completion_channel() noexcept = 0;
    /// depth 0 is invalid_argument. channel may be null.
    virtual Result<std::unique_ptr<CompletionQueue>> create_cq(
        std::uint32_t depth, CompletionChannel* channel) noexcept = 0;
    virtual Result<std::unique_ptr<CmChannel>> create_cm_channel() noexcept = 0;
    /// channel may be null until migrate(): events then wait.
    virtual Result<std::unique_ptr<CmId>> create_cm_id(CmChannel* channel) noexcept = 0;
};

}  // namespace compat::core
