// SPDX-License-Identifier: BSD-3-Clause
// The file in memory by which a process shows its regions to the peers of its host.
//
//   header | slots, one a connection, which that peer writes | files behind regions
//          | regions under keys that the program requested, hashed | table of regions by key index
//
// It is sparse: what was never used takes no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/device/soft/key_pool.hpp"

namespace compat::core::soft::shm {

inline constexpr std::uint64_t kMagic = 0x32'74'61'70'6d'6f'63'1f;  ///< changes with the layout

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

struct alignas(64) Entry {
    std::atomic<std::uint64_t> id{0};  ///< id_of(), or 0; the other fields stay while it is not 0
    std::uint64_t iova = 0;
    std::uint64_t base = 0;  ///< address in the owner
    std::uint64_t length = 0;
    std::uint64_t file = 0;  ///< SharedFile::id of the file that is mapped there, or 0
    std::uint64_t file_offset = 0;
};
/// A key is never reused with the same PD and rights in a way that matters: a generated one counts
/// its generation, and a requested one is withdrawn before it can be requested again.
constexpr std::uint64_t id_of(std::uint32_t key, std::uint32_t pd, std::uint8_t access) {
    return std::uint64_t{key} << 32 | std::uint64_t{pd & 0xffffffU} << 8 | access;
}
constexpr std::uint64_t kIdWithoutAccess = ~std::uint64_t{0xff};

/// A file that the owner has mapped: peers map it, too. It stays while a region is shown that names
/// it.
struct alignas(64) SharedFile {
    std::uint64_t id = 0;  ///< never used again: a count in the upper half, its place in the lower
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint32_t descriptor = 0;  ///< of the owner
};
constexpr std::size_t place_of_file(std::uint64_t id) {
    return id & 0xffffffffU;
}

/// Regions under requested keys: such a key is no index.
inline constexpr std::size_t kRowEntries = 4;
using Row = std::array<Entry, kRowEntries>;
constexpr std::size_t row_of(std::uint32_t key, std::uint32_t pd) {
    return (key * 0x9e3779b1U ^ pd * 0x85ebca6bU) >> 16;
}

inline constexpr std::size_t kSlots = 4096;
inline constexpr std::size_t kFiles = 1024;
inline constexpr std::size_t kRows = std::size_t{1} << 16;
inline constexpr std::size_t kEntries = std::size_t{1} << kKeyIndexBits;
inline constexpr std::size_t kSlotsAt = 4096;
inline constexpr std::size_t kFilesAt = kSlotsAt + kSlots * sizeof(Slot);
inline constexpr std::size_t kRowsAt = kFilesAt + kFiles * sizeof(SharedFile);
inline constexpr std::size_t kTableAt = kRowsAt + kRows * sizeof(Row);
inline constexpr std::size_t kBytes = kTableAt + kEntries * sizeof(Entry);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Entry) == 64);

}  // namespace compat::core::soft::shm
