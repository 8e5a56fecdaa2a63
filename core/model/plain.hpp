// SPDX-License-Identifier: BSD-3-Clause
// A plain request that a device cannot treat as one after all.
#pragma once

#include <span>

#include "core/base/statistics.hpp"
#include "core/model/types.hpp"

namespace compat::core {

/// Hands it to post() as any other request, and counts it as plain posts are counted.
template <class Post>
Status post_in_full(const PlainRequest& plain, StatBlock& statistics, const Post& post) noexcept {
    const auto opcode = static_cast<Opcode>(plain.opcode);
    const WorkRequest request{.wr_id = plain.wr_id,
                              .opcode = opcode,
                              .flags = SendFlags(static_cast<std::uint8_t>(plain.flags)),
                              .rkey = plain.rkey,
                              .remote_address = plain.remote_address,
                              .sges = {&plain.sge, 1}};
    const Status posted = post(std::span(&request, 1));
    if (posted)
        statistics.post(stat_of(opcode), plain.sge.length);
    else if (posted.error().code == Errc::would_block)
        statistics.add(Stat::queue_full, 1);
    return posted;
}

}  // namespace compat::core
