// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "core/core.hpp"
#include "rpma_compat/cq.hpp"

struct rpma_srq {
    std::unique_ptr<compat::core::SharedReceiveQueue> queue;
    std::unique_ptr<rpma_cq> rcq;  ///< null: receives complete in the connections' queues
    std::unique_ptr<compat::core::RequestTrace> trace;  ///< null: none is wanted
    compat::core::Statistics statistics;
};
