// SPDX-License-Identifier: BSD-3-Clause
// Threads of ours in the process of somebody else.
#pragma once

namespace compat::core {

/// Detached, with a name of up to 15 bytes; the host's signal handlers never run on it.
/// 0, or an errno value.
int start_helper_thread(const char* name, void* (*body)(void*), void* argument) noexcept;

}  // namespace compat::core
