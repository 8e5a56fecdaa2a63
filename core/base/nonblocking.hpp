// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/base/result.hpp"

namespace compat::core {

/// Sets O_NONBLOCK. Errors: device (errno, which stays set).
Status set_nonblocking(int fd) noexcept;

}  // namespace compat::core
