// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "rpma_compat/boundary.hpp"

// The manual of upstream says 100 and 100; its library has these.
struct rpma_srq_cfg {
    std::atomic<std::uint32_t> rq_size{20};
    std::atomic<std::uint32_t> rcq_size{20};  ///< 0: no receive CQ
};

namespace compat::rpma {

/// The given configuration, or the defaults for null.
const rpma_srq_cfg& srq_cfg_or_default(const rpma_srq_cfg* cfg) noexcept;

}  // namespace compat::rpma
