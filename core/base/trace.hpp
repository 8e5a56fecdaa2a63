// SPDX-License-Identifier: BSD-3-Clause
// On request (FABRIC_COMPAT_TRACE): what becomes of each operation, in a file that Chrome
// (chrome://tracing) and Perfetto (ui.perfetto.dev) show. An operation is an asynchronous event: it
// begins with its post, has an instant "acknowledge" when the device was done with it, and ends
// when its completion is the program's. Without the request there is no object of this kind, and
// whoever would use it finds a null pointer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/lock.hpp"
#include "core/base/origin.hpp"
#include "core/base/socket_address.hpp"

namespace compat::core {

/// An operation as the program posted it.
struct TracedPost {
    const char* operation = "";
    std::uint64_t bytes = 0;
    std::uint64_t local_address = 0;  ///< of the first buffer
    std::uint32_t lkey = 0;
    bool has_remote = false;
    std::uint64_t remote_address = 0;  ///< of the first range
    std::uint32_t rkey = 0;
    const char* flags = "";
    const void* context = nullptr;
    const char* peer = nullptr;  ///< null: the queue's
};

/// The operations of one queue. Callers number them, each number once, from 1 on.
class Trace {
public:
    static bool wanted() noexcept;
    /// Null unless it is wanted (or without memory).
    static std::unique_ptr<Trace> create() noexcept;
    /// Nanoseconds, on the clock of the file.
    static std::uint64_t now() noexcept;

    void set_peer(const SocketAddress& peer) noexcept;
    /// kind: the same for all events of an operation.
    void post(std::uint64_t number, std::uint64_t at, const char* kind,
              const TracedPost& post) noexcept;
    void acknowledge(std::uint64_t number, std::uint64_t at) noexcept;
    void end(std::uint64_t number, const char* kind, const char* status,
             std::uint64_t bytes) noexcept;

    /// How an operation ends whose queue is closed before its completion.
    static constexpr const char* kDropped = "dropped: closed before it completed";

private:
    explicit Trace(std::uint64_t queue) noexcept : queue_(queue) {}
    [[nodiscard]] std::uint64_t id(std::uint64_t number) const noexcept {
        return queue_ << 40 | number;
    }

    const Origin origin_;  ///< a child writes nothing of what it inherited
    const std::uint64_t queue_;
    AddressText peer_{};
};

}  // namespace compat::core
