// SPDX-License-Identifier: BSD-3-Clause
// Byte vectors for the wire tests, without anything to destroy: cmocka leaves by longjmp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tests/support/cmocka.hpp"

namespace compat::test {

struct Frame {
    std::array<std::byte, 1024> bytes{};
    std::size_t size = 0;

    [[nodiscard]] std::span<const std::byte> view() const { return std::span(bytes).first(size); }
    [[nodiscard]] std::span<std::byte> space() { return bytes; }
    void append(std::span<const std::byte> more) {
        assert_true(size + more.size() <= bytes.size());
        std::copy(more.begin(), more.end(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        size += more.size();
    }
};

inline unsigned hex_digit(char digit) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::size_t value = kDigits.find(digit);
    assert_true(value != std::string_view::npos);
    return static_cast<unsigned>(value);
}

/// "000e c140": spaces separate nothing in particular.
inline Frame hex(std::string_view text) {
    Frame frame;
    unsigned high = 0;
    bool have_high = false;
    for (const char digit : text) {
        if (digit == ' ') continue;
        if (have_high) frame.bytes.at(frame.size++) = std::byte(high << 4 | hex_digit(digit));
        high = hex_digit(digit);
        have_high = !have_high;
    }
    assert_false(have_high);
    return frame;
}

inline Frame ascii(std::string_view text) {
    Frame frame;
    frame.append(std::as_bytes(std::span(text)));
    return frame;
}

inline Frame operator+(Frame left, const Frame& right) {
    left.append(right.view());
    return left;
}

inline void assert_bytes_equal(std::span<const std::byte> actual,
                               std::span<const std::byte> expected) {
    assert_int_equal(actual.size(), expected.size());
    assert_memory_equal(actual.data(), expected.data(), expected.size());
}

/// What was encoded into `frame`, compared with the vector.
inline void assert_encodes(std::size_t written, Frame& frame, std::string_view expected) {
    frame.size = written;
    assert_bytes_equal(frame.view(), hex(expected).view());
}

/// The same numbers in every run (splitmix64).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t mixed = state_ += 0x9E3779B97F4A7C15U;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
        return mixed ^ (mixed >> 31);
    }
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }
    bool flip() { return below(2) != 0; }
    template <class Integer>
    Integer any() {
        return static_cast<Integer>(next());
    }
    void fill(std::span<std::byte> bytes) {
        for (std::byte& each : bytes) each = std::byte(next() & 0xFF);
    }

private:
    std::uint64_t state_;
};

}  // namespace compat::test
