// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/rdm_ep.hpp"

#include <algorithm>

#include "fi_compat/address.hpp"
#include "fi_compat/boundary.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

RdmEp& connectionless(struct ::fid* face) {
    return static_cast<RdmEp&>(EpFace::of(face).endpoint());
}

int rdm_setname(struct ::fid* face, void* address, std::size_t length) {
    return c_boundary([&] { return connectionless(face).set_name(address, length); });
}
int rdm_getname(struct ::fid* face, void* address, std::size_t* length) {
    return c_boundary([&] { return connectionless(face).get_name(address, length); });
}

constinit fi_ops_cm kRdmCmOps = {
    .size = sizeof(fi_ops_cm),
    .setname = rdm_setname,
    .getname = rdm_getname,
    .getpeer = kUnsupported,
    .connect = kUnsupported,
    .listen = kUnsupported,
    .accept = kUnsupported,
    .reject = kUnsupported,
    .shutdown = kUnsupported,
    .join = kUnsupported,
};

/// What the engine can do with messages, whatever the device.
EpLimits with_message_limits(EpLimits limits) {
    limits.max_message = std::min<std::size_t>(limits.max_rma, core::RdmEndpoint::kMaxMessage);
    limits.inject_message =
        std::min<std::size_t>(limits.inject_message, core::RdmEndpoint::kMaxInjectMessage);
    limits.data_bytes = sizeof(core::Message::imm);
    return limits;
}

}  // namespace

RdmEp::RdmEp(Domain& domain, const fi_info& info, void* user_context)
    : EndpointBase(domain, info, with_message_limits(limits_of(info, domain.limits())),
                   {kRdmCmOps, kRdmMsgOps, kRdmRmaOps, kRdmTaggedOps}, user_context),
      source_(source_of(info)) {}

int RdmEp::open(Domain& domain, const fi_info& info, fid_ep** out, void* user_context) {
    *out = (new RdmEp(domain, info, user_context))->face().face();
    return 0;
}

int RdmEp::bind_own(struct ::fid* object, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (object->fclass == FI_CLASS_EQ) {  // for events of none of which there is one
        EventQueue& eq = EventQueue::of(object);
        if (eq_ || &eq.fabric() != &domain_->fabric()) return -FI_EINVAL;
        eq_ = Ref<EventQueue>(eq);
        return 0;
    }
    if (object->fclass != FI_CLASS_AV) return -FI_EINVAL;
    Av& av = Av::of(object);
    if (av_ || &av.domain() != domain_.get()) return -FI_EINVAL;
    av_ = Ref<Av>(av);
    return 0;
}

int RdmEp::check_own_bindings() const {
    return av_ ? 0 : -FI_ENOAV;
}

core::Status RdmEp::start() {
    const auto kind = [](core::OpKind of) { return static_cast<std::size_t>(of); };
    core::RdmAttr attr{
        .device = &domain_->device(),
        .pd = &domain_->pd(),
        .addresses = &av_->book(),
        .address = source_,
        .transmit_cq = transmit_queue_,
        .receive_cq = receive_queue_,
        .receives = srx_ ? srx_->messages() : nullptr,
        .receive_counter = counter(Counted::receive),
        .remote_writes = counter(Counted::remote_write),
        .remote_reads = counter(Counted::remote_read),
        .remote_access = remote_access(caps_),
        .progress =
            domain_->manual_progress() ? core::RdmProgress::manual : core::RdmProgress::automatic,
        .transmit_depth = static_cast<std::uint32_t>(limits_.tx_size),
        .receive_depth = static_cast<std::uint32_t>(limits_.rx_size),
        .max_inject_rma = limits_.inject_rma,
        .remote_write_flags = kRemoteWriteEntry,
    };
    attr.counters[kind(core::OpKind::send)] = counter(Counted::send);
    attr.counters[kind(core::OpKind::write)] = counter(Counted::write);
    attr.counters[kind(core::OpKind::read)] = counter(Counted::read);
    if (srx_ && attr.receives == nullptr)
        return core::failure(core::Errc::invalid_argument);  // of a domain of connected endpoints
    auto engine = core::RdmEndpoint::open(attr);
    if (!engine) return core::failure(engine.error());
    engine_ = std::move(*engine);
    if (srx_)
        srx_->join(receive_cq_.get(), receive_selective_);
    else
        engine_->receives().set_min_multiple(min_multi_receive_);
    return {};
}

void RdmEp::set_min_multiple(std::size_t length) noexcept {
    if (engine_ && !srx_) engine_->receives().set_min_multiple(length);
}

ssize_t RdmEp::refuse(ssize_t error) noexcept {
    if (engine_) engine_->flush();
    return error;
}

int RdmEp::cancel(void* receive_context) {
    if (srx_) return -FI_ENOENT;
    if (!engine_) return -FI_EOPBADSTATE;
    if (!may_cancel()) return -FI_EAGAIN;
    return finish_cancel(engine_->receives().cancel(receive_context));
}

ssize_t RdmEp::tx_size_left() noexcept {
    // Each peer has a queue of its own.
    return engine_ ? static_cast<ssize_t>(limits_.tx_size) : -FI_EOPBADSTATE;
}

ssize_t RdmEp::rx_size_left() noexcept {
    if (!engine_) return -FI_EOPBADSTATE;
    return static_cast<ssize_t>(engine_->receives().free_slots());
}

int RdmEp::set_name(const void* address, std::size_t length) {
    const core::SocketAddress name = read_address(domain_->address_format(), address, length);
    if (name.empty()) return -FI_EINVAL;
    const std::lock_guard lock(mutex_);
    if (enabled_) return -FI_EOPBADSTATE;
    source_ = name;
    return 0;
}

int RdmEp::get_name(void* address, std::size_t* length) {
    const std::lock_guard lock(mutex_);
    if (!engine_ && source_.port() == 0) return -FI_EOPBADSTATE;
    return write_address(domain_->address_format(), engine_ ? engine_->name() : source_, address,
                         length);
}

}  // namespace compat::fi
