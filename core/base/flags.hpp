// SPDX-License-Identifier: BSD-3-Clause
// Bit sets over an enum class whose enumerators are single bits.
#pragma once

#include <type_traits>

namespace compat::core {

template <class Enum>
class Flags {
public:
    using Bits = std::underlying_type_t<Enum>;

    constexpr Flags() = default;
    constexpr Flags(Enum flag) : bits_(static_cast<Bits>(flag)) {}
    constexpr explicit Flags(Bits bits) : bits_(bits) {}

    [[nodiscard]] constexpr bool has(Enum flag) const {
        return (bits_ & static_cast<Bits>(flag)) == static_cast<Bits>(flag);
    }
    [[nodiscard]] constexpr bool has_all(Flags other) const {
        return (bits_ & other.bits_) == other.bits_;
    }
    [[nodiscard]] constexpr bool has_any(Flags other) const { return (bits_ & other.bits_) != 0; }
    [[nodiscard]] constexpr Bits bits() const { return bits_; }
    [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }

    constexpr Flags& operator|=(Flags other) {
        bits_ = static_cast<Bits>(bits_ | other.bits_);
        return *this;
    }
    friend constexpr Flags operator|(Flags left, Flags right) { return left |= right; }
    friend constexpr bool operator==(Flags left, Flags right) = default;

private:
    Bits bits_ = 0;
};

}  // namespace compat::core
