// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/reactor.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "core/base/deferred_log.hpp"
#include "core/base/event_fd.hpp"
#include "core/base/helper_thread.hpp"
#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr int kBatch = 64;                    // events taken by one epoll_wait
constexpr auto kLease = 2ms;                  // a poller is believed to poll on for this long
constexpr std::uint32_t kPollsForLease = 32;  // empty polls in a row before the helper steps back
// Then one in so many looks at the clock to renew the lease, which would be most of what it costs.
constexpr std::uint32_t kPollsForRenewal = 4;
static_assert(kPollsForLease % kPollsForRenewal == 0);
// More threads may poll than there are CPUs: what one of them waits for may be for another to do.
constexpr std::uint32_t kPollsForYield = 16;
constexpr std::uint64_t kWakeToken = 0;
constexpr int kUselessMs = 100;  // between looks at an epoll descriptor that is gone

class Reactor {
public:
    static Result<Reactor*> start() noexcept;

    Status watch(int fd, std::shared_ptr<Source> source, std::uint32_t events) noexcept;
    void rewatch(int fd, std::uint32_t events) noexcept;
    void unwatch(int fd) noexcept;
    void set_deadline(const std::shared_ptr<Source>& source, Clock::time_point when) noexcept;
    void cancel_deadline(const Source* source) noexcept;
    void steal() noexcept;
    void stop_stealing() noexcept;
    [[nodiscard]] bool leased() const noexcept;
    void flush_later(const std::shared_ptr<Source>& source) noexcept;

private:
    struct Watched {
        std::uint32_t ticket;  // tells a recycled descriptor number from the old one
        std::shared_ptr<Source> source;
    };
    struct Deadline {
        const Source* key;
        std::weak_ptr<Source> source;
    };
    using Deadlines = std::multimap<Clock::time_point, Deadline>;

    Reactor(UniqueFd epoll, EventFd wake, EventFd nap_over)
        : epoll_(std::move(epoll)), wake_(std::move(wake)), nap_over_(std::move(nap_over)) {}

    static void* thread_main(void* self) noexcept;
    [[noreturn]] void run() noexcept;
    int serve(const epoll_event* events, int count) noexcept;
    void take_wake(const epoll_event* events, int count) noexcept;
    void serve_deadlines() noexcept;
    [[nodiscard]] std::shared_ptr<Source> find(std::uint64_t token) noexcept;
    [[nodiscard]] int wait_ms() noexcept;
    void nap() noexcept;
    void flush() noexcept;
    [[nodiscard]] std::shared_ptr<Source> next_to_flush() noexcept;

    UniqueFd epoll_;
    EventFd wake_;  // the helper thread sleeps, and has to look again

    std::mutex serving_;  // held by the one thread that calls sources
    std::mutex lock_;     // the tables below
    std::unordered_map<int, Watched> watched_;
    std::uint32_t next_ticket_ = 1;
    Deadlines deadlines_;
    std::unordered_map<const Source*, Deadlines::iterator> deadline_of_;
    std::shared_ptr<Source> to_flush_;  // the newest, linked to the others
    std::atomic<bool> any_to_flush_{false};
    static constexpr Clock::rep kNever = Clock::time_point::max().time_since_epoch().count();
    std::atomic<Clock::rep> next_deadline_{kNever};

    std::atomic<Clock::rep> last_steal_{0};
    std::atomic<std::uint32_t> polls_in_a_row_{0};
    EventFd nap_over_;
    std::atomic<bool> napping_{false};
};

constinit std::mutex g_start_lock;
constinit std::atomic<Reactor*> g_reactor{nullptr};

// The helper thread does not exist in the child, and its descriptors are the parent's: the child
// starts its own reactor when it first needs one. The old one is left alone.
void after_fork_in_child() {
    g_reactor.store(nullptr, std::memory_order_release);
    new (&g_start_lock) std::mutex;
}

Result<Reactor*> Reactor::start() noexcept try {
    const std::lock_guard guard(g_start_lock);
    if (Reactor* running = g_reactor.load(std::memory_order_acquire)) return running;
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    if (registered != 0) return failure(Errc::no_memory, registered);

    UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) return failure(Errc::device, errno);
    auto wake = EventFd::create();
    if (!wake) return failure(wake.error());
    auto nap_over = EventFd::create();
    if (!nap_over) return failure(nap_over.error());
    epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeToken}};
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake->fd(), &event) != 0)
        return failure(Errc::device, errno);
    // Never destroyed: the helper thread runs until the process is gone.
    auto reactor = std::unique_ptr<Reactor>(
        new Reactor(std::move(epoll), std::move(*wake), std::move(*nap_over)));
    if (const int error = start_helper_thread("fabric-compat", thread_main, reactor.get());
        error != 0) {
        COMPAT_LOG_ERROR("cannot start the helper thread, errno %d", error);
        return failure(Errc::no_memory, EAGAIN);
    }
    g_reactor.store(reactor.get(), std::memory_order_release);
    return reactor.release();
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void* Reactor::thread_main(void* self) noexcept {
    static_cast<Reactor*>(self)->run();
}

