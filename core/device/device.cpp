// SPDX-License-Identifier: BSD-3-Clause
// What devices have that say so, and nobody calls for the others. Here, because a compiler that
// saw it would bet on it in every caller.
#include "core/device/device.hpp"

#include <cerrno>

namespace compat::core {

int CompletionQueue::poll_native(int, ibv_wc*) noexcept {
    return -ENOSYS;
}

Status QueuePair::plain_write(PlainRequest&) noexcept {
    return failure(Errc::not_supported);
}

Status QueuePair::plain_read(PlainRequest&) noexcept {
    return failure(Errc::not_supported);
}

Status QueuePair::plain_send(PlainRequest&) noexcept {
    return failure(Errc::not_supported);
}

}  // namespace compat::core
