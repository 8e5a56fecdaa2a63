// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/cq_waiter.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/deferred_log.hpp"
#include "core/base/log.hpp"
#include "core/engine/operation.hpp"

namespace compat::core {

WaitedCq::WaitedCq(CqWaiter& waiter, std::unique_ptr<CompletionQueue> queue) noexcept
    : waiter_(waiter), queue_(std::move(queue)) {
    queue_->count_native_polls(native_statistics_.block());
    waiter_.attach(*this);
}

WaitedCq::~WaitedCq() {
    waiter_.detach(*this);
}

bool WaitedCq::probe() noexcept {
    if (queue_->is_hindered(kProbed) || queue_->has_completions()) return true;
    WorkCompletion wc;
    const auto polled = queue_->poll({&wc, 1});
    if (!polled) return true;  // the program has to hear of it, and it hears only when it polls
    if (*polled == 0) return false;
    probed_ = wc;
    queue_->hinder_native(kProbed);
    return true;
}

Status WaitedCq::arm() noexcept {
    const Status armed = queue_->request_notify(false);
    unarmed_ = !armed;
    return armed;
}

Result<std::size_t> WaitedCq::poll_queue(std::span<WorkCompletion> wcs,
                                         std::size_t taken) noexcept {
    if (taken == wcs.size()) return taken;
    auto polled = queue_->poll(wcs.subspan(taken));
    if (polled) return taken + *polled;
    if (taken != 0) return taken;
    return polled;
}

Result<std::size_t> WaitedCq::poll_locked(std::span<WorkCompletion> wcs) noexcept {
    std::size_t taken = 0;
    if (queue_->is_hindered(kProbed) && !wcs.empty()) {
        wcs[0] = probed_;
        queue_->allow_native(kProbed);
        taken = 1;
    }
    return poll_queue(wcs, taken);
}

void WaitedCq::add_trace(RequestTrace& trace) {
    const std::lock_guard lock(waiter_.mutex_);
    traces_.push_back(&trace);
    queue_->hinder_native(kTraced);
}

void WaitedCq::remove_trace(const RequestTrace& trace) noexcept {
    const std::lock_guard lock(waiter_.mutex_);
    std::erase(traces_, &trace);
}

void WaitedCq::trace(std::span<const WorkCompletion> wcs) noexcept {
    const std::lock_guard lock(waiter_.mutex_);
    for (const WorkCompletion& wc : wcs)
        for (RequestTrace* trace : traces_)
            if (trace->complete(wc)) break;
}

/// For one who found something probed.
[[gnu::noinline]] Result<std::size_t> WaitedCq::poll_probed(
    std::span<WorkCompletion> wcs) noexcept {
    const std::lock_guard lock(waiter_.mutex_);
    auto polled = poll_locked(wcs);
    if (polled && *polled < wcs.size()) waiter_.found_empty_locked();
    return polled;
}

inline Result<std::size_t> WaitedCq::poll_uncounted(std::span<WorkCompletion> wcs) noexcept {
    if (queue_->is_hindered(kProbed)) [[unlikely]]
        return poll_probed(wcs);
    auto polled = queue_->poll(wcs);
    if (!polled || !queue_->is_hindered(kWaited)) [[likely]]
        return polled;
    if (*polled == 0) return waiter_.poll_empty(*this, wcs);
    if (*polled < wcs.size()) waiter_.found_empty();
    return polled;
}

Result<std::size_t> WaitedCq::poll(std::span<WorkCompletion> wcs) noexcept {
    auto polled = poll_uncounted(wcs);
    if (!polled || *polled == 0) return polled;
    if (queue_->is_hindered(kTraced)) [[unlikely]]
        trace(wcs.first(*polled));
    std::size_t successes = 0;
    for (const WorkCompletion& wc : wcs.first(*polled)) {
        if (wc.status == WcStatus::success)
            ++successes;
        else
            statistics_->add_shared(stat_of(wc.status), 1);
    }
    statistics_->add_shared(Stat::completions, successes);
    return polled;
}

void WaitedCq::forget(std::uint32_t qp_num) noexcept {
    const std::lock_guard lock(waiter_.mutex_);
    if (probed_.qp_num == qp_num) queue_->allow_native(kProbed);
}

Result<std::unique_ptr<CqWaiter>> CqWaiter::create(Device& device) {
    auto channel = device.create_completion_channel();
    if (!channel) return failure(channel.error());
    return std::make_unique<CqWaiter>(std::move(*channel));
}

CqWaiter::CqWaiter(std::unique_ptr<CompletionChannel> channel) noexcept
    : channel_(std::move(channel)) {}

Result<std::unique_ptr<WaitedCq>> CqWaiter::create_cq(Device& device, std::uint32_t depth) {
    auto queue = device.create_cq(depth, channel_.get());
    if (!queue) return failure(queue.error());
    const Status armed = (*queue)->request_notify(false);
    if (!armed) return failure(armed.error());
    return std::make_unique<WaitedCq>(*this, std::move(*queue));
}

void CqWaiter::attach(WaitedCq& queue) noexcept {
    const std::lock_guard lock(mutex_);
    const auto slot = std::find(queues_.begin(), queues_.end(), nullptr);
    if (COMPAT_ASSERT(slot != queues_.end())) *slot = &queue;
    if (waited_) queue.queue_->hinder_native(WaitedCq::kWaited);
}

void CqWaiter::detach(WaitedCq& queue) noexcept {
    const std::lock_guard lock(mutex_);
    std::replace(queues_.begin(), queues_.end(), &queue, static_cast<WaitedCq*>(nullptr));
}

bool CqWaiter::readable() const noexcept {
    pollfd channel{.fd = channel_->fd(), .events = POLLIN, .revents = 0};
    return ::poll(&channel, 1, 0) == 1 && (channel.revents & POLLIN) != 0;
}

bool CqWaiter::nonblocking() const noexcept {
    const int flags = fcntl(channel_->fd(), F_GETFL);
    return flags < 0 || (flags & O_NONBLOCK) != 0;
}

WaitedCq* CqWaiter::any_ready() noexcept {
    for (WaitedCq* queue : queues_)
        if (queue != nullptr && queue->probe()) return queue;
    return nullptr;
}

Status CqWaiter::arm_all() noexcept {
    for (WaitedCq* queue : queues_) {
        if (queue == nullptr) continue;
        if (auto armed = queue->arm(); !armed) return armed;
    }
    return {};
}

/// What an earlier failure has left behind: its event has gone, so that nothing else would do it.
Status CqWaiter::arm_unarmed() noexcept {
    for (WaitedCq* queue : queues_) {
        if (queue == nullptr || !queue->unarmed_) continue;
        if (auto armed = queue->arm(); !armed) return armed;
    }
    return {};
}

/// Blocks unless the descriptor has O_NONBLOCK.
Result<CompletionQueue*> CqWaiter::take_event() noexcept {
    auto event = channel_->get_event();
    if (event || event.error().code == Errc::would_block || event.error().code == Errc::interrupted)
        return event;
    COMPAT_LOG_ERROR("completion channel failed, errno %d", event.error().device_errno);
    return failure(Errc::interrupted, event.error().device_errno);
}

/// Arms the queue of an event again; the queue if it has a completion, else null: the event was
/// stale.
Result<WaitedCq*> CqWaiter::consume(CompletionQueue* event) noexcept {
    const auto is_source = [event](const WaitedCq* queue) {
        return queue != nullptr && queue->queue_.get() == event;
    };
    const auto source = std::find_if(queues_.begin(), queues_.end(), is_source);
    if (source == queues_.end()) {
        COMPAT_LOG_ERROR("completion event of an unknown cq");
        return failure(Errc::wrong_state);
    }
    // Armed first, looked into second: what comes in between is seen by the look.
    if (const Status armed = (*source)->arm(); !armed) {
        COMPAT_LOG_ERROR("cq cannot be armed again, errno %d", armed.error().device_errno);
        return failure(Errc::device, armed.error().device_errno);
    }
    return (*source)->probe() ? *source : nullptr;
}

/// Without sleeping: the queue of the oldest event that is not stale, else any queue with a
/// completion, else null.
Result<WaitedCq*> CqWaiter::find_ready() noexcept {
    for (;;) {
        // While another thread sleeps in get_event() the events are its own: it might take the one
        // that is readable now, and this thread would block with the lock held.
        while (sleeping_ == 0 && readable()) {
            const auto event = take_event();
            if (!event) return failure(event.error());
            auto ready = consume(*event);
            if (!ready || *ready != nullptr) return ready;
        }
        WaitedCq* const ready = any_ready();
        // What was found may be younger than what has come to a queue looked at before it.
        if (ready == nullptr || sleeping_ != 0 || !readable()) return ready;
    }
}

Result<WaitedCq*> CqWaiter::wait() noexcept {
    std::unique_lock lock(mutex_);
    set_waited(true);
    const Status armed = arm_unarmed();
    auto ready = find_ready();
    while (ready && *ready == nullptr) {
        if (!armed) return failure(Errc::device, armed.error().device_errno);
        if (nonblocking()) return failure(Errc::would_block);
        ++sleeping_;
        lock.unlock();
        deliver_log();
        const auto event = take_event();
        lock.lock();
        --sleeping_;
        if (!event) return failure(event.error());
        ready = consume(*event);
    }
    return ready;
}

/// Takes every event from the channel if no queue has a completion. False if one has: its events
/// must stay, for the sake of those who watch the descriptor.
Result<bool> CqWaiter::drain_stale_events() noexcept {
    while (sleeping_ == 0 && readable()) {
        // Armed before looking, and looked before taking: a completion that comes after the look
        // raises an event of its own, and only the older, stale one is taken.
        if (const Status armed = arm_all(); !armed) return failure(armed.error());
        if (any_ready() != nullptr) return false;
        if (const auto event = take_event(); !event) break;
    }
    return true;
}

void CqWaiter::set_waited(bool waited) noexcept {
    if (waited == waited_) return;
    waited_ = waited;
    for (WaitedCq* queue : queues_) {
        if (queue == nullptr) continue;
        if (waited)
            queue->queue_->hinder_native(WaitedCq::kWaited);
        else
            queue->queue_->allow_native(WaitedCq::kWaited);
    }
}

/// A poll that asked for more has emptied a queue, and its program may not poll again before it
/// looks at the descriptor.
void CqWaiter::found_empty() noexcept {
    const std::lock_guard lock(mutex_);
    found_empty_locked();
}

void CqWaiter::found_empty_locked() noexcept {
    const auto drained = drain_stale_events();
    if (drained && *drained) set_waited(false);
}

/// The queue was found empty, and somebody waits for events.
Result<std::size_t> CqWaiter::poll_empty(WaitedCq& queue, std::span<WorkCompletion> wcs) noexcept {
    const std::lock_guard lock(mutex_);
    const auto drained = drain_stale_events();
    if (!drained) return failure(drained.error());
    if (*drained) set_waited(false);
    return queue.poll_locked(wcs);
}

}  // namespace compat::core
