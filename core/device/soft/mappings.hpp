// SPDX-License-Identifier: BSD-3-Clause
// What the kernel has mapped at an address of this process: /proc/self/maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace compat::core::soft {

/// One line of /proc/self/maps (proc(5)).
struct Mapping {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    bool readable = false;
    bool writable = false;
    bool shared = false;
    std::uint64_t offset = 0;   ///< of start, in the file
    unsigned device_major = 0;  ///< of the file system's superblock
    unsigned device_minor = 0;
    std::uint64_t inode = 0;  ///< 0: anonymous
    std::string path;         ///< as printed: may be "[heap]" or end in " (deleted)"
};

/// The mappings that cover [address, address + length), in order; empty when there is a hole or
/// length is 0. Reads the whole list: tens of microseconds. Errors: no_memory, device.
Result<std::vector<Mapping>> mappings_of(const void* address, std::size_t length) noexcept;

/// The one shared mapping of a file that all of [address, address + length) lies in, but without
/// its path; nothing where it is otherwise, or the kernel does not tell.
std::optional<Mapping> shared_mapping_of(const void* address, std::size_t length) noexcept;

/// Whether all of [address, address + length) is mapped for reading (and writing). Where the kernel
/// does not tell, the program is believed. Linux 6.11 answers a mapping at a time, in about 1 us.
bool mappings_allow(const void* address, std::size_t length, bool write) noexcept;

}  // namespace compat::core::soft
