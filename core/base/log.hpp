// SPDX-License-Identifier: BSD-3-Clause
// Log text of the core. The facade installs a sink (librpma's log function, libfabric's FI_LOG);
// without one nothing is formatted and nothing is written.
#pragma once

#include <cstdint>

namespace compat::core {

enum class LogLevel : std::int8_t { error, warning, notice, info, debug };

/// file, line and function name the caller; text is formatted and has no newline at its end.
using LogSink = void (*)(LogLevel level, const char* file, int line, const char* function,
                         const char* text);

/// Installs the sink (null removes it) and the most talkative level it wants to see.
void set_log_sink(LogSink sink, LogLevel most_talkative) noexcept;

bool log_enabled(LogLevel level) noexcept;

void log_text(LogLevel level, const char* file, int line, const char* function, const char* format,
              ...) noexcept __attribute__((format(printf, 5, 6)));

}  // namespace compat::core

#define COMPAT_LOG(level, ...)                                                          \
    do {                                                                                \
        if (::compat::core::log_enabled(level))                                         \
            ::compat::core::log_text(level, __FILE__, __LINE__, __func__, __VA_ARGS__); \
    } while (0)
#define COMPAT_LOG_ERROR(...) COMPAT_LOG(::compat::core::LogLevel::error, __VA_ARGS__)
#define COMPAT_LOG_WARNING(...) COMPAT_LOG(::compat::core::LogLevel::warning, __VA_ARGS__)
#define COMPAT_LOG_NOTICE(...) COMPAT_LOG(::compat::core::LogLevel::notice, __VA_ARGS__)
#define COMPAT_LOG_INFO(...) COMPAT_LOG(::compat::core::LogLevel::info, __VA_ARGS__)
#define COMPAT_LOG_DEBUG(...) COMPAT_LOG(::compat::core::LogLevel::debug, __VA_ARGS__)
