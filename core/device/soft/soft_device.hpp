// SPDX-License-Identifier: BSD-3-Clause
// The software device: a NIC in user space. One per process.
#pragma once

#include <chrono>

#include "core/device/device.hpp"

namespace compat::core::soft {

Device& device() noexcept;

enum class Crc : std::uint8_t { automatic, on, off };

/// What the environment said when the device was first asked for, on a thread of the program: the
/// helper thread must not look at an environment that the program may be changing.
struct Options {
    Crc crc = Crc::automatic;
    bool shm = false;        ///< processes of one host reach each other's memory
    bool map_files = false;  ///< of a peer
    std::chrono::milliseconds connect_timeout{};
};
const Options& options() noexcept;

}  // namespace compat::core::soft
