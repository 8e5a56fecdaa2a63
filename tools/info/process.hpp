// SPDX-License-Identifier: BSD-3-Clause
// The statistics of another process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/core.hpp"

namespace compat::tools {

/// The sum over all libraries of ours in the process; reason says why there is none.
std::optional<core::StatTotals> read_statistics(std::uint32_t process, std::string& reason);

}  // namespace compat::tools
