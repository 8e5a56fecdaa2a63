// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/shm/export.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <new>

#include "core/base/log.hpp"
#include "core/base/origin.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/soft/wait_until.hpp"

namespace compat::core::soft::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constinit std::mutex g_lock;
constinit Export* g_export = nullptr;     // of g_process
constinit std::atomic<int> g_process{0};  // has been here; g_export may be null nevertheless

std::uint64_t random_number() {
    std::uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number =
            static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    return number;
}

/// A file beyond RLIMIT_FSIZE would not fail to grow, it would get the host a SIGXFSZ.
bool may_grow() {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= kBytes;
}

/// Many regions are for the program's own use only.
bool can_be_reached(const Region& region) {
    constexpr AccessFlags kReached = kRemoteAccess | Access::flush_visible;
    return region.length() != 0 && (region.access().bits() & kReached.bits()) != 0;
}

}  // namespace

Export* Export::of_process() noexcept {
    if (!options().shm) return nullptr;
    if (g_process.load(std::memory_order_acquire) == process_id()) return g_export;
    const std::lock_guard guard(g_lock);
    if (g_process.load(std::memory_order_relaxed) != process_id()) {
        g_export = create();
        g_process.store(process_id(), std::memory_order_release);
    }
    return g_export;
}

Export* Export::create() noexcept {
    UniqueFd file(memfd_create("fabric-compat", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    struct stat status {};
    if (!file || !may_grow() || ftruncate(file.get(), kBytes) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, kSeals) != 0 || fstat(file.get(), &status) != 0) {
        COMPAT_LOG_INFO("no shared memory for the peers of this host, errno %d", errno);
        return nullptr;
    }
    void* mapping =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    if (mapping == MAP_FAILED) {
        COMPAT_LOG_INFO("cannot map shared memory for the peers of this host, errno %d", errno);
        return nullptr;
    }
    (void)madvise(mapping, kBytes, MADV_DONTDUMP);
    Export* made =
        new (std::nothrow) Export(std::move(file), static_cast<std::byte*>(mapping), status.st_ino);
    if (made == nullptr) munmap(mapping, kBytes);
    return made;
}

Export::Export(UniqueFd file, std::byte* mapping, std::uint64_t inode) noexcept
    : file_(std::move(file)),
      mapping_(mapping),
      inode_(inode),
      nonce_(random_number()),
      files_({reinterpret_cast<SharedFile*>(mapping + kFilesAt), kFiles}) {
    *reinterpret_cast<Header*>(mapping_) = {kMagic, nonce_};
}

Slot& Export::slot(std::size_t index) noexcept {
    return reinterpret_cast<Slot*>(mapping_ + kSlotsAt)[index];
}
/// With lock_ held. Null: too many requested keys have come to one row.
Entry* Export::place_for(std::uint32_t rkey, bool requested, std::uint32_t pd) noexcept {
    if (!requested) return &reinterpret_cast<Entry*>(mapping_ + kTableAt)[key_index(rkey)];
    for (Entry& one : reinterpret_cast<Row*>(mapping_ + kRowsAt)[row_of(rkey, pd)])
        if (one.id.load(std::memory_order_relaxed) == 0) return &one;
    return nullptr;
}

Shown Export::publish(std::uint32_t rkey, bool requested, std::uint32_t pd,
                      const Region& region) noexcept {
    if (!can_be_reached(region)) return {};
    const Backing backing = files_.acquire(region.base(), region.length());
    const std::lock_guard guard(lock_);
    Entry* entry = place_for(rkey, requested, pd);
    if (entry == nullptr) {
        files_.release(backing.id);
        return {};
    }
    entry->iova = region.iova();
    entry->base = reinterpret_cast<std::uintptr_t>(region.base());
    entry->length = region.length();
    entry->file = backing.id;
    entry->file_offset = backing.offset;
    entry->id.store(id_of(rkey, pd, region.access().bits()), std::memory_order_release);
    return {entry, rkey, backing.id};
}

void Export::withdraw(const Shown& shown) noexcept {
    if (shown.entry == nullptr) return;
    shown.entry->id.store(0, std::memory_order_seq_cst);
    const std::uint32_t used = slots_used_.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < used; ++i)
        wait_until([&] {
            return slot(i).announced.load(std::memory_order_seq_cst) != (kAnnounced | shown.rkey);
        });
    files_.release(shown.file);
}

Loan Export::lend() noexcept {
    const std::lock_guard guard(lock_);
    std::uint32_t index = slots_used_.load(std::memory_order_relaxed);
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else {
        if (index == kSlots) return {};
        try {
            free_.reserve(index + 1);  // taking it back needs no memory
        } catch (const std::bad_alloc&) {
            return {};
        }
        slots_used_.store(index + 1, std::memory_order_release);
    }
    return {&slot(index), index, next_epoch_++ | 1U << 31};
}

void Export::take_back(const Loan& loan) noexcept {
    loan.slot->announced.store(0, std::memory_order_release);  // it may have died within a copy
    const std::lock_guard guard(lock_);
    free_.push_back(loan.index);
}

wire::Presence Export::presence() const noexcept {
    wire::Presence presence;
    presence.process = static_cast<std::uint32_t>(process_id());
    presence.descriptor = static_cast<std::uint32_t>(file_.get());
    presence.inode = inode_;
    presence.nonce = nonce_;
    presence.nonce_address = reinterpret_cast<std::uintptr_t>(&nonce_);
    return presence;
}

}  // namespace compat::core::soft::shm
