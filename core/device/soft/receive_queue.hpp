// SPDX-License-Identifier: BSD-3-Clause
// Posted receives: of one QP, or of many (SRQ).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device/device.hpp"

namespace compat::core::soft {

/// A receive that a message has taken. sges points into the queue's own storage and stays valid
/// until the completion's slot is released.
struct TakenReceive {
    std::uint64_t wr_id = 0;
    std::span<const Sge> sges;
    std::atomic<std::uint32_t>* slots_in_use = nullptr;  ///< for SlotRelease, with a count of 1
};

/// Bounded; no allocation after construction. A slot is in use from the post until its completion
/// has been polled.
class ReceiveQueue {
public:
    ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge);

    /// Errors: would_block (depth slots in use), invalid_argument (more than max_sge).
    Status post(const ReceiveRequest& request) noexcept;
    [[nodiscard]] bool take(TakenReceive& out) noexcept;  ///< oldest first; false when none
    /// Errors: invalid_argument (a message has taken it, or it was never there).
    Status cancel(std::uint64_t wr_id) noexcept;
    [[nodiscard]] bool empty() const noexcept;
    [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }

private:
    struct Row {
        std::uint64_t wr_id = 0;
        std::uint32_t sge_count = 0;
    };
    [[nodiscard]] bool find_free_row(std::uint32_t& row) noexcept;

    const std::uint32_t depth_;
    const std::uint32_t max_sge_;
    mutable std::mutex lock_;
    // A slot is a row of storage. Completions of an SRQ may be polled in another order than the
    // receives were taken, and a row must not change while it is being filled: each row has its own
    // flag, which the poll of its completion clears, and posts look for a clear one from cursor_
    // on. In the common case of polls in order that is the first they look at.
    std::vector<std::atomic<std::uint32_t>> row_in_use_;
    std::vector<Row> rows_;
    std::vector<Sge> sges_;              ///< max_sge of them a row
    std::vector<std::uint32_t> posted_;  ///< ring of rows in the order of their posts
    std::uint32_t cursor_ = 0;
    std::uint32_t head_ = 0;
    std::atomic<std::uint32_t> size_{0};  ///< of posted_; peeked at without the lock
};

/// Told when a receive has been posted while it waited for one (RNR).
class ReceiveWaiter {
public:
    virtual ~ReceiveWaiter() = default;
    virtual void receive_posted() noexcept = 0;
};

class SoftSrq final : public SharedReceiveQueue {
public:
    SoftSrq(std::uint32_t depth, std::uint32_t max_sge, std::shared_ptr<std::atomic<int>> children);
    ~SoftSrq() override;
    Status post_receive(const ReceiveRequest& request) noexcept override;
    Status cancel_receive(std::uint64_t wr_id) noexcept override { return queue_.cancel(wr_id); }

    [[nodiscard]] std::uint32_t queue_depth() const noexcept { return queue_.depth(); }
    [[nodiscard]] bool take(TakenReceive& out) noexcept { return queue_.take(out); }
    /// One call of receive_posted() follows the next post; weak, the waiter may be gone by then.
    enum class Wait : std::uint8_t {
        registered,
        not_needed,  ///< a receive is there already: take() again
        no_memory,   ///< nothing follows: try again later
    };
    [[nodiscard]] Wait wait(std::weak_ptr<ReceiveWaiter> waiter) noexcept;

private:
    void notify_waiters() noexcept;

    ReceiveQueue queue_;
    std::shared_ptr<std::atomic<int>> children_;
    std::mutex lock_;
    std::vector<std::weak_ptr<ReceiveWaiter>> waiters_;
};

}  // namespace compat::core::soft
