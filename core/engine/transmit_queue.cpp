// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/transmit_queue.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>

#include "core/base/log.hpp"
#include "core/engine/tracked_cq.hpp"

namespace compat::core {
namespace {

// A quarter of the send queue may hang on the next signaled request: three quarters stay usable,
// and one completion in so many is cheap.
constexpr std::uint32_t kUnsignaledShare = 4;
constexpr std::uint32_t kMaxSignalInterval = 64;
constexpr std::uint32_t kMaxBounceSlots = 64;
constexpr std::uint64_t kMaxSimpleLength = std::uint64_t{1} << 31;

}  // namespace

TransmitQueue::TransmitQueue(TrackedCq& cq, const TransmitAttr& attr) noexcept
    : depth_(attr.depth),
      space_(&cq.space()),
      simple_max_(std::min(attr.split.max_message, kMaxSimpleLength)),
      max_inline_(attr.max_inline),
      statistics_(attr.scope),
      cq_(cq),
      split_(attr.split),
      max_inject_(attr.max_inject),
      bounce_pd_(attr.bounce_pd) {
    if (attr.scope == StatScope::program) trace_ = Trace::create();
    if (trace_) watched_.fill(true);
}

Result<std::unique_ptr<TransmitQueue>> TransmitQueue::create(TrackedCq& cq,
                                                             const TransmitAttr& attr) noexcept {
    if (attr.depth == 0) return failure(Errc::invalid_argument);
    std::unique_ptr<TransmitQueue> queue(new (std::nothrow) TransmitQueue(cq, attr));
    if (!queue) return failure(Errc::no_memory);
    if (const Status prepared = queue->prepare(); !prepared) return failure(prepared.error());
    return queue;
}

Status TransmitQueue::prepare() noexcept {
    // An operation has at least one work request, so that there are never more operations than
    // requests: the send queue's depth bounds both.
    const std::uint64_t capacity = std::bit_ceil(std::uint64_t{depth_});
    std::unique_ptr<Record[]> records(new (std::nothrow) Record[capacity]);
    if (!records) return failure(Errc::no_memory);
    mask_ = capacity - 1;
    signal_interval_ = std::clamp(depth_ / kUnsignaledShare, 1U, kMaxSignalInterval);
    if (max_inject_ > max_inline_) {
        const std::uint32_t slots = std::min(depth_, kMaxBounceSlots);
        auto ring = BounceRing::create(bounce_pd_, slots, max_inject_);
        if (!ring) return failure(ring.error());
        bounce_ = std::move(*ring);
    }
    auto slot = cq_.attach(*this);
    if (!slot) return failure(slot.error());
    wr_id_base_ = std::uint64_t{*slot} << kNumberBits;
    records_ = std::move(records);  // what the destructor knows an attached queue by
    return {};
}

TransmitQueue::~TransmitQueue() {
    if (records_) cq_.detach(*this, static_cast<std::uint32_t>(wr_id_base_ >> kNumberBits));
}

void TransmitQueue::open(QueuePair& qp) noexcept {
    const std::lock_guard lock(lock_);
    qp_ = &qp;
    update_work();
}

/// An operation ends without anybody's hearing of it. The number of its places in the CQ.
std::uint32_t TransmitQueue::drop(OpKind kind, bool entry) noexcept {
    if (trace_ && kind != OpKind::count_)
        trace_->end(++traced_ends_, name_of(kind), Trace::kDropped, 0);
    return entry ? 1 : 0;
}

void TransmitQueue::close() noexcept {
    const std::lock_guard lock(lock_);
    qp_ = nullptr;
    std::uint32_t reserved = 0;
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (std::uint64_t at = head_.load(std::memory_order_relaxed); at != tail; ++at)
        reserved += drop(record(at).kind, record(at).entry);
    for (; deferred_ != 0; --deferred_) {
        const Deferred& waiting = deferred_ops_[deferred_head_++ % kMaxDeferred];
        const Operation& operation = waiting.operation;
        if (!waiting.started)
            reserved += drop(kind_of(operation.opcode), operation.flags.has(OpFlag::entry));
    }
    space_->release(reserved);
    head_.store(tail, std::memory_order_relaxed);
    dead_.store(0, std::memory_order_relaxed);
    staged_ = 0;
    update_work();
}

namespace {

bool is_single(const Operation& operation) noexcept {
    return operation.local.size() <= 1 && operation.remote.size() <= 1 &&
           operation.opcode < Opcode::atomic_cas;
}

SingleOperation to_single(const Operation& operation) noexcept {
    SingleOperation single{.opcode = operation.opcode,
                           .flags = operation.flags,
                           .imm = operation.imm,
                           .context = operation.context,
                           .entry_flags = operation.entry_flags};
    if (!operation.local.empty()) single.local = operation.local[0];
    if (!operation.remote.empty()) {
        single.has_remote = true;
        single.rkey = operation.remote[0].rkey;
        single.remote_address = operation.remote[0].address;
    }
    return single;
}

}  // namespace

Status TransmitQueue::post(const Operation& operation) noexcept {
    return is_single(operation) ? post(to_single(operation)) : post_slow(operation);
}

[[gnu::noinline]] Status TransmitQueue::post_request(const SingleOperation& operation,
                                                     SendFlags flags) noexcept {
    WorkRequest& request = single_request_;
    request.wr_id = wr_id(wr_tail_);
    request.opcode = operation.opcode;
    request.flags = flags;
    request.imm = operation.imm;
    request.rkey = operation.rkey;
    request.remote_address = operation.remote_address;
    single_sge_ = {operation.local.address, static_cast<std::uint32_t>(operation.local.length),
                   operation.local.lkey};
    request.sges = {&single_sge_, operation.local.length != 0 ? 1U : 0U};
    return qp_->post_send({&request, 1});
}

/// The device has refused the newest operation, of which nobody knows yet.
void TransmitQueue::take_back_single() noexcept {
    const std::uint64_t number = tail_.load(std::memory_order_relaxed) - 1;
    if (record(number).entry) space_->release(1);
    tail_.store(number, std::memory_order_release);
}

Status TransmitQueue::post_unusual(SingleOperation operation) noexcept {
    const std::uint64_t length = operation.local.length;
    const RemoteRange remote{operation.remote_address, length, operation.rkey};
    return post_slow({.opcode = operation.opcode,
                      .flags = operation.flags,
                      .local = {&operation.local, length != 0 ? 1U : 0U},
                      .remote = {&remote, operation.has_remote ? 1U : 0U},
                      .length = length,
                      .imm = operation.imm,
                      .context = operation.context,
                      .entry_flags = operation.entry_flags});
}

Status TransmitQueue::post_slow(const Operation& operation) noexcept {
    Status status = try_post(operation);
    if (!status && status.error().code == Errc::would_block) {
        // The completions that would free slots may be there already; a program that does nothing
        // but post must still get on.
        cq_.progress();
        status = try_post(operation);
        if (!status && status.error().code == Errc::would_block)
            statistics_->add_shared(Stat::queue_full, 1);
    }
    return status;
}

/// With the lock held, after the post: who polls may have seen the end already.
template <class AnyOperation>
void TransmitQueue::trace_post(const AnyOperation& operation) noexcept {
    const FlagText flags(operation.flags);
    TracedPost post = describe(operation);
    post.flags = flags.c_str();
    trace_->post(++traced_posts_, posted_at_, name_of(kind_of(operation.opcode)), post);
}
template void TransmitQueue::trace_post(const SingleOperation&) noexcept;

void TransmitQueue::trace_end(const Record& record, WcStatus status) noexcept {
    if (record.kind == OpKind::count_) return;
    ++traced_ends_;
    if (acknowledged_at_ != 0) trace_->acknowledge(traced_ends_, acknowledged_at_);
    trace_->end(traced_ends_, name_of(record.kind), wc_status_text(status),
                status == WcStatus::success ? record.length : 0);
}

Status TransmitQueue::try_post(const Operation& operation) noexcept {
    const std::lock_guard lock(lock_);
    if (trace_) posted_at_ = Trace::now();
    if (qp_ == nullptr) [[unlikely]]
        return failure(Errc::wrong_state);
    Status status = post_general(operation);
    if (status) {
        statistics_->post(stat_of(operation.opcode), operation.length);
        if (trace_) trace_post(operation);
    } else {
        ring();
    }
    update_work();
    return status;
}

Status TransmitQueue::post_general(const Operation& operation) noexcept {
    const bool must_wait =
        operation.flags.has(OpFlag::fence) &&
        head_.load(std::memory_order_acquire) != tail_.load(std::memory_order_relaxed);
    if (deferred_ != 0 || must_wait) return defer(operation);
    const std::size_t requests = Splitter::count(operation, split_);
    if (requests <= free_requests()) return post_split(operation);
    // Up to signal_interval_ slots may stay taken until the next signaled request.
    if (requests <= depth_ - signal_interval_ || requests == 1) return failure(Errc::would_block);
    return defer(operation);
}

/// Copies the source; would_block when no slot is free.
Status TransmitQueue::bounce(const Operation& operation, LocalBuffer& copy) noexcept {
    if (bounce_->full()) return failure(Errc::would_block);
    copy = bounce_->take(operation.local);
    return {};
}

Status TransmitQueue::post_split(const Operation& operation) noexcept {
    const bool entry = operation.flags.has(OpFlag::entry);
    if (entry && !space_->reserve()) return failure(Errc::would_block);
    Operation copy = operation;
    LocalBuffer bounced;
    const bool bounces = operation.flags.has(OpFlag::inject) && operation.length > max_inline_;
    if (bounces) {
        if (Status taken = bounce(operation, bounced); !taken) {
            if (entry) space_->release(1);
            return taken;
        }
        copy.local = {&bounced, 1};
    }
    Splitter splitter(copy, split_);
    const std::uint64_t number = tail_.load(std::memory_order_relaxed);
    open_record(copy, bounces);
    stage_pieces(copy, splitter);
    close_record(number);
    // Inline data is taken from the caller's buffer when the doorbell rings.
    const bool inlines = operation.flags.has(OpFlag::inject) && !bounces;
    if (inlines || !operation.flags.has(OpFlag::more)) ring();
    return {};
}

TransmitQueue::Record& TransmitQueue::open_record(const Operation& operation,
                                                  bool bounced) noexcept {
    const std::uint64_t number = tail_.load(std::memory_order_relaxed);
    Record& own = record(number);
    own.context = operation.context;
    own.flags = operation.entry_flags;
    own.wr_begin = wr_tail_;
    own.wr_end.store(kOpen, std::memory_order_relaxed);
    own.length = operation.length;
    own.kind = kind_of(operation.opcode);
    own.plain = false;
    own.entry = operation.flags.has(OpFlag::entry);
    own.bounced = bounced;
    own.dead = false;
    tail_.store(number + 1, std::memory_order_release);
    return own;
}

void TransmitQueue::close_record(std::uint64_t number) noexcept {
    record(number).wr_end.store(wr_tail_, std::memory_order_release);
}

/// As many pieces as the send queue has room for.
void TransmitQueue::stage_pieces(const Operation& operation, Splitter& splitter) noexcept {
    std::array<Sge, kMaxSegments> scratch;
    const std::uint64_t number = tail_.load(std::memory_order_relaxed) - 1;
    const bool inlines = operation.flags.has(OpFlag::inject) && operation.length <= max_inline_;
    while (!splitter.finished() && free_requests() != 0) {
        WorkRequest request = splitter.next(operation, scratch);
        if (inlines && request.opcode != Opcode::read) request.flags |= SendFlag::inlined;
        const bool last = splitter.finished();
        // Whoever polls the last piece must find the end.
        if (last) record(number).wr_end.store(wr_tail_ + 1, std::memory_order_release);
        // A bounce slot must not hang on a signal that nobody asks for.
        stage(request, signal_next(last && (wants_signal(operation) || record(number).bounced)));
    }
}

void TransmitQueue::stage(const WorkRequest& request, bool signaled) noexcept {
    if (staged_ == kMaxStaged || staged_sges_ + request.sges.size() > kMaxStagedSges) ring();
    WorkRequest& staged = staged_requests_[staged_++];
    staged = request;
    staged.wr_id = wr_id(wr_tail_++);
    if (signaled) staged.flags |= SendFlag::signaled;
    Sge* const sges = staged_sge_.data() + staged_sges_;
    std::copy(request.sges.begin(), request.sges.end(), sges);
    staged.sges = {sges, request.sges.size()};
    staged_sges_ += request.sges.size();
}

/// One doorbell for everything staged.
void TransmitQueue::ring() noexcept {
    if (staged_ == 0) return;
    std::size_t posted = 0;
    const Status status = qp_->post_send({staged_requests_.data(), staged_}, &posted);
    const std::uint64_t first = wr_tail_ - staged_;
    staged_ = 0;
    staged_sges_ = 0;
    if (!status) {
        COMPAT_LOG_ERROR("qp 0x%x refused work requests that fit its limits, errno %d",
                         qp_->number(), status.error().device_errno);
        abandon(first + posted);
    }
}

/// The device refused requests of operations that were accepted: they fail, and so does the
/// connection, since what follows may build on them.
void TransmitQueue::abandon(std::uint64_t first_refused) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    std::uint64_t at = tail_.load(std::memory_order_relaxed);
    while (at != head && record(at - 1).wr_end.load(std::memory_order_relaxed) > first_refused) {
        Record& refused = record(--at);
        if (!refused.dead) dead_.fetch_add(1, std::memory_order_relaxed);
        refused.dead = true;
    }
    qp_->fail();
}

