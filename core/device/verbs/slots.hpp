// SPDX-License-Identifier: BSD-3-Clause
// What is posted, remembered until its completion has been polled. A work request's wr_id at the
// device is the address of its slot; the program's own is in there.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

namespace compat::core::verbs {

enum class SlotKind : std::uint8_t {
    send,
    receive,
    shared_receive,  ///< of an SRQ
    drained,         ///< our own, behind the last request before a disconnect
};

struct Slot {
    std::uint64_t wr_id = 0;
    std::uint64_t number = 0;  ///< of the post (ring), or where it is (SRQ)
    void* owner = nullptr;     ///< SlotRing, VerbsSrq or VerbsQp, by kind
    SlotKind kind = SlotKind::send;
    bool signaled = true;
};

/// The slots of a queue that completes in posting order. One poster at a time, one poller at a
/// time; they share no lock.
class SlotRing {
public:
    SlotRing(SlotKind kind, std::uint32_t depth)
        : depth_(depth), mask_(std::bit_ceil(std::uint64_t{depth} + 1) - 1) {
        slots_.resize(mask_ + 1);
        for (Slot& slot : slots_) {
            slot.owner = this;
            slot.kind = kind;
        }
    }

    /// For one more request; null when the queue is full. It counts from commit() on.
    [[nodiscard]] Slot* next(std::uint64_t ahead = 0) noexcept {
        const std::uint64_t number = tail_.load(std::memory_order_relaxed) + ahead;
        if (number - head_.load(std::memory_order_acquire) >= depth_) return nullptr;
        Slot& slot = slots_[number & mask_];
        slot.number = number;
        return &slot;
    }
    void commit(std::uint64_t count) noexcept {
        tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    }
    void roll_back(std::uint64_t count) noexcept {
        tail_.store(tail_.load(std::memory_order_relaxed) - count, std::memory_order_release);
    }

    /// The device has completed it: nothing before it is outstanding any more.
    void completed(const Slot& slot) noexcept {
        completed_.store(slot.number + 1, std::memory_order_release);
    }
    /// All of it is completed, by us: what the device has to say no longer counts. With the lock of
    /// the CQ held.
    void settle() noexcept {
        settled_ = true;
        completed_.store(end(), std::memory_order_release);
    }
    [[nodiscard]] bool is_settled() const noexcept { return settled_; }
    /// Its completion has been polled: it and all before it are free.
    void retire(const Slot& slot) noexcept {
        head_.store(slot.number + 1, std::memory_order_release);
    }

    [[nodiscard]] std::uint64_t first_outstanding() const noexcept {
        return completed_.load(std::memory_order_acquire);
    }
    [[nodiscard]] std::uint64_t end() const noexcept {
        return tail_.load(std::memory_order_acquire);
    }
    [[nodiscard]] bool idle() const noexcept { return first_outstanding() == end(); }
    [[nodiscard]] Slot& at(std::uint64_t number) noexcept { return slots_[number & mask_]; }
    void retire_all() noexcept { head_.store(end(), std::memory_order_release); }

private:
    const std::uint64_t depth_;
    const std::uint64_t mask_;
    std::vector<Slot> slots_;
    bool settled_ = false;
    std::atomic<std::uint64_t> head_{0};
    std::atomic<std::uint64_t> completed_{0};
    std::atomic<std::uint64_t> tail_{0};
};

}  // namespace compat::core::verbs
