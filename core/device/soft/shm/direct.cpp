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
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "core/base/log.hpp"
#include "core/base/origin.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/soft/user_memory.hpp"

namespace compat::core::soft::shm {
namespace {

using namespace std::chrono_literals;

// Longer ones go by the stream: a post must not take long.
constexpr std::uint64_t kMostBytes = 16 * 1024 * 1024;
// For so long deregistration may have to wait.
constexpr std::uint64_t kBytesAtOnce = Direct::kMostPlain;
constexpr std::size_t kMaxSge = 32;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
// The number of a process that has ended is not given to another one sooner.
constexpr auto kTrustPeer = 10ms;

constinit std::atomic<std::uint64_t> g_direct{0};
constinit std::atomic<std::uint64_t> g_mapped{0};

void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

struct WayRow {
    Opcode opcode;
    Access right;
    bool local_write;
};
constexpr std::array kWays{
    WayRow{Opcode::write, Access::remote_write, false},
    WayRow{Opcode::read, Access::remote_read, true},
};
constexpr std::array kExecuted{
    WayRow{Opcode::atomic_fadd, Access::remote_atomic, true},
    WayRow{Opcode::atomic_cas, Access::remote_atomic, true},
    WayRow{Opcode::atomic_write, Access::remote_write, false},
};

const WayRow* way_of(std::span<const WayRow> rows, Opcode opcode) {
    for (const WayRow& row : rows)
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

/// The local memory of a request, kept registered.
class LocalMemory {
public:
    bool pin_all(const SendEntry& entry, const KeyTable& keys, bool writes) noexcept {
        for (const Sge& sge : entry.request.sges) {
            if (sge.length == 0) continue;
            const std::size_t at = pins_.size();
            if (at == kMaxSge) return false;
            Pin& pin = pins_.add();
            if (keys.pin_local(sge, writes, pin) != Fault::none) return false;
            pieces_[at] = {pin.address(), sge.length};
        }
        return true;
    }

    /// [offset, offset + length) as pieces for the kernel.
    std::size_t slice(std::uint64_t offset, std::uint64_t length,
                      std::array<iovec, kMaxSge>& out) const noexcept {
        std::size_t count = 0;
        for (std::size_t i = 0; i < pins_.size() && length != 0; ++i) {
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
    Pins<kMaxSge> pins_;
    std::array<iovec, kMaxSge> pieces_;
};

/// By loads and stores; the last word is stored last.
void copy_plainly(std::span<const iovec> ours, std::byte* theirs, bool from_them) noexcept {
    for (const iovec& piece : ours) {
        auto* own = static_cast<std::byte*>(piece.iov_base);
        if (from_them)
            std::memcpy(own, theirs, piece.iov_len);
        else
            store_plainly(theirs, own, piece.iov_len);
        theirs += piece.iov_len;
    }
}

/// By the kernel, which says so where memory is missing on either side.
bool copy_by_kernel(pid_t process, std::span<const iovec> ours, std::byte* theirs,
                    std::uint64_t length, bool from_them) noexcept {
    if (from_them) {
        const iovec all{theirs, length};
        return process_vm_readv(process, ours.data(), ours.size(), &all, 1, 0) ==
               static_cast<ssize_t>(length);
    }
    // It goes through them in order: the last word arrives last.
    const std::uint64_t front = length > kWord ? length - kWord : 0;
    const std::array<iovec, 2> parts{iovec{theirs, front}, iovec{theirs + front, length - front}};
    const std::size_t first = front == 0 ? 1 : 0;
    return process_vm_writev(process, ours.data(), ours.size(), &parts[first], parts.size() - first,
                             0) == static_cast<ssize_t>(length);
}

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
    /// The region under that key, or null. To be used while the key is announced.
    [[nodiscard]] const Entry* find(std::uint32_t rkey, std::uint32_t pd) const noexcept;
    /// Null where the file cannot be mapped here.
    std::shared_ptr<Window> window(std::uint64_t file) noexcept;

private:
    static std::shared_ptr<Peer> open(const wire::Presence& presence);

    struct Opened {
        std::uint64_t file = 0;
        std::shared_ptr<Window> window;
    };

    const pid_t process_;
    std::byte* const mapping_;
    const Origin origin_;
    std::mutex lock_;
    std::map<std::size_t, Opened> windows_;  ///< by the file's place
};

inline const Entry* Peer::find(std::uint32_t rkey, std::uint32_t pd) const noexcept {
    const auto is_it = [id = id_of(rkey, pd, 0)](const Entry& entry) {
        return (entry.id.load(std::memory_order_seq_cst) & kIdWithoutAccess) == id;
    };
    const Entry& generated = reinterpret_cast<const Entry*>(mapping_ + kTableAt)[key_index(rkey)];
    if (is_it(generated)) return &generated;
    for (const Entry& entry : reinterpret_cast<const Row*>(mapping_ + kRowsAt)[row_of(rkey, pd)])
        if (is_it(entry)) return &entry;
    return nullptr;
}

std::shared_ptr<Window> Peer::window(std::uint64_t file) noexcept try {
    const std::size_t place = place_of_file(file);
    if (place >= kFiles) return nullptr;
    const std::lock_guard guard(lock_);
    Opened& opened = windows_[place];
    if (opened.file != file) {  // else it is mapped, or it has been tried
        const SharedFile shown = reinterpret_cast<const SharedFile*>(mapping_ + kFilesAt)[place];
        opened = {file, shown.id == file ? Window::open(process_, shown) : nullptr};
    }
    return opened.window;
} catch (const std::bad_alloc&) {
    return nullptr;
}

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
      access_(static_cast<std::uint8_t>(presence.access)),
      maps_files_(options().map_files),
      trust_peer_(ticks_within(kTrustPeer)),
      seen_alive_(ticks() - trust_peer_) {}

/// Numbers of processes are used again. A connection whose peer has ended hangs up at once, so we
/// ask it unless we have done so very recently.
bool Direct::ask_peer(int socket, std::uint64_t now) noexcept {
    pollfd hung_up{.fd = socket, .events = POLLRDHUP, .revents = 0};
    if (::poll(&hung_up, 1, 0) != 0) return false;
    seen_alive_ = now;
    return true;
}

/// What the request reaches; null: it is not allowed. With the key announced.
inline const Entry* Direct::find(std::uint32_t rkey, std::uint64_t address, std::uint64_t length,
                                 Access right) const noexcept {
    if (slot_.open.load(std::memory_order_seq_cst) != epoch_) return nullptr;
    const Entry* entry = peer_->find(rkey, pd_);
    if (entry == nullptr) return nullptr;
    const AccessFlags access(static_cast<std::uint8_t>(entry->id.load(std::memory_order_relaxed)));
    const std::uint64_t offset = address - entry->iova;
    if (!access.has(right) || !qp_allows(access_, access, right) || address < entry->iova ||
        offset > entry->length || length > entry->length - offset)
        return nullptr;
    return entry;
}

/// Bytes of the region where they are mapped here; null: they cannot be. With the key announced.
inline std::byte* Direct::map(const Entry& entry, std::uint64_t offset, std::uint64_t length,
                              bool write) noexcept {
    if (entry.file == 0 || !maps_files_) return nullptr;
    if (entry.file != window_file_) open_window(entry.file);
    if (!window_) return nullptr;
    return window_->reach(entry.file_offset + offset, length, entry.file_offset + entry.length,
                          write);
}

void Direct::open_window(std::uint64_t file) noexcept {
    window_ = peer_->window(file);
    window_file_ = file;
}

/// By plain copies, if these will do and the bytes are mapped here, else by the kernel's. With the
/// key announced.
inline Direct::Moved Direct::move(const Entry& entry, std::uint64_t offset, std::uint64_t length,
                                  std::span<const iovec> ours, bool reads, bool plain,
                                  int socket) noexcept {
    if (std::byte* mapped = plain ? map(entry, offset, length, !reads) : nullptr) {
        copy_plainly(ours, mapped, reads);
        return Moved::mapped;
    }
    const bool moved =
        peer_lives(socket) &&
        copy_by_kernel(peer_->process(), ours, reinterpret_cast<std::byte*>(entry.base + offset),
                       length, reads);
    return moved ? Moved::by_kernel : Moved::nothing;
}

bool Direct::carry(const SendEntry& entry, const KeyTable& keys, int socket,
                   bool in_post) noexcept {
    const Opcode opcode = entry.request.opcode;
    bool carried = false;
    if (opcode == Opcode::flush)
        carried = flush(entry.request, socket);
    else if (way_of(kWays, opcode) != nullptr)
        carried = copy(entry, keys, socket, in_post || entry.copied);
    else if (in_post || entry.copied)
        carried = execute(entry, keys);
    if (carried) count(g_direct);
    return carried;
}

/// What has been written is visible already; making it durable is the target's.
bool Direct::flush(const WorkRequest& request, int socket) noexcept {
    if (request.flush_type != FlushType::visibility || request.flush_length == 0 ||
        !peer_lives(socket))
        return false;
    const Announcement announcement(slot_, request.rkey);
    return find(request.rkey, request.remote_address, request.flush_length,
                Access::flush_visible) != nullptr;
}

bool Direct::carry(Opcode opcode, const PlainRequest& request, const KeyTable& keys,
                   int socket) noexcept {
    const bool reads = opcode == Opcode::read;
    const Sge& own = request.sge;
    Pin pin;
    if (local_.pin(keys, own, reads, pin) != Fault::none) return false;
    const Announcement announcement(slot_, request.rkey);
    const Entry* region = find(request.rkey, request.remote_address, own.length,
                               reads ? Access::remote_read : Access::remote_write);
    if (region == nullptr) return false;
    const iovec ours{own.address, own.length};
    const std::uint64_t offset = request.remote_address - region->iova;
    const Moved moved = move(*region, offset, own.length, {&ours, 1}, reads, true, socket);
    if (moved == Moved::nothing) return false;
    if (moved == Moved::mapped) count(g_mapped);
    count(g_direct);
    return true;
}

bool Direct::copy(const SendEntry& entry, const KeyTable& keys, int socket, bool plain) noexcept {
    const WorkRequest& request = entry.request;
    const WayRow& way = *way_of(kWays, request.opcode);
    if (entry.length == 0 || entry.length > kMostBytes) return false;
    LocalMemory local;
    if (!local.pin_all(entry, keys, way.local_write)) return false;
    for (std::uint64_t done = 0; done < entry.length;) {
        const std::uint64_t part = std::min(entry.length - done, kBytesAtOnce);
        std::array<iovec, kMaxSge> pieces;
        const std::span<const iovec> ours(pieces.data(), local.slice(done, part, pieces));
        const Announcement announcement(slot_, request.rkey);
        const Entry* region = find(request.rkey, request.remote_address, entry.length, way.right);
        if (region == nullptr) return false;
        const std::uint64_t offset = request.remote_address - region->iova + done;
        const Moved moved = move(*region, offset, part, ours, way.local_write, plain, socket);
        if (moved == Moved::nothing) return false;
        if (moved == Moved::mapped && done == 0) count(g_mapped);
        done += part;
    }
    return true;
}

/// By the instructions that the target's program and device use as well, on the same memory.
bool Direct::execute(const SendEntry& entry, const KeyTable& keys) noexcept {
    const WorkRequest& request = entry.request;
    const WayRow* way = way_of(kExecuted, request.opcode);
    if (way == nullptr || entry.length != kWord || request.sges.size() != 1) return false;
    LocalMemory local;
    if (!local.pin_all(entry, keys, way->local_write)) return false;
    const Announcement announcement(slot_, request.rkey);
    const Entry* region = find(request.rkey, request.remote_address, kWord, way->right);
    if (region == nullptr) return false;
    const std::uint64_t offset = request.remote_address - region->iova;
    if ((region->base + offset) % kWord != 0) return false;
    auto* target = reinterpret_cast<std::uint64_t*>(map(*region, offset, kWord, true));
    if (target == nullptr) return false;
    count(g_mapped);
    void* own = request.sges.front().address;
    std::uint64_t value = request.compare;
    switch (request.opcode) {
        case Opcode::atomic_write:
            std::memcpy(&value, own, kWord);
            __atomic_store_n(target, value, __ATOMIC_RELEASE);
            return true;
        case Opcode::atomic_fadd:
            value = __atomic_fetch_add(target, request.operand, __ATOMIC_ACQ_REL);
            break;
        default:
            __atomic_compare_exchange_n(target, &value, request.operand, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE);
    }
    std::memcpy(own, &value, kWord);
    return true;
}

Counts counts() noexcept {
    return {g_direct.load(std::memory_order_relaxed), g_mapped.load(std::memory_order_relaxed)};
}

}  // namespace compat::core::soft::shm
