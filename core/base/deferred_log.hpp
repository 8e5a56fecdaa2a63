// SPDX-License-Identifier: BSD-3-Clause
// Log lines are made under locks of ours, and a program's log function may call us back. So they
// wait until their thread holds none.
#pragma once

#include <atomic>

#include "core/base/log.hpp"

namespace compat::core {

/// Keeps a line for deliver_log(). file and function must live for ever.
void defer_log(LogSink sink, LogLevel level, const char* file, int line, const char* function,
               const char* text) noexcept;

extern constinit std::atomic<unsigned> g_deferred_log_lines;  // of all threads
void deliver_log_of_thread() noexcept;

/// Hands the thread's lines on, in their order. Called where it holds no lock of ours: at the end
/// of a call, before it sleeps. A sink that calls us back gets its own lines later.
inline void deliver_log() noexcept {
    if (g_deferred_log_lines.load(std::memory_order_relaxed) != 0) [[unlikely]]
        deliver_log_of_thread();
}

}  // namespace compat::core
