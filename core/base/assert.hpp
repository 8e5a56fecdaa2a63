// SPDX-License-Identifier: BSD-3-Clause
// Invariants of our own. Fatal where a developer or CI can see it (COMPAT_FATAL_ASSERT); in a
// release build the host process must live on: the line is logged and the caller's error path runs.
#pragma once

#include "core/base/log.hpp"

#ifdef COMPAT_FATAL_ASSERT
#include <cstdlib>
#define COMPAT_ASSERT(condition)                                                                  \
    ((condition) ? true                                                                           \
                 : (::compat::core::log_text(::compat::core::LogLevel::error, __FILE__, __LINE__, \
                                             __func__, "broken invariant: %s", #condition),       \
                    std::abort(), false))
#else
#define COMPAT_ASSERT(condition)                                                                  \
    ((condition) ? true                                                                           \
                 : (::compat::core::log_text(::compat::core::LogLevel::error, __FILE__, __LINE__, \
                                             __func__, "broken invariant: %s", #condition),       \
                    false))
#endif
