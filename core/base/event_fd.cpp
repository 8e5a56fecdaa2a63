// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/event_fd.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/base/log.hpp"

namespace compat::core {
namespace {

// For kernels before 5.8, whose eventfd does not know RWF_NOWAIT, and for sandboxes that forbid
// preadv2(2), by whatever errno. Between the two calls another
// reader may take the last count; then this one waits for the next.
bool take_when_readable(int fd) noexcept {
    pollfd readable{fd, POLLIN, 0};
    std::uint64_t one = 0;
    return poll(&readable, 1, 0) == 1 && read(fd, &one, sizeof one) == sizeof one;
}

}  // namespace

Result<EventFd> EventFd::create() noexcept {
    const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (fd < 0) return failure(Errc::device, errno);
    return EventFd(fd);
}

EventFd::~EventFd() {
    if (fd_ >= 0) close(fd_);
}

void EventFd::post() noexcept {
    const std::uint64_t one = 1;
    // Fails only when the counter would pass 2^64 - 2.
    if (write(fd_, &one, sizeof one) != sizeof one)
        COMPAT_LOG_ERROR("eventfd %d: post failed, errno %d", fd_, errno);
}

Status EventFd::wait() noexcept {
    std::uint64_t one = 0;
    if (read(fd_, &one, sizeof one) == sizeof one) return {};
    if (errno == EAGAIN) return failure(Errc::would_block);
    if (errno == EINTR) return failure(Errc::interrupted);
    return failure(Errc::device, errno);
}

bool EventFd::try_wait() noexcept {
    std::uint64_t one = 0;
    const iovec buffer{&one, sizeof one};
    if (preadv2(fd_, &buffer, 1, -1, RWF_NOWAIT) == sizeof one) return true;
    return errno != EAGAIN && take_when_readable(fd_);
}

}  // namespace compat::core
