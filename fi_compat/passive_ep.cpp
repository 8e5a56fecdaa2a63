// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/passive_ep.hpp"

#include <algorithm>

#include "fi_compat/address.hpp"
#include "fi_compat/boundary.hpp"
#include "fi_compat/options.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

int pep_bind(struct ::fid* face, struct ::fid* object, std::uint64_t flags) {
    return c_boundary([&] { return PassiveEp::of(face).bind(object, flags); });
}
int pep_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return PassiveEp::of(face).control(command, argument); });
}
int pep_getopt(struct ::fid* face, int level, int name, void* value, std::size_t* length) {
    return c_boundary([&] { return PassiveEp::of(face).getopt(level, name, value, length); });
}
int pep_setname(struct ::fid* face, void* address, std::size_t length) {
    return c_boundary([&] { return PassiveEp::of(face).set_name(address, length); });
}
int pep_getname(struct ::fid* face, void* address, std::size_t* length) {
    return c_boundary([&] { return PassiveEp::of(face).get_name(address, length); });
}
int pep_listen(fid_pep* pep) {
    return c_boundary([&] { return PassiveEp::of(pep).listen(); });
}
int pep_reject(fid_pep* pep, fid_t handle, const void* data, std::size_t length) {
    return c_boundary([&] { return PassiveEp::of(pep).reject(handle, data, length); });
}

constinit fi_ops kPepFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<PassiveEp>,
    .bind = pep_bind,
    .control = pep_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_ep kPepOps = {
    .size = sizeof(fi_ops_ep),
    .cancel = kUnsupported,
    .getopt = pep_getopt,
    .setopt = kUnsupported,
    .tx_ctx = kUnsupported,
    .rx_ctx = kUnsupported,
    .rx_size_left = kUnsupported,
    .tx_size_left = kUnsupported,
};

constinit fi_ops_cm kPepCmOps = {
    .size = sizeof(fi_ops_cm),
    .setname = pep_setname,
    .getname = pep_getname,
    .getpeer = kUnsupported,
    .connect = kUnsupported,
    .listen = pep_listen,
    .accept = kUnsupported,
    .reject = pep_reject,
    .shutdown = kUnsupported,
    .join = kUnsupported,
};

int close_request(struct ::fid* handle) {
    return c_boundary([&] {
        ConnReq& request = ConnReq::of(handle);
        request.pep().drop(request);
        return 0;
    });
}

constinit fi_ops kConnReqFiOps = {
    .size = sizeof(fi_ops),
    .close = close_request,
    .bind = kUnsupported,
    .control = kUnsupported,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

core::SocketAddress wildcard() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    return *core::SocketAddress::from(reinterpret_cast<const sockaddr*>(&any), sizeof any);
}

}  // namespace

ConnReq::ConnReq(PassiveEp& pep, std::unique_ptr<core::CmId> id)
    : Object(FI_CLASS_CONNREQ, nullptr, kConnReqFiOps), pep_(pep), id_(std::move(id)) {
    id_->set_context(static_cast<CmHandler*>(&events_));
}

PassiveEp::PassiveEp(Fabric& fabric, core::Device& device, InfoPtr info, void* user_context)
    : Object(FI_CLASS_PEP, user_context, kPepFiOps),
      fabric_(fabric),
      device_(device),
      info_(std::move(info)) {
    ops = &kPepOps;
    cm = &kPepCmOps;
}

PassiveEp::~PassiveEp() {
    std::unique_lock<std::mutex> held;
    if (eq_) held = eq_->hold_sources();
    requests_.clear();
    id_.reset();
    if (eq_) eq_->forget(base());
}

int PassiveEp::open(Fabric& fabric, const fi_info& info, fid_pep** out, void* user_context) {
    if (info.ep_attr == nullptr || number_in(info.ep_attr->type) != FI_EP_MSG) return -FI_EINVAL;
    const char* domain_name = info.domain_attr != nullptr ? info.domain_attr->name : nullptr;
    core::Device* device = find_device(fabric.provider(), domain_name);
    if (device == nullptr) return -FI_ENODEV;
    std::unique_ptr<PassiveEp> pep(
        new PassiveEp(fabric, *device, duplicate_info(info), user_context));
    const core::SocketAddress address = source_of(info);
    if (!address.empty()) {
        const core::Status bound = pep->bind_address(address);
        if (!bound) return to_fi(bound.error());
    }
    *out = pep.release()->face();
    return 0;
}

core::Status PassiveEp::bind_address(const core::SocketAddress& address) {
    auto id = make_cm_id(device_, nullptr, events_);
    if (!id) return core::failure(id.error());
    id_.reset();  // its port may be the one that is asked for
    if (core::Status bound = (*id)->bind(address); !bound) return bound;
    id_ = std::move(*id);
    return {};
}

