// SPDX-License-Identifier: BSD-3-Clause
// What is posted, remembered until its completion has been polled. A work request's wr_id at the
// device is the address of its slot; the program's own is in there.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/types.hpp"

namespace compat::core::verbs {

enum class SlotKind : std::uint8_t {
    send,
    receive,
    shared_receive,  ///< of an SRQ
    drained,         ///< our own, behind the last request before a disconnect
};

struct Slot {
    std::uint64_t wr_id = 0;
    std::uint64_t end = 0;  ///< of a ring: the position behind it
    void* owner = nullptr;  ///< SlotRing, VerbsSrq or VerbsQp, by kind
    SlotKind kind = SlotKind::send;
    SendFlags flags = SendFlag::signaled;
};

/// The slots of a queue that completes in posting order. One poster at a time, one poller at a
/// time; they share no lock. Positions count up for ever, in the size of a slot: then a position
/// has to be cut to the ring's size only to be the distance of its slot.
class SlotRing {
public:
    SlotRing(SlotKind kind, std::uint32_t depth)
        : depth_(depth * kStep), mask_((std::bit_ceil(std::uint64_t{depth} + 1) - 1) * kStep) {
        slots_.resize(mask_ / kStep + 1);
        for (Slot& slot : slots_) {
            slot.owner = this;
            slot.kind = kind;
        }
    }

    /// For one more request; null when the queue is full. It counts from commit() on.
    [[nodiscard]] Slot* next(std::uint64_t ahead = 0) noexcept {
        const std::uint64_t own = tail_.load(std::memory_order_relaxed) + ahead * kStep;
        if (own - head_.load(std::memory_order_acquire) >= depth_) return nullptr;
        Slot& slot = at(own);
        slot.end = own + kStep;
        return &slot;
    }
    /// next() and commit() in one. Null: look_for_room() may find some.
    [[nodiscard]] Slot* take() noexcept {
        const std::uint64_t own = tail_.load(std::memory_order_relaxed);
        if (own >= known_end_) [[unlikely]]
            return nullptr;
        Slot& slot = at(own);
        slot.end = own + kStep;
        tail_.store(own + kStep, std::memory_order_release);
        return &slot;
    }
    /// Whether take() will give one.
    bool look_for_room() noexcept {
        if (takes_) known_end_ = head_.load(std::memory_order_acquire) + depth_;
        return tail_.load(std::memory_order_relaxed) < known_end_;
    }
    /// take() gives nothing any more.
    void take_no_more() noexcept {
        takes_ = false;
        known_end_ = 0;
    }
    void commit(std::uint64_t count) noexcept {
        tail_.store(tail_.load(std::memory_order_relaxed) + count * kStep,
                    std::memory_order_release);
    }
    void roll_back(std::uint64_t count) noexcept {
        tail_.store(tail_.load(std::memory_order_relaxed) - count * kStep,
                    std::memory_order_release);
    }

    /// The device has completed it: nothing before it is outstanding any more. retire() implies it.
    void completed(const Slot& slot) noexcept {
        completed_.store(slot.end, std::memory_order_release);
    }
    /// All of it is completed, by us: what the device has to say no longer counts. With the lock of
    /// the CQ held.
    void settle() noexcept {
        settled_ = true;
        completed_.store(end(), std::memory_order_release);
    }
    [[nodiscard]] bool is_settled() const noexcept { return settled_; }
    /// Its completion has been polled: it and all before it are free.
    void retire(const Slot& slot) noexcept { head_.store(slot.end, std::memory_order_release); }

    [[nodiscard]] std::uint64_t first_outstanding() const noexcept {
        return std::max(completed_.load(std::memory_order_acquire),
                        head_.load(std::memory_order_acquire));
    }
    [[nodiscard]] std::uint64_t end() const noexcept {
        return tail_.load(std::memory_order_acquire);
    }
    [[nodiscard]] bool idle() const noexcept { return first_outstanding() == end(); }
    [[nodiscard]] Slot& at(std::uint64_t position) noexcept {
        auto* const first = reinterpret_cast<std::byte*>(slots_.data());
        return *reinterpret_cast<Slot*>(first + (position & mask_));
    }
    static constexpr std::uint64_t kStep = sizeof(Slot);
    static_assert(std::has_single_bit(kStep), "a place is masked, not divided");
    void retire_all() noexcept { head_.store(end(), std::memory_order_release); }

private:
    const std::uint64_t depth_;
    const std::uint64_t mask_;
    std::uint64_t known_end_ = 0;  ///< the poster's: so far there was room when it last looked
    bool takes_ = true;
    std::vector<Slot> slots_;
    bool settled_ = false;
    std::atomic<std::uint64_t> head_{0};
    std::atomic<std::uint64_t> completed_{0};
    std::atomic<std::uint64_t> tail_{0};
};

}  // namespace compat::core::verbs
