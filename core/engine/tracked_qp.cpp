// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/tracked_qp.hpp"

#include <mutex>
#include <new>

namespace compat::core {

Result<std::unique_ptr<TrackedQp>> TrackedQp::create(CmId& id, const TrackedQpAttr& attr) noexcept {
    std::unique_ptr<TrackedQp> tracked(new (std::nothrow) TrackedQp(attr));
    if (!tracked) return failure(Errc::no_memory);
    QpAttr qp_attr = attr.qp;
    qp_attr.send_cq = &attr.send_cq->device_queue();
    qp_attr.receive_cq = &attr.receive_cq->device_queue();
    auto qp = id.create_qp(qp_attr);
    if (!qp) return failure(qp.error());
    tracked->qp_ = std::move(*qp);
    if (const Status opened = tracked->open(id.peer_address()); !opened)
        return failure(opened.error());
    return tracked;
}

Status TrackedQp::open(const SocketAddress& peer) noexcept {
    {
        const std::lock_guard lock(attr_.receive_cq->lock());
        const Status added = attr_.receive_cq->add_port(qp_->number(), attr_.port);
        if (!added) return added;
    }
    attr_.transmit->set_peer(peer);
    attr_.transmit->open(*qp_);
    if (const Status attached = attr_.receive->attach(*attr_.receive_cq); !attached)
        return attached;
    if (attr_.receive_is_shared) return {};
    attr_.receive->set_peer(peer);
    return attr_.receive->open(*qp_);
}

TrackedQp::~TrackedQp() {
    if (!qp_) return;
    const std::uint32_t number = qp_->number();
    const auto close = [this, number] {
        attr_.transmit->close();
        attr_.receive->detach(*attr_.receive_cq);
        if (!attr_.receive_is_shared) attr_.receive->close();
        qp_.reset();
        attr_.receive_cq->remove_port(number);
    };
    // No completion of the QP may be between the device and the program while it goes.
    if (attr_.send_cq == attr_.receive_cq) {
        const std::lock_guard lock(attr_.send_cq->lock());
        close();
    } else {
        const std::scoped_lock lock(attr_.send_cq->lock(), attr_.receive_cq->lock());
        close();
    }
}

}  // namespace compat::core
