// SPDX-License-Identifier: BSD-3-Clause
// Sleeping for completions without the traps of verbs: after ibv_req_notify_cq a completion that is
// in the queue already raises no event, and the event of a completion that was polled in the
// meantime stays on the channel. A waiter hides both: wait() returns when, and only when, a queue
// of its channel has a completion.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/statistics.hpp"
#include "core/device/device.hpp"
#include "core/engine/request_trace.hpp"

namespace compat::core {

class CqWaiter;

/// A CQ attached to a waiter's channel. It is armed at all times; where the device refuses that, a
/// wait() says so and the next one tries again.
class WaitedCq {
public:
    WaitedCq(CqWaiter& waiter, std::unique_ptr<CompletionQueue> queue) noexcept;
    ~WaitedCq();
    WaitedCq(const WaitedCq&) = delete;
    WaitedCq& operator=(const WaitedCq&) = delete;

    /// As CompletionQueue::poll(). An emptied queue after a wait() takes back the events on the
    /// channel that have become stale, so that its descriptor tells the truth; a program that never
    /// waits pays nothing for that.
    Result<std::size_t> poll(std::span<WorkCompletion> wcs) noexcept;
    /// Whose poll_native() does the same as poll(), while it is not hindered.
    [[nodiscard]] CompletionQueue& native() noexcept { return *queue_; }
    /// Drops what was taken from the device for a QP that is being destroyed.
    void forget(std::uint32_t qp_num) noexcept;
    /// Whose requests may complete here; not without a trace.
    void add_trace(RequestTrace& trace);
    void remove_trace(const RequestTrace& trace) noexcept;
    /// For QpAttr only; completions are taken by poll().
    [[nodiscard]] CompletionQueue& queue() noexcept { return *queue_; }

private:
    friend class CqWaiter;

    // Why completions do not come by poll_native().
    static constexpr std::uint8_t kWaited = 1;  ///< CqWaiter::waited_
    static constexpr std::uint8_t kProbed = 2;  ///< probed_ is full
    static constexpr std::uint8_t kTraced = 4;

    // With the waiter's lock held:
    bool probe() noexcept;
    Status arm() noexcept;
    Result<std::size_t> poll_locked(std::span<WorkCompletion> wcs) noexcept;

    void trace(std::span<const WorkCompletion> wcs) noexcept;
    Result<std::size_t> poll_probed(std::span<WorkCompletion> wcs) noexcept;
    Result<std::size_t> poll_uncounted(std::span<WorkCompletion> wcs) noexcept;
    Result<std::size_t> poll_queue(std::span<WorkCompletion> wcs, std::size_t taken) noexcept;

    CqWaiter& waiter_;
    Statistics native_statistics_;  ///< the device's, for native polls, until the queue's end
    std::unique_ptr<CompletionQueue> queue_;
    // A completion that probe() had to take to learn that there is one: has_completions() may say
    // no although there are some (hardware cannot know).
    WorkCompletion probed_;              ///< while kProbed is set
    bool unarmed_ = false;               ///< its event was taken, and it could not be armed again
    std::vector<RequestTrace*> traces_;  ///< with the waiter's lock held
    Statistics statistics_;
};

/// A completion channel and the (at most two) CQs that report to it.
class CqWaiter {
public:
    static constexpr std::size_t kMaxQueues = 2;

    static Result<std::unique_ptr<CqWaiter>> create(Device& device);
    explicit CqWaiter(std::unique_ptr<CompletionChannel> channel) noexcept;

    /// An armed CQ of depth entries; it must not outlive the waiter.
    Result<std::unique_ptr<WaitedCq>> create_cq(Device& device, std::uint32_t depth);

    [[nodiscard]] int fd() const noexcept { return channel_->fd(); }

    /// A queue that has a completion. Sleeps until there is one unless fd() has O_NONBLOCK.
    /// Errors: would_block; interrupted (a signal, or the channel failed, which is logged);
    /// wrong_state (event of a queue that is not this waiter's); device (could not be armed).
    Result<WaitedCq*> wait() noexcept;

private:
    friend class WaitedCq;

    void attach(WaitedCq& queue) noexcept;
    void detach(WaitedCq& queue) noexcept;
    [[nodiscard]] bool readable() const noexcept;
    [[nodiscard]] bool nonblocking() const noexcept;

    Result<CompletionQueue*> take_event() noexcept;

    // With the lock held:
    Result<WaitedCq*> find_ready() noexcept;
    Result<WaitedCq*> consume(CompletionQueue* event) noexcept;
    WaitedCq* any_ready() noexcept;
    Status arm_all() noexcept;
    Status arm_unarmed() noexcept;

    void set_waited(bool waited) noexcept;
    void found_empty() noexcept;
    void found_empty_locked() noexcept;
    Result<std::size_t> poll_empty(WaitedCq& queue, std::span<WorkCompletion> wcs) noexcept;
    Result<bool> drain_stale_events() noexcept;

    std::unique_ptr<CompletionChannel> channel_;
    std::mutex mutex_;
    std::array<WaitedCq*, kMaxQueues> queues_{};
    int sleeping_ = 0;     ///< threads inside a blocking get_event()
    bool waited_ = false;  ///< wait() was called since the channel was last drained
};

}  // namespace compat::core
