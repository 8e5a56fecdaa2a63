// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/endpoint.hpp"

#include <algorithm>

#include "fi_compat/boundary.hpp"
#include "fi_compat/options.hpp"
#include "fi_compat/passive_ep.hpp"
#include "fi_compat/rdm_ep.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {

Endpoint::Endpoint(Domain& domain, const fi_info& info, void* user_context)
    : EndpointBase(domain, info, limits_of(info, domain.limits()),
                   {kEpCmOps, kMsgOps, kRmaOps, kNoTaggedOps}, user_context),
      consumes_receives_(info.rx_attr != nullptr && posts_receives_for_data(info.rx_attr->mode)),
      source_(source_of(info)),
      destination_(destination_of(info)) {}

Endpoint::~Endpoint() {
    {
        std::unique_lock<std::mutex> held;
        if (drained_by_) held = drained_by_->hold_sources();
        if (qp_ && !remote_counters_.empty())
            static_cast<void>(qp_->queue_pair().set_observer(nullptr));
        // What was posted goes out before the connection does.
        if (id_ && state_ == State::connected) static_cast<void>(id_->disconnect());
        qp_.reset();
        id_.reset();
    }
    if (eq_) eq_->forget(face_.base());
}

int Endpoint::open(Domain& domain, const fi_info& info, fid_ep** out, void* user_context) {
    std::unique_ptr<Endpoint> endpoint(new Endpoint(domain, info, user_context));
    if (info.handle != nullptr)
        if (const int inherited = endpoint->inherit(info.handle); inherited != 0) return inherited;
    *out = endpoint.release()->face().face();
    return 0;
}

/// Of a connection request its identifier, of a passive endpoint its address.
int Endpoint::inherit(fid_t handle) {
    if (!LiveHandle::contains(handle)) return -FI_EINVAL;
    if (handle->fclass == FI_CLASS_PEP) {
        id_ = PassiveEp::of(handle).take_id();
        if (!id_) return -FI_EINVAL;
        source_ = id_->local_address();
        id_->set_context(static_cast<CmHandler*>(&events_));
        return 0;
    }
    if (handle->fclass != FI_CLASS_CONNREQ) return -FI_EINVAL;
    ConnReq& request = ConnReq::of(handle);
    PassiveEp& pep = request.pep();
    const auto held = pep.eq().hold_sources();
    id_ = request.take_id();
    id_->set_context(static_cast<CmHandler*>(&events_));
    drained_by_ = Ref<EventQueue>(pep.eq());
    accepts_ = true;
    pep.forget(request);
    return 0;
}

int Endpoint::bind_own(struct ::fid* object, std::uint64_t flags) {
    if (object->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    return bind_eq(EventQueue::of(object), flags);
}

int Endpoint::bind_eq(EventQueue& eq, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (eq_ || &eq.fabric() != &domain_->fabric()) return -FI_EINVAL;
    const core::Limits& limits = domain_->limits();
    spare_events_.emplace(kEvents, std::max(limits.max_accept_data, limits.max_reject_data));
    eq_ = Ref<EventQueue>(eq);
    return 0;
}

int Endpoint::check_own_bindings() const {
    if (!eq_) return -FI_ENOEQ;
    return caps_.receive && !tells_receives() ? -FI_ENOCQ : 0;
}

core::Status Endpoint::start() {
    if (core::Status made = create_transmit(); !made) return made;
    remote_counters_.set(counter(Counted::remote_write), counter(Counted::remote_read));
    return create_receive();
}

core::Status Endpoint::create_transmit() {
    const core::Limits& device = domain_->limits();
    const std::size_t inject = std::max(limits_.inject_message, limits_.inject_rma);
    const core::TransmitAttr attr{
        // One more for the marker in front of a fence.
        .depth = static_cast<std::uint32_t>(
            std::min<std::size_t>(limits_.tx_size + 1, device.max_qp_wr)),
        .split = {.max_sge = device.max_sge,
                  .max_sge_read = device.max_sge_read,
                  .max_message = device.max_message},
        .max_inline = static_cast<std::uint32_t>(std::min<std::size_t>(inject, device.max_inline)),
        .max_inject = inject,
        .bounce_pd = device.unregistered_local ? nullptr : &domain_->pd(),
    };
    auto transmit = core::TransmitQueue::create(*transmit_queue_, attr);
    if (!transmit) return core::failure(transmit.error());
    transmit_ = std::move(*transmit);
    transmit_->set_counter(core::OpKind::send, counter(Counted::send));
    transmit_->set_counter(core::OpKind::write, counter(Counted::write));
    transmit_->set_counter(core::OpKind::read, counter(Counted::read));
    transmit_open_ = transmit_.get();
    return {};
}

core::Status Endpoint::create_receive() {
    if (srx_) {
        if (srx_->queue() == nullptr)
            return core::failure(core::Errc::invalid_argument);  // of connectionless endpoints
        srx_->join(receive_cq_.get(), receive_selective_);
        return {};
    }
    auto receive = core::ReceiveQueue::create(static_cast<std::uint32_t>(limits_.rx_size),
                                              static_cast<std::uint32_t>(limits_.rx_iov));
    if (!receive) return core::failure(receive.error());
    receive_ = std::move(*receive);
    receive_->set_min_multiple(min_multi_receive_);
    receive_open_ = receive_.get();
    return {};
}

int Endpoint::cancel(void* receive_context) {
    if (receive_open_ == nullptr) return srx_ ? -FI_ENOENT : -FI_EOPBADSTATE;
    if (!may_cancel()) return -FI_EAGAIN;
    return finish_cancel(receive_open_->cancel(receive_context));
}

void Endpoint::set_min_multiple(std::size_t length) noexcept {
    if (receive_open_ != nullptr) receive_open_->set_min_multiple(length);
}

ssize_t Endpoint::tx_size_left() noexcept {
    if (transmit_open_ == nullptr) return -FI_EOPBADSTATE;
    return static_cast<ssize_t>(std::min(transmit_open_->free_slots(), limits_.tx_size));
}

ssize_t Endpoint::rx_size_left() noexcept {
    if (receive_open_ == nullptr) return -FI_EOPBADSTATE;
    return static_cast<ssize_t>(receive_open_->free_slots());
}

ssize_t Endpoint::refuse(int error) noexcept {
    if (transmit_open_ != nullptr) transmit_open_->flush();
    return error;
}

ssize_t Endpoint::refuse(const core::Error& error) noexcept {
    // It is enabled, or it would not have come here.
    return error.code == core::Errc::wrong_state ? -FI_ENOTCONN : to_fi(error);
}

int open_endpoint(Domain& domain, fi_info* info, fid_ep** ep, void* context) {
    if (info == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
    switch (number_in(info->ep_attr->type)) {
        case FI_EP_MSG: return Endpoint::open(domain, *info, ep, context);
        case FI_EP_RDM: return RdmEp::open(domain, *info, ep, context);
        default: return -FI_EINVAL;
    }
}

}  // namespace compat::fi
