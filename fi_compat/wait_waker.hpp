// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/core.hpp"
#include "fi_compat/wait.hpp"

namespace compat::fi {

/// Wakes who sleeps on a wait object when an engine object changes.
class WaitWaker final : public core::Waker {
public:
    explicit WaitWaker(WaitObject& wait) noexcept : wait_(wait) {}
    void wake() noexcept override { wait_.signal(); }

private:
    WaitObject& wait_;
};

}  // namespace compat::fi
