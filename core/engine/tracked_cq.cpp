// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/tracked_cq.hpp"

#include <algorithm>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/nonblocking.hpp"

namespace compat::core {

TrackedCq::TrackedCq(const TrackedCqAttr& attr, std::unique_ptr<CompletionChannel> channel,
                     std::unique_ptr<CompletionQueue> queue) noexcept
    : keeps_entries_(attr.keeps_entries),
      automatic_(attr.automatic),
      channel_(std::move(channel)),
      queue_(std::move(queue)),
      space_(attr.size),
      statistics_(attr.scope) {}

Result<std::unique_ptr<TrackedCq>> TrackedCq::create(Device& device,
                                                     const TrackedCqAttr& attr) noexcept {
    auto channel = device.create_completion_channel();
    if (!channel) return failure(channel.error());
    if (Status set = set_nonblocking((*channel)->fd()); !set) return failure(set.error());
    // The device makes room for what each of its QPs can have outstanding.
    constexpr std::uint32_t kHiddenDepth = 64;
    std::uint32_t wanted = attr.keeps_entries ? attr.size : kHiddenDepth;
    if (attr.device_depth != 0) wanted = attr.device_depth;
    const std::uint32_t depth = std::clamp(wanted, 1U, device.limits().max_cqe);
    auto queue = device.create_cq(depth, channel->get());
    if (!queue) return failure(queue.error());
    std::unique_ptr<TrackedCq> cq(new (std::nothrow)
                                      TrackedCq(attr, std::move(*channel), std::move(*queue)));
    if (!cq) return failure(Errc::no_memory);
    if (const Status room = cq->ring_.ensure_room(kBatch); !room) return failure(room.error());
    return cq;
}

TrackedCq::~TrackedCq() {
    if (watched_.load()) unwatch_progress(*this);
}

bool TrackedCq::read_error(Completion& out) noexcept {
    drive_sources();
    const std::lock_guard guard(lock_);
    if (ring_.empty()) progress_locked();
    if (ring_.empty() || ring_.front().status == WcStatus::success) return false;
    out = ring_.front();
    ring_.pop();
    if (out.reserved) space_.release(1);
    return true;
}

/// kDeviceFailed, or whatever.
long TrackedCq::progress_locked() noexcept {
    RingSink sink{*this};
    // Without a QP there is nothing in the device's queue, and a look would cost.
    const bool unused = ports_.empty() && transmitters_.empty();
    long polled = unused ? kEmpty : kBatch;
    for (int round = 0; round < kMaxRounds && polled == kBatch; ++round)
        polled = poll_device(kBatch, sink);
    return polled;
}

void TrackedCq::progress() noexcept {
    drive_sources();
    const std::lock_guard guard(lock_);
    progress_locked();
}

void TrackedCq::drive_sources() noexcept {
    // Whoever holds the lock is driving them.
    if (!has_sources_.load(std::memory_order_relaxed) || !sources_lock_.try_lock()) return;
    for (ProgressSource* source : sources_) source->progress();
    sources_lock_.unlock();
}

Status TrackedCq::add_source(ProgressSource& source) noexcept try {
    const std::lock_guard guard(sources_lock_);
    sources_.push_back(&source);
    has_sources_.store(true);
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void TrackedCq::remove_source(ProgressSource& source) noexcept {
    const std::lock_guard guard(sources_lock_);
    std::erase(sources_, &source);
    has_sources_.store(!sources_.empty());
}

bool TrackedCq::has_entries() noexcept {
    const std::lock_guard guard(lock_);
    return !ring_.empty();
}

void TrackedCq::keep(const Completion& completion) noexcept {
    ring_.push(completion);
}

void TrackedCq::run_work() noexcept {
    RingSink sink{*this};
    for (TransmitQueue* transmitter : transmitters_)
        if (transmitter != nullptr && transmitter->has_work()) transmitter->run(sink);
}

void TrackedCq::drain_events() noexcept {
    while (channel_->get_event()) armed_ = false;
}

bool TrackedCq::arm_events() noexcept {
    if (has_sources_.load(std::memory_order_relaxed)) {
        const std::lock_guard guard(sources_lock_);
        for (ProgressSource* source : sources_) source->hand_over();
    }
    const std::lock_guard guard(lock_);
    return arm_locked() == DriveNext::sleep;
}

/// Whether an event will tell of what comes next, and if not, what to do instead.
DriveNext TrackedCq::arm_locked() noexcept {
    drain_events();
    // An armed queue stays so until its event: arming again would only cost a call.
    if (!armed_) armed_ = queue_->request_notify(false).has_value();
    RingSink sink{*this};
    // What was there before raises no event.
    for (int round = 0; round < kMaxRounds; ++round)
        if (poll_device(kBatch, sink) <= 0)
            return armed_ && takes_batch() ? DriveNext::sleep : DriveNext::look_later;
    return DriveNext::again;
}

// --- what waits while nobody reads

void TrackedCq::attend_slowly() noexcept {
    if (attended_.exchange(true)) return;
    watched_.store(true);
    // The next one that has to wait tries again.
    if (!watch_progress(*this)) attended_.store(false);
}

/// The event stays where it is: a program may sleep on the channel.
DriveNext TrackedCq::drive() noexcept {
    bool found = false;
    bool tells = false;
    {
        const std::lock_guard guard(lock_);
        RingSink sink{*this};
        long polled = kBatch;
        for (int round = 0; round < kMaxRounds && polled == kBatch; ++round) {
            polled = poll_device(kBatch, sink);
            found = found || polled > 0;
        }
        tells = found && !ring_.empty();
    }
    if (tells) wake();
    // Otherwise the program was faster: it reads, and need not be helped.
    return found ? DriveNext::look_soon : DriveNext::look_later;
}

DriveNext TrackedCq::look() noexcept {
    if (!is_awaited()) {
        attended_.store(false);
        // Whoever began to wait before that took it for attended.
        if (!is_awaited() || attended_.exchange(true)) return DriveNext::leave;
    }
    bool tells = false;
    DriveNext next = DriveNext::sleep;
    {
        const std::lock_guard guard(lock_);
        next = arm_locked();
        tells = !ring_.empty();
    }
    if (tells) wake();  // the event that it sleeps for is perhaps taken
    return next;
}

bool TrackedCq::prepare(std::size_t count) noexcept {
    const std::lock_guard guard(lock_);
    return !keeps_entries_ || (ring_.size() < kMaxUnread && ring_.ensure_room(count));
}

Status TrackedCq::push(const Completion& completion) noexcept {
    {
        const std::lock_guard guard(lock_);
        count(completion.status);
        if (!keeps_entries_) {
            if (completion.reserved) space_.release(1);
            return {};
        }
        if (Status room = ring_.ensure_room(1); !room) return room;
        ring_.push(completion);
    }
    wake();
    return {};
}

Result<std::uint32_t> TrackedCq::attach(TransmitQueue& queue) noexcept try {
    const std::lock_guard guard(lock_);
    const auto free = std::find(transmitters_.begin(), transmitters_.end(), nullptr);
    const auto slot = static_cast<std::uint32_t>(free - transmitters_.begin());
    if (slot == TransmitQueue::kMaxQueues) return failure(Errc::no_memory);
    if (free == transmitters_.end())
        transmitters_.push_back(&queue);
    else
        *free = &queue;
    return slot;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void TrackedCq::detach(TransmitQueue& queue, std::uint32_t slot) noexcept {
    const std::lock_guard guard(lock_);
    if (queue.has_work()) count_work(-1);
    transmitters_[slot] = nullptr;
}

Status TrackedCq::add_port(std::uint32_t qp_num, const ReceivePort& port) noexcept try {
    const auto before = [](const PortRow& row, std::uint32_t number) {
        return row.qp_num < number;
    };
    const auto at = std::lower_bound(ports_.begin(), ports_.end(), qp_num, before);
    COMPAT_ASSERT(at == ports_.end() || at->qp_num != qp_num);
    ports_.insert(at, {qp_num, &port});
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void TrackedCq::remove_port(std::uint32_t qp_num) noexcept {
    last_port_ = {0, nullptr};
    std::erase_if(ports_, [qp_num](const PortRow& row) { return row.qp_num == qp_num; });
}

const ReceivePort* TrackedCq::find_port(std::uint32_t qp_num) noexcept {
    if (last_port_.port != nullptr && last_port_.qp_num == qp_num) return last_port_.port;
    const auto before = [](const PortRow& row, std::uint32_t number) {
        return row.qp_num < number;
    };
    const auto at = std::lower_bound(ports_.begin(), ports_.end(), qp_num, before);
    if (at == ports_.end() || at->qp_num != qp_num) return nullptr;
    last_port_ = *at;
    return at->port;
}

}  // namespace compat::core
