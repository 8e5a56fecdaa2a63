// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/bounce.hpp"

#include <cstring>
#include <new>

namespace compat::core {

BounceRing::BounceRing(std::unique_ptr<std::byte[]> memory, std::unique_ptr<MemoryRegion> region,
                       std::uint32_t slots, std::size_t slot_length) noexcept
    : memory_(std::move(memory)),
      region_(std::move(region)),
      slots_(slots),
      slot_length_(slot_length) {}

Result<std::unique_ptr<BounceRing>> BounceRing::create(ProtectionDomain* pd, std::uint32_t slots,
                                                       std::size_t slot_length) noexcept {
    std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[slots * slot_length]);
    if (!memory) return failure(Errc::no_memory);
    std::unique_ptr<MemoryRegion> region;
    if (pd != nullptr) {
        auto registered =
            pd->register_memory({.address = memory.get(), .length = slots * slot_length});
        if (!registered) return failure(registered.error());
        region = std::move(*registered);
    }
    std::unique_ptr<BounceRing> ring(
        new (std::nothrow) BounceRing(std::move(memory), std::move(region), slots, slot_length));
    if (!ring) return failure(Errc::no_memory);
    return ring;
}

LocalBuffer BounceRing::take(std::span<const LocalBuffer> buffers) noexcept {
    std::byte* const slot = memory_.get() + taken_++ % slots_ * slot_length_;
    std::byte* to = slot;
    for (const LocalBuffer& buffer : buffers) {
        std::memcpy(to, buffer.address, buffer.length);
        to += buffer.length;
    }
    return {.address = slot,
            .length = static_cast<std::uint64_t>(to - slot),
            .lkey = region_ ? region_->lkey() : kUnregisteredLkey};
}

}  // namespace compat::core
