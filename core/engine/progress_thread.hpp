// SPDX-License-Identifier: BSD-3-Clause
// One thread a process that makes progress where programs do not. It sleeps on channels, and never
// spins: it looks at what a program drives itself only now and then, whether it still does.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/result.hpp"

namespace compat::core {

/// What the thread does with something that it has driven.
enum class DriveNext : std::uint8_t {
    sleep,       ///< until a channel becomes readable
    again,       ///< there is more to do
    look_soon,   ///< calls look() in 1 ms,
    look_later,  ///< or in 10 ms
    leave        ///< until watch_progress() is called again
};

class Driven {
public:
    virtual ~Driven() = default;
    /// Descriptors; -1: none.
    [[nodiscard]] virtual std::array<int, 2> channels() const noexcept = 0;
    /// A channel has become readable.
    virtual DriveNext drive() noexcept = 0;
    /// The time has come that drive() or look() named; or it is watched since now.
    virtual DriveNext look() noexcept = 0;
};

/// Errors: no_memory, device. Starts the thread if it does not run. Any lock may be held that
/// Driven's functions take.
Status watch_progress(Driven& driven) noexcept;
/// The thread is not, and will not be, in it. No such lock may be held.
void unwatch_progress(Driven& driven) noexcept;
/// Something that is watched has more to do: all of it is driven.
void kick_progress() noexcept;

}  // namespace compat::core
