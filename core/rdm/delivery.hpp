// SPDX-License-Identifier: BSD-3-Clause
// How an endpoint knows that the bytes of a write are in the peer's memory where the device's
// completion does not say so: it reads a byte of the peer's endpoint behind the write. A device
// answers a read after all that it has taken before, whatever memory the two are about.
#pragma once

#include <cstddef>
#include <memory>

#include "core/device/device.hpp"
#include "core/engine/splitter.hpp"
#include "core/rdm/wire.hpp"

namespace compat::core::rdm {

class Delivery {
public:
    /// Errors: those of register_memory().
    Status prepare(ProtectionDomain& pd, const Limits& limits) noexcept;
    /// What peers may read.
    void describe(Hello& hello) const noexcept;
    /// What to read there.
    [[nodiscard]] DeliveryProbe at(const Hello& peer) noexcept;

private:
    std::byte read_by_peers_{};
    std::byte sink_{};  ///< of all our reads: nobody looks at it
    std::unique_ptr<MemoryRegion> region_;
    std::unique_ptr<MemoryRegion> sink_region_;
};

}  // namespace compat::core::rdm
