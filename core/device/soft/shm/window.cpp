// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/shm/window.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/soft/shm/descriptors.hpp"

namespace compat::core::soft::shm {
namespace {

constexpr std::size_t kPagesAhead = 16;  // made ready with the one that is needed

bool is_same(const struct stat& status, const SharedFile& file) {
    return S_ISREG(status.st_mode) && status.st_dev == file.device && status.st_ino == file.inode;
}

/// Of proc(5): "lock:\t1: POSIX ..." for each record lock that this process has through the file.
bool has_record_lock(const char* descriptor) {
    char path[sizeof "/proc/self/fdinfo/" + NAME_MAX];
    std::snprintf(path, sizeof path, "/proc/self/fdinfo/%s", descriptor);
    std::FILE* info = std::fopen(path, "re");
    if (info == nullptr) return true;
    char line[256];
    bool found = false;
    while (!found && std::fgets(line, sizeof line, info) != nullptr)
        found = std::strncmp(line, "lock:", 5) == 0 && std::strstr(line, "POSIX") != nullptr;
    std::fclose(info);
    return found;
}

/// The program would lose its record locks (fcntl(2)) on a file that anybody here closes.
bool program_has_locked(const SharedFile& file) {
    const auto found = any_descriptor([&](int, const char* name, const struct stat& status) {
        return is_same(status, file) && has_record_lock(name);
    });
    return found.value_or(true);
}

}  // namespace

std::shared_ptr<Window> Window::open(pid_t process, const SharedFile& file) noexcept try {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%u", process, file.descriptor);
    struct stat status {};
    // Nothing else is opened, which might do something.
    if (stat(path, &status) != 0 || !is_same(status, file) || program_has_locked(file))
        return nullptr;
    constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    UniqueFd opened(::open(path, O_RDWR | kFlags));
    const bool writable = static_cast<bool>(opened);
    if (!writable) opened.reset(::open(path, O_RDONLY | kFlags));
    struct statfs fs {};
    if (!opened || fstat(opened.get(), &status) != 0 || !is_same(status, file) ||
        status.st_size <= 0 || fstatfs(opened.get(), &fs) != 0 || fs.f_type == HUGETLBFS_MAGIC)
        return nullptr;
    const auto size = static_cast<std::size_t>(status.st_size);
    const int rights = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* base = mmap(nullptr, size, rights, MAP_SHARED | MAP_NORESERVE, opened.get(), 0);
    if (base == MAP_FAILED) return nullptr;
    const std::size_t words = (size / page_size() + 1) / kPagesAWord + 1;
    const std::size_t bytes = words * sizeof(std::uint64_t);
    void* touched = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (touched == MAP_FAILED) {
        munmap(base, size);
        return nullptr;
    }
    (void)madvise(base, size, MADV_DONTDUMP);
    COMPAT_LOG_INFO("mapped %zu bytes of process %d", size, process);
    return std::make_shared<Window>(static_cast<std::byte*>(base), size, writable,
                                    static_cast<std::atomic<std::uint64_t>*>(touched), bytes);
} catch (const std::bad_alloc&) {
    return nullptr;
}

Window::~Window() {
    if (origin_.is_parent()) return;
    munmap(base_, size_);
    munmap(touched_, touched_bytes_);
}

std::byte* Window::reach_slowly(std::uint64_t offset, std::uint64_t length, std::uint64_t end,
                                bool write) noexcept {
    if (offset > size_ || length > size_ - offset || (write && !writable_)) return nullptr;
    const std::size_t first = offset / page_size();
    const std::size_t last = (offset + length - 1) / page_size();
    for (std::size_t page = first; page <= last; ++page) {
        if (is_touched(page, write)) continue;
        // the peer says where its region ends, and may say anything
        const auto ready = std::clamp<std::uint64_t>(end, offset + length, size_);
        const std::size_t limit = (ready - 1) / page_size();
        if (!touch(page, last, limit, write)) return nullptr;
        break;
    }
    return base_ + offset;
}

/// Lets the kernel find the pages, which says so where there are none, or no room for more.
bool Window::touch(std::size_t first, std::size_t last, std::size_t limit, bool write) noexcept {
    last = std::max(last, std::min(first + kPagesAhead - 1, limit));
    if (madvise(base_ + first * page_size(), (last - first + 1) * page_size(),
                write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0)
        return false;
    for (std::size_t page = first; page <= last; ++page)
        touched_[page / kPagesAWord].fetch_or(bit_of(page, write) | bit_of(page, false),
                                              std::memory_order_relaxed);
    return true;
}

}  // namespace compat::core::soft::shm
