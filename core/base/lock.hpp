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
        std::uint32_t expected = kFree;
        return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                              std::memory_order_relaxed);
    }
    void unlock() noexcept {
        if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]]
            state_.notify_one();
    }

private:
    static constexpr std::uint32_t kFree = 0;
    static constexpr std::uint32_t kHeld = 1;
    static constexpr std::uint32_t kWaitedFor = 2;  ///< held, and somebody may sleep

    void lock_contended() noexcept;

    std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace compat::core
