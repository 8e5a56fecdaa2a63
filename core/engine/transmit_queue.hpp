// SPDX-License-Identifier: BSD-3-Clause
// The send side of one connection: turns operations into work requests, remembers them, and turns
// work completions back into exactly one completion or error an operation.
//
// Operations and work requests are numbered in posting order. The device completes a QP's requests
// in that order, so that the records form a ring: one poster (under lock_) moves its tail, the
// poller of the CQ (under the CQ's lock) its head. A success retires every request before it; hence
// most requests need not be signaled, only one in signal_interval_ so that slots keep coming back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/lock.hpp"
#include "core/device/device.hpp"
#include "core/engine/bounce.hpp"
#include "core/engine/completion.hpp"
#include "core/engine/counter.hpp"
#include "core/engine/cq_space.hpp"
#include "core/engine/operation.hpp"
#include "core/engine/splitter.hpp"
#include "core/engine/traced.hpp"

namespace compat::core {

class TrackedCq;

constexpr CompletionKind completion_kind(OpKind kind) noexcept {
    static_assert(static_cast<int>(OpKind::send) == static_cast<int>(CompletionKind::send) &&
                  static_cast<int>(OpKind::write) == static_cast<int>(CompletionKind::write) &&
                  static_cast<int>(OpKind::read) == static_cast<int>(CompletionKind::read));
    return static_cast<CompletionKind>(kind);
}

struct TransmitAttr {
    std::uint32_t depth = 0;  ///< of the QP's send queue
    SplitLimits split;
    std::uint32_t max_inline = 0;           ///< bytes, of the QP
    std::size_t max_inject = 0;             ///< the longest operation with OpFlag::inject
    ProtectionDomain* bounce_pd = nullptr;  ///< null: the device takes unregistered memory
    StatScope scope = StatScope::program;
};

class TransmitQueue {
public:
    /// Errors: invalid_argument (depth 0), no_memory; those of register_memory().
    static Result<std::unique_ptr<TransmitQueue>> create(TrackedCq& cq,
                                                         const TransmitAttr& attr) noexcept;
    ~TransmitQueue();
    TransmitQueue(const TransmitQueue&) = delete;
    TransmitQueue& operator=(const TransmitQueue&) = delete;

    /// Before open(). Every operation of a counted kind is then signaled.
    void set_counter(OpKind kind, Counter* counter) noexcept {
        counters_[static_cast<std::size_t>(kind)] = counter;
        if (counter != nullptr) watched_[static_cast<std::size_t>(kind)] = true;
    }
    /// For a trace; before open().
    void set_peer(const SocketAddress& peer) noexcept {
        if (trace_) trace_->set_peer(peer);
    }
    void open(QueuePair& qp) noexcept;
    /// Before the first post: what says at this peer that writes are in place.
    void set_probe(const DeliveryProbe& probe) noexcept {
        split_.probe = probe;
        if (probe.sink.length != 0) special_ |= OpFlag::deliver;
    }
    /// No completion of the QP may arrive any more: to be called with the CQ's lock held, after the
    /// QP has been destroyed. Posts are wrong_state from now on.
    void close() noexcept;

