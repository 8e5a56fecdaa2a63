// SPDX-License-Identifier: BSD-3-Clause
// The edge between the host's C code and ours: every exported call and every slot of an ops table
// passes through here, so no exception leaves and every error is a negative fabric errno.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <new>
#include <utility>

#include "core/core.hpp"
#include "fi_compat/err_map.hpp"

/// What the version script lists is also visible; everything else is hidden by default.
#define COMPAT_EXPORT __attribute__((visibility("default")))

namespace compat::fi {

template <std::integral Number>
Number to_return(Number number) noexcept {
    return number;
}
inline int to_return(const core::Status& status) noexcept {
    return status ? 0 : to_fi(status.error());
}
template <std::integral Number>
ssize_t to_return(const core::Result<Number>& result) noexcept {
    return result ? static_cast<ssize_t>(*result) : to_fi(result.error());
}

/// Runs body, which answers with a number in the caller's terms (a negative fabric errno, a count),
/// a Status, or a Result of a count.
template <class Body>
auto c_boundary(Body&& body) noexcept -> decltype(to_return(std::forward<Body>(body)())) try {
    return to_return(std::forward<Body>(body)());
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
} catch (...) {
    return -FI_EOTHER;  // a bug of ours, never the host's problem to unwind
}

}  // namespace compat::fi
