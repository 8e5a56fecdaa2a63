// SPDX-License-Identifier: BSD-3-Clause
// Seeds are kept as text, so that a diff shows them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace compat::fuzz {

inline unsigned hex_digit(char digit) {
    return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

inline std::vector<std::byte> seed_bytes(std::string_view text) {
    std::vector<std::byte> bytes;
    unsigned high = 0;
    bool have_high = false;
    for (const char digit : text) {
        if (digit == ' ') continue;
        if (have_high) bytes.push_back(std::byte(high << 4 | hex_digit(digit)));
        high = hex_digit(digit);
        have_high = !have_high;
    }
    return bytes;
}

}  // namespace compat::fuzz
