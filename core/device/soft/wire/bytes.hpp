// SPDX-License-Identifier: BSD-3-Clause
// Big-endian integers at any alignment. The caller has checked that the bytes are there.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace compat::core::soft::wire {

static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

template <std::unsigned_integral Integer>
Integer swap_bytes(Integer value) noexcept {
    if constexpr (sizeof(Integer) == 8) return __builtin_bswap64(value);
    if constexpr (sizeof(Integer) == 4) return __builtin_bswap32(value);
    if constexpr (sizeof(Integer) == 2) return __builtin_bswap16(value);
    if constexpr (sizeof(Integer) == 1) return value;
}

template <std::unsigned_integral Integer>
Integer load_be(const std::byte* from) noexcept {
    Integer value;
    std::memcpy(&value, from, sizeof(value));
    return swap_bytes(value);
}

template <std::unsigned_integral Integer>
void store_be(std::byte* to, Integer value) noexcept {
    value = swap_bytes(value);
    std::memcpy(to, &value, sizeof(value));
}

}  // namespace compat::core::soft::wire
