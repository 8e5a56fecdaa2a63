// SPDX-License-Identifier: BSD-3-Clause
// A completion queue of the engine over one of the device: what comes out are operations, not work
// requests. Reading takes completions straight from the device to the caller; the ring is for what
// somebody else's progress found, for errors, and for what the engine itself reports.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/lock.hpp"
#include "core/device/device.hpp"
#include "core/engine/completion.hpp"
#include "core/engine/cq_space.hpp"
#include "core/engine/progress_source.hpp"
#include "core/engine/progress_thread.hpp"
#include "core/engine/receive_queue.hpp"
#include "core/engine/transmit_queue.hpp"
#include "core/engine/waker.hpp"

namespace compat::core {

struct TrackedCqAttr {
    std::uint32_t size = 0;          ///< entries that posts may have on their way or unread
    bool keeps_entries = true;       ///< false: for counters only, entries are dropped
    bool automatic = false;          ///< what waits goes on although nobody reads
    std::uint32_t device_depth = 0;  ///< of the device's queue at first; 0: as size says
    StatScope scope = StatScope::program;
};

class TrackedCq final : public Driven {
public:
    /// What read() returns besides the number of entries.
    static constexpr long kEmpty = 0;
    static constexpr long kErrorFirst = -1;  ///< read_error() has it
    static constexpr long kDeviceFailed = -2;

    static Result<std::unique_ptr<TrackedCq>> create(Device& device,
                                                     const TrackedCqAttr& attr) noexcept;
    ~TrackedCq() override;
    TrackedCq(const TrackedCq&) = delete;
    TrackedCq& operator=(const TrackedCq&) = delete;

    /// Calls write(index, const Completion&) for up to max successful operations, index counting
    /// from 0, and may write fewer although there are more. Drives progress, with max 0 too.
    template <class Write>
    long read(std::size_t max, const Write& write) noexcept;
    /// Takes the error at the head; false when there is none.
    bool read_error(Completion& out) noexcept;
    void progress() noexcept;
    [[nodiscard]] bool has_entries() noexcept;

    /// Polls what the device has, having asked for an event of what comes next. True when nothing
    /// was left there: then channel_fd() becomes readable, or the waker is called, when something
    /// comes.
    bool arm_events() noexcept;
    /// The same, and no entry waits to be read: then who reads may sleep.
    bool arm() noexcept { return arm_events() && !has_entries(); }
    /// Readable when something came after arm(); -1 for none.
    [[nodiscard]] int channel_fd() const noexcept { return channel_->fd(); }
    /// Before the first arm(). For entries that the device does not announce.
    void set_waker(Waker* waker) noexcept { waker_.store(waker, std::memory_order_release); }
    void wake() noexcept {
        if (Waker* waker = waker_.load(std::memory_order_acquire)) waker->wake();
    }
    /// Adds an entry of the engine's own; a reserved one took its place beforehand.
    /// Errors: no_memory.
    Status push(const Completion& completion) noexcept;
    /// Whether `count` more entries find room: false while a program lets them pile up, too.
    bool prepare(std::size_t count) noexcept;
    /// What is to be driven with this queue. Errors: no_memory.
    Status add_source(ProgressSource& source) noexcept;
    void remove_source(ProgressSource& source) noexcept;  ///< it is not, and will not be, called

    [[nodiscard]] CompletionQueue& device_queue() noexcept { return *queue_; }
    [[nodiscard]] CqSpace& space() noexcept { return space_; }
    /// Held while completions are taken from the device and worked on.
    [[nodiscard]] Lock& lock() noexcept { return lock_; }

    // For the queues and connections of the engine.

    Result<std::uint32_t> attach(TransmitQueue& queue) noexcept;
    void detach(TransmitQueue& queue, std::uint32_t slot) noexcept;
    /// With lock() held. Errors: no_memory.
    Status add_port(std::uint32_t qp_num, const ReceivePort& port) noexcept;
    void remove_port(std::uint32_t qp_num) noexcept;  ///< with lock() held
    void count_work(int change) noexcept { work_.fetch_add(change); }
    /// Receive queues whose next receive goes to the device only when a message is taken from it.
    void count_chained(int change) noexcept { chained_.fetch_add(change); }
    /// Something waits for a completion: it will go on, whoever takes that.
    void attend() noexcept {
        if (automatic_ && !attended_.load()) [[unlikely]]
            attend_slowly();
    }

    // For the progress thread.

    [[nodiscard]] std::array<int, 2> channels() const noexcept override {
        return {channel_fd(), -1};
    }
    DriveNext drive() noexcept override;
    DriveNext look() noexcept override;

private:
    static constexpr std::size_t kBatch = 32;
    // Whoever only wants progress gets on in bounded time, however fast completions come.
    static constexpr int kMaxRounds = 8;
    static constexpr std::size_t kMaxUnread = std::size_t{1} << 17;

