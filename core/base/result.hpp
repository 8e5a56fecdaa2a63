// SPDX-License-Identifier: BSD-3-Clause
// The result type of the core. This header, and only it, names tl::expected.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>
#include <utility>

namespace compat::core {

enum class Errc : std::uint8_t {
    invalid_argument,  ///< a parameter is outside what the call documents
    no_memory,         ///< memory or another countable resource is used up
    not_supported,     ///< the device does not have this operation
    would_block,       ///< queue full, or nothing there yet: make progress and repeat
    wrong_state,       ///< the object is not (or no longer) in a state that allows the call
    no_device,         ///< no device owns that address or name
    address_in_use,    ///< another listener owns the address and port
    unreachable,       ///< the address cannot be reached or resolved
    too_long,          ///< message, private data or inline data beyond the limit
    no_key,            ///< unknown memory key, or a requested key that is already taken
    access_denied,     ///< the memory cannot be registered with these rights
    busy,              ///< the object is still in use by another one
    interrupted,       ///< a signal ended a blocking call
    device,            ///< the device failed; device_errno has what it said
    count_
};

struct Error {
    Errc code;
    int device_errno = 0;  ///< errno as the device gave it; 0 when none
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
    using Base = tl::expected<T, Error>;

public:
    using Base::Base;
    Result(Base base) : Base(std::move(base)) {}  // and_then() and map() hand back the base
};

/// Without a value: one word, which comes back in a register and is zero for success.
template <>
class [[nodiscard]] Result<void> {
public:
    constexpr Result() noexcept = default;
    constexpr Result(const tl::unexpected<Error>& failed) noexcept : Result(failed.value()) {}

    [[nodiscard]] constexpr bool has_value() const noexcept { return word_ == 0; }
    constexpr explicit operator bool() const noexcept { return has_value(); }
    /// Only of a failure.
    [[nodiscard]] constexpr Error error() const noexcept {
        return {static_cast<Errc>((word_ & kCodeMask) - 1),
                static_cast<int>(static_cast<std::uint32_t>(word_ >> kErrnoAt))};
    }

private:
    static constexpr unsigned kErrnoAt = 32;
    static constexpr std::uint64_t kCodeMask = 0xffff;

    constexpr explicit Result(const Error& error) noexcept
        : word_((static_cast<std::uint64_t>(error.code) + 1) |
                static_cast<std::uint64_t>(static_cast<std::uint32_t>(error.device_errno))
                    << kErrnoAt) {}

    std::uint64_t word_ = 0;
};
using Status = Result<void>;

inline auto failure(Errc code, int device_errno = 0) {
    return tl::unexpected<Error>({code, device_errno});
}
inline auto failure(const Error& error) {
    return tl::unexpected<Error>(error);
}

}  // namespace compat::core
