// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>

#include "rpma_compat/conn_parts.hpp"

struct rpma_conn {
    std::unique_ptr<compat::core::ExtendedOps> extended_ops;  ///< its memory outlives the QP
    compat::rpma::ConnParts parts;
    /// The peer declared that an RDMA write alone can reach its persistence domain.
    std::atomic<bool> direct_write_to_pmem{false};
    compat::core::Statistics statistics;
};