Status TransmitQueue::ensure_deferral() noexcept {
    if (deferred_ops_) return {};
    if (!bounce_ && max_inject_ != 0) {
        // What is deferred and injected goes inline later: no key is needed.
        auto ring = BounceRing::create(nullptr, kMaxDeferred, max_inject_);
        if (!ring) return failure(ring.error());
        bounce_ = std::move(*ring);
    }
    deferred_ops_.reset(new (std::nothrow) Deferred[kMaxDeferred]);
    if (!deferred_ops_) return failure(Errc::no_memory);
    return {};
}

Status TransmitQueue::defer(const Operation& operation) noexcept {
    ring();
    if (Status ensured = ensure_deferral(); !ensured) return ensured;
    if (deferred_ == kMaxDeferred) return failure(Errc::would_block);
    const bool entry = operation.flags.has(OpFlag::entry);
    if (entry && !space_->reserve()) return failure(Errc::would_block);
    Deferred& own = deferred_ops_[(deferred_head_ + deferred_) % kMaxDeferred];
    own.operation = operation;
    own.started = false;
    own.bounced = operation.flags.has(OpFlag::inject) && operation.length != 0;
    std::copy(operation.local.begin(), operation.local.end(), own.local.begin());
    std::copy(operation.remote.begin(), operation.remote.end(), own.remote.begin());
    own.operation.local = {own.local.data(), operation.local.size()};
    own.operation.remote = {own.remote.data(), operation.remote.size()};
    if (own.bounced) {
        if (Status taken = bounce(operation, own.local[0]); !taken) {
            if (entry) space_->release(1);
            return taken;
        }
        own.operation.local = {own.local.data(), 1};
    }
    ++deferred_;
    run_deferred();
    return {};
}

