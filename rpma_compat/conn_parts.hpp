// SPDX-License-Identifier: BSD-3-Clause
// What a connection is made of. It belongs to the request first and moves to the connection.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/core.hpp"
#include "rpma_compat/boundary.hpp"
#include "rpma_compat/conn_cfg.hpp"
#include "rpma_compat/cq.hpp"
#include "rpma_compat/peer.hpp"

namespace compat::rpma {

class ConnParts {
public:
    ConnParts() = default;
    ~ConnParts();
    ConnParts(ConnParts&&) noexcept = default;
    ConnParts& operator=(ConnParts&&) noexcept = default;

    /// The channel for the id's events, its queues and its QP, as cfg says. Null is an RPMA_E_
    /// code, and whatever was made so far ends with this object.
    int make(rpma_peer& peer, std::unique_ptr<core::CmId> new_id, const rpma_conn_cfg& cfg);

    [[nodiscard]] rpma_conn_private_data private_data() const noexcept;

    // In the order of creation; destroyed in the reverse order, as verbs demands.
    std::unique_ptr<core::CmChannel> events;
    std::unique_ptr<core::CmId> id;
    std::unique_ptr<core::CqWaiter> shared_waiter;  ///< null: a channel for each CQ
    std::unique_ptr<rpma_cq> cq;
    std::unique_ptr<rpma_cq> rcq;  ///< null: receives complete elsewhere
    std::unique_ptr<core::QueuePair> qp;
    std::unique_ptr<core::RequestTrace> trace;  ///< null: none is wanted
    std::vector<std::byte> received_data;       ///< private data of the peer

private:
    int make_queues(rpma_peer& peer, const rpma_conn_cfg& cfg);
    int make_qp(rpma_peer& peer, const rpma_conn_cfg& cfg);
    void start_trace(const rpma_srq* srq);
    void end_trace() noexcept;

    core::RequestTrace* srq_trace_ = nullptr;  ///< it is in the list of our CQ
    rpma_cq* srq_rcq_ = nullptr;  ///< the shared receive queue's; it outlives the connection
};

}  // namespace compat::rpma
