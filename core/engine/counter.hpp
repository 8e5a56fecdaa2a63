// SPDX-License-Identifier: BSD-3-Clause
// Counts completed operations instead of, or besides, queueing their completions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/lock.hpp"
#include "core/device/device.hpp"
#include "core/engine/waker.hpp"

namespace compat::core {

class TrackedCq;

enum class CounterUnit : std::uint8_t { operations, bytes };

class Counter {
public:
    explicit Counter(CounterUnit unit = CounterUnit::operations) noexcept : unit_(unit) {}
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;

    [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(); }
    [[nodiscard]] std::uint64_t errors() const noexcept { return errors_.load(); }

    /// One operation of so many bytes has completed.
    void tick(std::uint64_t bytes) noexcept { add(unit_ == CounterUnit::bytes ? bytes : 1); }
    void add(std::uint64_t amount) noexcept {
        value_.fetch_add(amount);
        wake_waiters();
    }
    void add_errors(std::uint64_t amount) noexcept {
        errors_.fetch_add(amount);
        wake_waiters();
    }
    void set(std::uint64_t value) noexcept {
        value_.store(value);
        wake_waiters();
    }
    void set_errors(std::uint64_t value) noexcept {
        errors_.store(value);
        wake_waiters();
    }

    /// What has to be polled for this counter to move; true when it was not attached yet. A queue
    /// attached n times leaves after n detachments. Errors: no_memory.
    Result<bool> attach(TrackedCq& queue) noexcept;
    bool detach(TrackedCq& queue) noexcept;  ///< true when it has left
    /// Polls the attached queues.
    void progress() noexcept;
    /// Arms the attached queues. True when nothing is left there: their channels may be slept on,
    /// after another look at the values.
    bool arm() noexcept;

    /// Between the two calls every change wakes the waker. Whoever waits looks at the values after
    /// begin_wait() and before it sleeps.
    void begin_wait() noexcept { waiters_.fetch_add(1); }
    void end_wait() noexcept { waiters_.fetch_sub(1); }
    /// Before the first wait; null: nobody waits on this one.
    void set_waker(Waker* waker) noexcept { waker_ = waker; }

private:
    struct Source {
        TrackedCq* queue;
        std::size_t uses;
    };

    void wake_waiters() noexcept {
        if (waiters_.load() != 0 && waker_ != nullptr) waker_->wake();
    }

    std::atomic<std::uint64_t> value_{0};
    std::atomic<std::uint64_t> errors_{0};
    std::atomic<std::uint32_t> waiters_{0};
    CounterUnit unit_;
    Waker* waker_ = nullptr;
    Lock lock_;
    std::vector<Source> sources_;
};

/// Counts what peers do to a region or through a QP. Either counter may be null.
class RemoteCounters final : public RemoteAccessObserver {
public:
    void set(Counter* writes, Counter* reads) noexcept {
        writes_ = writes;
        reads_ = reads;
    }
    [[nodiscard]] bool empty() const noexcept { return writes_ == nullptr && reads_ == nullptr; }
    void remote_access(Opcode opcode, std::uint64_t bytes) noexcept override;

private:
    Counter* writes_ = nullptr;
    Counter* reads_ = nullptr;
};

}  // namespace compat::core
