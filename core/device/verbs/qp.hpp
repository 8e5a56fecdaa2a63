// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of RDMA devices.
#pragma once

#include <atomic>
#include <optional>

#include "core/base/lock.hpp"
#include "core/device/device.hpp"
#include "core/device/verbs/handles.hpp"
#include "core/device/verbs/inheritable.hpp"
#include "core/device/verbs/memory.hpp"
#include "core/device/verbs/slots.hpp"

namespace compat::core::verbs {

class VerbsCmId;
class VerbsCq;
class VerbsSrq;

class VerbsQp final : public QueuePair, private Inheritable {
public:
    /// For the hub's lock holder. Errors: those of CmId::create_qp().
    static Result<std::unique_ptr<VerbsQp>> create(VerbsCmId& id, const QpAttr& attr,
                                                   const Limits& limits) noexcept;
    ~VerbsQp() override;

    [[nodiscard]] std::uint32_t number() const noexcept override { return number_; }
    Status post_send(std::span<const WorkRequest> requests, std::size_t* posted) noexcept override;
    Status plain_write(PlainRequest& request) noexcept override;
    Status plain_read(PlainRequest& request) noexcept override;
    Status plain_send(PlainRequest& request) noexcept override;
    Status post_receive(const ReceiveRequest& request) noexcept override;
    Status set_observer(RemoteAccessObserver*) noexcept override {
        return failure(Errc::not_supported);
    }
    void fail() noexcept override;

    // For the connection, under the hub's lock.

    /// post_send() works from now on. What the peer may do is what create() was told.
    void connected() noexcept;
    /// Posts a request of ours behind all others, if some are under way. False when all is done
    /// already, or will never be.
    [[nodiscard]] bool begin_drain() noexcept;
    [[nodiscard]] bool is_drained() noexcept;
    void enter_error_state() noexcept;

    // For the CQs, under their locks.

    /// A request completed with an error.
    void failed_at_device() noexcept;
    void drained() noexcept { drained_.store(true, std::memory_order_release); }

private:
    VerbsQp(VerbsCmId& id, const QpAttr& attr, const Limits& limits);
    Status attach() noexcept;
    Status make() noexcept;
    [[nodiscard]] std::optional<Errc> check(const WorkRequest& request) const noexcept;
    template <Opcode opcode>
    Status plain(PlainRequest& request) noexcept;
    template <Opcode opcode>
    Status plain_waiting(PlainRequest& request) noexcept;
    template <Opcode opcode>
    Status plain_looking(PlainRequest& request) noexcept;
    template <Opcode opcode>
    Status plain_locked(PlainRequest& request) noexcept;
    Status plain_without_slot(const PlainRequest& plain) noexcept;
    Status plain_refused(Opcode opcode, int rc) noexcept;
    void inherit() noexcept override { plain_end_.store(0, std::memory_order_relaxed); }
    Status post_list(std::span<const WorkRequest> requests, std::size_t& done) noexcept;
    Status post_chain(std::span<const WorkRequest> requests, std::size_t& done) noexcept;
    Status post_compacted(const WorkRequest& request) noexcept;
    Status post_extended(const WorkRequest& request) noexcept;
    Status post_flushed(SlotRing& ring, VerbsCq& cq, std::uint64_t wr_id) noexcept;
    bool set_error_state() noexcept;  ///< false: the device does not answer
    void settle() noexcept;
    [[nodiscard]] ibv_wc flushed(const Slot& slot) const noexcept;
    void flush_outstanding(SlotRing& ring, VerbsCq& cq) noexcept;

    const Limits& limits_;
    const bool is_iwarp_;
    VerbsCmId& id_;
    ibv_qp* qp_ = nullptr;  ///< the identifier's
    ibv_qp_ex* extended_ = nullptr;
    const QpAttr attr_;
    const std::size_t max_read_sge_;
    VerbsCq& send_cq_;
    VerbsCq& receive_cq_;
    VerbsSrq* const srq_;
    const Child child_;
    std::uint32_t number_ = 0;

    Lock send_lock_;
    bool can_send_ = false;
    bool in_error_ = false;  ///< written under both locks, as what follows
    bool settled_ = false;   ///< the device completes nothing any more: we do
    SlotRing sends_;
    ibv_send_wr* bad_ = nullptr;  ///< written by plain posts; devices need not
    std::uint32_t posting_ = 0;   ///< bytes, by the plain post that is under way
    Statistics statistics_;
    Lock receive_lock_;
    SlotRing receives_;

    Slot drain_slot_{.owner = this, .kind = SlotKind::drained};
    std::atomic<bool> drained_{false};
    std::atomic<bool> failed_{false};
};

}  // namespace compat::core::verbs
