// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/progress_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/helper_thread.hpp"
#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"

namespace compat::core {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kBatch = 32;
constexpr auto kSoon = 1ms;
constexpr auto kLater = 10ms;
constexpr Clock::time_point kAtOnce{};  // far from where differences overflow
constexpr int kUselessMs = 100;         // between looks at an epoll descriptor that is gone

class ProgressThread {
public:
    static Result<ProgressThread*> start() noexcept;

    Status add(Driven& driven) noexcept;
    void remove(Driven& driven) noexcept;
    void kick() noexcept {
        kicked_.store(true);
        wake();
    }
    // While the process divides, no lock that a Driven takes is the thread's.
    void halt() noexcept { mutex_.lock(); }
    void go_on() noexcept { mutex_.unlock(); }

private:
    ProgressThread(UniqueFd epoll, UniqueFd wake)
        : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

    static void* thread_main(void* self) noexcept;
    [[noreturn]] void run() noexcept;
    void admit() noexcept;
    void serve(std::span<const epoll_event> events) noexcept;
    void look_around() noexcept;
    void settle(Driven& driven, DriveNext next) noexcept;
    void let_go(Driven& driven) noexcept;
    [[nodiscard]] int wait_ms() noexcept;
    Status watch(int fd, Driven* driven, std::uint32_t events) noexcept;
    void ignore(const Driven& driven) noexcept;
    void wake() noexcept { eventfd_write(wake_.get(), 1); }

    UniqueFd epoll_;
    UniqueFd wake_;
    std::atomic<bool> kicked_{false};
    std::mutex mutex_;  ///< held while something is driven
    /// When each is to be looked at; max(): at no time.
    std::unordered_map<Driven*, Clock::time_point> driven_;
    std::vector<Driven*> due_;  ///< has room for all of them
    std::mutex new_mutex_;      ///< taken after any other lock
    std::vector<Driven*> new_;
};

constinit std::mutex g_start_lock;
constinit std::atomic<ProgressThread*> g_thread{nullptr};

constinit std::mutex g_fork_lock;
constinit ProgressThread* g_halted = nullptr;  // while the process divides

// What drive() takes has its own handlers for fork(2), registered before: they run after this one.
void before_fork() {
    g_fork_lock.lock();
    g_halted = g_thread.load(std::memory_order_acquire);
    if (g_halted != nullptr) g_halted->halt();
}

void after_fork_in_parent() {
    if (g_halted != nullptr) g_halted->go_on();
    g_fork_lock.unlock();
}

// The thread does not exist in the child, and what it drives is the parent's.
void after_fork_in_child() {
    g_thread.store(nullptr, std::memory_order_release);
    new (&g_start_lock) std::mutex;
    g_fork_lock.unlock();
}

Result<ProgressThread*> ProgressThread::start() noexcept {
    if (ProgressThread* running = g_thread.load(std::memory_order_acquire)) return running;
    const std::lock_guard guard(g_start_lock);
    if (ProgressThread* running = g_thread.load(std::memory_order_acquire)) return running;
    static const int registered =
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    if (registered != 0) return failure(Errc::no_memory, registered);
    UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
    UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll || !wake) return failure(Errc::device, errno);
    // Never destroyed: the thread runs until the process is gone.
    std::unique_ptr<ProgressThread> made(new (std::nothrow)
                                             ProgressThread(std::move(epoll), std::move(wake)));
    if (!made) return failure(Errc::no_memory);
    Status watched = made->watch(made->wake_.get(), nullptr, EPOLLIN);
    if (!watched) return failure(watched.error());
    if (const int error = start_helper_thread("fabric-progress", thread_main, made.get());
        error != 0) {
        COMPAT_LOG_ERROR("cannot start the progress thread, errno %d", error);
        return failure(Errc::device, error);
    }
    g_thread.store(made.get(), std::memory_order_release);
    return made.release();
}

Status ProgressThread::watch(int fd, Driven* driven, std::uint32_t events) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.ptr = driven;
    // What is about to leave is watched as it was.
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST) return {};
    return failure(Errc::device, errno);
}