int PassiveEp::bind(struct ::fid* object, std::uint64_t flags) {
    if (object->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    EventQueue& eq = EventQueue::of(object);
    if (&eq.fabric() != &fabric() || eq_) return -FI_EINVAL;
    if (listening_) return -FI_EOPBADSTATE;
    eq_ = Ref<EventQueue>(eq);
    return 0;
}

int PassiveEp::control(int command, void* argument) noexcept {
    if (command != FI_BACKLOG) return -FI_ENOSYS;
    if (argument == nullptr || *static_cast<const int*>(argument) < 0) return -FI_EINVAL;
    if (listening_) return -FI_EOPBADSTATE;
    backlog_ = *static_cast<const int*>(argument);
    return 0;
}

int PassiveEp::getopt(int level, int name, void* value, std::size_t* length) noexcept {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
    return get_size_option(cm_data_size(device_.limits()), value, length);
}

int PassiveEp::set_name(const void* address, std::size_t length) {
    if (listening_) return -FI_EOPBADSTATE;
    const auto parsed = core::SocketAddress::from(static_cast<const sockaddr*>(address), length);
    if (!parsed) return to_fi(parsed.error());
    return to_return(bind_address(*parsed));
}

int PassiveEp::get_name(void* address, std::size_t* length) noexcept {
    if (!id_) return -FI_EOPBADSTATE;
    return write_address(info_->addr_format, id_->local_address(), address, length);
}

int PassiveEp::listen() {
    if (listening_) return -FI_EOPBADSTATE;
    if (!eq_) return -FI_ENOEQ;
    if (!id_)
        if (const core::Status bound = bind_address(wildcard()); !bound)
            return to_fi(bound.error());
    const auto channel = cm_channel(*eq_, device_);
    if (!channel) return to_fi(channel.error());
    if (const core::Status moved = id_->migrate(**channel); !moved) return to_fi(moved.error());
    const core::Status listens = id_->listen(backlog_);
    listening_ = listens.has_value();
    return to_return(listens);
}

void PassiveEp::on_event(core::CmEvent& event) {
    if (event.type != core::CmEventType::connect_request) return;
    // Without memory for all of it the request goes, and with it the peer gets its answer.
    const auto data = CmData::unframe(event.private_data);
    EventQueue::Spare announcement(1, data.size());
    auto request = std::make_unique<ConnReq>(*this, std::move(event.request));
    InfoPtr info = describe(*request);
    {
        const std::lock_guard lock(requests_mutex_);
        requests_.push_back(std::move(request));
    }
    eq_->push_cm(FI_CONNREQ, base(), std::move(info), data, &announcement);
}

/// fi_cm(3), FI_CONNREQ: what fi_endpoint() needs for an endpoint that answers the request.
InfoPtr PassiveEp::describe(ConnReq& request) const {
    InfoPtr info = duplicate_info(*info_);
    info->handle = request.base();
    set_source(*info, request.id().local_address());
    set_destination(*info, request.id().peer_address());
    info->fabric_attr->api_version = fabric_->api_version();
    if (info->domain_attr->name == nullptr)
        set_text(info->domain_attr->name, device_.limits().name.c_str());
    return info;
}

int PassiveEp::reject(fid_t handle, const void* data, std::size_t length) {
    if (!LiveHandle::contains(handle) || handle->fclass != FI_CLASS_CONNREQ) return -FI_EINVAL;
    ConnReq& request = ConnReq::of(handle);
    if (&request.pep() != this) return -FI_EINVAL;
    CmData framed;
    if (const int bad = framed.assign(data, length, device_.limits()); bad != 0) return bad;
    const auto held = eq_->hold_sources();
    const core::Status rejected = request.id().reject(framed.on_wire());
    forget(request);
    return to_return(rejected);
}

std::unique_ptr<core::CmId> PassiveEp::take_id() noexcept {
    return listening_ ? nullptr : std::move(id_);
}

void PassiveEp::drop(ConnReq& request) noexcept {
    const auto held = eq_->hold_sources();
    forget(request);
}

void PassiveEp::forget(ConnReq& request) noexcept {
    const std::lock_guard lock(requests_mutex_);
    std::erase_if(requests_, [&request](const auto& own) { return own.get() == &request; });
}

int open_passive_ep(Fabric& fabric, fi_info* info, fid_pep** pep, void* context) {
    if (info == nullptr) return -FI_EINVAL;
    return PassiveEp::open(fabric, *info, pep, context);
}

}  // namespace compat::fi
