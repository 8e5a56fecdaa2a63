// SPDX-License-Identifier: BSD-3-Clause
// The file in memory by which a process shows its regions to the peers of its host.
//
//   header | slots, one a connection, which that peer writes | table of regions by key index
//
// It is sparse: what was never used takes no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/device/soft/key_pool.hpp"

namespace compat::core::soft::shm {

inline constexpr std::uint64_t kMagic = 0x31'74'61'70'6d'6f'63'1f;  ///< changes with the layout

struct Header {
    std::uint64_t magic = 0;
    std::uint64_t nonce = 0;
};

/// The protocol, as Dekker's: the peer announces the key and then looks whether it may use it; the
/// owner takes the permission away and then waits until nobody announces the key any more. All four
/// accesses are sequentially consistent.
struct alignas(64) Slot {
    std::atomic<std::uint64_t> announced{0};  ///< the peer's: kAnnounced | key, or 0
    std::atomic<std::uint32_t> open{0};       ///< the owner's: which connection it serves now, or 0
};
inline constexpr std::uint64_t kAnnounced = std::uint64_t{1} << 32;

struct Entry {
    std::atomic<std::uint64_t> id{0};  ///< id_of(), or 0; the other fields stay while it is not 0
    std::uint64_t iova = 0;
    std::uint64_t base = 0;  ///< address in the owner
    std::uint64_t length = 0;
};
/// A key is never reused with the same PD and rights in a way that matters: its generation counts.
constexpr std::uint64_t id_of(std::uint32_t key, std::uint32_t pd, std::uint8_t access) {
    return std::uint64_t{key} << 32 | std::uint64_t{pd & 0xffffffU} << 8 | access;
}
constexpr std::uint64_t kIdWithoutAccess = ~std::uint64_t{0xff};

inline constexpr std::size_t kSlots = 4096;
inline constexpr std::size_t kSlotsAt = 4096;
inline constexpr std::size_t kTableAt = 512 * 1024;
inline constexpr std::size_t kEntries = std::size_t{1} << kKeyIndexBits;
inline constexpr std::size_t kBytes = kTableAt + kEntries * sizeof(Entry);
static_assert(kSlotsAt + kSlots * sizeof(Slot) <= kTableAt);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Entry) == 32);

}  // namespace compat::core::soft::shm
