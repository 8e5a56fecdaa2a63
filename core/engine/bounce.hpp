// SPDX-License-Identifier: BSD-3-Clause
// Copies of source buffers that the caller may reuse at once but that are too long to go inline.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/device/device.hpp"
#include "core/engine/operation.hpp"

namespace compat::core {

/// Slots are given back in the order in which they were taken: completions of one QP come in
/// posting order. One thread takes at a time, one gives back at a time.
class BounceRing {
public:
    /// pd: registers the memory with it; null where the device wants no keys.
    /// Errors: no_memory; those of register_memory().
    static Result<std::unique_ptr<BounceRing>> create(ProtectionDomain* pd, std::uint32_t slots,
                                                      std::size_t slot_length) noexcept;

    [[nodiscard]] bool full() const noexcept {
        return taken_ - returned_.load(std::memory_order_acquire) == slots_;
    }
    /// Gathers the buffers into the next slot; they fit. Not to be called when full().
    LocalBuffer take(std::span<const LocalBuffer> buffers) noexcept;
    void untake() noexcept { --taken_; }  ///< the last one, unused
    void give_back() noexcept { returned_.fetch_add(1, std::memory_order_release); }

    [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }

private:
    BounceRing(std::unique_ptr<std::byte[]> memory, std::unique_ptr<MemoryRegion> region,
               std::uint32_t slots, std::size_t slot_length) noexcept;

    std::unique_ptr<std::byte[]> memory_;
    std::unique_ptr<MemoryRegion> region_;
    std::uint32_t slots_;
    std::size_t slot_length_;
    std::uint64_t taken_ = 0;
    std::atomic<std::uint64_t> returned_{0};
};

}  // namespace compat::core
