// SPDX-License-Identifier: BSD-3-Clause
// The initiator's way into the memory of a peer on the same host: it looks the key up in the peer's
// export and moves the bytes by itself: by loads and stores where it can map the file that is
// behind the peer's memory, else the kernel copies between the two address spaces. The peer need
// not run.
//
// Only what succeeds goes this way. Whatever is in the way, a key that is not valid as much as a
// kernel that forbids it, the caller sends the request by the stream, which knows the right error.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>

#include "core/base/ticks.hpp"
#include "core/device/soft/memory.hpp"
#include "core/device/soft/send_queue.hpp"
#include "core/device/soft/shm/layout.hpp"
#include "core/device/soft/shm/window.hpp"
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
    /// socket: of the connection; it tells when the peer's process has ended. in_post: the
    /// program's thread is inside the post that names the local memory, so that plain copies do.
    bool carry(const SendEntry& entry, const KeyTable& keys, int socket, bool in_post) noexcept;
    /// The same for a write or read of 1 to kMostPlain bytes, in its post.
    bool carry(Opcode opcode, const PlainRequest& request, const KeyTable& keys,
               int socket) noexcept;
    static constexpr std::uint64_t kMostPlain = std::uint64_t{1024} * 1024;

private:
    Direct(std::shared_ptr<Peer> peer, const wire::Presence& presence) noexcept;
    bool peer_lives(int socket) noexcept {
        const std::uint64_t now = ticks();
        return now - seen_alive_ < trust_peer_ || ask_peer(socket, now);
    }
    bool copy(const SendEntry& entry, const KeyTable& keys, int socket, bool in_post) noexcept;
    bool flush(const WorkRequest& request, int socket) noexcept;
    bool execute(const SendEntry& entry, const KeyTable& keys) noexcept;
    [[nodiscard]] const Entry* find(std::uint32_t rkey, std::uint64_t address, std::uint64_t length,
                                    Access right) const noexcept;
    std::byte* map(const Entry& entry, std::uint64_t offset, std::uint64_t length,
                   bool write) noexcept;
    void open_window(std::uint64_t file) noexcept;
    enum class Moved : std::uint8_t { nothing, mapped, by_kernel };
    Moved move(const Entry& entry, std::uint64_t offset, std::uint64_t length,
               std::span<const iovec> ours, bool reads, bool plain, int socket) noexcept;
    bool ask_peer(int socket, std::uint64_t now) noexcept;

    std::shared_ptr<Peer> peer_;
    Slot& slot_;
    const std::uint32_t epoch_;
    const std::uint32_t pd_;
    const AccessFlags access_;
    const bool maps_files_;
    const std::uint64_t trust_peer_;  ///< ticks
    std::uint64_t seen_alive_;        ///< ticks()
    KnownRegion local_;
    std::uint64_t window_file_ = 0;  ///< SharedFile::id of window_, which may be null
    std::shared_ptr<Window> window_;
};

/// How many requests have gone this way in this process, and how many of them by loads and stores;
/// roughly where several threads post.
struct Counts {
    std::uint64_t direct = 0;
    std::uint64_t mapped = 0;
};
Counts counts() noexcept;

}  // namespace compat::core::soft::shm
