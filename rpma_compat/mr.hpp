// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/core.hpp"

struct rpma_mr_local {
    std::unique_ptr<compat::core::MemoryRegion> region;
    void* address;
    std::size_t length;
    int usage;
    std::uint32_t lkey;
};

struct rpma_mr_remote {
    std::uint64_t address;
    std::uint64_t length;
    std::uint32_t rkey;
    std::uint8_t usage;
};

namespace compat::rpma {

/// More does not fit a verbs SGE. Upstream cuts the number to its low 32 bits without a word and
/// transfers that; we refuse.
constexpr std::size_t kMaxTransfer = UINT32_MAX;

/// [offset, offset + length) of a region; no check, the device does that.
inline core::Sge to_sge(const rpma_mr_local& mr, std::size_t offset, std::size_t length) {
    const auto address = reinterpret_cast<std::uintptr_t>(mr.address) + offset;
    return {.address = reinterpret_cast<void*>(address),
            .length = static_cast<std::uint32_t>(length),
            .lkey = mr.lkey};
}

inline core::RemoteTarget to_target(const rpma_mr_remote& mr, std::size_t offset) {
    return {.address = mr.address + offset, .rkey = mr.rkey};
}

/// The receive calls: a work request without memory if dst is null. post is the queue's own call.
template <class Post>
int post_receive(const rpma_mr_local* dst, std::size_t offset, std::size_t length,
                 const void* op_context, Post&& post) {
    core::Sge sge;
    core::ReceiveRequest request{.wr_id = reinterpret_cast<std::uintptr_t>(op_context)};
    if (dst != nullptr) {
        sge = to_sge(*dst, offset, length);
        request.sges = {&sge, 1};
    }
    return post(request);
}

}  // namespace compat::rpma
