// SPDX-License-Identifier: BSD-3-Clause
// One thread a process that drives connectionless endpoints while their programs do not. It sleeps
// on their channels, and never spins: for endpoints whose program polls it only looks now and then
// whether it still does.
#pragma once

#include "core/base/result.hpp"

namespace compat::core::rdm {

class Endpoint;

/// Errors: no_memory, device. Starts the thread if it does not run.
Status watch_endpoint(Endpoint& endpoint) noexcept;
/// The thread is not, and will not be, in the endpoint.
void unwatch_endpoint(Endpoint& endpoint) noexcept;
/// An endpoint that was handed over has more to do.
void kick_progress() noexcept;

}  // namespace compat::core::rdm
