// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "rpma_compat/boundary.hpp"

// Accessors are called from many threads at once by programs that share one configuration.
struct rpma_conn_cfg {
    std::atomic<int> timeout_ms{RPMA_DEFAULT_TIMEOUT_MS};
    std::atomic<std::uint32_t> cq_size{10};
    std::atomic<std::uint32_t> rcq_size{0};  ///< 0: no receive CQ
    std::atomic<std::uint32_t> sq_size{10};
    std::atomic<std::uint32_t> rq_size{10};
    std::atomic<bool> shared_channel{false};
    std::atomic<rpma_srq*> srq{nullptr};
};

namespace compat::rpma {

/// The given configuration, or the defaults for null.
const rpma_conn_cfg& conn_cfg_or_default(const rpma_conn_cfg* cfg) noexcept;

}  // namespace compat::rpma
