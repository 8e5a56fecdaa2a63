// SPDX-License-Identifier: BSD-3-Clause
// Payloads of small writes on their way from a staging buffer into the program's memory: gathered,
// because the system call that stores them costs the same for many.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/soft/memory.hpp"
#include "core/device/soft/user_memory.hpp"
#include "core/device/soft/wire/ddp.hpp"

namespace compat::core::soft {

class Placements {
public:
    /// What a Terminate says of a write that could not be placed.
    struct Origin {
        wire::TaggedHeader header;
        std::uint32_t messages_before = 0;
    };

    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] bool full() const noexcept { return count_ == kMaxStores; }
    /// Not when full. The payload stays where it is until store(); it is not empty.
    void add(Pin target, std::span<const std::byte> payload, const Origin& origin) noexcept {
        stores_[count_] = {target.address(), payload.data(), payload.size()};
        origins_[count_] = origin;
        pins_[count_++] = std::move(target);
    }
    /// Stores all, in order, and is empty. The first that could not be stored, or null.
    const Origin* store() noexcept {
        const std::size_t made = store_all_to_user({stores_.data(), count_});
        const Origin* failed = made == count_ ? nullptr : &origins_[made];
        drop();
        return failed;
    }
    void drop() noexcept {
        while (count_ != 0) pins_[--count_].release();
    }

private:
    std::array<Pin, kMaxStores> pins_;
    std::array<Store, kMaxStores> stores_;
    std::array<Origin, kMaxStores> origins_;
    std::size_t count_ = 0;
};

}  // namespace compat::core::soft
