// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace compat::core {

/// The room of a completion queue. A post that will give an entry takes its place beforehand, so
/// that the queue cannot overflow; the place is free again when the entry has been read.
class CqSpace {
public:
    explicit CqSpace(std::uint32_t size) noexcept : size_(size) {}

    [[nodiscard]] bool reserve() noexcept {
        if (occupied_.fetch_add(1, std::memory_order_relaxed) < size_) return true;
        release(1);
        return false;
    }
    void release(std::uint32_t count) noexcept {
        occupied_.fetch_sub(count, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint32_t occupied() const noexcept {
        return occupied_.load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint32_t> occupied_{0};
    std::uint32_t size_;
};

}  // namespace compat::core
