// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and completion channels of the software device.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/event_fd.hpp"
#include "core/base/lock.hpp"
#include "core/base/origin.hpp"
#include "core/device/device.hpp"

namespace compat::core::soft {

class SoftCq;

/// Waiting events are counted on the CQ and the CQs chained through themselves: an event costs no
/// allocation, and a program that arms without ever taking its events costs no memory.
class SoftChannel final : public CompletionChannel {
public:
    static Result<std::unique_ptr<SoftChannel>> create() noexcept;
    [[nodiscard]] int fd() const noexcept override { return ready_.fd(); }
    Result<CompletionQueue*> get_event() noexcept override;

    void raise(SoftCq* cq) noexcept;
    void forget(SoftCq* cq) noexcept;  ///< drops its waiting events

private:
    explicit SoftChannel(EventFd ready) : ready_(std::move(ready)) {}
    SoftCq* take_first() noexcept;
    void append(SoftCq* cq) noexcept;
    void unlink(SoftCq* cq) noexcept;

    EventFd ready_;  ///< semaphore: as many as events wait
    const Origin origin_;
    std::mutex lock_;
    SoftCq* first_ = nullptr;
    SoftCq* last_ = nullptr;
};

/// Queue slots that an entry gives back when it is polled.
struct SlotRelease {
    std::atomic<std::uint32_t>* slots_in_use = nullptr;
    std::uint32_t count = 0;
};

class SoftCq final : public CompletionQueue {
public:
    SoftCq(std::uint32_t depth, SoftChannel* channel);
    ~SoftCq() override;

    Result<std::size_t> poll(std::span<WorkCompletion> wcs) noexcept override;
    Status request_notify(bool solicited_only) noexcept override;
    [[nodiscard]] bool has_completions() const noexcept override;

    /// Makes room for all that one more QP can have outstanding, so that nothing ever overruns.
    /// Errors: no_memory.
    Status reserve(std::uint32_t entries) noexcept;
    void unreserve(std::uint32_t entries) noexcept;

    /// owner is whose entries purge() removes. solicited: the sender asked for it, or an error.
    /// Entries beyond the reservation (there should be none) still find room or COMPAT_ASSERT.
    void push(const WorkCompletion& wc, const void* owner, SlotRelease release,
              bool solicited) noexcept;
    /// Removes the owner's entries and gives their slots back.
    void purge(const void* owner) noexcept;

private:
    friend class SoftChannel;
    enum class Armed : std::uint8_t { no, solicited, any };
    struct Entry {
        WorkCompletion wc;
        const void* owner = nullptr;
        SlotRelease release;
    };
    std::size_t take(std::span<WorkCompletion> wcs) noexcept;
    Entry& at(std::size_t position) noexcept;  ///< 0 is the oldest
    Status grow(std::size_t capacity) noexcept;
    void await_push() const noexcept;      ///< an event is out: until its completion can be seen
    bool disarm(bool solicited) noexcept;  ///< true when an event is due

    SoftChannel* channel_;
    mutable Lock lock_;
    std::vector<Entry> ring_;  ///< a power of two, and no less than depth or the reservations
    std::size_t head_ = 0;
    std::atomic<std::size_t> size_{0};  ///< written under the lock, peeked at without
    std::size_t reserved_ = 0;
    Armed armed_ = Armed::no;

    // The channel's, under its lock.
    std::uint64_t waiting_events_ = 0;
    SoftCq* next_with_event_ = nullptr;
};

}  // namespace compat::core::soft
