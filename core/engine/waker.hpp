// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace compat::core {

/// Whom an engine object tells that it changed without the device raising an event. Any thread may
/// call it, with engine locks held: it makes a descriptor readable and returns.
class Waker {
public:
    virtual ~Waker() = default;
    virtual void wake() noexcept = 0;
};

}  // namespace compat::core
