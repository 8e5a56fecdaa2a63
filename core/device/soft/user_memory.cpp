// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/user_memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "core/base/log.hpp"
#include "core/base/origin.hpp"
#include "core/device/soft/mappings.hpp"

namespace compat::core::soft {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

// A sandbox does not change its mind: asked once.
constinit std::atomic<bool> g_forbidden{false};

using VmCopy = decltype(&process_vm_readv);

/// The bytes that could be copied; empty when the kernel does not do it for us.
std::optional<std::size_t> copy_by_kernel(VmCopy copy, std::span<const iovec> ours,
                                          std::span<const iovec> theirs) noexcept {
    if (g_forbidden.load(std::memory_order_relaxed)) return std::nullopt;
    const ssize_t copied =
        copy(process_id(), ours.data(), ours.size(), theirs.data(), theirs.size(), 0);
    if (copied >= 0) return static_cast<std::size_t>(copied);
    if (errno == EFAULT) return std::size_t{0};
    if (errno == ENOMEM) return std::nullopt;  // this time
    g_forbidden.store(true, std::memory_order_relaxed);
    COMPAT_LOG_NOTICE("process_vm_writev is forbidden here, errno %d: unmapped memory is fatal",
                      errno);
    return std::nullopt;
}

bool is_mapped(const Pages& pages) noexcept {
    constexpr std::size_t kChunk = 4096;
    unsigned char residency[kChunk];
    for (std::size_t done = 0; done < pages.count; done += kChunk) {
        const std::size_t count = std::min(kChunk, pages.count - done);
        void* address = reinterpret_cast<void*>(pages.first + done * page_size());
        if (mincore(address, count * page_size(), residency) != 0 && errno != EAGAIN) return false;
    }
    return true;
}

bool page_allows(std::uintptr_t page, bool write) noexcept {
    void* address = reinterpret_cast<void*>(page);
    if (madvise(address, page_size(), write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return true;
    if (errno == EFAULT || errno == ENOMEM) return false;
    // EINVAL: no right to it, or a kernel before 5.14
    return mappings_allow(address, 1, write);
}

}  // namespace

void store_plainly(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    if (length == 0) return;
    const std::size_t front = length > kWord ? length - kWord : 0;
    if (front != 0) std::memcpy(to, from, front);
    to += front;
    from += front;
    length -= front;
    if (length == kWord && reinterpret_cast<std::uintptr_t>(to) % kWord == 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, from, kWord);
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(to), word, __ATOMIC_RELEASE);
        return;
    }
    std::memcpy(to, from, length - 1);
    __atomic_store_n(reinterpret_cast<unsigned char*>(to + length - 1),
                     std::to_integer<unsigned char>(from[length - 1]), __ATOMIC_RELEASE);
}

bool store_to_user(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    if (length == 0) return true;
    const Store store{to, from, length};
    return store_all_to_user({&store, 1}) == 1;
}

std::size_t store_all_to_user(std::span<const Store> stores) noexcept {
    std::array<iovec, kMaxStores> ours;
    std::array<iovec, 2 * kMaxStores> theirs;
    std::size_t pieces = 0;
    for (std::size_t i = 0; i < stores.size(); ++i) {
        const Store& store = stores[i];
        ours[i] = {const_cast<std::byte*>(store.from), store.length};
        // The kernel goes through them in order, and a piece of one word is stored as one.
        const std::size_t front = store.length > kWord ? store.length - kWord : 0;
        if (front != 0) theirs[pieces++] = {store.to, front};
        theirs[pieces++] = {store.to + front, store.length - front};
    }
    const auto copied = copy_by_kernel(reinterpret_cast<VmCopy>(&process_vm_writev),
                                       {ours.data(), stores.size()}, {theirs.data(), pieces});
    if (!copied) {
        for (const Store& store : stores) store_plainly(store.to, store.from, store.length);
        return stores.size();
    }
    std::size_t left = *copied;
    std::size_t made = 0;
    while (made < stores.size() && left >= stores[made].length) left -= stores[made++].length;
    return made;
}

bool load_from_user(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    if (length == 0) return true;
    const iovec ours{to, length};
    const iovec theirs{const_cast<std::byte*>(from), length};
    const auto copied = copy_by_kernel(&process_vm_readv, {&ours, 1}, {&theirs, 1});
    if (!copied) std::memcpy(to, from, length);
    return !copied || *copied == length;
}

bool user_memory_allows(const void* address, std::size_t length, bool write) noexcept {
    if (length == 0) return true;
    const Pages pages = pages_of(address, length);
    const std::uintptr_t last = pages.first + (pages.count - 1) * page_size();
    return page_allows(pages.first, write) && (pages.count == 1 || page_allows(last, write)) &&
           (pages.count <= 2 || is_mapped(pages));
}

std::size_t page_size() noexcept {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

Pages pages_of(const void* address, std::size_t length) noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t first = start / page_size();
    const std::uintptr_t last = (start + length - 1) / page_size();
    return {first * page_size(), last - first + 1};
}

}  // namespace compat::core::soft
