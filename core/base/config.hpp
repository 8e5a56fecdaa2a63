// SPDX-License-Identifier: BSD-3-Clause
// The environment variables of the product, one row each. The README's table is printed from it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/base/log.hpp"

namespace compat::core {

enum class Setting : std::size_t {
    device,
    crc,
    shm,
    connect_timeout,
    explain,
    log,
    statistics,
    trace,
    count_
};

struct SettingRow {
    Setting setting;
    const char* name;
    const char* default_value;
    const char* unit;
    const char* meaning;
};

std::span<const SettingRow> settings() noexcept;

/// The variable's text, or its default when it is unset or empty.
const char* setting_text(Setting setting) noexcept;
/// The same as a number; the default (and a logged warning) when it is not one.
long setting_number(Setting setting) noexcept;
/// Setting::log: the most talkative level that goes to stderr; nothing when it is off.
std::optional<LogLevel> stderr_log_level() noexcept;

}  // namespace compat::core