    /// Posts one operation; it keeps nothing that operation points to but the local buffers.
    ///
    /// Errors: would_block: send queue, completion queue, bounce slots or fence queue are full;
    /// progress frees them. wrong_state: not open. Others as QueuePair::post_send(). Whatever the
    /// outcome, an earlier operation that OpFlag::more held back is on its way afterwards, unless
    /// this one succeeded and has the flag itself.
    Status post(const Operation& operation) noexcept;
    /// The same, inline for what is almost always the case: one buffer, room everywhere, and
    /// nothing that must go before it. No atomics.
    Status post(SingleOperation operation) noexcept {
        return post(operation, [](const Error& error) { return Status(failure(error)); });
    }
    /// The same; a failure is what refuse(const Error&) makes of it, success that type's default.
    template <class Refuse>
    auto post(SingleOperation operation, const Refuse& refuse) noexcept
        -> decltype(refuse(Error{}));
    /// Sends off what OpFlag::more held back.
    void flush() noexcept;
    [[nodiscard]] std::size_t free_slots() noexcept;
    /// Nothing is on its way or held back.
    [[nodiscard]] bool idle() noexcept;
    [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
    [[nodiscard]] std::uint32_t max_inline() const noexcept { return max_inline_; }

    // For TrackedCq, with its lock held.

    template <class Sink>
    void complete(const WorkCompletion& wc, Sink& sink) noexcept;
    /// The same for what is almost always the case: the oldest operation succeeded, and all there
    /// is to do is to tell. Otherwise false, and nothing has changed.
    static bool take_plain(const WorkCompletion& wc, TransmitQueue* const* table,
                           Completion& out) noexcept;
    [[nodiscard]] bool has_work() const noexcept {
        return has_work_.load(std::memory_order_acquire);
    }
    /// Sends off what was held back or had to wait; gives up what the device refused.
    template <class Sink>
    void run(Sink& sink) noexcept;

    static TransmitQueue* of(std::uint64_t wr_id, TransmitQueue* const* table) noexcept {
        return table[wr_id >> kNumberBits];
    }
    static constexpr std::uint32_t kMaxQueues = 1U << 24;

private:
    static constexpr unsigned kNumberBits = 40;
    static constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kNumberBits) - 1;
    static constexpr std::uint64_t kOpen = UINT64_MAX;  ///< Record::wr_end while pieces follow
    static constexpr std::size_t kMaxStaged = 16;
    static constexpr std::size_t kMaxStagedSges = 64;
    static constexpr std::size_t kMaxDeferred = 32;
    static constexpr std::size_t kKinds = static_cast<std::size_t>(OpKind::count_);

    /// One operation on its way.
    struct alignas(64) Record {
        void* context;
        std::uint64_t flags;                ///< the facade's
        std::uint64_t wr_begin;             ///< its first work request
        std::atomic<std::uint64_t> wr_end;  ///< one past its last
        std::uint64_t length;
        OpKind kind;  ///< count_: ours, nobody hears of it
        bool plain;   ///< an entry, and neither counter nor copy
        bool entry;
        bool bounced;  ///< its source was copied
        bool dead;     ///< the device refused it: no work completion will come
    };
    /// An operation that must wait: behind a fence, or longer than the send queue.
    struct Deferred {
        Operation operation;
        std::array<LocalBuffer, kMaxSegments> local;
        std::array<RemoteRange, kMaxSegments> remote;
        Splitter splitter;
        std::uint64_t number = 0;
        bool bounced = false;
        bool started = false;
    };

    TransmitQueue(TrackedCq& cq, const TransmitAttr& attr) noexcept;
    Status prepare() noexcept;

    Status post_slow(const Operation& operation) noexcept;
    Status post_unusual(SingleOperation operation) noexcept;
    Status post_single(const SingleOperation& operation, SendFlags flags) noexcept;
    Status post_request(const SingleOperation& operation, SendFlags flags) noexcept;
    void take_back_single() noexcept;
    Status try_post(const Operation& operation) noexcept;
    Status post_general(const Operation& operation) noexcept;
    Status post_split(const Operation& operation) noexcept;
    Status bounce(const Operation& operation, LocalBuffer& copy) noexcept;

    Record& open_record(const Operation& operation, bool bounced) noexcept;
    void close_record(std::uint64_t number) noexcept;
    void stage_pieces(const Operation& operation, Splitter& splitter) noexcept;
    void stage(const WorkRequest& request, bool signaled) noexcept;
    void ring() noexcept;
    void abandon(std::uint64_t first_refused) noexcept;

    Status ensure_deferral() noexcept;
    Status defer(const Operation& operation) noexcept;
    void run_deferred() noexcept;
    bool start_deferred(Deferred& deferred) noexcept;
    void post_marker() noexcept;
    void update_work() noexcept;

    template <class AnyOperation>
    void trace_post(const AnyOperation& operation) noexcept;
    std::uint32_t drop(OpKind kind, bool entry) noexcept;
    void trace_end(const Record& record, WcStatus status) noexcept;

