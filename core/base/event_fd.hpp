// SPDX-License-Identifier: BSD-3-Clause
// eventfd(2) as a counting semaphore that can be polled.
#pragma once

#include <utility>

#include "core/base/result.hpp"

namespace compat::core {

class EventFd {
public:
    /// Blocking until the caller sets O_NONBLOCK; close-on-exec. Errors: device (errno).
    static Result<EventFd> create() noexcept;
    EventFd(EventFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    EventFd& operator=(EventFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~EventFd();

    [[nodiscard]] int fd() const noexcept { return fd_; }
    void post() noexcept;  ///< one more
    /// One less; blocks at zero unless O_NONBLOCK. Errors: would_block, interrupted, device.
    Status wait() noexcept;
    /// One less if there is one; never blocks, whatever the flags of the descriptor.
    bool try_wait() noexcept;

private:
    explicit EventFd(int fd) : fd_(fd) {}
    int fd_ = -1;
};

}  // namespace compat::core
