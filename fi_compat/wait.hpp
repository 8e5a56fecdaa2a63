// SPDX-License-Identifier: BSD-3-Clause
// Wait objects of queues and counters, and wait sets (fi_poll(3)).
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/core.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class Fabric;

/// A command of fi_control() that fi_trywait() and wait sets send to queues and counters. Answer 0
/// when it is safe to sleep (notification is armed, nothing waits to be read), else -FI_EAGAIN.
inline constexpr int kControlTryWait = -0x7c01;

/// What one queue or counter sleeps on: a descriptor that is readable while a source is, or from
/// signal() to reset(). Any thread may call anything; sources are added and removed by one at a
/// time. In a child process that inherited it, all of that does nothing: the descriptors share
/// their state with the parent's.
class WaitObject {
public:
    /// kind: FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_YIELD; FI_WAIT_SET
    /// behaves as FI_WAIT_FD, for nesting in the set. Errors: invalid_argument (FI_WAIT_MUTEX_COND
    /// and unknown numbers), device (out of descriptors).
    static core::Result<std::unique_ptr<WaitObject>> open(int kind);
    ~WaitObject();
    WaitObject(const WaitObject&) = delete;
    WaitObject& operator=(const WaitObject&) = delete;

    [[nodiscard]] fi_wait_obj kind() const noexcept { return kind_; }
    [[nodiscard]] bool can_block() const noexcept { return kind_ != FI_WAIT_NONE; }
    /// -1 for FI_WAIT_NONE and FI_WAIT_YIELD.
    [[nodiscard]] int fd() const noexcept { return epoll_fd_; }

    /// fd stays the caller's and must be removed before it is closed. Without a descriptor of our
    /// own (NONE, YIELD) nothing happens. Errors: device.
    core::Status add_source(int fd) noexcept;
    void remove_source(int fd) noexcept;

    void signal() noexcept;
    void reset() noexcept;

    /// Sleeps until something is readable or timeout_ms (negative: no end) is over; with
    /// FI_WAIT_YIELD gives the processor away once. The caller looks at its queue again either way.
    /// Errors: interrupted (by a signal), device.
    core::Status sleep(int timeout_ms) noexcept;

    /// FI_GETWAIT and FI_GETWAITOBJ; -FI_ENOSYS for other commands.
    int control(int command, void* argument) noexcept;

private:
    explicit WaitObject(fi_wait_obj kind) noexcept : kind_(kind) {}
    int get_wait(void* argument) noexcept;

    /// There is a descriptor, and it is not a parent's.
    [[nodiscard]] bool is_ours() const noexcept { return epoll_fd_ >= 0 && !origin_.is_parent(); }

    fi_wait_obj kind_;
    const core::Origin origin_;
    int epoll_fd_ = -1;
    int event_fd_ = -1;
    std::atomic<bool> signaled_{false};
};

/// How long is left of a timeout in milliseconds; negative never ends.
class Deadline {
public:
    explicit Deadline(int timeout_ms) noexcept;
    [[nodiscard]] bool passed() const noexcept { return remaining_ms() == 0; }
    [[nodiscard]] int remaining_ms() const noexcept;  ///< rounded up; -1 without end

private:
    std::int64_t end_ns_;
};

/// fi_wait_open(3): several queues and counters of one fabric, one place to sleep.
class WaitSet final : public Object<WaitSet, fid_wait> {
public:
    static core::Result<WaitSet*> open(Fabric& fabric, const fi_wait_attr& attr);

    /// member_fd is readable when member has something; kept until remove(). Errors: device.
    core::Status add(struct ::fid* member, int member_fd);
    void remove(struct ::fid* member, int member_fd) noexcept;

    /// 0, -FI_ETIMEDOUT or an error.
    int wait(int timeout_ms) noexcept;
    int control(int command, void* argument) noexcept;
    [[nodiscard]] Fabric& fabric() const noexcept { return *fabric_; }

private:
    WaitSet(Fabric& fabric, std::unique_ptr<WaitObject> object);
    int try_wait() noexcept;

    Ref<Fabric> fabric_;
    std::unique_ptr<WaitObject> object_;
    std::mutex mutex_;
    std::vector<struct ::fid*> members_;
};

/// A queue's or counter's place in the wait set that its attributes name, if they name one.
class WaitSetPlace {
public:
    WaitSetPlace() = default;
    ~WaitSetPlace();
    WaitSetPlace(const WaitSetPlace&) = delete;
    WaitSetPlace& operator=(const WaitSetPlace&) = delete;

    /// kind and set are those of the attributes; the member sleeps on object. Errors:
    /// invalid_argument (FI_WAIT_SET without a set of this fabric), device.
    core::Status take(Fabric& fabric, int kind, fid_wait* set, struct ::fid* member,
                      const WaitObject& object);

private:
    Ref<WaitSet> set_;
    struct ::fid* member_ = nullptr;
    int fd_ = -1;
};

}  // namespace compat::fi
