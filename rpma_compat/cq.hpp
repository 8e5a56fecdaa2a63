// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "core/core.hpp"
#include "rpma_compat/boundary.hpp"

struct rpma_cq {
    std::unique_ptr<compat::core::CqWaiter> own_waiter;  ///< null if the channel is shared
    compat::core::CqWaiter* waiter;                      ///< its own, or the connection's
    std::unique_ptr<compat::core::WaitedCq> queue;
    compat::core::CompletionQueue* native;  ///< queue->native()
};

namespace compat::rpma {

/// An armed CQ; on a channel of its own if shared is null. On failure an RPMA_E_ code, and out
/// stays as it is.
int new_cq(core::Device& device, std::uint32_t size, core::CqWaiter* shared,
           std::unique_ptr<rpma_cq>& out);

}  // namespace compat::rpma
