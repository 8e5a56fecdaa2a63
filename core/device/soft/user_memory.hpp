// SPDX-License-Identifier: BSD-3-Clause
// Touching memory that belongs to the program. A NIC holds the pages of a region; we have only
// their addresses, and the program may have unmapped them meanwhile: a plain access would then end
// its process, perhaps on our own thread, and a guest installs no signal handlers. So the kernel
// does what is not done within the program's own call; it says EFAULT.
//
// Where a sandbox forbids process_vm_readv(2) and process_vm_writev(2), plain copies are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace compat::core::soft {

/// Copies into the program's memory, the last word last: programs poll on the last bytes of what
/// arrives. False when it cannot be written; a part may have been, then.
[[nodiscard]] bool store_to_user(std::byte* to, const std::byte* from, std::size_t length) noexcept;
/// The same by plain stores: what is not mapped ends the process.
void store_plainly(std::byte* to, const std::byte* from, std::size_t length) noexcept;
struct Store {
    std::byte* to;
    const std::byte* from;
    std::size_t length;  ///< not 0
};
inline constexpr std::size_t kMaxStores = 64;
/// The same for up to kMaxStores in turn, at the price of one. The number of those before the first
/// that could not be made, behind which nothing is stored.
[[nodiscard]] std::size_t store_all_to_user(std::span<const Store> stores) noexcept;
/// Copies out of the program's memory. False when it cannot be read.
[[nodiscard]] bool load_from_user(std::byte* to, const std::byte* from,
                                  std::size_t length) noexcept;

/// Whether the range is mapped and can be read (and written). Looks at the first and the last page
/// by faulting them in, which changes nothing and notices a file that has become too short, and
/// between them for holes only. length 0: true.
[[nodiscard]] bool user_memory_allows(const void* address, std::size_t length, bool write) noexcept;

/// The pages under a range that is not empty.
struct Pages {
    std::uintptr_t first;  ///< address
    std::size_t count;
};
std::size_t page_size() noexcept;
Pages pages_of(const void* address, std::size_t length) noexcept;

}  // namespace compat::core::soft
