// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/deferred_log.hpp"

#include <cerrno>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace compat::core {

constinit std::atomic<unsigned> g_deferred_log_lines{0};

namespace {

struct Line {
    LogSink sink;
    LogLevel level;
    const char* file;
    int line;
    const char* function;
    std::string text;
};

struct Lines {
    std::vector<Line> waiting;
    bool delivering = false;

    Lines() = default;
    Lines(const Lines&) = delete;
    Lines& operator=(const Lines&) = delete;
    ~Lines() { uncount(waiting.size()); }

    static void uncount(std::size_t lines) noexcept {
        g_deferred_log_lines.fetch_sub(static_cast<unsigned>(lines), std::memory_order_relaxed);
    }
};
thread_local Lines t_lines;

}  // namespace

void defer_log(LogSink sink, LogLevel level, const char* file, int line, const char* function,
               const char* text) noexcept try {
    t_lines.waiting.push_back({sink, level, file, line, function, text});
    g_deferred_log_lines.fetch_add(1, std::memory_order_relaxed);
} catch (const std::bad_alloc&) {
    // The line is lost; what it tells of goes on.
}

void deliver_log_of_thread() noexcept {
    if (t_lines.delivering) return;
    const int saved_errno = errno;
    t_lines.delivering = true;
    while (!t_lines.waiting.empty()) {
        const std::vector<Line> lines = std::exchange(t_lines.waiting, {});
        Lines::uncount(lines.size());
        for (const Line& line : lines)
            line.sink(line.level, line.file, line.line, line.function, line.text.c_str());
    }
    t_lines.delivering = false;
    errno = saved_errno;
}

}  // namespace compat::core
