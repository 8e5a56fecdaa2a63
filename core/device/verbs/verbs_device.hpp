// SPDX-License-Identifier: BSD-3-Clause
// RDMA devices, by way of libibverbs and librdmacm.
#pragma once

#include <span>

#include "core/device/device.hpp"

namespace compat::core::verbs {

/// Those that this host has and that work. Looked for at the first call, once.
std::span<Device* const> devices() noexcept;

/// The device that owns an address of this host; the first one for the wildcard address. Null:
/// none.
Device* owner_of(const SocketAddress& address) noexcept;

}  // namespace compat::core::verbs
