// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/receive_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace compat::core::soft {

ReceiveQueue::ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge)
    : depth_(depth),
      max_sge_(max_sge),
      row_in_use_(depth),
      rows_(depth),
      sges_(std::size_t{depth} * max_sge),
      posted_(depth) {}

Status ReceiveQueue::post(const ReceiveRequest& request) noexcept {
    if (request.sges.size() > max_sge_) return failure(Errc::invalid_argument);
    const std::lock_guard guard(lock_);
    std::uint32_t row = 0;
    if (!find_free_row(row)) return failure(Errc::would_block);
    row_in_use_[row].store(1, std::memory_order_relaxed);
    rows_[row] = {request.wr_id, static_cast<std::uint32_t>(request.sges.size())};
    std::copy(request.sges.begin(), request.sges.end(),
              sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{row} * max_sge_));
    const std::uint32_t size = size_.load(std::memory_order_relaxed);
    posted_[(head_ + size) % depth_] = row;
    size_.store(size + 1, std::memory_order_release);
    return {};
}

bool ReceiveQueue::find_free_row(std::uint32_t& row) noexcept {
    for (std::uint32_t i = 0; i < depth_; ++i) {
        const std::uint32_t candidate = cursor_;
        cursor_ = cursor_ + 1 == depth_ ? 0 : cursor_ + 1;
        if (row_in_use_[candidate].load(std::memory_order_acquire) != 0) continue;
        row = candidate;
        return true;
    }
    return false;
}

bool ReceiveQueue::take(TakenReceive& out) noexcept {
    if (empty()) return false;
    const std::lock_guard guard(lock_);
    const std::uint32_t size = size_.load(std::memory_order_relaxed);
    if (size == 0) return false;
    const std::uint32_t row = posted_[head_];
    head_ = head_ + 1 == depth_ ? 0 : head_ + 1;
    size_.store(size - 1, std::memory_order_release);
    out.wr_id = rows_[row].wr_id;
    out.sges = {sges_.data() + std::size_t{row} * max_sge_, rows_[row].sge_count};
    out.slots_in_use = &row_in_use_[row];
    return true;
}

Status ReceiveQueue::cancel(std::uint64_t wr_id) noexcept {
    const std::lock_guard guard(lock_);
    const std::uint32_t size = size_.load(std::memory_order_relaxed);
    const auto row_at = [this](std::uint32_t position) -> std::uint32_t& {
        return posted_[(head_ + position) % depth_];
    };
    std::uint32_t at = 0;
    while (at != size && rows_[row_at(at)].wr_id != wr_id) ++at;
    if (at == size) return failure(Errc::invalid_argument);
    row_in_use_[row_at(at)].store(0, std::memory_order_release);
    for (; at + 1 != size; ++at) row_at(at) = row_at(at + 1);
    size_.store(size - 1, std::memory_order_release);
    return {};
}

bool ReceiveQueue::empty() const noexcept {
    return size_.load(std::memory_order_acquire) == 0;
}

SoftSrq::SoftSrq(std::uint32_t depth, std::uint32_t max_sge,
                 std::shared_ptr<std::atomic<int>> children)
    : queue_(depth, max_sge), children_(std::move(children)) {
    children_->fetch_add(1, std::memory_order_relaxed);
}

SoftSrq::~SoftSrq() {
    children_->fetch_sub(1, std::memory_order_release);
}

Status SoftSrq::post_receive(const ReceiveRequest& request) noexcept {
    const Status posted = queue_.post(request);
    if (posted) notify_waiters();
    return posted;
}

// A post fills the queue before it takes the lock: either it is seen here, or it finds the waiter.
SoftSrq::Wait SoftSrq::wait(std::weak_ptr<ReceiveWaiter> waiter) noexcept {
    try {
        const std::lock_guard guard(lock_);
        std::erase_if(waiters_, [&](const std::weak_ptr<ReceiveWaiter>& other) {
            return other.expired() || (!other.owner_before(waiter) && !waiter.owner_before(other));
        });
        if (!queue_.empty()) return Wait::not_needed;
        waiters_.push_back(std::move(waiter));
        return Wait::registered;
    } catch (const std::bad_alloc&) {
        return Wait::no_memory;
    }
}

void SoftSrq::notify_waiters() noexcept {
    std::vector<std::weak_ptr<ReceiveWaiter>> waiters;
    {
        const std::lock_guard guard(lock_);
        waiters.swap(waiters_);
    }
    for (const auto& waiter : waiters)
        if (const auto strong = waiter.lock()) strong->receive_posted();
}

}  // namespace compat::core::soft
