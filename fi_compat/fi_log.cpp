// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/fi_log.hpp"

#include <strings.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "core/core.hpp"
#include "fi_compat/boundary.hpp"
#include "fi_compat/names.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/tostr_names.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr int kSilent = -1;
constexpr std::size_t kMaxText = 1024;
constexpr long kDefaultIntervalMs = 2000;

constinit std::atomic<fid_logging*> g_imported{nullptr};

/// What we are to a log object of the program's.
constinit fi_provider g_provider = {
    .version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .context = {},
    .name = "compat",
    .getinfo = nullptr,
    .fabric = nullptr,
    .cleanup = nullptr,
};

const char* name_in(fi_type type, int value) {
    for (const NameRow& row : names_of(type))
        if (row.value == static_cast<std::uint64_t>(value)) return row.name;
    return "unknown";
}

int level_of(const char* text) {
    if (text == nullptr) return kSilent;
    for (const NameRow& row : names_of(FI_TYPE_LOG_LEVEL))
        if (strcasecmp(row.name, text) == 0) return static_cast<int>(row.value);
    return kSilent;
}

fi_log_level to_fi_level(core::LogLevel level) {
    switch (level) {
        case core::LogLevel::info: return FI_LOG_INFO;
        case core::LogLevel::debug: return FI_LOG_DEBUG;
        default: return FI_LOG_WARN;
    }
}

int level_asked() {
    if (const char* text = std::getenv("FI_LOG_LEVEL"); text != nullptr && *text != '\0')
        return level_of(text);
    const auto level = core::stderr_log_level();
    return level ? static_cast<int>(to_fi_level(*level)) : kSilent;
}

int most_talkative() {
    static const int level = level_asked();
    return level;
}

const char* provider_name(const fi_provider* provider) {
    return provider != nullptr && provider->name != nullptr ? provider->name : g_provider.name;
}

bool filters_pass(const fi_provider* provider, fi_log_subsys subsystem) {
    return filter_selects(std::getenv("FI_LOG_PROV"), provider_name(provider)) &&
           filter_selects(std::getenv("FI_LOG_SUBSYS"), name_in(FI_TYPE_LOG_SUBSYS, subsystem));
}

bool wanted(const fi_provider* provider, fi_log_level level, fi_log_subsys subsystem) {
    if (const fid_logging* log = g_imported.load(std::memory_order_acquire); log != nullptr)
        return log->ops->enabled(provider != nullptr ? provider : &g_provider, level, subsystem,
                                 0) != 0;
    return level <= most_talkative() && filters_pass(provider, subsystem);
}

void write(const fi_provider* provider, fi_log_level level, fi_log_subsys subsystem,
           const char* function, int line, const char* text) {
    const int saved_errno = errno;
    if (const fid_logging* log = g_imported.load(std::memory_order_acquire); log != nullptr) {
        log->ops->log(provider != nullptr ? provider : &g_provider, level, subsystem, function,
                      line, text);
    } else {
        std::fprintf(stderr, "libfabric:%d:%lld:%s:%s:%s():%d<%s> %s\n", static_cast<int>(getpid()),
                     static_cast<long long>(std::time(nullptr)), provider_name(provider),
                     name_in(FI_TYPE_LOG_SUBSYS, subsystem), function, line,
                     name_in(FI_TYPE_LOG_LEVEL, level), text);
    }
    errno = saved_errno;
}

void core_sink(core::LogLevel level, const char*, int line, const char* function,
               const char* text) {
    const fi_log_level fi_level = to_fi_level(level);
    if (wanted(nullptr, fi_level, FI_LOG_CORE))
        write(nullptr, fi_level, FI_LOG_CORE, function, line, text);
}

core::LogLevel core_level() {
    // A log object of the program's decides line by line.
    if (g_imported.load(std::memory_order_acquire) != nullptr) return core::LogLevel::debug;
    if (most_talkative() >= FI_LOG_DEBUG) return core::LogLevel::debug;
    return most_talkative() >= FI_LOG_INFO ? core::LogLevel::info : core::LogLevel::notice;
}

/// The object behind fi_open("logging"). Binding outlives it: fi_import() closes it at once.
class Logging final : public Object<Logging, struct ::fid_logging> {
public:
    explicit Logging(void* context);
};

bool is_log(const struct ::fid* face) {
    if (face == nullptr || face->fclass != FI_CLASS_LOG) return false;
    const auto* log = reinterpret_cast<const fid_logging*>(face);
    return FI_CHECK_OP(log->ops, fi_ops_log, log) && log->ops->enabled != nullptr;
}

int logging_bind(struct ::fid*, struct ::fid* imported, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (!is_log(imported)) return -FI_EINVAL;
    g_imported.store(reinterpret_cast<fid_logging*>(imported), std::memory_order_release);
    core::set_log_sink(core_sink, core_level());
    return 0;
}

constinit fi_ops kLoggingFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Logging>,
    .bind = logging_bind,
    .control = kUnsupported,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

Logging::Logging(void* user_context) : Object(FI_CLASS_LOG, user_context, kLoggingFiOps) {}

std::uint64_t now_ms() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

std::uint64_t interval_ms() {
    const char* text = std::getenv("FI_LOG_INTERVAL");
    const long value = text != nullptr ? std::atol(text) : kDefaultIntervalMs;
    return static_cast<std::uint64_t>(value > 0 ? value : kDefaultIntervalMs);
}

}  // namespace

void start_logging() noexcept {
    if (most_talkative() != kSilent) core::set_log_sink(core_sink, core_level());
}

bool log_wanted(fi_log_level level, fi_log_subsys subsystem) noexcept {
    return wanted(nullptr, level, subsystem);
}

bool explains(fi_log_level level, fi_log_subsys subsystem) noexcept {
    return core::setting_number(core::Setting::explain) != 0 || log_wanted(level, subsystem);
}

void write_log(fi_log_level level, fi_log_subsys subsystem, const char* function, int line,
               const char* text) noexcept {
    write(nullptr, level, subsystem, function, line, text);
}

int open_logging(struct ::fid** face, void* user_context) {
    *face = (new Logging(user_context))->base();
    return 0;
}

}  // namespace compat::fi

extern "C" {

COMPAT_EXPORT int fi_log_enabled(const fi_provider* provider, fi_log_level level,
                                 fi_log_subsys subsystem) {
    return compat::fi::wanted(provider, level, subsystem) ? 1 : 0;
}

COMPAT_EXPORT int fi_log_ready(const fi_provider* provider, fi_log_level level,
                               fi_log_subsys subsystem, std::uint64_t* showtime) {
    if (!compat::fi::wanted(provider, level, subsystem)) return 0;
    const std::uint64_t now = compat::fi::now_ms();
    if (*showtime > now) return 0;
    *showtime = now + compat::fi::interval_ms();
    return 1;
}

COMPAT_EXPORT void fi_log(const fi_provider* provider, fi_log_level level, fi_log_subsys subsystem,
                          const char* function, int line, const char* format, ...) {
    char text[compat::fi::kMaxText];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    compat::fi::write(provider, level, subsystem, function, line, text);
}
}
