// SPDX-License-Identifier: BSD-3-Clause
// A queue pair with the engine's bookkeeping around it; its life is where they meet.
#pragma once

#include <memory>

#include "core/device/device.hpp"
#include "core/engine/receive_queue.hpp"
#include "core/engine/tracked_cq.hpp"
#include "core/engine/transmit_queue.hpp"

namespace compat::core {

struct TrackedQpAttr {
    TrackedCq* send_cq = nullptr;
    TrackedCq* receive_cq = nullptr;
    TransmitQueue* transmit = nullptr;
    ReceiveQueue* receive = nullptr;
    bool receive_is_shared = false;  ///< it belongs to qp.srq and outlives the QP
    QpAttr qp;                       ///< the CQs are filled in
    ReceivePort port;
};

class TrackedQp {
public:
    /// Creates the id's QP and opens both queues: receives that were held back are posted.
    /// Errors: those of CmId::create_qp() and QueuePair::post_receive().
    static Result<std::unique_ptr<TrackedQp>> create(CmId& id, const TrackedQpAttr& attr) noexcept;
    /// Closes both queues. What had not completed is dropped silently, nothing of it touches the
    /// program's memory any more; entries that are in the CQs already stay.
    ~TrackedQp();
    TrackedQp(const TrackedQp&) = delete;
    TrackedQp& operator=(const TrackedQp&) = delete;

    [[nodiscard]] QueuePair& queue_pair() noexcept { return *qp_; }

private:
    explicit TrackedQp(const TrackedQpAttr& attr) noexcept : attr_(attr) {}
    Status open(const SocketAddress& peer) noexcept;

    TrackedQpAttr attr_;
    std::unique_ptr<QueuePair> qp_;
};

}  // namespace compat::core
