// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/log.hpp"

#include <sys/time.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <ctime>

#include "rpma_compat/err_map.hpp"

namespace compat::rpma {
namespace {

struct LevelRow {
    rpma_log_level level;
    const char* text;  ///< 8 characters wide
    int syslog_priority;
};
constexpr std::array kLevels{
    LevelRow{RPMA_LOG_LEVEL_FATAL, "*FATAL* ", LOG_CRIT},
    LevelRow{RPMA_LOG_LEVEL_ERROR, "*ERROR* ", LOG_ERR},
    LevelRow{RPMA_LOG_LEVEL_WARNING, "*WARN*  ", LOG_WARNING},
    LevelRow{RPMA_LOG_LEVEL_NOTICE, "*NOTE*  ", LOG_NOTICE},
    LevelRow{RPMA_LOG_LEVEL_INFO, "*INFO*  ", LOG_INFO},
    LevelRow{RPMA_LOG_LEVEL_DEBUG, "*DEBUG* ", LOG_DEBUG},
};

constexpr std::size_t kMaxText = 1024;
constexpr std::size_t kMaxOrigin = 256;
constexpr std::size_t kMaxTime = 64;

void default_log_function(rpma_log_level level, const char* file, int line, const char* function,
                          const char* format, ...) __attribute__((format(printf, 5, 6)));

constinit std::atomic<rpma_log_function*> g_function{default_log_function};
constinit std::array<std::atomic<int>, RPMA_LOG_THRESHOLD_MAX> g_thresholds{RPMA_LOG_LEVEL_WARNING,
                                                                            RPMA_LOG_DISABLED};

int threshold(rpma_log_threshold which) {
    return g_thresholds[which].load(std::memory_order_relaxed);
}

// The core has no FATAL; the other levels are one apart.
constexpr int kLevelDistance = RPMA_LOG_LEVEL_ERROR - static_cast<int>(core::LogLevel::error);
static_assert(static_cast<int>(core::LogLevel::debug) + kLevelDistance == RPMA_LOG_LEVEL_DEBUG);

/// What FABRIC_COMPAT_LOG and FABRIC_COMPAT_EXPLAIN add to what the program has set; read once,
/// since it may be asked for at every call.
int asked_for_stderr() {
    static const int level = [] {
        const bool explains = core::setting_number(core::Setting::explain) != 0;
        const int least = explains ? RPMA_LOG_LEVEL_WARNING : RPMA_LOG_DISABLED;
        const auto asked = core::stderr_log_level();
        return asked ? std::max(least, static_cast<int>(*asked) + kLevelDistance) : least;
    }();
    return level;
}

/// Null if there is none of that number.
std::atomic<int>* threshold_of(int which) {
    if (which < 0 || which >= RPMA_LOG_THRESHOLD_MAX) return nullptr;
    return &g_thresholds[static_cast<std::size_t>(which)];
}

/// Once, and only when a line goes to the system log: the name that openlog(3) sets is the whole
/// process's.
void open_system_log() {
    static const bool opened = (openlog("rpma", LOG_PID, LOG_LOCAL7), true);
    static_cast<void>(opened);
}

void format_time(char (&text)[kMaxTime]) {
    timeval now{};
    tm local{};
    gettimeofday(&now, nullptr);
    localtime_r(&now.tv_sec, &local);
    const std::size_t length = std::strftime(text, sizeof text, "%b %d %H:%M:%S", &local);
    std::snprintf(text + length, sizeof text - length, ".%06ld", static_cast<long>(now.tv_usec));
}

void default_log_function(rpma_log_level level, const char* file, int line, const char* function,
                          const char* format, ...) {
    if (level < RPMA_LOG_LEVEL_FATAL || level > RPMA_LOG_LEVEL_DEBUG) return;
    const int saved_errno = errno;
    const LevelRow& row = kLevels[static_cast<std::size_t>(level)];

    char text[kMaxText];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);

    char origin[kMaxOrigin] = "";
    if (file != nullptr)
        std::snprintf(origin, sizeof origin, "%s: %3d: %s: ", base_name(file), line, function);

    const int value = static_cast<int>(level);
    if (value <= std::max(threshold(RPMA_LOG_THRESHOLD_AUX), asked_for_stderr())) {
        char time_text[kMaxTime];
        format_time(time_text);
        std::fprintf(stderr, "%s [%ld] %s%s%s", time_text, static_cast<long>(gettid()), row.text,
                     origin, text);
    }
    if (value <= threshold(RPMA_LOG_THRESHOLD)) {
        open_system_log();
        syslog(LOG_LOCAL7 | row.syslog_priority, "%s%s%s", row.text, origin, text);
    }
    errno = saved_errno;
}

void tell_program(core::LogLevel level, const char* file, int line, const char* function,
                  const char* text) {
    const auto rpma_level = static_cast<rpma_log_level>(static_cast<int>(level) + kLevelDistance);
    if (rpma_log_function* const log = log_function_for(rpma_level))
        log(rpma_level, file, line, function, "%s\n", text);
}

void core_line(core::LogLevel level, const char* file, int line, const char* function,
               const char* text) {
    core::defer_log(tell_program, level, file, line, function, text);
}

}  // namespace

rpma_log_function* log_function_for(rpma_log_level level) noexcept {
    core::deliver_log();  // what the core said before comes first
    const int value = static_cast<int>(level);
    if (value <= threshold(RPMA_LOG_THRESHOLD)) return g_function.load(std::memory_order_acquire);
    return value <= asked_for_stderr() ? default_log_function : nullptr;
}

void connect_core_log() noexcept {
    const int most_talkative =
        std::max(threshold(RPMA_LOG_THRESHOLD), asked_for_stderr()) - kLevelDistance;
    if (most_talkative < static_cast<int>(core::LogLevel::error))
        core::set_log_sink(nullptr, core::LogLevel::error);
    else
        core::set_log_sink(core_line, static_cast<core::LogLevel>(most_talkative));
}

void log_provider_error(const char* file, int line, const char* function, const char* call,
                        const core::Error& error) noexcept {
    rpma_log_function* const log = log_function_for(RPMA_LOG_LEVEL_ERROR);
    if (log == nullptr) return;
    const int number =
        error.device_errno != 0 ? error.device_errno : err_row(error.code).fallback_errno;
    char text[kMaxOrigin];
    log(RPMA_LOG_LEVEL_ERROR, file, line, function, "%s failed: %s\n", call,
        strerror_r(number, text, sizeof text));
}

}  // namespace compat::rpma

using namespace compat::rpma;

int rpma_log_set_threshold(rpma_log_threshold threshold, rpma_log_level level) {
    std::atomic<int>* const target = threshold_of(number_of(threshold));
    const int value = number_of(level);
    if (target == nullptr) return RPMA_E_INVAL;
    if (value < RPMA_LOG_DISABLED || value > RPMA_LOG_LEVEL_DEBUG) return RPMA_E_INVAL;
    target->store(value, std::memory_order_relaxed);
    connect_core_log();
    return kSuccess;
}

int rpma_log_get_threshold(rpma_log_threshold threshold, rpma_log_level* level) {
    const std::atomic<int>* const source = threshold_of(number_of(threshold));
    if (source == nullptr || level == nullptr) return RPMA_E_INVAL;
    *level = static_cast<rpma_log_level>(source->load(std::memory_order_relaxed));
    return kSuccess;
}

int rpma_log_set_function(rpma_log_function* log_function) {
    g_function.store(log_function != nullptr ? log_function : default_log_function,
                     std::memory_order_release);
    return kSuccess;
}
