// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/wait.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include "fi_compat/boundary.hpp"
#include "fi_compat/fabric.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kEndless = -1;

std::int64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

bool is_known(int kind) {
    constexpr int kKnown[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_SET,
                              FI_WAIT_FD,   FI_WAIT_YIELD,  FI_WAIT_POLLFD};
    return std::ranges::find(kKnown, kind) != std::end(kKnown);
}

core::Status watch(int epoll_fd, int fd) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return core::failure(core::Errc::device, errno);
}

}  // namespace

core::Result<std::unique_ptr<WaitObject>> WaitObject::open(int kind) {
    if (!is_known(kind)) return core::failure(core::Errc::invalid_argument);
    std::unique_ptr<WaitObject> object(new WaitObject(static_cast<fi_wait_obj>(kind)));
    if (kind == FI_WAIT_NONE || kind == FI_WAIT_YIELD) return object;
    object->epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    object->event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (object->epoll_fd_ < 0 || object->event_fd_ < 0)
        return core::failure(core::Errc::device, errno);
    const core::Status watched = watch(object->epoll_fd_, object->event_fd_);
    if (!watched) return core::failure(watched.error());
    return object;
}

WaitObject::~WaitObject() {
    if (epoll_fd_ >= 0) close(epoll_fd_);
    if (event_fd_ >= 0) close(event_fd_);
}

core::Status WaitObject::add_source(int fd) noexcept {
    return is_ours() ? watch(epoll_fd_, fd) : core::Status();
}

void WaitObject::remove_source(int fd) noexcept {
    if (is_ours()) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void WaitObject::signal() noexcept {
    if (!is_ours() || signaled_.exchange(true)) return;
    eventfd_write(event_fd_, 1);
}

void WaitObject::reset() noexcept {
    if (!is_ours()) return;
    eventfd_t ignored = 0;
    // Emptied whatever the flag says: a signal() that had raised it may write only after another
    // reset(). And before the flag falls: a signal() in between finds the flag up and is covered by
    // the look at the queue that follows every reset.
    eventfd_read(event_fd_, &ignored);
    signaled_.store(false);
}

core::Status WaitObject::sleep(int timeout_ms) noexcept {
    if (epoll_fd_ < 0) {
        sched_yield();
        return {};
    }
    pollfd ready{.fd = epoll_fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, timeout_ms) >= 0) return {};
    return core::failure(errno == EINTR ? core::Errc::interrupted : core::Errc::device, errno);
}

int WaitObject::get_wait(void* argument) noexcept {
    if (epoll_fd_ < 0) return -FI_ENODATA;
    if (argument == nullptr) return -FI_EINVAL;
    if (kind_ != FI_WAIT_POLLFD) {
        *static_cast<int*>(argument) = epoll_fd_;
        return 0;
    }
    auto& wanted = *static_cast<fi_wait_pollfd*>(argument);
    const bool fits = wanted.nfds >= 1 && wanted.fd != nullptr;
    wanted.nfds = 1;
    if (!fits) return -FI_ETOOSMALL;
    wanted.change_index = 1;  // the one descriptor never changes
    wanted.fd[0] = {.fd = epoll_fd_, .events = POLLIN, .revents = 0};
    return 0;
}

int WaitObject::control(int command, void* argument) noexcept {
    switch (command) {
        case FI_GETWAIT: return get_wait(argument);
        case FI_GETWAITOBJ:
            if (kind_ == FI_WAIT_NONE) return -FI_ENODATA;
            if (argument == nullptr) return -FI_EINVAL;
            *static_cast<fi_wait_obj*>(argument) = kind_;
            return 0;
        default: return -FI_ENOSYS;
    }
}

Deadline::Deadline(int timeout_ms) noexcept
    : end_ns_(timeout_ms < 0 ? kEndless : now_ns() + timeout_ms * kNsPerMs) {}

int Deadline::remaining_ms() const noexcept {
    if (end_ns_ == kEndless) return -1;
    const std::int64_t left = end_ns_ - now_ns();
    if (left <= 0) return 0;
    return static_cast<int>(std::min<std::int64_t>((left + kNsPerMs - 1) / kNsPerMs, INT_MAX));
}

namespace {

int wait_slot(fid_wait* wait, int timeout_ms) {
    return c_boundary([&] { return WaitSet::of(wait).wait(timeout_ms); });
}

int wait_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return WaitSet::of(face).control(command, argument); });
}

constinit fi_ops kWaitFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<WaitSet>,
    .bind = kUnsupported,
    .control = wait_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_wait kWaitOps = {
    .size = sizeof(fi_ops_wait),
    .wait = wait_slot,
};

}  // namespace

WaitSet::WaitSet(Fabric& fabric, std::unique_ptr<WaitObject> object)
    : Object(FI_CLASS_WAIT, nullptr, kWaitFiOps), fabric_(fabric), object_(std::move(object)) {
    ops = &kWaitOps;
}

core::Result<WaitSet*> WaitSet::open(Fabric& fabric, const fi_wait_attr& attr) {
    const int kind = number_in(attr.wait_obj);
    const bool possible = attr.flags == 0 && kind != FI_WAIT_NONE && kind != FI_WAIT_SET;
    if (!possible) return core::failure(core::Errc::invalid_argument);
    auto object = WaitObject::open(kind);
    if (!object) return core::failure(object.error());
    return new WaitSet(fabric, std::move(*object));
}

core::Status WaitSet::add(struct ::fid* member, int member_fd) {
    const std::lock_guard lock(mutex_);
    const core::Status added = object_->add_source(member_fd);
    if (added) members_.push_back(member);
    return added;
}

void WaitSet::remove(struct ::fid* member, int member_fd) noexcept {
    const std::lock_guard lock(mutex_);
    object_->remove_source(member_fd);
    std::erase(members_, member);
}

int WaitSet::try_wait() noexcept {
    const std::lock_guard lock(mutex_);
    for (struct ::fid* member : members_) {
        const int answer = member->ops->control(member, kControlTryWait, nullptr);
        if (answer != 0) return answer;
    }
    return 0;
}

int WaitSet::wait(int timeout_ms) noexcept {
    const Deadline deadline(timeout_ms);
    for (;;) {
        const int answer = try_wait();
        if (answer == -FI_EAGAIN) return 0;
        if (answer != 0) return answer;
        if (deadline.passed()) return -FI_ETIMEDOUT;
        const core::Status slept = object_->sleep(deadline.remaining_ms());
        if (!slept) return to_fi(slept.error());
    }
}

int WaitSet::control(int command, void* argument) noexcept {
    return command == kControlTryWait ? try_wait() : object_->control(command, argument);
}

WaitSetPlace::~WaitSetPlace() {
    if (set_) set_->remove(member_, fd_);
}

core::Status WaitSetPlace::take(Fabric& fabric, int kind, fid_wait* face, struct ::fid* member,
                                const WaitObject& object) {
    if (kind != FI_WAIT_SET) return {};
    if (face == nullptr) return core::failure(core::Errc::invalid_argument);
    WaitSet& set = WaitSet::of(face);
    if (&set.fabric() != &fabric) return core::failure(core::Errc::invalid_argument);
    if (core::Status added = set.add(member, object.fd()); !added) return added;
    set_ = Ref<WaitSet>(set);
    member_ = member;
    fd_ = object.fd();
    return {};
}

}  // namespace compat::fi