void Reactor::run() noexcept {
    for (;;) {
        while (leased()) nap();
        {
            const std::lock_guard guard(serving_);
            flush();
        }
        deliver_log();
        std::array<epoll_event, kBatch> events;
        const int count = epoll_wait(epoll_.get(), events.data(), kBatch, wait_ms());
        // The host has closed what is not its own: nothing to serve, and no reason to spin.
        if (count < 0 && errno != EINTR) ::poll(nullptr, 0, kUselessMs);
        take_wake(events.data(), count);
        {
            const std::lock_guard guard(serving_);
            serve(events.data(), count);
        }
        deliver_log();
    }
}

/// For the helper thread alone: if a poller took what is to wake it, it would sleep on.
void Reactor::take_wake(const epoll_event* events, int count) noexcept {
    for (int i = 0; i < count; ++i)
        while (events[i].data.u64 == kWakeToken && wake_.try_wait()) {
        }
}

// Level-triggered events that another thread has served meanwhile are harmless: the source finds
// nothing to do. The number of those that are for a source.
int Reactor::serve(const epoll_event* events, int count) noexcept {
    int served = 0;
    for (int i = 0; i < count; ++i) {
        if (events[i].data.u64 == kWakeToken) continue;
        if (const auto source = find(events[i].data.u64)) source->on_ready(events[i].events);
        ++served;
    }
    serve_deadlines();
    return served;
}

void Reactor::serve_deadlines() noexcept {
    const auto soonest = next_deadline_.load(std::memory_order_relaxed);
    if (soonest == kNever || soonest > Clock::now().time_since_epoch().count()) return;
    for (;;) {
        std::shared_ptr<Source> source;
        {
            const std::lock_guard guard(lock_);
            const auto first = deadlines_.begin();
            const auto next = first == deadlines_.end() ? Clock::time_point::max() : first->first;
            next_deadline_.store(next.time_since_epoch().count(), std::memory_order_relaxed);
            if (next > Clock::now()) return;
            source = first->second.source.lock();
            deadline_of_.erase(first->second.key);
            deadlines_.erase(first);
        }
        if (source) source->on_deadline();
    }
}

std::shared_ptr<Source> Reactor::find(std::uint64_t token) noexcept {
    const std::lock_guard guard(lock_);
    const auto found = watched_.find(static_cast<int>(token & 0xffffffffU));
    if (found == watched_.end() || found->second.ticket != token >> 32) return nullptr;
    return found->second.source;
}

