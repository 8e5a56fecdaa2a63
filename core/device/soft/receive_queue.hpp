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
    std::atomic<std::uint32_t>* slots_in_use = nullptr;  ///< for SlotRelease
};

/// Bounded; no allocation after construction. A slot is in use from the post until its completion
/// has been polled: because completions may be polled in another order than they were taken (SRQ),
/// storage is recycled through a free list, not by position.
class ReceiveQueue {
public:
    ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge);

    /// Errors: would_block (depth slots in use), invalid_argument (more than max_sge).
    Status post(const ReceiveRequest& request) noexcept;
    [[nodiscard]] bool take(TakenReceive& out) noexcept;  ///< oldest first; false when none
    [[nodiscard]] bool empty() const noexcept;
    [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }

private:
    const std::uint32_t depth_;
    const std::uint32_t max_sge_;
    std::atomic<std::uint32_t> slots_in_use_{0};
    mutable std::mutex lock_;
    // The storage has 2 x depth rows: a polled slot may be posted again while the row of a receive
    // that is still being filled must not move.
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

    ReceiveQueue& queue() noexcept { return queue_; }
    /// One call of receive_posted() follows the next post; weak, the waiter may be gone by then.
    void wait(std::weak_ptr<ReceiveWaiter> waiter) noexcept;

private:
    ReceiveQueue queue_;
    std::shared_ptr<std::atomic<int>> children_;
    std::mutex lock_;
    std::vector<std::weak_ptr<ReceiveWaiter>> waiters_;
};

}  // namespace compat::core::soft
