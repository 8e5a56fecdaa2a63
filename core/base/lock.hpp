// SPDX-License-Identifier: BSD-3-Clause
// A mutex of four bytes whose uncontended paths are one atomic instruction each, inline: the data
// path takes one per post and one per poll.
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
        return state_.exchange(kFree, std::memory_order_release) == kHeld;
    }
    void wake() noexcept { state_.notify_one(); }

private:
    static constexpr std::uint32_t kFree = 0;
    static constexpr std::uint32_t kHeld = 1;       ///< a bit, also of the next
    static constexpr std::uint32_t kWaitedFor = 3;  ///< held, and somebody may sleep

    void lock_contended() noexcept;

    std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace compat::core