int Reactor::wait_ms() noexcept {
    const auto next = next_deadline_.load(std::memory_order_relaxed);
    if (next == kNever) return -1;
    const auto left = Clock::time_point(Clock::duration(next)) - Clock::now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::clamp<decltype(ms)>(ms, 0, 60'000));
}

bool Reactor::leased() const noexcept {
    const auto last =
        Clock::time_point(Clock::duration(last_steal_.load(std::memory_order_relaxed)));
    return last != Clock::time_point() && Clock::now() - last < kLease;
}

void Reactor::nap() noexcept {
    napping_.store(true);
    // Whoever ends the lease after this look sees napping_ and posts.
    pollfd over{.fd = nap_over_.fd(), .events = POLLIN, .revents = 0};
    if (leased()) ::poll(&over, 1, static_cast<int>(kLease.count()));
    napping_.store(false);
    while (nap_over_.try_wait()) {
    }
}

void Reactor::steal() noexcept {
    const std::uint32_t polls = polls_in_a_row_.fetch_add(1, std::memory_order_relaxed);
    if (polls >= kPollsForLease && polls % kPollsForRenewal == 0)
        last_steal_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    std::unique_lock guard(serving_, std::try_to_lock);
    if (!guard.owns_lock()) return static_cast<void>(sched_yield());
    flush();
    std::array<epoll_event, kBatch> events;
    const int count = epoll_wait(epoll_.get(), events.data(), kBatch, 0);
    const int served = serve(events.data(), count);
    guard.unlock();
    if (served == 0 && polls % kPollsForYield == 0) sched_yield();
}

void Reactor::stop_stealing() noexcept {
    polls_in_a_row_.store(0, std::memory_order_relaxed);
    if (last_steal_.load(std::memory_order_relaxed) == 0) return;
    last_steal_.store(0);
    if (napping_.load()) nap_over_.post();
    // Whoever serves instead is the program, which flushes with its next poll, or the helper thread
    // before it sleeps.
    const std::unique_lock guard(serving_, std::try_to_lock);
    if (guard.owns_lock()) flush();
}

void Reactor::flush_later(const std::shared_ptr<Source>& source) noexcept {
    {
        const std::lock_guard guard(lock_);
        if (std::exchange(source->flush_link.asked, true)) return;
        source->flush_link.next = std::exchange(to_flush_, source);
        any_to_flush_.store(true, std::memory_order_release);
    }
    // While the lease lasts the helper thread does not sleep for long, and flushes after it.
    if (!leased()) wake_.post();
}

std::shared_ptr<Source> Reactor::next_to_flush() noexcept {
    const std::lock_guard guard(lock_);
    std::shared_ptr<Source> source = std::move(to_flush_);
    if (source) {
        to_flush_ = std::move(source->flush_link.next);
        source->flush_link.asked = false;
    }
    any_to_flush_.store(to_flush_ != nullptr, std::memory_order_relaxed);
    return source;
}

/// With serving_ held.
void Reactor::flush() noexcept {
    if (!any_to_flush_.load(std::memory_order_acquire)) return;
    while (const auto source = next_to_flush()) source->on_flush();
}

Status Reactor::watch(int fd, std::shared_ptr<Source> source, std::uint32_t events) noexcept try {
    const std::lock_guard guard(lock_);
    const std::uint32_t ticket = next_ticket_++;
    watched_[fd] = {ticket, std::move(source)};
    epoll_event event{.events = events,
                      .data = {.u64 = std::uint64_t{ticket} << 32 | static_cast<unsigned>(fd)}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    const int error = errno;
    watched_.erase(fd);
    return failure(Errc::device, error);
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void Reactor::rewatch(int fd, std::uint32_t events) noexcept {
    const std::lock_guard guard(lock_);
    const auto found = watched_.find(fd);
    if (found == watched_.end()) return;
    epoll_event event{
        .events = events,
        .data = {.u64 = std::uint64_t{found->second.ticket} << 32 | static_cast<unsigned>(fd)}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Reactor::unwatch(int fd) noexcept {
    std::shared_ptr<Source> source;  // destroyed after the lock is gone
    const std::lock_guard guard(lock_);
    const auto found = watched_.find(fd);
    if (found == watched_.end()) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    source = std::move(found->second.source);
    watched_.erase(found);
}

void Reactor::set_deadline(const std::shared_ptr<Source>& source, Clock::time_point when) noexcept
    try {
    bool closer = false;
    Deadlines fresh;
    fresh.emplace(when, Deadline{source.get(), source});
    {
        const std::lock_guard guard(lock_);
        const auto [own, is_new] = deadline_of_.try_emplace(source.get());
        if (!is_new) deadlines_.erase(own->second);
        own->second = deadlines_.insert(fresh.extract(fresh.begin()));
        const auto count = when.time_since_epoch().count();
        closer = count < next_deadline_.load(std::memory_order_relaxed);
        if (closer) next_deadline_.store(count, std::memory_order_relaxed);
    }
    if (closer) wake_.post();
} catch (const std::bad_alloc&) {
    COMPAT_LOG_ERROR("no memory for a deadline: what it guards may wait for ever");
}

void Reactor::cancel_deadline(const Source* source) noexcept {
    const std::lock_guard guard(lock_);
    const auto old = deadline_of_.find(source);
    if (old == deadline_of_.end()) return;
    deadlines_.erase(old->second);
    deadline_of_.erase(old);
}

}  // namespace

Status watch(int fd, std::shared_ptr<Source> source, std::uint32_t events) noexcept {
    const auto reactor = Reactor::start();
    if (!reactor) return failure(reactor.error());
    return (*reactor)->watch(fd, std::move(source), events);
}

void rewatch(int fd, std::uint32_t events) noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire)) reactor->rewatch(fd, events);
}

void unwatch(int fd) noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire)) reactor->unwatch(fd);
}

void set_deadline(const std::shared_ptr<Source>& source, Clock::time_point when) noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire))
        reactor->set_deadline(source, when);
}

void cancel_deadline(const Source* source) noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire))
        reactor->cancel_deadline(source);
}

bool program_polls() noexcept {
    const Reactor* reactor = g_reactor.load(std::memory_order_acquire);
    return reactor != nullptr && reactor->leased();
}

void flush_later(const std::shared_ptr<Source>& source) noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire)) reactor->flush_later(source);
}

void steal_progress() noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire)) reactor->steal();
}

void stop_stealing() noexcept {
    if (Reactor* reactor = g_reactor.load(std::memory_order_acquire)) reactor->stop_stealing();
}

}  // namespace compat::core::soft
