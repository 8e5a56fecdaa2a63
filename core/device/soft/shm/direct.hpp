// SPDX-License-Identifier: BSD-3-Clause
// The initiator's way into the memory of a peer on the same host: it looks the key up in the peer's
// export and lets the kernel copy between the two address spaces. The peer need not run.
//
// Only what succeeds goes this way. Whatever is in the way, a key that is not valid as much as a
// kernel that forbids it, the caller sends the request by the stream, which knows the right error.
#pragma once

#include <memory>

#include "core/device/soft/memory.hpp"
#include "core/device/soft/reactor.hpp"
#include "core/device/soft/send_queue.hpp"
#include "core/device/soft/shm/layout.hpp"
#include "core/device/soft/wire/ddp.hpp"

namespace compat::core::soft::shm {

/// The export of another process, mapped; one for all connections to it.
class Peer;

class Direct {
public:
    /// Null where the peer's memory cannot be reached: another user, another PID namespace, a
    /// kernel or a sandbox that does not allow it.
    static std::unique_ptr<Direct> attach(const wire::Presence& presence) noexcept;

    /// Carries a request out, whole. False: it was not (but some of its bytes may have moved).
    /// socket: of the connection; it tells when the peer's process has ended.
    bool carry(const SendEntry& entry, const KeyTable& keys, int socket) noexcept;

private:
    Direct(std::shared_ptr<Peer> peer, const wire::Presence& presence) noexcept;
    bool peer_lives(int socket) noexcept;
    bool copy(const SendEntry& entry, const KeyTable& keys, int socket) noexcept;
    bool flush(const WorkRequest& request, int socket) noexcept;
    [[nodiscard]] std::uint64_t find(const WorkRequest& request, std::uint64_t length,
                                     Access right) const noexcept;

    std::shared_ptr<Peer> peer_;
    Slot& slot_;
    const std::uint32_t epoch_;
    const std::uint32_t pd_;
    const AccessFlags access_;
    Clock::time_point seen_alive_{};
};

/// How many requests have gone this way in this process.
std::uint64_t direct_count() noexcept;

}  // namespace compat::core::soft::shm
