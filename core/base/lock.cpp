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
        if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
        pause_cpu();
    }
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
        state_.wait(kWaitedFor, std::memory_order_relaxed);
}

}  // namespace compat::core
