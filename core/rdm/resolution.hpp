// SPDX-License-Identifier: BSD-3-Clause
// The way to a peer. The kernel's connection manager may take seconds to find it (neighbour
// discovery, the subnet's manager); a post must not, so that is done on a thread of its own.
#pragma once

#include <atomic>
#include <memory>

#include "core/device/device.hpp"

namespace compat::core::rdm {

class Resolution {
public:
    /// Starts to resolve; the identifier has no channel yet.
    /// Errors: would_block (many are under way), no_memory.
    static Result<std::shared_ptr<Resolution>> start(std::unique_ptr<CmId> id,
                                                     const SocketAddress& source,
                                                     const SocketAddress& peer,
                                                     int timeout_ms) noexcept;

    [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
    /// When it is done: the identifier, resolved, or as CmId::resolve().
    Result<std::unique_ptr<CmId>> take() noexcept;

private:
    Resolution(std::unique_ptr<CmId> id, const SocketAddress& source, const SocketAddress& peer,
               int timeout_ms) noexcept
        : id_(std::move(id)), source_(source), peer_(peer), timeout_ms_(timeout_ms) {}
    static void* thread_main(void* self) noexcept;

    std::unique_ptr<CmId> id_;
    const SocketAddress source_;  ///< empty: any
    const SocketAddress peer_;
    const int timeout_ms_;
    Status status_;
    std::shared_ptr<Resolution> running_;  ///< the thread's share
    std::atomic<bool> done_{false};
};

}  // namespace compat::core::rdm
