// SPDX-License-Identifier: BSD-3-Clause
// Memory of an endpoint that grows with what is on its way, up to a bound.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/rdm/connection.hpp"

namespace compat::core::rdm {

/// Registered pieces of kBufferLength for messages that are sent.
class SlotPool {
public:
    /// pd: null where the device wants no keys.
    void prepare(ProtectionDomain* pd, std::uint32_t max_slots) noexcept {
        pd_ = pd;
        max_slots_ = max_slots;
    }
    /// Null when there is none.
    std::byte* take() noexcept;
    void give_back(std::byte* slot) noexcept;
    [[nodiscard]] std::uint32_t lkey_of(const std::byte* slot) const noexcept;

private:
    static constexpr std::uint32_t kChunkSlots = 64;
    struct Chunk {
        std::unique_ptr<std::byte[]> memory;
        std::unique_ptr<MemoryRegion> region;
    };
    bool grow() noexcept;

    ProtectionDomain* pd_ = nullptr;
    std::uint32_t max_slots_ = 0;
    std::vector<Chunk> chunks_;
    std::vector<std::byte*> free_;
};

class TransferPool {
public:
    /// Null when there is no memory.
    Transfer* take() noexcept;
    void give_back(Transfer& transfer) noexcept;
    /// Null when there is no such transfer on its way.
    [[nodiscard]] Transfer* find(std::uint32_t number) noexcept;

private:
    static constexpr std::uint32_t kChunk = 256;
    bool grow() noexcept;

    std::vector<std::unique_ptr<Transfer[]>> chunks_;
    List<Transfer> free_;
};

}  // namespace compat::core::rdm
