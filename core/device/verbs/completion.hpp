// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and completion channels of RDMA devices.
#pragma once

#include <mutex>
#include <vector>

#include "core/base/event_fd.hpp"
#include "core/base/lock.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/device.hpp"
#include "core/device/verbs/handles.hpp"
#include "core/device/verbs/inheritable.hpp"
#include "core/device/verbs/slots.hpp"

namespace compat::core::verbs {

class VerbsCq;
class VerbsQp;

/// The device's channel and, for completions that the device does not give (VerbsQp::settle), one
/// of our own; an epoll descriptor over both is what the program waits for.
class VerbsChannel final : public CompletionChannel {
public:
    static Result<std::unique_ptr<VerbsChannel>> create(ibv_context& context) noexcept;

    [[nodiscard]] int fd() const noexcept override { return both_.get(); }
    Result<CompletionQueue*> get_event() noexcept override;

    [[nodiscard]] ibv_comp_channel* get() const noexcept { return channel_.get(); }
    void raise(VerbsCq& cq) noexcept;
    void forget(VerbsCq& cq) noexcept;  ///< drops its event of ours
    /// Held while an event is taken from the device and counted.
    [[nodiscard]] std::mutex& lock() noexcept { return lock_; }

private:
    VerbsChannel(CompChannelHandle channel, EventFd ours, UniqueFd both) noexcept
        : channel_(std::move(channel)), ours_(std::move(ours)), both_(std::move(both)) {}
    Result<VerbsCq*> take() noexcept;
    void unlink(VerbsCq& cq) noexcept;
    [[nodiscard]] bool blocks() const noexcept;

    CompChannelHandle channel_;
    EventFd ours_;
    UniqueFd both_;
    std::mutex lock_;
    VerbsCq* first_with_event_ = nullptr;
};

class VerbsCq final : public CompletionQueue, private Inheritable {
public:
    static Result<std::unique_ptr<VerbsCq>> create(ibv_context& context, const Limits& limits,
                                                   std::uint32_t depth,
                                                   VerbsChannel* channel) noexcept;
    ~VerbsCq() override;

    Result<std::size_t> poll(std::span<WorkCompletion> wcs) noexcept override;
    int poll_native(int most, ibv_wc* wcs) noexcept override;
    Status request_notify(bool solicited_only) noexcept override;
    [[nodiscard]] bool has_completions() const noexcept override;

    /// Makes room for what one more QP can have outstanding. Errors: invalid_argument (the device
    /// can make it no longer), no_memory, device.
    Status attach(VerbsQp& qp, std::uint32_t entries) noexcept;
    /// The QP was destroyed: its completions go. With lock() held.
    void detach(const VerbsQp& qp, std::uint32_t qp_num, std::uint32_t entries) noexcept;
    /// From now on there may be completions that are none of a SlotRing, or that the program is not
    /// told of. With lock() held.
    void expect_others() noexcept { ++not_plain_; }
    /// Takes what the device has for later polls. With lock() held.
    void pull() noexcept;
    /// Adds a completion of ours behind all others. With lock() held.
    void push(const ibv_wc& wc) noexcept;

    /// Of the completions that wait here, the newest of that queue. With lock() held.
    [[nodiscard]] Slot* last_kept_of(const SlotRing& ring) const noexcept;

    [[nodiscard]] ibv_cq* get() const noexcept { return cq_.get(); }
    [[nodiscard]] Lock& lock() noexcept { return lock_; }

private:
    friend class VerbsChannel;

    VerbsCq(ibv_context& context, const Limits& limits, VerbsChannel* channel)
        : context_(context),
          max_cqe_(limits.max_cqe),
          is_iwarp_(limits.transport == Transport::iwarp),
          channel_(channel) {}
    [[nodiscard]] Result<CqHandle> make(std::uint32_t depth) noexcept;
    Status reserve(std::uint32_t entries) noexcept;
    Status grow(std::uint32_t needed) noexcept;
    void acknowledge() noexcept;
    // With lock() held:
    Result<std::size_t> poll_one(WorkCompletion& out) noexcept;
    Result<std::size_t> poll_many(std::span<WorkCompletion> wcs) noexcept;
    inline bool seen(const ibv_wc& wc) noexcept;
    void keep(const ibv_wc& wc) noexcept;
    inline void deliver(const ibv_wc& wc, WorkCompletion& out) noexcept;
    void drop(const ibv_wc& wc) noexcept;
    [[nodiscard]] VerbsQp* owner_of(const ibv_wc& wc) const noexcept;
    void retire(const ibv_wc& wc) noexcept;
    void take_kept() noexcept;
    int poll_native_waiting(int most, ibv_wc* wcs) noexcept;
    inline int poll_native_locked(int most, ibv_wc* wcs) noexcept;
    int poll_native_slowly(int most, ibv_wc* wcs) noexcept;
    int finish_native(int got, ibv_wc* wcs) noexcept;
    void give_native(const ibv_wc& wc, ibv_wc& out) noexcept;

    void inherit() noexcept override { hinder_native(kOfDevice); }

    ibv_context& context_;
    const std::uint32_t max_cqe_;
    const bool is_iwarp_;
    VerbsChannel* const channel_;
    CqHandle cq_;

    mutable Lock lock_;
    std::vector<ibv_wc> kept_;  ///< a ring, never smaller than what may be outstanding
    std::size_t kept_head_ = 0;
    std::size_t kept_size_ = 0;
    /// The completions kept, and reasons to expect others than those of SlotRings: without any,
    /// what the device gives is plain.
    std::size_t not_plain_ = 0;
    std::size_t reserved_ = 0;
    ibv_wc* filled_ = nullptr;  ///< by the native poll that is under way: kept in no register
    std::vector<VerbsQp*> qps_;
    bool armed_ = false;
    bool armed_for_any_ = false;

    // Under the channel's lock.
    unsigned unacknowledged_ = 0;
    bool has_event_ = false;
    VerbsCq* next_with_event_ = nullptr;
};

}  // namespace compat::core::verbs
