// SPDX-License-Identifier: BSD-3-Clause
// The accessors of the configuration objects, whose fields are atomics.
#pragma once

#include <atomic>

#include "rpma_compat/boundary.hpp"

namespace compat::rpma {

template <auto member, class Config, class Value>
int set_field(Config* cfg, Value value) noexcept {
    if (cfg == nullptr) return RPMA_E_INVAL;
    (cfg->*member).store(value, std::memory_order_relaxed);
    return kSuccess;
}

template <auto member, class Config, class Value>
int get_field(const Config* cfg, Value* value) noexcept {
    if (cfg == nullptr || value == nullptr) return RPMA_E_INVAL;
    *value = (cfg->*member).load(std::memory_order_relaxed);
    return kSuccess;
}

}  // namespace compat::rpma
