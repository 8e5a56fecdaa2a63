// SPDX-License-Identifier: BSD-3-Clause
// Values of fi_getopt(3) and fi_setopt(3), and the answers of fi_cancel(3).
#pragma once

#include <cstddef>
#include <cstring>

#include "core/core.hpp"
#include "fi_compat/err_map.hpp"

namespace compat::fi {

inline int get_size_option(std::size_t size, void* value, std::size_t* length) noexcept {
    if (length == nullptr) return -FI_EINVAL;
    const bool fits = value != nullptr && *length >= sizeof size;
    *length = sizeof size;
    if (!fits) return -FI_ETOOSMALL;
    std::memcpy(value, &size, sizeof size);
    return 0;
}

inline int take_size_option(const void* value, std::size_t length, std::size_t& size) noexcept {
    if (value == nullptr || length != sizeof size) return -FI_EINVAL;
    std::memcpy(&size, value, sizeof size);
    return 0;
}

/// What ReceiveQueue::cancel() could not do. Taking the request is no promise: a receive that the
/// device keeps completes as if nothing had been asked.
constexpr int cancel_errno(const core::Error& error) {
    return error.code == core::Errc::invalid_argument ? -FI_ENOENT : -FI_EOPNOTSUPP;
}

}  // namespace compat::fi
