// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/lock.hpp"

namespace compat::core {
namespace {

// Longer than the critical sections, far shorter than a sleep and its wake-up. On one CPU the
// holder cannot run meanwhile, so it must not be long either.
constexpr int kSpins = 100;

void pause_cpu() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

void Lock::lock_contended() noexcept {
    for (int spin = 0; spin < kSpins; ++spin) {
        if ((state_.load(std::memory_order_relaxed) & kHeld) == 0 && try_lock()) return;
        pause_cpu();
    }
    std::uint32_t seen = state_.fetch_add(kWaiter, std::memory_order_relaxed) + kWaiter;
    for (;;) {
        if ((seen & kHeld) != 0) {
            state_.wait(seen, std::memory_order_relaxed);
            seen = state_.load(std::memory_order_relaxed);
        } else if (state_.compare_exchange_weak(seen, (seen | kHeld) - kWaiter,
                                                std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
            return;
        }
    }
}

}  // namespace compat::core