void ProgressThread::ignore(const Driven& driven) noexcept {
    for (const int fd : driven.channels())
        if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Status ProgressThread::add(Driven& driven) noexcept try {
    const std::lock_guard guard(new_mutex_);
    new_.push_back(&driven);
    for (const int fd : driven.channels()) {
        // An event of a program that polls is left in the channel: it must not wake us again.
        const Status watched = fd >= 0 ? watch(fd, &driven, EPOLLIN | EPOLLET) : Status();
        if (watched) continue;
        ignore(driven);
        new_.pop_back();
        return watched;
    }
    wake();
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void ProgressThread::remove(Driven& driven) noexcept {
    const std::lock_guard guard(mutex_);
    const std::lock_guard new_guard(new_mutex_);
    ignore(driven);
    driven_.erase(&driven);
    std::erase(new_, &driven);
}

void* ProgressThread::thread_main(void* self) noexcept {
    static_cast<ProgressThread*>(self)->run();
}

void ProgressThread::run() noexcept {
    for (;;) {
        std::array<epoll_event, kBatch> events;
        const int count = epoll_wait(epoll_.get(), events.data(), kBatch, wait_ms());
        // The host has closed what is not its own: nothing to serve, and no reason to spin.
        if (count < 0 && errno != EINTR) ::poll(nullptr, 0, kUselessMs);
        const std::lock_guard guard(mutex_);
        admit();
        if (count > 0) serve(std::span(events).first(static_cast<std::size_t>(count)));
        look_around();
    }
}

int ProgressThread::wait_ms() noexcept {
    const std::lock_guard guard(mutex_);
    auto next = Clock::time_point::max();
    for (const auto& [driven, at] : driven_) next = std::min(next, at);
    if (next == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

/// To be looked at at once.
void ProgressThread::admit() noexcept {
    const std::lock_guard guard(new_mutex_);
    while (!new_.empty()) {
        try {
            due_.reserve(driven_.size() + 1);
            driven_[new_.back()] = kAtOnce;
        } catch (const std::bad_alloc&) {
            return wake();  // tries again
        }
        new_.pop_back();
    }
}

void ProgressThread::serve(std::span<const epoll_event> events) noexcept {
    for (const epoll_event& event : events) {
        auto* const driven = static_cast<Driven*>(event.data.ptr);
        if (driven == nullptr) {
            eventfd_t ignored = 0;
            eventfd_read(wake_.get(), &ignored);
        } else if (driven_.contains(driven)) {
            settle(*driven, driven->drive());
        }
    }
}

/// Looks at what is due; drives everything where there was more to do.
void ProgressThread::look_around() noexcept {
    const bool kicked = kicked_.exchange(false);
    const auto now = Clock::now();
    due_.clear();
    for (const auto& [driven, at] : driven_)
        if (kicked || at <= now) due_.push_back(driven);
    for (Driven* driven : due_) {
        auto& at = driven_[driven];
        const bool looks = at <= now;
        // Being driven puts no look off: kicks may come faster than looks.
        if (looks) at = Clock::time_point::max();
        settle(*driven, looks ? driven->look() : driven->drive());
    }
}

void ProgressThread::settle(Driven& driven, DriveNext next) noexcept {
    auto at = Clock::time_point::max();
    switch (next) {
        case DriveNext::leave: return let_go(driven);
        case DriveNext::sleep: break;
        case DriveNext::again: at = kAtOnce; break;
        case DriveNext::look_soon: at = Clock::now() + kSoon; break;
        case DriveNext::look_later: at = Clock::now() + kLater; break;
    }
    auto& own = driven_[&driven];
    own = std::min(own, at);
}

void ProgressThread::let_go(Driven& driven) noexcept {
    const std::lock_guard guard(new_mutex_);
    driven_.erase(&driven);
    // It may have come again already.
    if (std::find(new_.begin(), new_.end(), &driven) == new_.end()) ignore(driven);
}

}  // namespace

Status watch_progress(Driven& driven) noexcept {
    const auto thread = ProgressThread::start();
    if (!thread) return failure(thread.error());
    return (*thread)->add(driven);
}

void unwatch_progress(Driven& driven) noexcept {
    if (ProgressThread* thread = g_thread.load(std::memory_order_acquire)) thread->remove(driven);
}

void kick_progress() noexcept {
    if (ProgressThread* thread = g_thread.load(std::memory_order_acquire)) thread->kick();
}

}  // namespace compat::core