    template <class Sink>
    void complete_success(std::uint64_t wr, Sink& sink) noexcept;
    template <class Sink>
    void complete_error(std::uint64_t wr, const WorkCompletion& wc, Sink& sink) noexcept;
    template <class Sink>
    void retire(Record& record, Sink& sink) noexcept;
    template <class Sink>
    void fail(Record& record, WcStatus status, std::uint32_t vendor_error, Sink& sink) noexcept;
    template <class Sink>
    void bury(Sink& sink) noexcept;

    [[nodiscard]] Record& record(std::uint64_t number) noexcept { return records_[number & mask_]; }
    [[nodiscard]] std::uint64_t wr_id(std::uint64_t wr) const noexcept {
        return wr_id_base_ | (wr & kNumberMask);
    }
    [[nodiscard]] std::uint64_t free_requests() const noexcept {
        return depth_ - (wr_tail_ - wr_head_.load(std::memory_order_acquire));
    }
    [[nodiscard]] bool wants_signal(const Operation& operation) const noexcept {
        return operation.flags.has(OpFlag::entry) ||
               watched_[static_cast<std::size_t>(kind_of(operation.opcode))];
    }
    /// Whether the next request is signaled; counts.
    bool signal_next(bool wanted) noexcept {
        const bool signaled = wanted || ++unsignaled_run_ >= signal_interval_;
        if (signaled) unsignaled_run_ = 0;
        return signaled;
    }

    // Written by the poster, under lock_.
    Lock lock_;
    std::uint32_t unsignaled_run_ = 0;
    std::uint32_t signal_interval_ = 1;
    std::uint32_t depth_;
    QueuePair* qp_ = nullptr;
    CqSpace* space_;
    std::uint64_t wr_tail_ = 0;
    std::atomic<std::uint64_t> tail_{0};
    std::uint64_t wr_id_base_ = 0;
    std::uint64_t simple_max_ = 0;  ///< bytes that surely fit one work request and one SGE
    std::uint64_t mask_ = 0;
    std::uint32_t max_inline_;
    std::uint32_t staged_ = 0;
    std::uint32_t deferred_ = 0;
    bool direct_ = false;  ///< open, and nothing staged or deferred: a post may go straight out
    OpFlags special_ = OpFlag::more | OpFlag::fence | OpFlag::commit;  ///< not for straight posts
    std::array<Counter*, kKinds + 1> counters_{};  ///< the last is always null: OpKind::count_
    std::array<bool, kKinds> watched_{};           ///< by a counter or a trace: is always signaled
    std::unique_ptr<Trace> trace_;                 ///< null: none is wanted
    std::uint64_t traced_posts_ = 0;
    std::uint64_t posted_at_ = 0;  ///< when the post came that is worked on
    std::unique_ptr<Record[]> records_;
    Statistics statistics_;
    // Of post_request(): what it does not set stays as it is.
    Sge single_sge_;
    WorkRequest single_request_;

    // Written by the poller, under the CQ's lock.
    alignas(64) std::atomic<std::uint64_t> head_{0};
    std::atomic<std::uint64_t> wr_head_{0};
    std::atomic<std::uint32_t> dead_{0};
    std::atomic<bool> has_work_{false};
    std::uint64_t traced_ends_ = 0;      ///< operations end in the order of their posts
    std::uint64_t acknowledged_at_ = 0;  ///< of the completion that is worked on; 0: none

