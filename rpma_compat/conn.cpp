// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/conn.hpp"

#include "rpma_compat/err_map.hpp"
#include "rpma_compat/flag_map.hpp"
#include "rpma_compat/log.hpp"
#include "rpma_compat/peer_cfg.hpp"

using namespace compat;
using namespace compat::rpma;

namespace {

/// What may be wrong when there is no connection, and what to do about it.
struct FailureRow {
    core::CmEventType type;
    const char* text;
};
constexpr FailureRow kFailures[] = {
    {core::CmEventType::rejected,
     "nobody listens there, or its program said no: is it running, and is that its port?"},
    {core::CmEventType::unreachable,
     "no answer: is the address right, does a firewall drop packets, and does the program there "
     "take its connection requests?"},
    {core::CmEventType::connect_error,
     "the peer went away before the connection stood: did its program end?"},
};

void explain_failure(const rpma_conn& conn, core::CmEventType type) {
    for (const FailureRow& row : kFailures)
        if (row.type == type)
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_WARNING, "no connection to %s: %s",
                            conn.parts.id->peer_address().text().c_str(), row.text);
}

int next_event(rpma_conn& conn, rpma_conn_event* out) {
    auto event = conn.parts.events->get_event();
    if (!event) {
        if (event.error().code == core::Errc::would_block) return RPMA_E_NO_EVENT;
        return COMPAT_RPMA_FAILED(event, "rdma_get_cm_event", event.error());
    }
    const rpma_conn_event result = row_of(kEvents, event->type).rpma;
    if (result == RPMA_CONN_UNDEFINED) {
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "unexpected event %d on a connection",
                        static_cast<int>(event->type));
        return RPMA_E_UNKNOWN;
    }
    // The passive side already has what came with the request.
    if (result == RPMA_CONN_ESTABLISHED && conn.parts.received_data.empty())
        conn.parts.received_data = std::move(event->private_data);
    COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "%s", rpma_utils_conn_event_2str(result));
    explain_failure(conn, event->type);
    *out = result;
    return kSuccess;
}

int wait_shared(rpma_conn& conn, rpma_cq** cq, bool* is_rcq) {
    const auto ready = conn.parts.shared_waiter->wait();
    if (!ready) {
        const int code = err_row(ready.error().code).wait;
        if (code == RPMA_E_PROVIDER) *cq = nullptr;
        return code;
    }
    const bool receive = conn.parts.rcq != nullptr && conn.parts.rcq->queue.get() == *ready;
    *cq = receive ? conn.parts.rcq.get() : conn.parts.cq.get();
    if (is_rcq != nullptr) *is_rcq = receive;
    return kSuccess;
}

}  // namespace

int rpma_conn_next_event(rpma_conn* conn, rpma_conn_event* event) {
    return c_boundary([&] {
        if (conn == nullptr || event == nullptr) return RPMA_E_INVAL;
        return next_event(*conn, event);
    });
}

int rpma_conn_get_event_fd(const rpma_conn* conn, int* fd) {
    if (conn == nullptr || fd == nullptr) return RPMA_E_INVAL;
    *fd = conn->parts.events->fd();
    return kSuccess;
}

int rpma_conn_disconnect(rpma_conn* conn) {
    return c_boundary([&] {
        if (conn == nullptr) return RPMA_E_INVAL;
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "disconnecting");
        const core::Status disconnected = conn->parts.id->disconnect();
        if (!disconnected)
            return COMPAT_RPMA_FAILED(provider, "rdma_disconnect", disconnected.error());
        return kSuccess;
    });
}

int rpma_conn_delete(rpma_conn** conn_ptr) {
    return delete_object(conn_ptr);
}

int rpma_conn_get_cq(const rpma_conn* conn, rpma_cq** cq_ptr) {
    if (conn == nullptr || cq_ptr == nullptr) return RPMA_E_INVAL;
    *cq_ptr = conn->parts.cq.get();
    return kSuccess;
}

int rpma_conn_get_rcq(const rpma_conn* conn, rpma_cq** rcq_ptr) {
    if (conn == nullptr || rcq_ptr == nullptr) return RPMA_E_INVAL;
    *rcq_ptr = conn->parts.rcq.get();
    return kSuccess;
}

int rpma_conn_get_compl_fd(const rpma_conn* conn, int* fd) {
    if (conn == nullptr || fd == nullptr) return RPMA_E_INVAL;
    if (conn->parts.shared_waiter == nullptr) return RPMA_E_NOT_SHARED_CHNL;
    *fd = conn->parts.shared_waiter->fd();
    return kSuccess;
}

int rpma_conn_wait(rpma_conn* conn, int flags, rpma_cq** cq, bool* is_rcq) {
    static_cast<void>(flags);  // reserved by upstream
    return c_boundary([&] {
        if (conn == nullptr || cq == nullptr) return RPMA_E_INVAL;
        if (conn->parts.shared_waiter == nullptr) return RPMA_E_NOT_SHARED_CHNL;
        return wait_shared(*conn, cq, is_rcq);
    });
}

int rpma_conn_get_private_data(const rpma_conn* conn, rpma_conn_private_data* pdata) {
    if (conn == nullptr || pdata == nullptr) return RPMA_E_INVAL;
    *pdata = conn->parts.private_data();
    return kSuccess;
}

int rpma_conn_get_qp_num(const rpma_conn* conn, uint32_t* qp_num) {
    if (conn == nullptr || qp_num == nullptr) return RPMA_E_INVAL;
    *qp_num = conn->parts.qp->number();
    return kSuccess;
}

int rpma_conn_apply_remote_peer_cfg(rpma_conn* conn, const rpma_peer_cfg* pcfg) {
    if (conn == nullptr || pcfg == nullptr) return RPMA_E_INVAL;
    conn->direct_write_to_pmem.store(pcfg->direct_write_to_pmem.load(std::memory_order_relaxed),
                                     std::memory_order_relaxed);
    return kSuccess;
}
