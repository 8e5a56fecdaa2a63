// SPDX-License-Identifier: BSD-3-Clause
// Big-endian integers at any alignment. The caller has checked that the bytes are there.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace compat::core::soft::wire {

/// Host order to big-endian and back.
template <std::unsigned_integral Integer>
constexpr Integer swap_be(Integer value) noexcept {
    if constexpr (std::endian::native == std::endian::big) return value;
    if constexpr (sizeof(Integer) == 8) return __builtin_bswap64(value);
    if constexpr (sizeof(Integer) == 4) return __builtin_bswap32(value);
    if constexpr (sizeof(Integer) == 2) return __builtin_bswap16(value);
    if constexpr (sizeof(Integer) == 1) return value;
}

template <std::unsigned_integral Integer>
Integer load_be(const std::byte* from) noexcept {
    Integer value;
    std::memcpy(&value, from, sizeof(value));
    return swap_be(value);
}

template <std::unsigned_integral Integer>
void store_be(std::byte* to, Integer value) noexcept {
    value = swap_be(value);
    std::memcpy(to, &value, sizeof(value));
}

}  // namespace compat::core::soft::wire
