// SPDX-License-Identifier: BSD-3-Clause
#include <memory>

#include "core/core.hpp"
#include "rpma_compat/conn_req.hpp"
#include "rpma_compat/err_map.hpp"
#include "rpma_compat/log.hpp"

using namespace compat;
using namespace compat::rpma;

struct rpma_ep {
    rpma_peer* peer = nullptr;
    std::unique_ptr<core::CmChannel> events;
    std::unique_ptr<core::CmId> id;
};

namespace {

constexpr int kSystemBacklog = 0;

int listen(rpma_peer& peer, const char* addr, const char* port, rpma_ep** out) {
    auto ep = std::make_unique<rpma_ep>();
    ep->peer = &peer;
    auto channel = peer.device->create_cm_channel();
    if (!channel) return COMPAT_RPMA_FAILED(provider, "rdma_create_event_channel", channel.error());
    ep->events = std::move(*channel);
    auto id = peer.device->create_cm_id(ep->events.get());
    if (!id) return COMPAT_RPMA_FAILED(provider, "rdma_create_id", id.error());
    ep->id = std::move(*id);
    const auto address = core::resolve_address(addr, port, core::Resolve::passive);
    if (!address) return COMPAT_RPMA_FAILED(provider, "address resolution", address.error());
    if (const core::Status bound = ep->id->bind(*address); !bound)
        return COMPAT_RPMA_FAILED(provider, "rdma_bind_addr", bound.error());
    if (const core::Status listening = ep->id->listen(kSystemBacklog); !listening)
        return COMPAT_RPMA_FAILED(provider, "rdma_listen", listening.error());
    COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "waiting for connections on %s:%s", addr, port);
    *out = ep.release();
    return kSuccess;
}

int next_request(rpma_ep& ep, const rpma_conn_cfg& cfg, rpma_conn_req** out) {
    auto event = ep.events->get_event();
    if (!event) {
        if (event.error().code == core::Errc::would_block) return RPMA_E_NO_EVENT;
        return COMPAT_RPMA_FAILED(event, "rdma_get_cm_event", event.error());
    }
    if (event->type != core::CmEventType::connect_request) {
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "event %d on an endpoint is no connection request",
                        static_cast<int>(event->type));
        return RPMA_E_INVAL;
    }
    auto request = std::make_unique<rpma_conn_req>();
    request->peer = ep.peer;
    request->incoming = true;
    if (const int rc = request->parts.make(*ep.peer, std::move(event->request), cfg);
        rc != kSuccess)
        return rc;  // the end of the id rejects the peer; upstream leaves it without an answer
    request->parts.received_data = std::move(event->private_data);
    COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "connection request from %s",
                    request->parts.id->peer_address().text().c_str());
    *out = request.release();
    return kSuccess;
}

}  // namespace

int rpma_ep_listen(rpma_peer* peer, const char* addr, const char* port, rpma_ep** ep_ptr) {
    return c_boundary([&] {
        if (peer == nullptr || addr == nullptr || port == nullptr || ep_ptr == nullptr)
            return RPMA_E_INVAL;
        return listen(*peer, addr, port, ep_ptr);
    });
}

int rpma_ep_shutdown(rpma_ep** ep_ptr) {
    return delete_object(ep_ptr);
}

int rpma_ep_get_fd(const rpma_ep* ep, int* fd) {
    if (ep == nullptr || fd == nullptr) return RPMA_E_INVAL;
    *fd = ep->events->fd();
    return kSuccess;
}

int rpma_ep_next_conn_req(rpma_ep* ep, const rpma_conn_cfg* cfg, rpma_conn_req** req_ptr) {
    return c_boundary([&] {
        if (ep == nullptr || req_ptr == nullptr) return RPMA_E_INVAL;
        return next_request(*ep, conn_cfg_or_default(cfg), req_ptr);
    });
}
