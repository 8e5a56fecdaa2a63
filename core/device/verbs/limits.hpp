// SPDX-License-Identifier: BSD-3-Clause
// What an RDMA device can do: asked where it tells, tried where it does not.
#pragma once

#include "core/device/device.hpp"
#include "core/device/verbs/api.hpp"

namespace compat::core::verbs {

/// Errors: device (it does not answer).
Result<Limits> query_limits(ibv_context& context) noexcept;

/// The operations that QPs of such a device are created with (ibv_qp_init_attr_ex, send_ops_flags);
/// 0 for a plain QP.
std::uint64_t send_ops_of(const Limits& limits) noexcept;

}  // namespace compat::core::verbs
