// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/config.hpp"

#include <array>
#include <cstdlib>
#include <cstring>

namespace compat::core {
namespace {

constexpr std::array kSettings{
    SettingRow{Setting::device, "FABRIC_COMPAT_DEVICE", "auto", "auto|verbs|soft",
               "which devices to use; auto takes an RDMA device where one owns the address"},
    SettingRow{
        Setting::crc, "FABRIC_COMPAT_CRC", "auto", "auto|on|off",
        "CRC32c on streams of the software device; auto: on except on this host; a peer that "
        "asks for it always gets it"},
    SettingRow{Setting::shm, "FABRIC_COMPAT_SHM", "1", "0|copy|1",
               "whether processes of one host that use the software device read and write each "
               "other's memory directly, instead of by TCP; copy: only by the kernel, without "
               "mapping the files that a peer has registered"},
    SettingRow{
        Setting::connect_timeout, "FABRIC_COMPAT_CONNECT_TIMEOUT_MS", "60000", "ms",
        "how long the software device waits for the peer's answer to a connection request, or "
        "to its acceptance"},
    SettingRow{
        Setting::explain, "FABRIC_COMPAT_EXPLAIN", "0", "0|1",
        "write to stderr why a call was refused or a connection could not be made; libfabric: why "
        "fi_getinfo refused each provider that it did not return"},
    SettingRow{
        Setting::log, "FABRIC_COMPAT_LOG", "off", "off|error|warning|notice|info|debug",
        "write log lines up to this level to stderr, whatever the program has set; libfabric "
        "takes FI_LOG_LEVEL where it is set"},
    SettingRow{
        Setting::statistics, "FABRIC_COMPAT_STATISTICS", "0", "0|1",
        "write to stderr at exit how many operations, bytes, completions and errors there were"},
    SettingRow{Setting::trace, "FABRIC_COMPAT_TRACE", "off", "off|PATH",
               "write what becomes of each operation to PATH.PID.json, for chrome://tracing and "
               "ui.perfetto.dev"},
};
static_assert(kSettings.size() == static_cast<std::size_t>(Setting::count_),
              "a new Setting needs a row here");

struct LevelRow {
    LogLevel level;
    const char* name;
};
constexpr std::array kLevels{
    LevelRow{LogLevel::error, "error"},   LevelRow{LogLevel::warning, "warning"},
    LevelRow{LogLevel::notice, "notice"}, LevelRow{LogLevel::info, "info"},
    LevelRow{LogLevel::debug, "debug"},
};

}  // namespace

std::span<const SettingRow> settings() noexcept {
    return kSettings;
}

const char* setting_text(Setting setting) noexcept {
    const SettingRow& row = kSettings[static_cast<std::size_t>(setting)];
    const char* text = std::getenv(row.name);
    return text != nullptr && *text != '\0' ? text : row.default_value;
}

long setting_number(Setting setting) noexcept {
    const SettingRow& row = kSettings[static_cast<std::size_t>(setting)];
    const char* text = setting_text(setting);
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*text != '\0' && *end == '\0' && value >= 0) return value;
    COMPAT_LOG_WARNING("%s is not a number: %s; using %s", row.name, text, row.default_value);
    return std::strtol(row.default_value, nullptr, 10);
}

std::optional<LogLevel> stderr_log_level() noexcept {
    const char* text = setting_text(Setting::log);
    for (const LevelRow& row : kLevels)
        if (std::strcmp(row.name, text) == 0) return row.level;
    return std::nullopt;
}

}  // namespace compat::core
