// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/conn_req.hpp"

#include "rpma_compat/conn.hpp"
#include "rpma_compat/count.hpp"
#include "rpma_compat/err_map.hpp"
#include "rpma_compat/log.hpp"
#include "rpma_compat/mr.hpp"

using namespace compat;
using namespace compat::rpma;

namespace {

int new_request(rpma_peer& peer, const char* addr, const char* port, const rpma_conn_cfg& cfg,
                rpma_conn_req** out) {
    const auto address = core::resolve_address(addr, port, core::Resolve::active);
    if (!address) return COMPAT_RPMA_FAILED(provider, "address resolution", address.error());
    auto request = std::make_unique<rpma_conn_req>();
    request->peer = &peer;
    auto id = peer.device->create_cm_id(nullptr);
    if (!id) return COMPAT_RPMA_FAILED(provider, "rdma_create_id", id.error());
    const int timeout_ms = cfg.timeout_ms.load(std::memory_order_relaxed);
    if (const core::Status resolved = (*id)->resolve({}, *address, timeout_ms); !resolved)
        return COMPAT_RPMA_FAILED(provider, "rdma_resolve_addr", resolved.error());
    if (const int rc = request->parts.make(peer, std::move(*id), cfg); rc != kSuccess) return rc;
    COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "requesting a connection to %s:%s", addr, port);
    *out = request.release();
    return kSuccess;
}

/// 255 reads and atomics each way means as many as the device can; RNR retries have no end.
constexpr core::ConnectionParameters kParameters{
    .private_data = {}, .responder_resources = 255, .initiator_depth = 255, .rnr_retry_count = 7};

int connect(rpma_conn_req& request, const rpma_conn_private_data* pdata, rpma_conn** out) {
    const core::Limits& limits = request.peer->device->limits();
    auto conn = std::make_unique<rpma_conn>();
    auto ops = core::ExtendedOps::create(*request.peer->pd, limits);
    if (!ops) return COMPAT_RPMA_FAILED(provider, "flush buffer registration", ops.error());
    core::ConnectionParameters parameters = kParameters;
    if (pdata != nullptr)
        parameters.private_data = {static_cast<const std::byte*>(pdata->ptr), pdata->len};
    core::CmId& id = *request.parts.id;
    const core::Status started = request.incoming ? id.accept(parameters) : id.connect(parameters);
    if (!started)
        return COMPAT_RPMA_FAILED(provider, request.incoming ? "rdma_accept" : "rdma_connect",
                                  started.error());
    conn->parts = std::move(request.parts);
    conn->extended_ops = std::move(*ops);
    *out = conn.release();
    return kSuccess;
}

}  // namespace

int rpma_conn_req_new(rpma_peer* peer, const char* addr, const char* port, const rpma_conn_cfg* cfg,
                      rpma_conn_req** req_ptr) {
    return c_boundary([&] {
        if (peer == nullptr || addr == nullptr || port == nullptr || req_ptr == nullptr)
            return RPMA_E_INVAL;
        return new_request(*peer, addr, port, conn_cfg_or_default(cfg), req_ptr);
    });
}

// The request is consumed, whatever comes of it; an incoming one that fails here is rejected by the
// end of its id.
int rpma_conn_req_connect(rpma_conn_req** req_ptr, const rpma_conn_private_data* pdata,
                          rpma_conn** conn_ptr) {
    return c_boundary([&] {
        if (req_ptr == nullptr || *req_ptr == nullptr) return RPMA_E_INVAL;
        const std::unique_ptr<rpma_conn_req> request(*req_ptr);
        *req_ptr = nullptr;
        if (conn_ptr == nullptr) return RPMA_E_INVAL;
        if (pdata != nullptr && (pdata->ptr == nullptr || pdata->len == 0)) return RPMA_E_INVAL;
        return connect(*request, pdata, conn_ptr);
    });
}

int rpma_conn_req_delete(rpma_conn_req** req_ptr) {
    return c_boundary([&] {
        if (req_ptr == nullptr) return RPMA_E_INVAL;
        const std::unique_ptr<rpma_conn_req> request(*req_ptr);
        *req_ptr = nullptr;
        if (request == nullptr || !request->incoming) return kSuccess;
        if (const core::Status rejected = request->parts.id->reject({}); !rejected)
            return COMPAT_RPMA_FAILED(provider, "rdma_reject", rejected.error());
        return kSuccess;
    });
}

int rpma_conn_req_recv(rpma_conn_req* req, rpma_mr_local* dst, size_t offset, size_t len,
                       const void* op_context) {
    return c_boundary([&] {
        if (req == nullptr || dst == nullptr || len > kMaxTransfer) return RPMA_E_INVAL;
        return post_receive(dst, offset, len, op_context, [&](const core::ReceiveRequest& request) {
            const core::Status posted = counted_receive(req->statistics, req->parts.trace.get(),
                                                        *req->parts.qp, request, len);
            if (!posted) return COMPAT_RPMA_FAILED(provider, "ibv_post_recv", posted.error());
            return kSuccess;
        });
    });
}

int rpma_conn_req_get_private_data(const rpma_conn_req* req, rpma_conn_private_data* pdata) {
    if (req == nullptr || pdata == nullptr) return RPMA_E_INVAL;
    *pdata = req->parts.private_data();
    return kSuccess;
}
