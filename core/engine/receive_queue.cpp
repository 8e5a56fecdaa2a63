// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/receive_queue.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>

#include "core/engine/traced.hpp"
#include "core/engine/tracked_cq.hpp"

namespace compat::core {
namespace {

constexpr const char* kTracedName = "receive";

std::uint32_t sge_length(std::uint64_t length) noexcept {
    // A message is never longer than that, so that a longer buffer is as good.
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(length, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

ReceiveQueue::ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge, StatScope scope) noexcept
    : depth_(depth),
      max_sge_(std::clamp<std::uint32_t>(max_sge, 1, kMaxSegments)),
      statistics_(scope) {
    if (scope == StatScope::program) trace_ = Trace::create();
}

Result<std::unique_ptr<ReceiveQueue>> ReceiveQueue::create(std::uint32_t depth,
                                                           std::uint32_t max_sge,
                                                           StatScope scope) noexcept {
    if (depth == 0) return failure(Errc::invalid_argument);
    std::unique_ptr<ReceiveQueue> queue(new (std::nothrow) ReceiveQueue(depth, max_sge, scope));
    if (!queue) return failure(Errc::no_memory);
    queue->records_.reset(new (std::nothrow) Record[depth]);
    queue->sges_.reset(new (std::nothrow) Sge[std::size_t{depth} * queue->max_sge_]);
    if (!queue->records_ || !queue->sges_) return failure(Errc::no_memory);
    for (std::uint32_t at = depth; at != 0; --at) queue->free(queue->records_[at - 1]);
    return queue;
}

std::span<Sge> ReceiveQueue::sges_of(const Record& record) noexcept {
    const auto index = static_cast<std::size_t>(&record - records_.get());
    return {sges_.get() + index * max_sge_, max_sge_};
}

Status ReceiveQueue::open(QueuePair& qp) noexcept {
    const std::lock_guard lock(lock_);
    qp_ = &qp;
    return go_on();
}

Status ReceiveQueue::open(SharedReceiveQueue& srq) noexcept {
    const std::lock_guard lock(lock_);
    srq_ = &srq;
    return go_on();
}

Status ReceiveQueue::attach(TrackedCq& cq) noexcept try {
    const std::lock_guard lock(lock_);
    cqs_.push_back(&cq);
    if (!chained_) return {};
    cq.count_chained(1);
    cq.attend();
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void ReceiveQueue::detach(TrackedCq& cq) noexcept {
    const std::lock_guard lock(lock_);
    const auto found = std::find(cqs_.begin(), cqs_.end(), &cq);
    if (found == cqs_.end()) return;
    cqs_.erase(found);
    if (chained_) cq.count_chained(-1);
}

/// While a buffer for several messages is with the device, or a receive waits behind one, receives
/// depend on progress.
void ReceiveQueue::update_chain() noexcept {
    const bool chains = is_open() && (multiple_posted_ || held_first_ != nullptr);
    if (chains != chained_)
        for (TrackedCq* cq : cqs_) cq->count_chained(chains ? 1 : -1);
    chained_ = chains;
    if (!chains) return;
    for (TrackedCq* cq : cqs_) cq->attend();
}

void ReceiveQueue::close() noexcept {
    const std::lock_guard lock(lock_);
    qp_ = nullptr;
    srq_ = nullptr;
    held_first_ = held_last_ = nullptr;
    multiple_posted_ = false;
    update_chain();
    for (std::uint32_t at = depth_; at != 0; --at)
        if (records_[at - 1].state != State::free) finish(records_[at - 1], Trace::kDropped, 0);
}

void ReceiveQueue::set_min_multiple(std::uint64_t length) noexcept {
    const std::lock_guard lock(lock_);
    min_multiple_ = length;
}

std::uint64_t ReceiveQueue::min_multiple() noexcept {
    const std::lock_guard lock(lock_);
    return min_multiple_;
}

std::size_t ReceiveQueue::free_slots() noexcept {
    const std::lock_guard lock(lock_);
    return free_count_;
}

void ReceiveQueue::free(Record& record) noexcept {
    record.state = State::free;
    record.next = free_;
    free_ = &record;
    ++free_count_;
}

void ReceiveQueue::finish(Record& record, const char* status, std::uint64_t length) noexcept {
    if (trace_) trace_->end(record.number, kTracedName, status, length);
    free(record);
}

void ReceiveQueue::fill(Record& record, const Receive& receive) noexcept {
    record.owner = this;
    record.context = receive.context;
    record.flags = receive.entry_flags;
    record.number = next_number_++;
    record.entry = receive.entry;
    record.multiple = receive.multiple && !receive.local.empty();
    record.sge_count = static_cast<std::uint16_t>(receive.local.size());
    if (record.multiple) {
        record.base = static_cast<std::byte*>(receive.local[0].address);
        record.left = receive.local[0].length;
        record.lkey = receive.local[0].lkey;
        return;
    }
    Sge* sge = sges_of(record).data();
    for (const LocalBuffer& buffer : receive.local)
        *sge++ = {buffer.address, sge_length(buffer.length), buffer.lkey};
}

void ReceiveQueue::trace_post(const Receive& receive, std::uint64_t number, std::uint64_t bytes,
                              std::uint64_t at) noexcept {
    const FlagText flags({{receive.entry, "entry"}, {receive.multiple, "multiple"}});
    TracedPost post{.operation = kTracedName,
                    .bytes = bytes,
                    .flags = flags.c_str(),
                    .context = receive.context};
    describe_local(post, receive.local);
    trace_->post(number, at, kTracedName, post);
}

Status ReceiveQueue::post(const Receive& receive) noexcept {
    const std::lock_guard lock(lock_);
    if (receive.local.size() > max_sge_ || (receive.multiple && receive.local.size() > 1))
        return failure(Errc::invalid_argument);
    if (free_ == nullptr) {
        statistics_->add(Stat::queue_full, 1);
        return failure(Errc::would_block);
    }
    const std::uint64_t posted_at = trace_ ? Trace::now() : 0;
    Record& record = *free_;
    free_ = record.next;
    --free_count_;
    fill(record, receive);
    const std::uint64_t number = record.number;
    if (held_first_ != nullptr || multiple_posted_ || !is_open()) {
        hold(record);
    } else if (const Status posted = post_to_device(record); !posted) {
        free(record);
        return posted;
    }
    update_chain();
    std::uint64_t bytes = 0;
    for (const LocalBuffer& buffer : receive.local) bytes += buffer.length;
    statistics_->post(Stat::receives, bytes);
    if (trace_) trace_post(receive, number, bytes, posted_at);
    return {};
}

Status ReceiveQueue::post_to_device(Record& record) noexcept {
    if (record.multiple) sges_of(record)[0] = {record.base, sge_length(record.left), record.lkey};
    const ReceiveRequest request{
        .wr_id = reinterpret_cast<std::uintptr_t>(&record),
        .sges = sges_of(record).first(record.multiple ? 1 : record.sge_count)};
    const Status posted =
        srq_ != nullptr ? srq_->post_receive(request) : qp_->post_receive(request);
    if (posted) {
        record.state = State::posted;
        if (record.multiple) multiple_posted_ = true;
    }
    return posted;
}

void ReceiveQueue::hold(Record& record) noexcept {
    record.state = State::held;
    record.next = nullptr;
    (held_first_ == nullptr ? held_first_ : held_last_->next) = &record;
    held_last_ = &record;
}

Status ReceiveQueue::post_held() noexcept {
    while (is_open() && held_first_ != nullptr && !multiple_posted_) {
        Record& oldest = *held_first_;
        if (Status posted = post_to_device(oldest); !posted) return posted;
        held_first_ = oldest.next;
    }
    return {};
}

/// What waits goes to the device as far as it may.
Status ReceiveQueue::go_on() noexcept {
    Status posted = post_held();
    update_chain();
    return posted;
}

/// Makes the completion, and whether one is wanted on success; frees or reposts the record.
Completion ReceiveQueue::take(Record& record, const WorkCompletion& wc, bool& wanted) noexcept {
    const std::lock_guard lock(lock_);
    Completion out{.context = record.context,
                   .flags = record.flags,
                   .length = wc.byte_length,
                   .imm = wc.imm,
                   .kind = CompletionKind::receive,
                   .status = wc.status,
                   .has_imm = wc.has_imm,
                   .vendor_error = wc.vendor_error};
    wanted = record.entry;
    if (wc.status != WcStatus::success) {
        out.length = 0;
        out.has_imm = false;
    } else if (wc.opcode == WcOpcode::receive_write_imm) {
        out.kind = CompletionKind::remote_write;
        wanted = true;
    }
    if (record.multiple) {
        take_multiple(record, wc, out);
    } else {
        if (out.kind == CompletionKind::receive && record.sge_count != 0)
            out.buffer = sges_of(record)[0].address;
        finish(record, wc_status_text(wc.status), out.length);
    }
    static_cast<void>(go_on());  // a full queue: the next completion tries again
    return out;
}

void ReceiveQueue::take_multiple(Record& record, const WorkCompletion& wc,
                                 Completion& out) noexcept {
    multiple_posted_ = false;
    if (out.kind == CompletionKind::receive) {
        out.buffer = record.base;
        if (wc.status == WcStatus::success) {
            record.base += wc.byte_length;
            record.left -= std::min(wc.byte_length, record.left);
        }
    }
    const bool goes_on = wc.status == WcStatus::success && record.left != 0 &&
                         record.left >= min_multiple_ && post_to_device(record).has_value();
    if (goes_on) return;
    out.buffer_released = true;
    finish(record, wc_status_text(wc.status), out.length);
}

ReceiveQueue::Record* ReceiveQueue::find(void* context) noexcept {
    Record* oldest = nullptr;
    for (std::uint32_t at = 0; at < depth_; ++at) {
        Record& record = records_[at];
        const bool matches = record.state != State::free && record.context == context;
        if (matches && (oldest == nullptr || record.number < oldest->number)) oldest = &record;
    }
    return oldest;
}

void ReceiveQueue::unhold(Record& record) noexcept {
    Record* before = nullptr;
    for (Record* at = held_first_; at != &record; at = at->next) before = at;
    (before == nullptr ? held_first_ : before->next) = record.next;
    if (held_last_ == &record) held_last_ = before;
}

Status ReceiveQueue::cancel_on_device(const Record& record) noexcept {
    const auto wr_id = reinterpret_cast<std::uintptr_t>(&record);
    return srq_ != nullptr ? srq_->cancel_receive(wr_id) : qp_->cancel_receive(wr_id);
}

Result<Completion> ReceiveQueue::cancel(void* context) noexcept {
    const std::lock_guard lock(lock_);
    Record* const record = find(context);
    if (record == nullptr) return failure(Errc::invalid_argument);
    if (record->state == State::held) {
        unhold(*record);
    } else {
        if (const Status cancelled = cancel_on_device(*record); !cancelled) {
            // A message was faster, or the device cannot: it completes.
            const bool cannot = cancelled.error().code == Errc::not_supported;
            return failure(cannot ? Errc::busy : Errc::invalid_argument);
        }
        if (record->multiple) multiple_posted_ = false;
    }
    const Completion out{.context = record->context,
                         .flags = record->flags,
                         .kind = CompletionKind::receive,
                         .status = WcStatus::flushed,
                         .buffer_released = record->multiple};
    finish(*record, wc_status_text(WcStatus::flushed), 0);
    static_cast<void>(go_on());
    return out;
}

}  // namespace compat::core
