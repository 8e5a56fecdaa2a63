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

#include "core/base/log.hpp"
#include "core/base/origin.hpp"
#include "core/device/soft/mappings.hpp"

namespace compat::core::soft {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

// A sandbox does not change its mind: asked once.
constinit std::atomic<bool> g_forbidden{false};

using VmCopy = decltype(&process_vm_readv);

enum class Copied : std::uint8_t { all, fault, forbidden };

Copied copy_by_kernel(VmCopy copy, iovec ours, const iovec* theirs, unsigned long count) noexcept {
    if (g_forbidden.load(std::memory_order_relaxed)) return Copied::forbidden;
    const ssize_t copied = copy(process_id(), &ours, 1, theirs, count, 0);
    if (copied == static_cast<ssize_t>(ours.iov_len)) return Copied::all;
    if (copied >= 0 || errno == EFAULT) return Copied::fault;
    if (errno == ENOMEM) return Copied::forbidden;  // this time
    g_forbidden.store(true, std::memory_order_relaxed);
    COMPAT_LOG_NOTICE("process_vm_writev is forbidden here, errno %d: unmapped memory is fatal",
                      errno);
    return Copied::forbidden;
}

void store_plainly(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    if (length < kWord) return static_cast<void>(std::memcpy(to, from, length));
    const std::size_t front = length - kWord;
    std::memcpy(to, from, front);
    std::uint64_t word = 0;
    std::memcpy(&word, from + front, kWord);
    if (reinterpret_cast<std::uintptr_t>(to + front) % kWord == 0) {
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + front), word, __ATOMIC_RELEASE);
        return;
    }
    std::memcpy(to + front, &word, kWord - 1);
    __atomic_store_n(to + length - 1, from[length - 1], __ATOMIC_RELEASE);
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

bool store_to_user(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    if (length == 0) return true;
    const std::size_t front = length > kWord ? length - kWord : 0;
    // The kernel goes through them in order, and a piece of one word is stored as one.
    const std::array<iovec, 2> pieces{iovec{to, front}, iovec{to + front, length - front}};
    const iovec ours{const_cast<std::byte*>(from), length};
    const bool whole = front == 0;
    const Copied copied = copy_by_kernel(reinterpret_cast<VmCopy>(&process_vm_writev), ours,
                                         whole ? &pieces[1] : pieces.data(), whole ? 1 : 2);
    if (copied == Copied::forbidden) store_plainly(to, from, length);
    return copied != Copied::fault;
}

bool load_from_user(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    if (length == 0) return true;
    const iovec theirs{const_cast<std::byte*>(from), length};
    const Copied copied = copy_by_kernel(&process_vm_readv, {to, length}, &theirs, 1);
    if (copied == Copied::forbidden) std::memcpy(to, from, length);
    return copied != Copied::fault;
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
