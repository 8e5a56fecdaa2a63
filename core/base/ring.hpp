// SPDX-License-Identifier: BSD-3-Clause
// A bounded first-in first-out queue; no allocation after construction. The owner serialises.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace compat::core {

template <class T>
class Ring {
public:
    explicit Ring(std::size_t capacity = 0) : rows_(capacity) {}

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] bool full() const noexcept { return size_ == rows_.size(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] T& front() noexcept { return rows_[head_]; }
    [[nodiscard]] const T& front() const noexcept { return rows_[head_]; }
    /// False when full.
    bool push(T value) noexcept {
        if (full()) return false;
        rows_[(head_ + size_++) % rows_.size()] = std::move(value);
        return true;
    }
    void pop() noexcept {
        head_ = (head_ + 1) % rows_.size();
        --size_;
    }
    void clear() noexcept { head_ = size_ = 0; }

private:
    std::vector<T> rows_;
    std::size_t head_ = 0;
    std::size_t size_ = 0;
};

}  // namespace compat::core
