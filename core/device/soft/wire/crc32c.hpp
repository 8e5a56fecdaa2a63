// SPDX-License-Identifier: BSD-3-Clause
// CRC32c (Castagnoli), the digest of MPA: RFC 5044 section 5, the same as iSCSI's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace compat::core::soft::wire {

/// The CRC of what `previous` covers followed by `data`; "123456789" alone gives 0xE3069283.
/// Incremental: crc32c(b, crc32c(a)) is the CRC of a and b put together.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t previous = 0) noexcept;

/// The same by tables alone: what processors without a CRC instruction run.
std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t previous = 0) noexcept;

}  // namespace compat::core::soft::wire