    // Rarely used.
    TrackedCq& cq_;
    SplitLimits split_;
    std::size_t max_inject_;
    ProtectionDomain* bounce_pd_;
    std::unique_ptr<BounceRing> bounce_;
    std::unique_ptr<Deferred[]> deferred_ops_;
    std::size_t deferred_head_ = 0;
    std::size_t staged_sges_ = 0;
    std::array<WorkRequest, kMaxStaged> staged_requests_;
    std::array<Sge, kMaxStagedSges> staged_sge_;
};

/// What an operation asks of the device, by OpFlags::bits(); those that only the engine knows have
/// no effect.
constexpr auto kAskedOfDevice = [] {
    std::array<SendFlags, 128> table;
    for (std::size_t bits = 0; bits < table.size(); ++bits) {
        const OpFlags flags(static_cast<std::uint8_t>(bits));
        if (flags.has(OpFlag::inject)) table[bits] |= SendFlag::inlined;
        if (flags.has(OpFlag::solicited)) table[bits] |= SendFlag::solicited;
    }
    return table;
}();

constexpr std::uint8_t kSignaledBit = SendFlags(SendFlag::signaled).bits();

/// As the newest of the queue.
[[gnu::always_inline]] inline Status TransmitQueue::post_single(const SingleOperation& operation,
                                                                SendFlags flags) noexcept {
    const std::uint64_t length = operation.local.length;
    const bool plain = operation.opcode == Opcode::write || operation.opcode == Opcode::read ||
                       operation.opcode == Opcode::send;
    if (!plain || length == 0 || operation.flags.has(OpFlag::inject) || !qp_->is_plain(length))
        return post_request(operation, flags);
    PlainRequest request(operation.opcode);
    request.wr_id = wr_id(wr_tail_);
    request.flags = flags.bits();
    request.remote_address = operation.remote_address;
    request.rkey = operation.rkey;
    request.sge = {operation.local.address, static_cast<std::uint32_t>(length),
                   operation.local.lkey};
    if (operation.opcode == Opcode::write) return qp_->plain_write(request);
    return operation.opcode == Opcode::read ? qp_->plain_read(request) : qp_->plain_send(request);
}

template <class Refuse>
[[gnu::always_inline]] inline auto TransmitQueue::post(SingleOperation operation,
                                                       const Refuse& refuse) noexcept
    -> decltype(refuse(Error{})) {
    using Answer = decltype(refuse(Error{}));
    const OpKind kind = kind_of(operation.opcode);
    const bool entry = operation.flags.has(OpFlag::entry);
    lock_.lock();
    if (trace_) [[unlikely]]
        posted_at_ = Trace::now();
    const std::uint64_t longest = operation.flags.has(OpFlag::inject) ? max_inline_ : simple_max_;
    const bool usual = direct_ && !operation.flags.has_any(special_) &&
                       operation.local.length <= longest && free_requests() != 0 &&
                       (!entry || space_->reserve());
    if (!usual) [[unlikely]] {
        lock_.unlock();
        const Status posted = post_unusual(operation);
        return posted ? Answer{} : refuse(posted.error());
    }
    const bool counts = watched_[static_cast<std::size_t>(kind)];
    const std::uint32_t run = unsignaled_run_ + 1;
    const bool signaled = entry || counts || run >= signal_interval_;

    // The completion may be polled before post_send() returns: the record comes first.
    const std::uint64_t number = tail_.load(std::memory_order_relaxed);
    Record& own = record(number);
    own.context = operation.context;
    own.flags = operation.entry_flags;
    own.wr_begin = wr_tail_;
    own.wr_end.store(wr_tail_ + 1, std::memory_order_relaxed);
    own.length = operation.local.length;
    own.kind = kind;
    own.plain = entry && !counts;
    own.entry = entry;
    own.bounced = false;
    own.dead = false;
    tail_.store(number + 1, std::memory_order_release);

    const SendFlags flags = kAskedOfDevice[operation.flags.bits()] |
                            SendFlags(static_cast<std::uint8_t>(signaled ? kSignaledBit : 0));
    const Status posted = post_single(operation, flags);
    if (!posted) [[unlikely]] {
        take_back_single();
        lock_.unlock();
        return refuse(posted.error());
    }
    ++wr_tail_;
    unsignaled_run_ = signaled ? 0 : run;
    statistics_->post(stat_of(operation.opcode), operation.local.length);
    if (trace_) [[unlikely]]
        trace_post(operation);
    lock_.unlock();
    return Answer{};
}

template <class Sink>
void TransmitQueue::retire(Record& record, Sink& sink) noexcept {
    if (Counter* counter = counters_[static_cast<std::size_t>(record.kind)]; counter != nullptr) {
        counter->tick(record.length);
        if (!record.entry) sink.count(WcStatus::success);
    }
    if (record.bounced) bounce_->give_back();
    if (trace_) [[unlikely]]
        trace_end(record, WcStatus::success);
    if (record.entry) sink.success(record.context, record.flags, completion_kind(record.kind));
}

template <class Sink>
void TransmitQueue::fail(Record& record, WcStatus status, std::uint32_t vendor_error,
                         Sink& sink) noexcept {
    if (record.bounced) bounce_->give_back();
    if (record.dead) {
        record.dead = false;
        dead_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (record.kind == OpKind::count_) return;
    if (trace_) [[unlikely]]
        trace_end(record, status);
    if (Counter* counter = counters_[static_cast<std::size_t>(record.kind)]; counter != nullptr)
        counter->add_errors(1);
    sink.emit({.context = record.context,
               .flags = record.flags,
               .kind = completion_kind(record.kind),
               .status = status,
               .reserved = record.entry,
               .vendor_error = vendor_error});
}

template <class Sink>
void TransmitQueue::complete_success(std::uint64_t wr, Sink& sink) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
        Record& oldest = record(head);
        const std::uint64_t end = oldest.wr_end.load(std::memory_order_acquire);
        if (end > wr + 1) break;  // a piece of an operation that has more of them
        retire(oldest, sink);
        ++head;
        if (end == wr + 1) break;
    }
    head_.store(head, std::memory_order_release);
    wr_head_.store(wr + 1, std::memory_order_release);
}

