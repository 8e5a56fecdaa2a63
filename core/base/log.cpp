// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/log.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace compat::core {
namespace {

constexpr int kSilent = -1;
constexpr std::size_t kMaxText = 1024;

constinit std::atomic<LogSink> g_sink{nullptr};
constinit std::atomic<int> g_most_talkative{kSilent};

const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

}  // namespace

void set_log_sink(LogSink sink, LogLevel most_talkative) noexcept {
    g_sink.store(sink, std::memory_order_release);
    g_most_talkative.store(sink ? static_cast<int>(most_talkative) : kSilent,
                           std::memory_order_release);
}

bool log_enabled(LogLevel level) noexcept {
    return static_cast<int>(level) <= g_most_talkative.load(std::memory_order_acquire);
}

void log_text(LogLevel level, const char* file, int line, const char* function, const char* format,
              ...) noexcept {
    const LogSink sink = g_sink.load(std::memory_order_acquire);
    if (sink == nullptr) return;
    const int saved_errno = errno;  // a log line must not change what the caller reports
    char text[kMaxText];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sink(level, base_name(file), line, function, text);
    errno = saved_errno;
}

}  // namespace compat::core
