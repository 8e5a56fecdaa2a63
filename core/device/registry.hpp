// SPDX-License-Identifier: BSD-3-Clause
// The devices of this process. They live until the process ends.
#pragma once

#include "core/device/device.hpp"

namespace compat::core {

enum class Direction : std::uint8_t {
    local,   ///< the device that owns the address
    remote,  ///< the device by which the address is reached
};

/// The device for an address, as FABRIC_COMPAT_DEVICE says. Errors: no_device, unreachable.
Result<Device*> device_for_address(const SocketAddress& address, Direction direction) noexcept;

/// All devices, preferred ones first.
std::span<Device* const> all_devices() noexcept;

}  // namespace compat::core
