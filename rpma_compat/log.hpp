// SPDX-License-Identifier: BSD-3-Clause
// Log lines of this room, and of the core, to the program's log function.
#pragma once

#include <cstdio>
#include <string_view>

#include "core/core.hpp"
#include "rpma_compat/boundary.hpp"

namespace compat::rpma {

/// The function that wants lines of this level, or null.
rpma_log_function* log_function_for(rpma_log_level level) noexcept;

/// Sends the core's lines to the log function, from now on. Called where a program first reaches
/// the core; there is nothing to do at load time.
void connect_core_log() noexcept;

/// Logs a failed call of the core at ERROR.
void log_provider_error(const char* file, int line, const char* function, const char* call,
                        const core::Error& error) noexcept;

constexpr const char* base_name(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return path.data() + (slash == std::string_view::npos ? 0 : slash + 1);
}

}  // namespace compat::rpma

// The unevaluated snprintf lets the compiler check the arguments against the format.
#define COMPAT_RPMA_LOG(level, format, ...)                                             \
    do {                                                                                \
        static_cast<void>(                                                              \
            sizeof(std::snprintf(nullptr, 0, format "\n" __VA_OPT__(, ) __VA_ARGS__))); \
        if (rpma_log_function* const log_ = ::compat::rpma::log_function_for(level))    \
            log_(level, ::compat::rpma::base_name(__FILE__), __LINE__, __func__,        \
                 format "\n" __VA_OPT__(, ) __VA_ARGS__);                               \
    } while (0)

/// Logs the failed call and gives the code of one column of kErrMap.
#define COMPAT_RPMA_FAILED(column, call, error)                                                  \
    (::compat::rpma::log_provider_error(::compat::rpma::base_name(__FILE__), __LINE__, __func__, \
                                        call, error),                                            \
     ::compat::rpma::err_row(::compat::rpma::refined(error)).column)
