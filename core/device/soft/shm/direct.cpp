// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/shm/direct.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "core/base/log.hpp"
#include "core/base/origin.hpp"
#include "core/base/unique_fd.hpp"

namespace compat::core::soft::shm {
namespace {

using namespace std::chrono_literals;

// Longer ones go by the stream: a post must not take long.
constexpr std::uint64_t kMostBytes = 16 * 1024 * 1024;
// For so long deregistration may have to wait.
constexpr std::uint64_t kBytesAtOnce = 1024 * 1024;
constexpr std::size_t kMaxSge = 32;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
// The number of a process that has ended is not given to another one sooner.
constexpr auto kTrustPeer = 10ms;

constinit std::atomic<std::uint64_t> g_count{0};

struct WayRow {
    Opcode opcode;
    Access right;
    bool local_write;
};
constexpr std::array kWays{
    WayRow{Opcode::write, Access::remote_write, false},
    WayRow{Opcode::read, Access::remote_read, true},
};

const WayRow* way_of(Opcode opcode) {
    for (const WayRow& row : kWays)
        if (row.opcode == opcode) return &row;
    return nullptr;
}

/// The peer's slot says what we are about to touch, while this lives.
class Announcement {
public:
    Announcement(Slot& slot, std::uint32_t key) noexcept : slot_(slot) {
        slot_.announced.store(kAnnounced | key, std::memory_order_seq_cst);
    }
    ~Announcement() { slot_.announced.store(0, std::memory_order_release); }
    Announcement(const Announcement&) = delete;

private:
    Slot& slot_;
};

/// A part of the local memory of a request, kept registered.
class LocalMemory {
public:
    bool pin(const SendEntry& entry, const KeyTable& keys, bool writes) noexcept {
        for (const Sge& sge : entry.request.sges) {
            if (sge.length == 0) continue;
            if (count_ == kMaxSge || keys.pin_local(sge, writes, pins_[count_]) != Fault::none)
                return false;
            pieces_[count_] = {pins_[count_].address(), sge.length};
            ++count_;
        }
        return true;
    }

    /// [offset, offset + length) as pieces for the kernel.
    std::size_t slice(std::uint64_t offset, std::uint64_t length,
                      std::array<iovec, kMaxSge>& out) const noexcept {
        std::size_t count = 0;
        for (std::size_t i = 0; i < count_ && length != 0; ++i) {
            const iovec& piece = pieces_[i];
            if (offset >= piece.iov_len) {
                offset -= piece.iov_len;
                continue;
            }
            const std::uint64_t part = std::min<std::uint64_t>(piece.iov_len - offset, length);
            out[count++] = {static_cast<std::byte*>(piece.iov_base) + offset, part};
            length -= part;
            offset = 0;
        }
        return count;
    }

private:
    std::array<Pin, kMaxSge> pins_;
    std::array<iovec, kMaxSge> pieces_;
    std::size_t count_ = 0;
};

}  // namespace

class Peer {
public:
    static std::shared_ptr<Peer> attach(const wire::Presence& presence) noexcept;

    Peer(pid_t process, std::byte* mapping) noexcept : process_(process), mapping_(mapping) {}
    ~Peer() {
        if (!origin_.is_parent()) munmap(mapping_, kBytes);
    }
    Peer(const Peer&) = delete;

    [[nodiscard]] pid_t process() const noexcept { return process_; }
    [[nodiscard]] Slot& slot(std::uint32_t index) const noexcept {
        return reinterpret_cast<Slot*>(mapping_ + kSlotsAt)[index];
    }
    [[nodiscard]] const Entry& entry(std::uint32_t rkey) const noexcept {
        return reinterpret_cast<const Entry*>(mapping_ + kTableAt)[key_index(rkey)];
    }

private:
    static std::shared_ptr<Peer> open(const wire::Presence& presence);

