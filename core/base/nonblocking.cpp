// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/nonblocking.hpp"

#include <fcntl.h>

#include <cerrno>

namespace compat::core {

Status set_nonblocking(int fd) noexcept {
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return {};
    return failure(Errc::device, errno);
}

}  // namespace compat::core