    struct PortRow {
        std::uint32_t qp_num;
        const ReceivePort* port;
    };

    struct RingSink {
        TrackedCq& cq;
        void success(void* context, std::uint64_t flags, CompletionKind kind) noexcept {
            emit({.context = context, .flags = flags, .kind = kind, .reserved = true});
        }
        void count(WcStatus status) noexcept { cq.count(status); }
        void emit(const Completion& completion) noexcept {
            cq.count(completion.status);
            if (cq.keeps_entries_)
                cq.ring_.push(completion);
            else if (completion.reserved)
                cq.space_.release(1);
        }
    };
    /// Straight to the caller of read(), while there is room.
    template <class Write>
    struct DirectSink {
        TrackedCq& cq;
        const Write& write;
        std::size_t written;
        std::size_t max;

        void count(WcStatus status) noexcept { cq.count(status); }
        void success(void* context, std::uint64_t flags, CompletionKind kind) noexcept {
            emit({.context = context, .flags = flags, .kind = kind, .reserved = true});
        }
        void emit(const Completion& completion) noexcept {
            cq.count(completion.status);
            if (completion.status != WcStatus::success || written == max || !cq.ring_.empty())
                return cq.keep(completion);
            write(written++, completion);
            if (completion.reserved) cq.space_.release(1);
        }
    };

    TrackedCq(const TrackedCqAttr& attr, std::unique_ptr<CompletionChannel> channel,
              std::unique_ptr<CompletionQueue> queue) noexcept;

    // With the lock held:
    template <class Sink>
    void dispatch(const WorkCompletion& wc, Sink& sink) noexcept;
    template <class Sink>
    long poll_device(std::size_t max, Sink& sink) noexcept;
    template <class Write>
    std::size_t dispatch_direct(const WorkCompletion& wc, const Write& write, std::size_t count,
                                std::size_t max) noexcept;
    template <class Write>
    long take_batch(std::size_t polled, std::size_t max, const Write& write) noexcept;
    template <class Write>
    long read_ring(std::size_t max, const Write& write) noexcept;
    template <class Write>
    long read_slow(std::size_t max, const Write& write) noexcept;
    void keep(const Completion& completion) noexcept;
    template <class Write>
    long read_with_sources(std::size_t max, const Write& write) noexcept;
    void drive_sources() noexcept;
    /// The program will be told of an end of this kind.
    void count(WcStatus status) noexcept { statistics_->add(stat_of(status), 1); }
    void run_work() noexcept;
    long progress_locked() noexcept;
    void drain_events() noexcept;
    DriveNext arm_locked() noexcept;
    void attend_slowly() noexcept;
    [[nodiscard]] bool is_awaited() const noexcept {
        return work_.load() != 0 || chained_.load() != 0;
    }
    /// A work completion gives one entry at most; they are taken only if all would find room. A
    /// program that lets entries pile up is held back by the device, whose own queues then fill.
    [[nodiscard]] bool takes_batch() noexcept {
        return ring_.size() < kMaxUnread && ring_.ensure_room(kBatch);
    }
    [[nodiscard]] const ReceivePort* find_port(std::uint32_t qp_num) noexcept;

