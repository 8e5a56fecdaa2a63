// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/ep_base.hpp"

#include <algorithm>

#include "fi_compat/boundary.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/options.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr std::size_t kDefaultQueueSize = 256;
constexpr std::uint32_t kUnboundedCqSize = 1U << 30;  // entries of a queue that keeps none

int ep_close(struct ::fid* face) {
    return c_boundary([&] {
        EpFace& own = EpFace::of(face);
        if (own.in_use()) return -FI_EBUSY;
        delete &own.endpoint();
        return 0;
    });
}

int ep_bind(struct ::fid* face, struct ::fid* object, std::uint64_t flags) {
    return c_boundary([&] { return EpFace::of(face).endpoint().bind(object, flags); });
}

int ep_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] {
        EpFace& own = EpFace::of(face);
        return own.endpoint().control(own, command, argument);
    });
}

ssize_t ep_cancel(struct ::fid* face, void* context) {
    return c_boundary([&] { return EpFace::of(face).endpoint().cancel(context); });
}
int ep_getopt(struct ::fid* face, int level, int name, void* value, std::size_t* length) {
    return c_boundary(
        [&] { return EpFace::of(face).endpoint().getopt(level, name, value, length); });
}
int ep_setopt(struct ::fid* face, int level, int name, const void* value, std::size_t length) {
    return c_boundary(
        [&] { return EpFace::of(face).endpoint().setopt(level, name, value, length); });
}
ssize_t ep_rx_size_left(fid_ep* face) {
    return c_boundary([&] { return EpFace::of(face).endpoint().rx_size_left(); });
}
ssize_t ep_tx_size_left(fid_ep* face) {
    return c_boundary([&] { return EpFace::of(face).endpoint().tx_size_left(); });
}

