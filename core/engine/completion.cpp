// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/completion.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "core/base/log.hpp"

namespace compat::core {

Status CompletionRing::grow(std::size_t count) noexcept {
    constexpr std::size_t kFirstCapacity = 64;
    const std::size_t wanted = std::bit_ceil(std::max(size() + count, kFirstCapacity));
    std::unique_ptr<Completion[]> slots(new (std::nothrow) Completion[wanted]);
    if (!slots) return failure(Errc::no_memory);
    std::size_t moved = 0;
    for (std::size_t at = head_; at != tail_; ++at) slots[moved++] = slots_[at & mask_];
    slots_ = std::move(slots);
    capacity_ = wanted;
    mask_ = wanted - 1;
    head_ = 0;
    tail_ = moved;
    return {};
}

void CompletionRing::report_loss() noexcept {
    COMPAT_LOG_ERROR("no memory for a completion: it is lost");
}

}  // namespace compat::core
