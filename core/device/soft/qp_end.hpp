// SPDX-License-Identifier: BSD-3-Clause
// The program's side of a connection: the queues of its QP, whatever carries them.
#pragma once

#include <atomic>
#include <memory>

#include "core/device/device.hpp"
#include "core/device/soft/completion.hpp"
#include "core/device/soft/memory.hpp"
#include "core/device/soft/receive_queue.hpp"
#include "core/device/soft/send_queue.hpp"

namespace compat::core::soft {

class QpEnd {
public:
    /// Errors: invalid_argument (limits, foreign objects), no_memory.
    static Result<std::unique_ptr<QpEnd>> create(const QpAttr& attr) noexcept;
    /// Takes its completions out of the CQs.
    ~QpEnd();

    [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
    [[nodiscard]] const std::shared_ptr<KeyTable>& keys() const noexcept { return keys_; }
    [[nodiscard]] AccessFlags access() const noexcept { return access_; }
    SendQueue sends;
    /// What the peer asks for: KeyTable::pin_remote() within the rights of the QP.
    Fault pin_remote(std::uint32_t rkey, std::uint64_t iova, std::uint64_t length, Access right,
                     Pin& pin) const noexcept;

    /// Errors: would_block, invalid_argument (an SRQ serves this QP).
    Status post_receive(const ReceiveRequest& request) noexcept;
    /// Errors: invalid_argument (not there, or an SRQ serves this QP).
    Status cancel_receive(std::uint64_t wr_id) noexcept;
    [[nodiscard]] bool take_receive(TakenReceive& receive) noexcept;
    [[nodiscard]] SoftSrq* srq() const noexcept { return srq_; }
    void complete_receive(const TakenReceive& receive, WorkCompletion wc, bool solicited) noexcept;

    [[nodiscard]] bool imm_without_receive() const noexcept { return imm_without_receive_; }
    /// False when as many as allowed wait to be polled.
    [[nodiscard]] bool complete_imm(WorkCompletion wc, bool solicited) noexcept;

    void flush_receives() noexcept;
    /// Messages that the program has been told of.
    [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

    RemoteAccessObserver* observer = nullptr;

private:
    QpEnd(const QpAttr& attr, std::uint32_t number);

    const std::uint32_t number_;
    std::shared_ptr<KeyTable> keys_;
    const AccessFlags access_;
    std::shared_ptr<std::atomic<int>> pd_children_;
    SoftCq& send_cq_;
    SoftCq& receive_cq_;
    const std::uint32_t send_reserved_;
    const std::uint32_t receive_reserved_;
    std::unique_ptr<ReceiveQueue> own_receives_;  ///< unless there is an SRQ
    SoftSrq* srq_;
    const bool imm_without_receive_;
    const std::uint32_t imm_limit_;
    std::atomic<std::uint32_t> imm_waiting_{0};
    std::uint64_t received_ = 0;
};

}  // namespace compat::core::soft
