// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/conn_parts.hpp"

#include <algorithm>

#include "rpma_compat/err_map.hpp"
#include "rpma_compat/log.hpp"
#include "rpma_compat/srq.hpp"

namespace compat::rpma {
namespace {

constexpr std::uint32_t kMaxInline = 8;  ///< bytes; what an emulated atomic write needs

}  // namespace

ConnParts::~ConnParts() {
    end_trace();
    if (qp == nullptr || srq_rcq_ == nullptr) return;
    const std::uint32_t number = qp->number();
    qp.reset();
    srq_rcq_->queue->forget(number);
}

int ConnParts::make(rpma_peer& peer, std::unique_ptr<core::CmId> new_id, const rpma_conn_cfg& cfg) {
    id = std::move(new_id);
    auto channel = peer.device->create_cm_channel();
    if (!channel) return COMPAT_RPMA_FAILED(provider, "rdma_create_event_channel", channel.error());
    events = std::move(*channel);
    // At once, and not when the request is connected: the endpoint of an incoming request, and its
    // channel with it, may be gone by then.
    if (const core::Status migrated = id->migrate(*events); !migrated)
        return COMPAT_RPMA_FAILED(provider, "rdma_migrate_id", migrated.error());
    if (const int rc = make_queues(peer, cfg); rc != kSuccess) return rc;
    return make_qp(peer, cfg);
}

int ConnParts::make_queues(rpma_peer& peer, const rpma_conn_cfg& cfg) {
    const rpma_srq* const srq = cfg.srq.load(std::memory_order_relaxed);
    const bool shared = cfg.shared_channel.load(std::memory_order_relaxed);
    srq_rcq_ = srq != nullptr ? srq->rcq.get() : nullptr;
    if (shared && srq_rcq_ != nullptr) {
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                        "a shared completion channel cannot take the receive CQ of an SRQ");
        return RPMA_E_INVAL;
    }
    if (shared) {
        auto waiter = core::CqWaiter::create(*peer.device);
        if (!waiter) return COMPAT_RPMA_FAILED(provider, "ibv_create_comp_channel", waiter.error());
        shared_waiter = std::move(*waiter);
    }
    const std::uint32_t cq_size = cfg.cq_size.load(std::memory_order_relaxed);
    if (const int rc = new_cq(*peer.device, cq_size, shared_waiter.get(), cq); rc != kSuccess)
        return rc;
    const std::uint32_t rcq_size = cfg.rcq_size.load(std::memory_order_relaxed);
    if (rcq_size == 0 || srq_rcq_ != nullptr) return kSuccess;
    return new_cq(*peer.device, rcq_size, shared_waiter.get(), rcq);
}

int ConnParts::make_qp(rpma_peer& peer, const rpma_conn_cfg& cfg) {
    const rpma_srq* const srq = cfg.srq.load(std::memory_order_relaxed);
    rpma_cq& receive_cq = srq_rcq_ != nullptr ? *srq_rcq_ : rcq != nullptr ? *rcq : *cq;
    const core::QpAttr attr{.pd = peer.pd.get(),
                            .send_cq = &cq->queue->queue(),
                            .receive_cq = &receive_cq.queue->queue(),
                            .srq = srq != nullptr ? srq->queue.get() : nullptr,
                            .send_depth = cfg.sq_size.load(std::memory_order_relaxed),
                            .receive_depth = cfg.rq_size.load(std::memory_order_relaxed),
                            .max_send_sge = 1,
                            .max_receive_sge = 1,
                            .max_inline = kMaxInline,
                            .plain_posts = !core::Trace::wanted(),
                            .scope = core::StatScope::program};
    auto created = id->create_qp(attr);
    if (!created) return COMPAT_RPMA_FAILED(provider, "rdma_create_qp", created.error());
    qp = std::move(*created);
    start_trace(srq);
    return kSuccess;
}

void ConnParts::start_trace(const rpma_srq* srq) {
    trace = core::RequestTrace::create(qp->number(), id->peer_address());
    if (trace == nullptr) return;
    for (const rpma_cq* queue : {cq.get(), rcq.get(), srq_rcq_})
        if (queue != nullptr) queue->queue->add_trace(*trace);
    const bool completes_here = srq != nullptr && srq_rcq_ == nullptr && srq->trace != nullptr;
    if (!completes_here) return;
    srq_trace_ = srq->trace.get();
    cq->queue->add_trace(*srq_trace_);
}

void ConnParts::end_trace() noexcept {
    if (trace == nullptr) return;
    for (const rpma_cq* queue : {cq.get(), rcq.get(), srq_rcq_})
        if (queue != nullptr) queue->queue->remove_trace(*trace);
}

rpma_conn_private_data ConnParts::private_data() const noexcept {
    if (received_data.empty()) return {.ptr = nullptr, .len = 0};
    // The interface gives the bytes to the program as writable ones.
    return {
        .ptr = const_cast<std::byte*>(received_data.data()),
        .len = static_cast<std::uint8_t>(std::min<std::size_t>(received_data.size(), UINT8_MAX))};
}

}  // namespace compat::rpma
