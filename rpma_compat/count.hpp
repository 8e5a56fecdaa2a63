// SPDX-License-Identifier: BSD-3-Clause
// Posts as statistics know them. A connection has no lock here, so that adding is atomic.
#pragma once

#include "core/core.hpp"

namespace compat::rpma {

inline void count_post(const core::Statistics& statistics, core::Stat kind, std::uint64_t bytes,
                       const core::Status& posted) noexcept {
    if (posted) [[likely]]
        statistics->post_shared(kind, bytes);
    else if (posted.error().code == core::Errc::would_block)
        statistics->add_shared(core::Stat::queue_full, 1);
}

}  // namespace compat::rpma