constinit fi_ops kEpFiOps = {
    .size = sizeof(fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops kAliasFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<EpFace>,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_ep kEpOps = {
    .size = sizeof(fi_ops_ep),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = kUnsupported,
    .rx_ctx = kUnsupported,
    .rx_size_left = ep_rx_size_left,
    .tx_size_left = ep_tx_size_left,
};

/// What is asked, if anything, but never more than there is.
std::size_t limit(std::size_t asked, std::size_t most) {
    return asked != 0 ? std::min(asked, most) : most;
}

EndpointCaps caps_of(const fi_info& info) {
    EndpointCaps caps = to_caps(info.caps);
    if (info.tx_attr != nullptr && info.tx_attr->caps != 0) {
        const EndpointCaps tx = to_caps(info.tx_attr->caps);
        caps.send = caps.send && tx.send;
        caps.read = caps.read && tx.read;
        caps.write = caps.write && tx.write;
    }
    if (info.rx_attr != nullptr && info.rx_attr->caps != 0)
        caps.receive = caps.receive && to_caps(info.rx_attr->caps).receive;
    return caps;
}

std::uint64_t data_mask_of(const EpLimits& limits) {
    return limits.data_bytes >= sizeof(std::uint64_t)
               ? ~std::uint64_t{0}
               : (std::uint64_t{1} << (8 * limits.data_bytes)) - 1;
}

bool takes_data(const fi_info& info, const EpLimits& limits) {
    return limits.data_bytes != 0 && info.domain_attr != nullptr &&
           info.domain_attr->cq_data_size != 0;
}

}  // namespace

EpFace::EpFace(EndpointBase& endpoint, fi_ops& table, void* user_context)
    : Object(FI_CLASS_EP, user_context, table), endpoint_(endpoint) {
    ops = &kEpOps;
    atomic = &kNoAtomicOps;
    collective = &kNoCollectiveOps;
}

EpFace::EpFace(EndpointBase& endpoint, const EpTables& tables, void* user_context)
    : EpFace(endpoint, kEpFiOps, user_context) {
    cm = &tables.cm;
    msg = endpoint.caps().messages ? &tables.msg : &kNoMsgOps;
    rma = endpoint.caps().rma ? &tables.rma : &kNoRmaOps;
    tagged = endpoint.caps().tagged ? &tables.tagged : &kNoTaggedOps;
}

EpFace::EpFace(EpFace& original, void* user_context)
    : EpFace(original.endpoint_, kAliasFiOps, user_context) {
    cm = original.cm;
    msg = original.msg;
    rma = original.rma;
    tagged = original.tagged;
    set_tx_flags(original.tx_flags_);
    set_rx_flags(original.rx_flags_);
    original_ = Ref<EpFace>(original);
}

void EpFace::set_tx_flags(std::uint64_t flags) noexcept {
    tx_flags_ = flags;
    plain_ = to_op_flags(flags);
    plain_message_ = to_message_flags(flags);
}

EndpointBase::EndpointBase(Domain& domain, const fi_info& info, const EpLimits& limits,
                           const EpTables& tables, void* user_context)
    : domain_(domain),
      caps_(caps_of(info)),
      limits_(limits),
      granted_flags_(granted_op_flags({.fence = caps_.fence,
                                       .delivery = delivers(info.ep_attr->type, domain.limits()),
                                       .commit = domain.limits().flush,
                                       .data = takes_data(info, limits)})),
      data_mask_(data_mask_of(limits)),
      desc_required_(domain.mr_mode().local_keys),
      face_(*this, tables, user_context) {
    if (info.tx_attr != nullptr)
        face_.set_tx_flags(info.tx_attr->op_flags & kDefaultableFlags & granted_flags_);
    if (info.rx_attr != nullptr) face_.set_rx_flags(info.rx_attr->op_flags & kReceiveFlags);
}

EndpointBase::~EndpointBase() {
    if (srx_ && receive_queue_ != nullptr) srx_->leave(receive_cq_.get());
    for (BoundCounter& bound : counters_)
        if (bound.counter && bound.queue != nullptr) bound.counter->detach(*bound.queue);
}

EpLimits EndpointBase::limits_of(const fi_info& info, const core::Limits& device) {
    const fi_tx_attr none_tx{};
    const fi_rx_attr none_rx{};
    const fi_tx_attr& tx = info.tx_attr != nullptr ? *info.tx_attr : none_tx;
    const fi_rx_attr& rx = info.rx_attr != nullptr ? *info.rx_attr : none_rx;
    const std::size_t iov = std::min<std::size_t>(core::kMaxSegments, device.max_sge);
    EpLimits limits;
    limits.max_rma = info.ep_attr->max_msg_size != 0 ? info.ep_attr->max_msg_size : SIZE_MAX;
    limits.max_message = std::min<std::size_t>(limits.max_rma, device.max_message);
    limits.inject_message = tx.inject_size;
    limits.inject_rma = tx.inject_size;
    limits.data_bytes = device.imm_bytes;
    limits.tx_iov = limit(tx.iov_limit, iov);
    limits.rx_iov = limit(rx.iov_limit, iov);
    limits.rma_iov = limit(tx.rma_iov_limit, core::kMaxSegments);
    limits.tx_size = limit(tx.size != 0 ? tx.size : kDefaultQueueSize, device.max_qp_wr);
    limits.rx_size = limit(rx.size != 0 ? rx.size : kDefaultQueueSize, device.max_qp_wr);
    return limits;
}

int EndpointBase::bind(struct ::fid* object, std::uint64_t flags) {
    const std::lock_guard lock(mutex_);
    if (enabled_) return -FI_EOPBADSTATE;
    switch (object->fclass) {
        case FI_CLASS_CQ: return bind_cq(Cq::of(object), flags);
        case FI_CLASS_CNTR: return bind_counter(Cntr::of(object), flags);
        case FI_CLASS_STX_CTX: return bind_stx(Stx::of(object), flags);
        case FI_CLASS_SRX_CTX: return bind_srx(Srx::of(object), flags);
        default: return bind_own(object, flags);
    }
}

int EndpointBase::bind_cq(Cq& cq, std::uint64_t flags) {
    const auto binding = to_cq_binding(flags);
    if (!binding) return -FI_EBADFLAGS;
    const bool taken = (binding->transmit && transmit_cq_) || (binding->receive && receive_cq_);
    if (taken || &cq.domain() != domain_.get()) return -FI_EINVAL;
    if (binding->transmit) {
        transmit_cq_ = Ref<Cq>(cq);
        if (binding->selective) always_entry_ = {};
    }
    if (binding->receive) {
        receive_cq_ = Ref<Cq>(cq);
        receive_selective_ = binding->selective;
    }
    return 0;
}

int EndpointBase::bind_counter(Cntr& counter, std::uint64_t flags) {
    if (flags == 0 || !only_bits(flags, kCounterFlags)) return -FI_EBADFLAGS;
    if (&counter.domain() != domain_.get()) return -FI_EINVAL;
    if (counts_remote(flags) && !(caps_.rma_event && domain_->limits().remote_access_events))
        return -FI_ENOSYS;
    const auto slot = [this](const CounterRow& row) -> Ref<Cntr>& {
        return counters_[static_cast<std::size_t>(row.counted)].counter;
    };
    const auto asks = [flags](const CounterRow& row) { return any_bit(flags, row.fi); };
    for (const CounterRow& row : kCounterRows)
        if (asks(row) && slot(row)) return -FI_EINVAL;
    for (const CounterRow& row : kCounterRows)
        if (asks(row)) slot(row) = Ref<Cntr>(counter);
    return 0;
}

int EndpointBase::bind_stx(Stx& stx, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (stx_ || &stx.domain() != domain_.get()) return -FI_EINVAL;
    stx_ = Ref<Stx>(stx);
    return 0;
}

int EndpointBase::bind_srx(Srx& srx, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (srx_ || &srx.domain() != domain_.get()) return -FI_EINVAL;
    srx_ = Ref<Srx>(srx);
    return 0;
}

core::Counter* EndpointBase::counter(Counted counted) const noexcept {
    const Ref<Cntr>& bound = counters_[static_cast<std::size_t>(counted)].counter;
    return bound ? &bound->counter() : nullptr;
}

bool EndpointBase::counts_transmits() const noexcept {
    return counter(Counted::send) != nullptr || counter(Counted::write) != nullptr ||
           counter(Counted::read) != nullptr;
}

int EndpointBase::check_queues() const {
    return caps_.transmits() && !transmit_cq_ && !counts_transmits() ? -FI_ENOCQ : 0;
}

bool EndpointBase::tells_receives() const noexcept {
    return receive_cq_ || counter(Counted::receive) != nullptr;
}

int EndpointBase::enable() {
    if (enabled_) return -FI_EOPBADSTATE;
    if (const int bad = check_own_bindings(); bad != 0) return bad;
    if (const int bad = check_queues(); bad != 0) return bad;
    core::Status started = find_queues();
    if (started) started = start();
    if (started) started = attach_counters();
    enabled_ = started.has_value();
    return to_return(started);
}

core::Result<core::TrackedCq*> EndpointBase::queue_of(const Ref<Cq>& cq) {
    if (cq) return &cq->queue();
    if (!own_queue_) {
        auto made =
            core::TrackedCq::create(domain_->device(), {.size = kUnboundedCqSize,
                                                        .keeps_entries = false,
                                                        .automatic = !domain_->manual_progress()});
        if (!made) return core::failure(made.error());
        own_queue_ = std::move(*made);
    }
    return own_queue_.get();
}

core::Status EndpointBase::find_queues() {
    const auto transmit_queue = queue_of(transmit_cq_);
    if (!transmit_queue) return core::failure(transmit_queue.error());
    const auto receive_queue = queue_of(receive_cq_);
    if (!receive_queue) return core::failure(receive_queue.error());
    transmit_queue_ = *transmit_queue;
    receive_queue_ = *receive_queue;
    return {};
}

core::Status EndpointBase::attach_counter(Counted counted, core::TrackedCq& queue) {
    BoundCounter& bound = counters_[static_cast<std::size_t>(counted)];
    if (!bound.counter) return {};
    core::Status attached = bound.counter->attach(queue);
    if (attached) bound.queue = &queue;
    return attached;
}

core::Status EndpointBase::attach_counters() {
    for (const Counted counted : {Counted::send, Counted::write, Counted::read})
        if (core::Status attached = attach_counter(counted, *transmit_queue_); !attached)
            return attached;
    // What peers do is seen without polling, but polling lets the device get on with it.
    for (const Counted counted : {Counted::receive, Counted::remote_write, Counted::remote_read})
        if (core::Status attached = attach_counter(counted, *receive_queue_); !attached)
            return attached;
    return {};
}

int EndpointBase::control(EpFace& face, int command, void* argument) {
    switch (command) {
        case FI_ENABLE: {
            const std::lock_guard lock(mutex_);
            return enable();
        }
        case FI_ALIAS: return make_alias(face, static_cast<const struct fi_alias*>(argument));
        case FI_GETOPSFLAG: return get_ops_flags(face, static_cast<std::uint64_t*>(argument));
        case FI_SETOPSFLAG:
            if (argument == nullptr) return -FI_EINVAL;
            return set_ops_flags(face, *static_cast<const std::uint64_t*>(argument));
        default: return -FI_ENOSYS;
    }
}

int EndpointBase::get_ops_flags(const EpFace& face, std::uint64_t* flags) {
    const auto side = flags != nullptr ? ops_side(*flags) : std::nullopt;
    if (!side) return -FI_EINVAL;
    *flags |= *side == OpsSide::transmit ? face.tx_flags() : face.rx_flags();
    return 0;
}

int EndpointBase::set_ops_flags(EpFace& face, std::uint64_t flags) const {
    const auto side = ops_side(flags);
    if (!side) return -FI_EINVAL;
    const std::uint64_t wanted = without_side(flags);
    if (*side == OpsSide::transmit) {
        if (!only_bits(wanted, kDefaultableFlags & granted_flags_)) return -FI_EBADFLAGS;
        face.set_tx_flags(wanted);
    } else {
        if (!only_bits(wanted, kReceiveFlags)) return -FI_EBADFLAGS;
        face.set_rx_flags(wanted);
    }
    return 0;
}

int EndpointBase::make_alias(EpFace& face, const struct fi_alias* request) {
    if (request == nullptr || request->fid == nullptr) return -FI_EINVAL;
    auto alias = std::make_unique<EpFace>(face, face.base()->context);
    alias->set_tx_flags(face.tx_flags());
    alias->set_rx_flags(face.rx_flags());
    if (const int set = set_ops_flags(*alias, request->flags); set != 0) return set;
    *request->fid = alias.release()->base();
    return 0;
}

int EndpointBase::finish_cancel(const core::Result<core::Completion>& cancelled) {
    if (!cancelled) return cancel_errno(cancelled.error());
    if (core::Counter* counts = counter(Counted::receive)) counts->add_errors(1);
    return to_return(receive_queue_->push(*cancelled));
}

std::size_t* EndpointBase::option(int name) noexcept {
    switch (name) {
        case FI_OPT_TX_SIZE: return &limits_.tx_size;
        case FI_OPT_RX_SIZE: return &limits_.rx_size;
        case FI_OPT_MAX_MSG_SIZE: return &limits_.max_message;
        case FI_OPT_MAX_RMA_SIZE: return &limits_.max_rma;
        case FI_OPT_INJECT_MSG_SIZE: return &limits_.inject_message;
        case FI_OPT_INJECT_RMA_SIZE: return &limits_.inject_rma;
        default: return nullptr;
    }
}

int EndpointBase::getopt(int level, int name, void* value, std::size_t* length) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    const std::lock_guard lock(mutex_);
    if (name == FI_OPT_CM_DATA_SIZE)
        return get_size_option(cm_data_size(domain_->limits()), value, length);
    if (name == FI_OPT_MIN_MULTI_RECV) return get_size_option(min_multi_receive_, value, length);
    const std::size_t* size = option(name);
    return size != nullptr ? get_size_option(*size, value, length) : -FI_ENOPROTOOPT;
}

int EndpointBase::setopt(int level, int name, const void* value, std::size_t length) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    const std::lock_guard lock(mutex_);
    const bool is_min_multi = name == FI_OPT_MIN_MULTI_RECV;
    std::size_t* const known = is_min_multi ? &min_multi_receive_ : option(name);
    if (known == nullptr) return -FI_ENOPROTOOPT;
    std::size_t size = 0;
    if (const int taken = take_size_option(value, length, size); taken != 0) return taken;
    if (is_min_multi) {
        set_min_multiple(size);
    } else if (enabled_) {
        return -FI_EOPBADSTATE;
    } else if (size > *known) {
        return -FI_EINVAL;
    }
    *known = size;
    return 0;
}

}  // namespace compat::fi
