// SPDX-License-Identifier: BSD-3-Clause
// A mutex of four bytes whose uncontended paths are one atomic instruction and one branch each,
// inline: the data path takes one per post and one per poll.
#pragma once

#include <atomic>
#include <cstdint>

namespace compat::core {

class Lock {
public:
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    void lock() noexcept {
        if (!try_lock()) [[unlikely]]
            lock_contended();
    }
    bool try_lock() noexcept {
        return (state_.fetch_or(kHeld, std::memory_order_acquire) & kHeld) == 0;
    }
    void unlock() noexcept {
        if (!release()) [[unlikely]]
            wake();
    }
    // The two halves of unlock(): false asks for wake(). In between the lock may be gone already:
    // no more than its address is used.
    [[nodiscard]] bool release() noexcept {
        return state_.fetch_sub(kHeld, std::memory_order_release) == kHeld;
    }
    void wake() noexcept { state_.notify_one(); }

private:
    // Bit 0: held; above it, how many wait for it, and may sleep.
    static constexpr std::uint32_t kHeld = 1;
    static constexpr std::uint32_t kWaiter = 2;

    void lock_contended() noexcept;

    std::atomic<std::uint32_t> state_{0};
};

}  // namespace compat::core
