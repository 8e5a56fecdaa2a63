// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/send_queue.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace compat::core::soft {
namespace {

constexpr std::array kWcOpcodes{
    WcOpcode::write,     WcOpcode::write,        WcOpcode::send,
    WcOpcode::send,      WcOpcode::read,         WcOpcode::compare_swap,
    WcOpcode::fetch_add, WcOpcode::atomic_write, WcOpcode::flush,
};
static_assert(kWcOpcodes.size() == static_cast<std::size_t>(Opcode::count_),
              "a new Opcode needs a row here");

}  // namespace

SendQueue::SendQueue(const QpAttr& attr, SoftCq& cq, std::uint32_t qp_num)
    : cq_(cq),
      qp_num_(qp_num),
      statistics_(attr.scope),
      depth_(attr.send_depth),
      max_sge_(attr.max_send_sge),
      // an atomic write takes its 8 bytes at the post, as an inline request does
      max_inline_(std::max<std::uint32_t>(attr.max_inline, 8)),
      entries_(std::bit_ceil(std::size_t{depth_})),
      sges_(entries_.size() * std::max<std::uint32_t>(max_sge_, 1)),
      inline_bytes_(new std::byte[entries_.size() * max_inline_]) {}

Status SendQueue::post(const WorkRequest& request) noexcept {
    const std::uint64_t length = total_length(request.sges);
    const bool inlined =
        request.flags.has(SendFlag::inlined) || request.opcode == Opcode::atomic_write;
    if (inlined ? length > max_inline_ : request.sges.size() > max_sge_)
        return failure(Errc::invalid_argument);
    // What comes back goes into memory of the program, not into a copy of it.
    if (inlined && has_response(request.opcode)) return failure(Errc::invalid_argument);
    if (slots_in_use_.load(std::memory_order_acquire) >= depth_) return failure(Errc::would_block);

    const std::size_t own = row(tail_);
    SendEntry& entry = entries_[own];
    entry = SendEntry{.request = request, .length = length, .copied = inlined};
    Sge* sges = &sges_[own * std::max<std::uint32_t>(max_sge_, 1)];
    if (inlined) {
        std::byte* bytes = &inline_bytes_[own * max_inline_];
        std::size_t filled = 0;
        for (const Sge& sge : request.sges) {
            if (sge.length == 0) continue;
            std::memcpy(bytes + filled, sge.address, sge.length);
            filled += sge.length;
        }
        sges[0] = {bytes, static_cast<std::uint32_t>(length), kUnregisteredLkey};
        entry.request.sges = {sges, std::size_t{length != 0}};
    } else {
        std::ranges::copy(request.sges, sges);
        entry.request.sges = {sges, request.sges.size()};
    }
    slots_in_use_.fetch_add(1, std::memory_order_relaxed);
    ++tail_;
    return {};
}

void SendQueue::acknowledge(Sequence end) noexcept {
    for (acknowledged_ = std::max(acknowledged_, head_); acknowledged_ < end; ++acknowledged_) {
        SendEntry& entry = at(acknowledged_);
        if (!has_response(entry.request.opcode)) entry.done = true;
    }
}

void SendQueue::complete() noexcept {
    while (head_ != tail_ && at(head_).done) {
        emit(at(head_), {WcStatus::success});
        ++head_;
    }
}

void SendQueue::fail(Sequence sequence, Failure failure) noexcept {
    for (; head_ < sequence; ++head_) {
        // A result that never came is no success, even if the peer names a later request.
        if (has_response(at(head_).request.opcode) && !at(head_).done) {
            failure = {WcStatus::remote_operation_error};
            break;
        }
        emit(at(head_), {WcStatus::success});
    }
    if (head_ != tail_) emit(at(head_++), failure);
    flush();
}

void SendQueue::flush() noexcept {
    for (; head_ != tail_; ++head_) emit(at(head_), {WcStatus::flushed});
}

inline void SendQueue::report(std::uint64_t wr_id, Opcode opcode, std::uint64_t length,
                              Failure failure) noexcept {
    const WorkCompletion wc{
        .wr_id = wr_id,
        .status = failure.status,
        .opcode = kWcOpcodes[static_cast<std::size_t>(opcode)],
        .vendor_error = failure.vendor_error,
        .qp_num = qp_num_,
        .byte_length = length,
        .done_at = traced_ ? Trace::now() : 0,
    };
    cq_.push(wc, owner(), {&slots_in_use_, std::exchange(unreported_, 0)},
             failure.status != WcStatus::success);
}

void SendQueue::emit(const SendEntry& entry, Failure failure) noexcept {
    const WorkRequest& request = entry.request;
    ++unreported_;
    if (failure.status != WcStatus::success || request.flags.has(SendFlag::signaled))
        report(request.wr_id, request.opcode, entry.length, failure);
}

void SendQueue::succeed(Opcode opcode, const PlainRequest& request) noexcept {
    slots_in_use_.fetch_add(1, std::memory_order_relaxed);
    ++unreported_;
    if ((request.flags & SendFlags(SendFlag::signaled).bits()) != 0)
        report(request.wr_id, opcode, request.sge.length, {WcStatus::success});
}

}  // namespace compat::core::soft
