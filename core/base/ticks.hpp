// SPDX-License-Identifier: BSD-3-Clause
// A clock for data paths, which costs one instruction where the processor counts by itself. For
// "not longer ago than", never for a time that somebody sees.
#pragma once

#include <chrono>
#include <cstdint>

namespace compat::core {

/// Goes up at a constant rate. Two CPUs may differ a little: an age can come out as a huge number.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t count = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// So many ticks take no longer than that, and may take a good deal less.
inline std::uint64_t ticks_within(std::chrono::nanoseconds time) noexcept {
    const auto ns = static_cast<std::uint64_t>(time.count());
#if defined(__aarch64__)
    std::uint64_t per_second = 0;
    asm("mrs %0, cntfrq_el0" : "=r"(per_second));
    return ns * (per_second / 1'000'000) / 1000;
#else
    return ns;  // no x86-64 processor counts slower than 1 GHz
#endif
}

}  // namespace compat::core