template <class Sink>
void TransmitQueue::complete_error(std::uint64_t wr, const WorkCompletion& wc,
                                   Sink& sink) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    while (head != tail && record(head).wr_end.load(std::memory_order_acquire) <= wr) {
        Record& earlier = record(head++);
        if (earlier.dead)
            fail(earlier, WcStatus::local_qp_operation_error, 0, sink);
        else
            retire(earlier, sink);
    }
    // The other pieces of an operation that has failed are flushed too: nobody is left to tell.
    if (head != tail && record(head).wr_begin <= wr)
        fail(record(head++), wc.status, wc.vendor_error, sink);
    head_.store(head, std::memory_order_release);
    wr_head_.store(wr + 1, std::memory_order_release);
}

template <class Sink>
void TransmitQueue::complete(const WorkCompletion& wc, Sink& sink) noexcept {
    const std::uint64_t seen = wr_head_.load(std::memory_order_relaxed);
    const std::uint64_t wr = seen + ((wc.wr_id - seen) & kNumberMask);
    if (trace_) [[unlikely]]
        acknowledged_at_ = wc.done_at != 0 ? wc.done_at : Trace::now();
    if (wc.status == WcStatus::success)
        complete_success(wr, sink);
    else
        complete_error(wr, wc, sink);
}

inline bool TransmitQueue::take_plain(const WorkCompletion& wc, TransmitQueue* const* table,
                                      Completion& out) noexcept {
    TransmitQueue& queue = *of(wc.wr_id, table);
    const std::uint64_t head = queue.head_.load(std::memory_order_relaxed);
    const Record& oldest = queue.record(head);
    const std::uint64_t end = oldest.wr_end.load(std::memory_order_acquire);
    const bool is_last = ((wc.wr_id + 1 - end) & kNumberMask) == 0;
    if (wc.status != WcStatus::success || !is_last || !oldest.plain) return false;
    out.context = oldest.context;
    out.flags = oldest.flags;
    out.kind = completion_kind(oldest.kind);
    queue.head_.store(head + 1, std::memory_order_release);
    queue.wr_head_.store(end, std::memory_order_release);
    return true;
}

/// Fails the refused operations that have become the oldest.
template <class Sink>
void TransmitQueue::bury(Sink& sink) noexcept {
    acknowledged_at_ = 0;
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    while (head != tail && record(head).dead) {
        const std::uint64_t end = record(head).wr_end.load(std::memory_order_relaxed);
        if (end == kOpen) break;
        fail(record(head++), WcStatus::local_qp_operation_error, 0, sink);
        wr_head_.store(end, std::memory_order_release);
    }
    head_.store(head, std::memory_order_release);
}

template <class Sink>
void TransmitQueue::run(Sink& sink) noexcept {
    lock_.lock();
    if (qp_ != nullptr) {
        ring();
        run_deferred();
        if (dead_.load(std::memory_order_relaxed) != 0) bury(sink);
    }
    update_work();
    lock_.unlock();
}

}  // namespace compat::core
