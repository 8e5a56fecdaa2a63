// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/registry.hpp"

#include <array>

#include "core/device/soft/soft_device.hpp"

namespace compat::core {

std::span<Device* const> all_devices() noexcept {
    static const std::array<Device*, 1> devices{&soft::device()};
    return devices;
}

}  // namespace compat::core
