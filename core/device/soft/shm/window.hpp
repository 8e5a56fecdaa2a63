// SPDX-License-Identifier: BSD-3-Clause
// A file that a peer has mapped, mapped here as well: what is stored in it is in the peer's memory.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/origin.hpp"
#include "core/device/soft/shm/layout.hpp"
#include "core/device/soft/user_memory.hpp"

namespace compat::core::soft::shm {

class Window {
public:
    /// Null where the file cannot be mapped as the peer has it.
    static std::shared_ptr<Window> open(pid_t process, const SharedFile& file) noexcept;

    Window(std::byte* base, std::size_t size, bool writable, std::atomic<std::uint64_t>* touched,
           std::size_t touched_bytes) noexcept
        : base_(base),
          size_(size),
          writable_(writable),
          page_bits_(static_cast<unsigned>(std::countr_zero(page_size()))),
          touched_(touched),
          touched_bytes_(touched_bytes) {}
    ~Window();
    Window(const Window&) = delete;

    /// The file's bytes from offset on, of which length can be read or written without a fault
    /// unless the file has been made shorter since it was first touched there. Null: they cannot.
    /// end: of the region in the file; pages up to there may be made ready ahead.
    std::byte* reach(std::uint64_t offset, std::uint64_t length, std::uint64_t end,
                     bool write) noexcept {
        const std::size_t first = offset >> page_bits_;
        const std::size_t last = (offset + length - 1) >> page_bits_;
        const bool known =
            offset < size_ && length <= size_ - offset && first == last && is_touched(first, write);
        return known ? base_ + offset : reach_slowly(offset, length, end, write);
    }

private:
    static constexpr std::size_t kPagesAWord = 32;
    static std::uint64_t bit_of(std::size_t page, bool write) noexcept {
        return std::uint64_t{write ? 2U : 1U} << (page % kPagesAWord * 2);
    }
    [[nodiscard]] bool is_touched(std::size_t page, bool write) const noexcept {
        const auto bits = touched_[page / kPagesAWord].load(std::memory_order_relaxed);
        return (bits & bit_of(page, write)) != 0;
    }
    std::byte* reach_slowly(std::uint64_t offset, std::uint64_t length, std::uint64_t end,
                            bool write) noexcept;
    bool touch(std::size_t first, std::size_t last, std::size_t limit, bool write) noexcept;

    std::byte* const base_;
    const std::size_t size_;
    const bool writable_;
    const unsigned page_bits_;
    // Two bits a page: it has been read, it has been written.
    std::atomic<std::uint64_t>* const touched_;
    const std::size_t touched_bytes_;
    const Origin origin_;
};

}  // namespace compat::core::soft::shm
