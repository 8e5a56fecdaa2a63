// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/completion.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "core/base/assert.hpp"
#include "core/device/soft/reactor.hpp"

namespace compat::core::soft {
namespace {

void give_back(const SlotRelease& release) noexcept {
    if (release.slots_in_use != nullptr && release.count != 0)
        release.slots_in_use->fetch_sub(release.count, std::memory_order_release);
}

}  // namespace

Result<std::unique_ptr<SoftChannel>> SoftChannel::create() noexcept {
    auto ready = EventFd::create();
    if (!ready) return failure(ready.error());
    std::unique_ptr<SoftChannel> channel(new (std::nothrow) SoftChannel(std::move(*ready)));
    if (!channel) return failure(Errc::no_memory);
    return channel;
}

Result<CompletionQueue*> SoftChannel::get_event() noexcept {
    stop_stealing();
    for (;;) {
        const Status ready = ready_.wait();
        if (!ready) return failure(ready.error());
        // Empty when forget() came between and could not take the count back: wait again.
        if (SoftCq* cq = take_first(); cq != nullptr) {
            cq->await_push();
            return cq;
        }
    }
}

SoftCq* SoftChannel::take_first() noexcept {
    const std::lock_guard guard(lock_);
    SoftCq* cq = first_;
    if (cq == nullptr) return nullptr;
    unlink(cq);
    if (--cq->waiting_events_ > 0) append(cq);
    return cq;
}

void SoftChannel::raise(SoftCq* cq) noexcept {
    {
        const std::lock_guard guard(lock_);
        if (cq->waiting_events_++ == 0) append(cq);
    }
    ready_.post();
}

void SoftChannel::forget(SoftCq* cq) noexcept {
    const std::lock_guard guard(lock_);
    if (cq->waiting_events_ == 0) return;
    unlink(cq);
    for (; cq->waiting_events_ > 0; --cq->waiting_events_)
        if (!origin_.is_parent()) ready_.try_wait();
}

void SoftChannel::append(SoftCq* cq) noexcept {
    cq->next_with_event_ = nullptr;
    (last_ != nullptr ? last_->next_with_event_ : first_) = cq;
    last_ = cq;
}

void SoftChannel::unlink(SoftCq* cq) noexcept {
    SoftCq* before = nullptr;
    for (SoftCq* one = first_; one != cq; one = one->next_with_event_) before = one;
    (before != nullptr ? before->next_with_event_ : first_) = cq->next_with_event_;
    if (last_ == cq) last_ = before;
}

SoftCq::SoftCq(std::uint32_t depth, SoftChannel* channel)
    : channel_(channel), ring_(std::bit_ceil(std::size_t{depth})) {}

SoftCq::~SoftCq() {
    if (channel_ != nullptr) channel_->forget(this);
}

Result<std::size_t> SoftCq::poll(std::span<WorkCompletion> wcs) noexcept {
    if (wcs.empty()) return std::size_t{0};
    if (!has_completions()) {
        steal_progress();
        if (!has_completions()) return std::size_t{0};
    }
    return take(wcs);
}

std::size_t SoftCq::take(std::span<WorkCompletion> wcs) noexcept {
    const std::lock_guard guard(lock_);
    const std::size_t count = std::min(wcs.size(), size_.load(std::memory_order_relaxed));
    for (std::size_t i = 0; i < count; ++i) {
        const Entry& entry = at(i);
        wcs[i] = entry.wc;
        give_back(entry.release);  // under the lock: after purge() the counter may be gone
    }
    if (count == 0) return 0;
    head_ = (head_ + count) & (ring_.size() - 1);
    size_.fetch_sub(count, std::memory_order_release);
    return count;
}

Status SoftCq::request_notify(bool solicited_only) noexcept {
    stop_stealing();  // who arms means to sleep
    const std::lock_guard guard(lock_);
    if (!solicited_only)
        armed_ = Armed::any;
    else if (armed_ == Armed::no)
        armed_ = Armed::solicited;
    return {};
}

bool SoftCq::has_completions() const noexcept {
    return size_.load(std::memory_order_acquire) != 0;
}

Status SoftCq::reserve(std::uint32_t entries) noexcept {
    const std::lock_guard guard(lock_);
    const std::size_t needed = reserved_ + entries;
    if (needed > ring_.size()) {
        // By more than is asked for: a queue may serve thousands of QPs, each of which comes here.
        if (const Status grown = grow(needed + needed / 2); !grown) return grown;
    }
    reserved_ = needed;
    return {};
}

void SoftCq::unreserve(std::uint32_t entries) noexcept {
    const std::lock_guard guard(lock_);
    if (COMPAT_ASSERT(entries <= reserved_)) reserved_ -= entries;
}

void SoftCq::push(const WorkCompletion& wc, const void* owner, SlotRelease release,
                  bool solicited) noexcept {
    const std::lock_guard guard(lock_);
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (!COMPAT_ASSERT(size < ring_.size()) && !grow(2 * size + 1)) {
        give_back(release);
        return;
    }
    at(size) = {wc, owner, release};
    // The event first: whoever has polled the completion can then take its event back, and is not
    // sent to sleep by a descriptor that becomes readable afterwards. Whoever takes the event waits
    // for the completion.
    if (disarm(solicited) && channel_ != nullptr) channel_->raise(this);
    size_.store(size + 1, std::memory_order_release);
}

void SoftCq::await_push() const noexcept {
    const std::lock_guard guard(lock_);
}

bool SoftCq::disarm(bool solicited) noexcept {
    if (armed_ == Armed::no || (armed_ == Armed::solicited && !solicited)) return false;
    armed_ = Armed::no;
    return true;
}

void SoftCq::purge(const void* owner) noexcept {
    const std::lock_guard guard(lock_);
    const std::size_t size = size_.load(std::memory_order_relaxed);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size; ++i) {
        if (at(i).owner == owner)
            give_back(at(i).release);
        else
            at(kept++) = at(i);
    }
    size_.store(kept, std::memory_order_release);
}

SoftCq::Entry& SoftCq::at(std::size_t position) noexcept {
    return ring_[(head_ + position) & (ring_.size() - 1)];
}

Status SoftCq::grow(std::size_t capacity) noexcept try {
    std::vector<Entry> larger(std::bit_ceil(capacity));
    const std::size_t size = size_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < size; ++i) larger[i] = at(i);
    ring_.swap(larger);
    head_ = 0;
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

}  // namespace compat::core::soft
