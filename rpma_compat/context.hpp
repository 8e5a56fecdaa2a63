// SPDX-License-Identifier: BSD-3-Clause
// struct ibv_context, the handle by which librpma's callers name a device, and the core's devices.
#pragma once

#include "core/core.hpp"
#include "rpma_compat/boundary.hpp"

namespace compat::rpma {

/// The device's libibverbs context, or one of ours for a device that has none: always the same for
/// the same device, never freed. Any Device will do, not only the registry's.
ibv_context* context_of(core::Device& device);

/// The device of a context; null if it is nobody's.
core::Device* device_of(const ibv_context* context);

}  // namespace compat::rpma