    const pid_t process_;
    std::byte* const mapping_;
    const Origin origin_;
};

namespace {

struct Peers {
    std::mutex lock;
    std::map<std::uint64_t, std::weak_ptr<Peer>> by_nonce;
};
Peers& peers() {
    static Peers& the_peers = *new Peers;  // never destroyed
    return the_peers;
}

/// Whether what the presence says is so, as far as the kernel lets us look.
bool reads_nonce(const wire::Presence& presence) {
    std::uint64_t nonce = 0;
    const iovec ours{&nonce, sizeof nonce};
    const iovec theirs{reinterpret_cast<void*>(presence.nonce_address), sizeof nonce};
    return process_vm_readv(static_cast<pid_t>(presence.process), &ours, 1, &theirs, 1, 0) ==
               sizeof nonce &&
           nonce == presence.nonce;
}

}  // namespace

std::shared_ptr<Peer> Peer::attach(const wire::Presence& presence) noexcept try {
    const std::lock_guard guard(peers().lock);
    std::erase_if(peers().by_nonce, [](const auto& one) { return one.second.expired(); });
    auto& known = peers().by_nonce[presence.nonce];
    auto peer = known.lock();
    if (!peer) known = peer = open(presence);
    return peer;
} catch (const std::bad_alloc&) {
    return nullptr;
}

std::shared_ptr<Peer> Peer::open(const wire::Presence& presence) {
    if (!reads_nonce(presence)) {
        COMPAT_LOG_INFO("process %u cannot be reached, errno %d", presence.process, errno);
        return nullptr;
    }
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%u/fd/%u", presence.process, presence.descriptor);
    struct stat status {};
    // Nothing else is opened, which might do something.
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_ino != presence.inode ||
        status.st_size != kBytes)
        return nullptr;
    const UniqueFd file(::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    // Nobody can take the pages away from under us.
    if (!file || (fcntl(file.get(), F_GET_SEALS) & F_SEAL_SHRINK) == 0) return nullptr;
    void* mapping =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    if (mapping == MAP_FAILED) return nullptr;
    (void)madvise(mapping, kBytes, MADV_DONTDUMP);
    auto peer = std::make_shared<Peer>(static_cast<pid_t>(presence.process),
                                       static_cast<std::byte*>(mapping));
    const auto& header = *static_cast<const Header*>(mapping);
    return header.magic == kMagic && header.nonce == presence.nonce ? peer : nullptr;
}

std::unique_ptr<Direct> Direct::attach(const wire::Presence& presence) noexcept {
    if (presence.slot >= kSlots) return nullptr;
    auto peer = Peer::attach(presence);
    if (!peer) return nullptr;
    return std::unique_ptr<Direct>(new (std::nothrow) Direct(std::move(peer), presence));
}

Direct::Direct(std::shared_ptr<Peer> peer, const wire::Presence& presence) noexcept
    : peer_(std::move(peer)),
      slot_(peer_->slot(presence.slot)),
      epoch_(presence.epoch),
      pd_(presence.pd),
      access_(static_cast<std::uint8_t>(presence.access)) {}

/// Numbers of processes are used again. A connection whose peer has ended hangs up at once, so we
/// ask it unless we have done so very recently.
bool Direct::peer_lives(int socket) noexcept {
    const auto now = Clock::now();
    if (now - seen_alive_ < kTrustPeer) return true;
    pollfd hung_up{.fd = socket, .events = POLLRDHUP, .revents = 0};
    if (::poll(&hung_up, 1, 0) != 0) return false;
    seen_alive_ = now;
    return true;
}

/// The address in the peer; 0: not allowed. With the key announced.
std::uint64_t Direct::find(const WorkRequest& request, std::uint64_t length,
                           Access right) const noexcept {
    if (slot_.open.load(std::memory_order_seq_cst) != epoch_) return 0;
    const Entry& entry = peer_->entry(request.rkey);
    const std::uint64_t id = entry.id.load(std::memory_order_seq_cst);
    const AccessFlags access(static_cast<std::uint8_t>(id));
    if ((id & kIdWithoutAccess) != id_of(request.rkey, pd_, 0) || !access.has(right)) return 0;
    const std::uint64_t offset = request.remote_address - entry.iova;
    if (request.remote_address < entry.iova || offset > entry.length ||
        length > entry.length - offset)
        return 0;
    return entry.base + offset;
}

bool Direct::carry(const SendEntry& entry, const KeyTable& keys, int socket) noexcept {
    const bool carried = entry.request.opcode == Opcode::flush ? flush(entry.request, socket)
                                                               : copy(entry, keys, socket);
    if (carried) g_count.fetch_add(1, std::memory_order_relaxed);
    return carried;
}

/// What has been written is visible already; making it durable is the target's.
bool Direct::flush(const WorkRequest& request, int socket) noexcept {
    if (request.flush_type != FlushType::visibility || request.flush_length == 0 ||
        !peer_lives(socket))
        return false;
    const Announcement announcement(slot_, request.rkey);
    return find(request, request.flush_length, Access::flush_visible) != 0;
}

bool Direct::copy(const SendEntry& entry, const KeyTable& keys, int socket) noexcept {
    const WayRow* way = way_of(entry.request.opcode);
    if (way == nullptr || entry.length == 0 || entry.length > kMostBytes ||
        !access_.has(way->right) || !peer_lives(socket))
        return false;
    LocalMemory local;
    if (!local.pin(entry, keys, way->local_write)) return false;
    for (std::uint64_t done = 0; done < entry.length;) {
        const std::uint64_t part = std::min(entry.length - done, kBytesAtOnce);
        std::array<iovec, kMaxSge> ours;
        const std::size_t count = local.slice(done, part, ours);
        const Announcement announcement(slot_, entry.request.rkey);
        const std::uint64_t start = find(entry.request, entry.length, way->right);
        if (start == 0) return false;
        auto* first = reinterpret_cast<std::byte*>(start + done);
        ssize_t moved = 0;
        if (way->local_write) {
            const iovec theirs{first, part};
            moved = process_vm_readv(peer_->process(), ours.data(), count, &theirs, 1, 0);
        } else {
            // The kernel goes through them in order: the last word arrives last.
            const std::uint64_t front = part > kWord ? part - kWord : 0;
            const std::array<iovec, 2> theirs{iovec{first, front},
                                              iovec{first + front, part - front}};
            const bool whole = front == 0;
            moved = process_vm_writev(peer_->process(), ours.data(), count,
                                      whole ? &theirs[1] : theirs.data(), whole ? 1 : 2, 0);
        }
        if (moved != static_cast<ssize_t>(part)) return false;
        done += part;
    }
    return true;
}

std::uint64_t direct_count() noexcept {
    return g_count.load(std::memory_order_relaxed);
}

}  // namespace compat::core::soft::shm