/// Whether the operation may go now; if so it has its record.
bool TransmitQueue::start_deferred(Deferred& deferred) noexcept {
    if (deferred.started) return true;
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (deferred.operation.flags.has(OpFlag::fence) &&
        head_.load(std::memory_order_acquire) != tail) {
        post_marker();
        return false;
    }
    if (free_requests() == 0) return false;
    deferred.number = tail;
    open_record(deferred.operation, deferred.bounced);
    deferred.splitter = Splitter(deferred.operation, split_);
    deferred.started = true;
    return true;
}

void TransmitQueue::run_deferred() noexcept {
    while (deferred_ != 0) {
        Deferred& oldest = deferred_ops_[deferred_head_ % kMaxDeferred];
        if (!start_deferred(oldest)) break;
        // It may have failed half-way: then its record is gone, and the rest need not be sent.
        const bool alive = head_.load(std::memory_order_acquire) <= oldest.number;
        if (alive) {
            stage_pieces(oldest.operation, oldest.splitter);
            if (!oldest.splitter.finished()) break;
            close_record(oldest.number);
        }
        ++deferred_head_;
        --deferred_;
    }
    ring();
}

/// The end of an unsignaled run must be seen before a fence can open: a read of nothing, signaled.
/// NICs look at the QP's rights whatever the length; reads are what no QP of ours refuses.
void TransmitQueue::post_marker() noexcept {
    if (unsignaled_run_ == 0 || free_requests() == 0) return;
    Operation nothing{.opcode = Opcode::read};
    const std::uint64_t number = tail_.load(std::memory_order_relaxed);
    open_record(nothing, false).kind = OpKind::count_;
    record(number).wr_end.store(wr_tail_ + 1, std::memory_order_release);
    stage({.opcode = Opcode::read}, signal_next(true));
}

void TransmitQueue::update_work() noexcept {
    direct_ = qp_ != nullptr && (staged_ | deferred_) == 0;
    const bool works = staged_ != 0 || deferred_ != 0 || dead_.load(std::memory_order_relaxed) != 0;
    if (works != has_work_.load(std::memory_order_relaxed)) {
        has_work_.store(works, std::memory_order_release);
        cq_.count_work(works ? 1 : -1);
        // No event of the device will tell a sleeper of what the device refused.
        if (dead_.load(std::memory_order_relaxed) != 0) cq_.wake();
    }
    if (deferred_ != 0) cq_.attend();
}

void TransmitQueue::flush() noexcept {
    const std::lock_guard lock(lock_);
    if (qp_ == nullptr) return;
    ring();
    update_work();
}

bool TransmitQueue::idle() noexcept {
    const std::lock_guard lock(lock_);
    return deferred_ == 0 &&
           head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_relaxed);
}

std::size_t TransmitQueue::free_slots() noexcept {
    const std::lock_guard lock(lock_);
    return free_requests();
}

}  // namespace compat::core
