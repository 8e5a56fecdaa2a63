// SPDX-License-Identifier: BSD-3-Clause
// What all data transfer calls share: buffers, descriptors and flags on their way to the engine.
#pragma once

#include <rdma/fi_rma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/core.hpp"
#include "fi_compat/flag_map.hpp"
#include "fi_compat/mr.hpp"

namespace compat::fi {

inline std::uint32_t lkey_of(void* desc, const void* address) noexcept {
    return desc != nullptr ? Mr::keys(desc).of(address) : core::kUnregisteredLkey;
}

/// Local buffers of one call, those of zero bytes left out.
class LocalList {
public:
    LocalList() noexcept {}

    /// desc_required: FI_MR_LOCAL was agreed, and the call does not copy. 0 or -FI_EINVAL.
    int add(const void* address, std::size_t length, void* desc, bool desc_required) noexcept {
        if (length == 0) return 0;
        if (desc == nullptr && desc_required) return -FI_EINVAL;
        buffers_[count_++] = {const_cast<void*>(address), length, lkey_of(desc, address)};
        // Lengths that no sum holds are beyond every limit.
        if (__builtin_add_overflow(length_, length, &length_)) length_ = kEndless;
        return 0;
    }
    /// descs may be null: none. count is at most core::kMaxSegments.
    int add(const iovec* iov, void* const* descs, std::size_t count, bool desc_required) noexcept {
        for (std::size_t at = 0; at < count; ++at) {
            void* const desc = descs != nullptr ? descs[at] : nullptr;
            const int added = add(iov[at].iov_base, iov[at].iov_len, desc, desc_required);
            if (added != 0) return added;
        }
        return 0;
    }

    [[nodiscard]] std::span<const core::LocalBuffer> buffers() const noexcept {
        return {buffers_, count_};
    }
    [[nodiscard]] std::uint64_t length() const noexcept { return length_; }

private:
    static constexpr auto kEndless = std::numeric_limits<std::uint64_t>::max();

    // Uninitialised: an array of 16 that is cleared on every call costs more than the call.
    union {
        core::LocalBuffer buffers_[core::kMaxSegments];
    };
    std::size_t count_ = 0;
    std::uint64_t length_ = 0;
};

}  // namespace compat::fi
