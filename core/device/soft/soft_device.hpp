// SPDX-License-Identifier: BSD-3-Clause
// The software device: a NIC in user space. One per process.
#pragma once

#include "core/device/device.hpp"

namespace compat::core::soft {

Device& device() noexcept;

}  // namespace compat::core::soft
