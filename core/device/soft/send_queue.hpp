// SPDX-License-Identifier: BSD-3-Clause
// The send queue of a QP: what was posted, what of it is done, and the completions in order.
// Knows nothing of how bytes travel. The owner serialises all calls.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "core/base/trace.hpp"
#include "core/device/device.hpp"
#include "core/device/soft/completion.hpp"

namespace compat::core::soft {

struct SendEntry {
    WorkRequest request;       ///< sges point into the queue's own storage
    std::uint64_t length = 0;  ///< bytes of all SGEs
    std::uint64_t moved = 0;   ///< bytes handed to the carrier (or, of a read, arrived)
    bool done = false;
    bool copied = false;  ///< sges name the queue's own copy
    // Where it went on the wire, to find it again when the peer names a failed message.
    std::uint32_t first_message = 0;
    std::uint32_t message_count = 0;
    std::uint32_t send_msn = 0;
    std::uint32_t request_msn = 0;
};

/// How a failed request completes.
struct Failure {
    WcStatus status = WcStatus::general_error;
    std::uint32_t vendor_error = 0;
};

class SendQueue {
public:
    /// A position in the stream of all posts; never reused.
    using Sequence = std::uint64_t;

    SendQueue(const QpAttr& attr, SoftCq& cq, std::uint32_t qp_num);

    /// Copies. Errors: would_block (all slots in use), invalid_argument (SGEs, inline bytes).
    Status post(const WorkRequest& request) noexcept;

    [[nodiscard]] SendEntry& at(Sequence sequence) noexcept { return entries_[row(sequence)]; }
    [[nodiscard]] Sequence oldest() const noexcept {
        return head_;
    }  ///< first that has not completed
    [[nodiscard]] Sequence next() const noexcept { return tail_; }  ///< behind the newest
    [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
    /// Whether a request may be carried out in place of its post(): nothing is before it.
    [[nodiscard]] bool takes_at_once() const noexcept {
        return empty() && slots_in_use_.load(std::memory_order_acquire) < depth_;
    }
    /// It has been: all that is left is its completion. It has no place in the stream of posts.
    void succeed(Opcode opcode, const PlainRequest& request) noexcept;

    /// Of plain posts.
    [[nodiscard]] StatBlock& statistics() noexcept { return statistics_.block(); }

    /// Marks the writes and sends before `end` as placed at the target.
    void acknowledge(Sequence end) noexcept;
    void finish(Sequence sequence) noexcept { at(sequence).done = true; }
    /// Emits the completions of finished requests at the head of the queue.
    void complete() noexcept;
    /// Everything before `sequence` succeeded, it failed, and all behind it is flushed.
    void fail(Sequence sequence, Failure failure) noexcept;
    void flush() noexcept;

    /// An address to purge this QP's completions by.
    [[nodiscard]] const void* owner() const noexcept { return this; }

private:
    [[nodiscard]] std::size_t row(Sequence sequence) const noexcept {
        return sequence & (entries_.size() - 1);
    }
    void emit(const SendEntry& entry, Failure failure) noexcept;
    void report(std::uint64_t wr_id, Opcode opcode, std::uint64_t length, Failure failure) noexcept;

    SoftCq& cq_;
    const std::uint32_t qp_num_;
    const bool traced_ = Trace::wanted();
    Statistics statistics_;
    const std::uint32_t depth_;
    const std::uint32_t max_sge_;
    const std::uint32_t max_inline_;
    std::vector<SendEntry> entries_;  ///< a power of two, and no less than depth_
    std::vector<Sge> sges_;
    std::unique_ptr<std::byte[]> inline_bytes_;  ///< not touched before it is used: it is large
    Sequence head_ = 0;
    Sequence tail_ = 0;
    Sequence acknowledged_ = 0;
    std::uint32_t unreported_ =
        0;  ///< completed unsignaled: their slots go with the next completion
    std::atomic<std::uint32_t> slots_in_use_{0};
};

/// True for what completes by a response of its own; the rest waits for an acknowledgement.
constexpr bool has_response(Opcode opcode) noexcept {
    return opcode == Opcode::read || opcode == Opcode::atomic_cas ||
           opcode == Opcode::atomic_fadd || opcode == Opcode::flush;
}

}  // namespace compat::core::soft
