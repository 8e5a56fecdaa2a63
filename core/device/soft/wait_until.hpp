// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <thread>

namespace compat::core::soft {

/// Waits for accesses in flight, each of which is one copy: a short spin covers most of them, and
/// a thread that was descheduled in the middle of one must get the CPU.
template <class Condition>
void wait_until(Condition condition) noexcept {
    constexpr int kSpins = 200;
    constexpr int kYields = 50;
    for (int i = 0; i < kSpins; ++i)
        if (condition()) return;
    for (int i = 0; i < kYields; ++i) {
        if (condition()) return;
        std::this_thread::yield();
    }
    while (!condition()) usleep(50);
}

}  // namespace compat::core::soft
