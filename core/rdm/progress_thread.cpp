// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/progress_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "core/base/helper_thread.hpp"
#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"
#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

constexpr int kBatch = 32;
constexpr int kLookMs = 10;
constexpr int kUselessMs = 100;  // between looks at an epoll descriptor that is gone
constexpr std::uint64_t kWakeToken = 0;

class ProgressThread {
public:
    static Result<ProgressThread*> start() noexcept;

    Status add(Endpoint& endpoint) noexcept;
    void remove(Endpoint& endpoint) noexcept;
    void kick() noexcept {
        driven_all_.store(false);
        wake();
    }

private:
    ProgressThread(UniqueFd epoll, UniqueFd wake)
        : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

    static void* thread_main(void* self) noexcept;
    [[noreturn]] void run() noexcept;
    void serve(std::span<const epoll_event> events) noexcept;
    void look_around() noexcept;
    [[nodiscard]] int wait_ms() noexcept;
    Status watch(int fd, std::uint64_t token, std::uint32_t events) noexcept;
    void wake() noexcept { eventfd_write(wake_.get(), 1); }

    UniqueFd epoll_;
    UniqueFd wake_;
    std::mutex mutex_;  ///< held while endpoints are driven
    std::unordered_map<std::uint64_t, Endpoint*> endpoints_;
    std::uint64_t last_token_ = kWakeToken;
    std::atomic<bool> driven_all_{true};  ///< false: some endpoint had more to do
    Clock::time_point next_look_{};
};

constinit std::mutex g_start_lock;
constinit std::atomic<ProgressThread*> g_thread{nullptr};

// The thread does not exist in the child, and its endpoints are the parent's.
void after_fork_in_child() {
    g_thread.store(nullptr, std::memory_order_release);
    new (&g_start_lock) std::mutex;
}

Result<ProgressThread*> ProgressThread::start() noexcept {
    const std::lock_guard guard(g_start_lock);
    if (ProgressThread* running = g_thread.load(std::memory_order_acquire)) return running;
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    if (registered != 0) return failure(Errc::no_memory, registered);
    UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
    UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll || !wake) return failure(Errc::device, errno);
    // Never destroyed: the thread runs until the process is gone.
    std::unique_ptr<ProgressThread> made(new (std::nothrow)
                                             ProgressThread(std::move(epoll), std::move(wake)));
    if (!made) return failure(Errc::no_memory);
    Status watched = made->watch(made->wake_.get(), kWakeToken, EPOLLIN);
    if (!watched) return failure(watched.error());
    if (const int error = start_helper_thread("fabric-progress", thread_main, made.get());
        error != 0) {
        COMPAT_LOG_ERROR("cannot start the progress thread, errno %d", error);
        return failure(Errc::device, error);
    }
    g_thread.store(made.get(), std::memory_order_release);
    return made.release();
}

Status ProgressThread::watch(int fd, std::uint64_t token, std::uint32_t events) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.u64 = token;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return failure(Errc::device, errno);
}

Status ProgressThread::add(Endpoint& endpoint) noexcept try {
    const std::lock_guard guard(mutex_);
    const std::uint64_t token = ++last_token_;
    endpoints_.emplace(token, &endpoint);
    // An event of a program that polls is left in the channel: it must not wake us again.
    Status watched = watch(endpoint.cm_fd(), token, EPOLLIN | EPOLLET);
    if (watched) watched = watch(endpoint.cq_fd(), token, EPOLLIN | EPOLLET);
    if (!watched) {
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, endpoint.cm_fd(), nullptr);
        endpoints_.erase(token);
    }
    return watched;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void ProgressThread::remove(Endpoint& endpoint) noexcept {
    const std::lock_guard guard(mutex_);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, endpoint.cm_fd(), nullptr);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, endpoint.cq_fd(), nullptr);
    std::erase_if(endpoints_, [&endpoint](const auto& row) { return row.second == &endpoint; });
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
        if (count > 0) serve(std::span(events).first(static_cast<std::size_t>(count)));
        look_around();
    }
}

int ProgressThread::wait_ms() noexcept {
    if (!driven_all_.load()) return 0;
    const std::lock_guard guard(mutex_);
    const auto polled = [](const auto& row) { return row.second->watched(); };
    return std::any_of(endpoints_.begin(), endpoints_.end(), polled) ? kLookMs : -1;
}

void ProgressThread::serve(std::span<const epoll_event> events) noexcept {
    for (const epoll_event& event : events) {
        if (event.data.u64 == kWakeToken) {
            eventfd_t ignored = 0;
            eventfd_read(wake_.get(), &ignored);
            continue;
        }
        const auto found = endpoints_.find(event.data.u64);
        if (found != endpoints_.end() && !found->second->drive()) driven_all_.store(false);
    }
}

/// Takes over where programs have stopped polling; goes on where there was more to do.
void ProgressThread::look_around() noexcept {
    const bool goes_on = !driven_all_.exchange(true);
    const auto now = Clock::now();
    const bool looks = now >= next_look_;
    if (looks) next_look_ = now + std::chrono::milliseconds(kLookMs);
    for (const auto& [token, endpoint] : endpoints_) {
        bool done = true;
        if (goes_on) done = endpoint->drive();
        if (looks && endpoint->watched()) done = endpoint->look() && done;
        if (!done) driven_all_.store(false);
    }
}

}  // namespace

Status watch_endpoint(Endpoint& endpoint) noexcept {
    const auto thread = ProgressThread::start();
    if (!thread) return failure(thread.error());
    Status added = (*thread)->add(endpoint);
    if (added) kick_progress();
    return added;
}

void unwatch_endpoint(Endpoint& endpoint) noexcept {
    if (ProgressThread* thread = g_thread.load(std::memory_order_acquire)) thread->remove(endpoint);
}

void kick_progress() noexcept {
    if (ProgressThread* thread = g_thread.load(std::memory_order_acquire)) thread->kick();
}

}  // namespace compat::core::rdm
