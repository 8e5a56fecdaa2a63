// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/srq.hpp"

#include "rpma_compat/count.hpp"
#include "rpma_compat/err_map.hpp"
#include "rpma_compat/log.hpp"
#include "rpma_compat/mr.hpp"
#include "rpma_compat/peer.hpp"
#include "rpma_compat/srq_cfg.hpp"

using namespace compat;
using namespace compat::rpma;

namespace {

int new_srq(rpma_peer& peer, const rpma_srq_cfg& cfg, rpma_srq** out) {
    auto srq = std::make_unique<rpma_srq>();
    auto queue = peer.pd->create_srq(cfg.rq_size.load(std::memory_order_relaxed), 1);
    if (!queue) return COMPAT_RPMA_FAILED(provider, "ibv_create_srq", queue.error());
    srq->queue = std::move(*queue);
    if (const std::uint32_t rcq_size = cfg.rcq_size.load(std::memory_order_relaxed); rcq_size != 0)
        if (const int rc = new_cq(*peer.device, rcq_size, nullptr, srq->rcq); rc != kSuccess)
            return rc;
    srq->trace = core::RequestTrace::create(0, {});
    if (srq->trace && srq->rcq) srq->rcq->queue->add_trace(*srq->trace);
    *out = srq.release();
    return kSuccess;
}

}  // namespace

int rpma_srq_new(rpma_peer* peer, rpma_srq_cfg* cfg, rpma_srq** srq_ptr) {
    return c_boundary([&] {
        if (peer == nullptr || srq_ptr == nullptr) return RPMA_E_INVAL;
        return new_srq(*peer, srq_cfg_or_default(cfg), srq_ptr);
    });
}

int rpma_srq_delete(rpma_srq** srq_ptr) {
    return delete_object(srq_ptr);
}

int rpma_srq_recv(rpma_srq* srq, rpma_mr_local* dst, size_t offset, size_t len,
                  const void* op_context) {
    return c_boundary([&] {
        if (srq == nullptr) return RPMA_E_INVAL;
        if (dst == nullptr && (offset != 0 || len != 0)) return RPMA_E_INVAL;
        if (len > kMaxTransfer) return RPMA_E_INVAL;
        return post_receive(dst, offset, len, op_context, [&](const core::ReceiveRequest& request) {
            const core::Status posted =
                counted_receive(srq->statistics, srq->trace.get(), *srq->queue, request, len);
            if (!posted) return COMPAT_RPMA_FAILED(provider, "ibv_post_srq_recv", posted.error());
            return kSuccess;
        });
    });
}

int rpma_srq_get_rcq(const rpma_srq* srq, rpma_cq** rcq_ptr) {
    if (srq == nullptr || rcq_ptr == nullptr) return RPMA_E_INVAL;
    *rcq_ptr = srq->rcq.get();
    return kSuccess;
}