    Lock lock_;
    bool keeps_entries_;
    const bool automatic_;
    bool armed_ = false;
    std::atomic<int> work_{0};  ///< transmit queues that wait for run()
    std::atomic<int> chained_{0};
    std::atomic<bool> attended_{false};  ///< the progress thread knows that something waits
    std::atomic<bool> watched_{false};   ///< it may know of the queue
    CompletionRing ring_;
    std::unique_ptr<CompletionChannel> channel_;
    std::unique_ptr<CompletionQueue> queue_;
    std::vector<TransmitQueue*> transmitters_;
    std::vector<PortRow> ports_;  ///< sorted by qp_num
    PortRow last_port_{0, nullptr};
    CqSpace space_;
    std::atomic<Waker*> waker_{nullptr};
    std::atomic<bool> has_sources_{false};
    Lock sources_lock_;  ///< taken before the locks of the sources, and never with lock_ held
    std::vector<ProgressSource*> sources_;
    Statistics statistics_;
    std::array<WorkCompletion, kBatch> wcs_;
};

template <class Sink>
inline void TrackedCq::dispatch(const WorkCompletion& wc, Sink& sink) noexcept {
    if (!wc.receive_side) {
        TransmitQueue::of(wc.wr_id, transmitters_.data())->complete(wc, sink);
        return;
    }
    const ReceivePort* port = find_port(wc.qp_num);
    if (wc.wr_id != 0) {
        ReceiveQueue::complete(wc, port, sink);
    } else if (port != nullptr && wc.status == WcStatus::success) {
        // Immediate data of a write that took no receive.
        sink.emit({.flags = port->write_flags,
                   .length = wc.byte_length,
                   .imm = wc.imm,
                   .peer = port->peer,
                   .kind = CompletionKind::remote_write,
                   .has_imm = wc.has_imm});
    }
}

/// The number of work completions, or kDeviceFailed.
template <class Sink>
long TrackedCq::poll_device(std::size_t max, Sink& sink) noexcept {
    if (!takes_batch()) [[unlikely]]
        return kEmpty;
    const auto polled = queue_->poll(std::span(wcs_).first(max));
    if (!polled) [[unlikely]]
        return kDeviceFailed;
    for (std::size_t at = 0; at < *polled; ++at) dispatch(wcs_[at], sink);
    if (work_.load(std::memory_order_acquire) != 0) [[unlikely]]
        run_work();
    return static_cast<long>(*polled);
}

template <class Write>
long TrackedCq::read_ring(std::size_t max, const Write& write) noexcept {
    std::size_t count = 0;
    std::uint32_t reserved = 0;
    while (max != 0 && !ring_.empty() && ring_.front().status == WcStatus::success) {
        write(count++, ring_.front());
        reserved += ring_.front().reserved ? 1 : 0;
        ring_.pop();
        --max;
    }
    if (reserved != 0) space_.release(reserved);
    if (count != 0) return static_cast<long>(count);
    return !ring_.empty() && ring_.front().status != WcStatus::success ? kErrorFirst : kEmpty;
}

/// With entries in the ring, with nothing to write, or for progress alone.
template <class Write>
[[gnu::noinline]] long TrackedCq::read_slow(std::size_t max, const Write& write) noexcept {
    const std::lock_guard guard(lock_);
    if (ring_.empty() || max == 0) {
        const long progressed = progress_locked();
        if (progressed == kDeviceFailed && ring_.empty()) return progressed;
    }
    return read_ring(max, write);
}

template <class Write>
[[gnu::noinline]] std::size_t TrackedCq::dispatch_direct(const WorkCompletion& wc,
                                                         const Write& write, std::size_t count,
                                                         std::size_t max) noexcept {
    DirectSink<Write> sink{*this, write, count, max};
    dispatch(wc, sink);
    return sink.written;
}

/// The sources' entries come through the ring.
template <class Write>
[[gnu::noinline]] long TrackedCq::read_with_sources(std::size_t max, const Write& write) noexcept {
    {
        const std::lock_guard guard(lock_);
        const long count = max != 0 ? read_ring(max, write) : kEmpty;
        if (count != kEmpty) return count;
    }
    drive_sources();
    return read_slow(max, write);
}

/// What read() polled; gives the lock back.
template <class Write>
[[gnu::noinline]] long TrackedCq::take_batch(std::size_t polled, std::size_t max,
                                             const Write& write) noexcept {
    std::size_t count = 0;
    std::uint32_t plain = 0;
    for (std::size_t at = 0; at < polled; ++at) {
        const WorkCompletion& wc = wcs_[at];
        Completion completion{.reserved = true};
        if (!wc.receive_side && count < max && ring_.empty() &&
            TransmitQueue::take_plain(wc, transmitters_.data(), completion)) [[likely]] {
            write(count++, completion);
            ++plain;
        } else {
            count = dispatch_direct(wc, write, count, max);
        }
    }
    if (work_.load() != 0) [[unlikely]]
        run_work();
    if (plain != 0) {
        space_.release(plain);
        statistics_->add(Stat::completions, plain);
    }
    lock_.unlock();
    return count != 0 ? static_cast<long>(count) : read_slow(max, write);
}

template <class Write>
[[gnu::always_inline]] inline long TrackedCq::read(std::size_t max, const Write& write) noexcept {
    if (has_sources_.load(std::memory_order_relaxed)) return read_with_sources(max, write);
    lock_.lock();
    if (!ring_.empty() || max == 0) [[unlikely]] {
        lock_.unlock();
        return read_slow(max, write);
    }
    // The ring is empty, and never smaller than a batch: whatever is polled finds room.
    const auto polled = queue_->poll({wcs_.data(), max < kBatch ? max : kBatch});
    if (polled && (*polled != 0 || work_.load() != 0)) return take_batch(*polled, max, write);
    lock_.unlock();
    return polled ? kEmpty : kDeviceFailed;
}

}  // namespace compat::core
