// SPDX-License-Identifier: BSD-3-Clause
// The connection of an endpoint: fi_cm(3).
#include <algorithm>
#include <cstdio>

#include "fi_compat/address.hpp"
#include "fi_compat/boundary.hpp"
#include "fi_compat/endpoint.hpp"
#include "fi_compat/fi_log.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr int kResolveTimeoutMs = 2000;

Endpoint& connected(const EpFace& face) {
    return static_cast<Endpoint&>(face.endpoint());
}

int cm_setname(struct ::fid* face, void* address, std::size_t length) {
    return c_boundary([&] { return connected(EpFace::of(face)).set_name(address, length); });
}
int cm_getname(struct ::fid* face, void* address, std::size_t* length) {
    return c_boundary([&] { return connected(EpFace::of(face)).get_name(address, length); });
}
int cm_getpeer(fid_ep* face, void* address, std::size_t* length) {
    return c_boundary([&] { return connected(EpFace::of(face)).get_peer(address, length); });
}
int cm_connect(fid_ep* face, const void* address, const void* data, std::size_t length) {
    return c_boundary([&] { return connected(EpFace::of(face)).connect(address, data, length); });
}
int cm_accept(fid_ep* face, const void* data, std::size_t length) {
    return c_boundary([&] { return connected(EpFace::of(face)).accept(data, length); });
}
int cm_shutdown(fid_ep* face, std::uint64_t flags) {
    return c_boundary([&] { return connected(EpFace::of(face)).shutdown(flags); });
}

struct FailureRow {
    int err;
    const char* text;
};
constexpr FailureRow kFailures[] = {
    {FI_ECONNREFUSED,
     "nobody listens there, or its program said no: is it running, and is that its port?"},
    {FI_EHOSTUNREACH, "there is no way to that host: is the address right, and its network up?"},
    {FI_ETIMEDOUT,
     "no answer: does the program there read its event queue? FABRIC_COMPAT_CONNECT_TIMEOUT_MS "
     "says how long it may take"},
    {FI_ECONNRESET, "the peer went away before the connection stood: did its program end?"},
};

/// For whoever asks why there is no connection.
void explain_failure(int err, const core::SocketAddress& peer) noexcept {
    if (!explains(FI_LOG_WARN, FI_LOG_EP_CTRL)) return;
    const auto* row = std::ranges::find(kFailures, err, &FailureRow::err);
    char text[256];
    std::snprintf(text, sizeof text, "no connection to %s: %s", peer.text().c_str(),
                  row != std::end(kFailures) ? row->text : fi_strerror(err));
    write_log(FI_LOG_WARN, FI_LOG_EP_CTRL, "fi_connect", __LINE__, text);
}

}  // namespace

constinit fi_ops_cm kEpCmOps = {
    .size = sizeof(fi_ops_cm),
    .setname = cm_setname,
    .getname = cm_getname,
    .getpeer = cm_getpeer,
    .connect = cm_connect,
    .listen = kUnsupported,
    .accept = cm_accept,
    .reject = kUnsupported,
    .shutdown = cm_shutdown,
    .join = kUnsupported,
};

int Endpoint::set_name(const void* address, std::size_t length) {
    const auto parsed = core::SocketAddress::from(static_cast<const sockaddr*>(address), length);
    if (!parsed) return to_fi(parsed.error());
    const std::lock_guard lock(mutex_);
    if (enabled_ || id_) return -FI_EOPBADSTATE;
    source_ = *parsed;
    return 0;
}

core::SocketAddress Endpoint::local_address() const {
    if (id_) {
        const core::SocketAddress bound = id_->local_address();
        if (!bound.empty()) return bound;
    }
    return source_;
}

int Endpoint::get_name(void* address, std::size_t* length) {
    const std::lock_guard lock(mutex_);
    const core::SocketAddress local = local_address();
    return local.empty() ? -FI_EOPBADSTATE
                         : write_address(domain_->address_format(), local, address, length);
}

int Endpoint::get_peer(void* address, std::size_t* length) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::connected) return -FI_ENOTCONN;
    return write_address(domain_->address_format(), id_->peer_address(), address, length);
}

core::Status Endpoint::create_qp() {
    const core::Limits& device = domain_->limits();
    core::TrackedQpAttr attr{
        .send_cq = transmit_queue_,
        .receive_cq = receive_queue_,
        .transmit = transmit_.get(),
        .receive = srx_ ? srx_->queue() : receive_.get(),
        .receive_is_shared = static_cast<bool>(srx_),
        .qp = {.pd = &domain_->pd(),
               .srq = srx_ ? srx_->device_queue() : nullptr,
               .send_depth = transmit_->depth(),
               .receive_depth = static_cast<std::uint32_t>(limits_.rx_size),
               .max_send_sge = std::min<std::uint32_t>(device.max_sge, core::kMaxSegments),
               .max_receive_sge = static_cast<std::uint32_t>(limits_.rx_iov),
               .max_inline = transmit_->max_inline(),
               .imm_without_receive = device.imm_without_receive && !consumes_receives_,
               // Reads of nothing: the peer's queue finds the end of an unsignaled run by one.
               .access = remote_access(caps_) | core::Access::read_source},
        .port = {.counter = counter(Counted::receive),
                 .write_flags = kRemoteWriteEntry,
                 .peer = FI_ADDR_NOTAVAIL},
    };
    auto qp = core::TrackedQp::create(*id_, attr);
    if (!qp) return core::failure(qp.error());
    qp_ = std::move(*qp);
    if (remote_counters_.empty()) return {};
    return qp_->queue_pair().set_observer(&remote_counters_);
}

/// An identifier whose events the endpoint's own queue drains.
core::Status Endpoint::prepare_id(core::CmChannel& channel) {
    if (!id_) {
        auto id = make_cm_id(domain_->device(), &channel, events_);
        if (!id) return core::failure(id.error());
        id_ = std::move(*id);
    } else if (core::Status moved = id_->migrate(channel); !moved) {
        return moved;
    }
    drained_by_ = Ref<EventQueue>(*eq_);
    return {};
}

core::Status Endpoint::start_connecting(core::CmChannel& channel, const core::SocketAddress& peer,
                                        std::span<const std::byte> data) {
    const bool inherited = id_ != nullptr;  // it is bound already
    if (core::Status prepared = prepare_id(channel); !prepared) return prepared;
    const core::SocketAddress local = inherited ? core::SocketAddress() : source_;
    if (core::Status resolved = id_->resolve(local, peer, kResolveTimeoutMs); !resolved)
        return resolved;
    if (core::Status created = create_qp(); !created) return created;
    return id_->connect({.private_data = data});
}

/// The peer cannot be reached: an event, as for every other way in which it does not answer.
int Endpoint::fail_connecting(const core::Error& error) {
    if (error.code == core::Errc::unreachable) {
        on_failure(FI_EHOSTUNREACH, {});
        return 0;
    }
    state_ = State::shut_down;
    return to_fi(error);
}

int Endpoint::check_unconnected() {
    if (!enabled_)
        if (const int enabled = enable(); enabled != 0) return enabled;
    return state_ == State::unconnected ? 0 : -FI_EOPBADSTATE;
}

int Endpoint::connect(const void* address, const void* data, std::size_t length) {
    CmData framed;
    if (const int bad = framed.assign(data, length, domain_->limits()); bad != 0) return bad;
    core::SocketAddress peer = destination_;
    if (address != nullptr) {
        const auto parsed = to_address(address);
        if (!parsed) return to_fi(parsed.error());
        peer = *parsed;
    }
    if (peer.empty()) return -FI_EINVAL;
    if (!eq_) return -FI_ENOEQ;
    const auto channel =
        cm_channel(*eq_, domain_->device());  // before our lock: see hold_sources()
    if (!channel) return to_fi(channel.error());

    const std::lock_guard lock(mutex_);
    if (accepts_) return -FI_EOPBADSTATE;
    if (const int bad = check_unconnected(); bad != 0) return bad;
    state_ = State::connecting;
    peer_ = peer;
    const core::Status started = start_connecting(**channel, peer, framed.on_wire());
    return started ? 0 : fail_connecting(started.error());
}

int Endpoint::accept(const void* data, std::size_t length) {
    CmData framed;
    if (const int bad = framed.assign(data, length, domain_->limits()); bad != 0) return bad;
    if (!accepts_) return -FI_EOPBADSTATE;
    if (!eq_) return -FI_ENOEQ;
    const auto channel = cm_channel(*eq_, domain_->device());
    if (!channel) return to_fi(channel.error());
    // Nobody may be at an event of the identifier while it moves to another queue.
    EventQueue& before = *drained_by_;
    const auto held = before.hold_sources();

    const std::lock_guard lock(mutex_);
    if (const int bad = check_unconnected(); bad != 0) return bad;
    state_ = State::connecting;
    core::Status accepted = prepare_id(**channel);
    if (accepted) accepted = create_qp();
    if (accepted) accepted = id_->accept({.private_data = framed.on_wire()});
    if (!accepted) state_ = State::shut_down;
    return to_return(accepted);
}

int Endpoint::shutdown(std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    const std::lock_guard lock(mutex_);
    if (state_ != State::connected) return -FI_ENOTCONN;
    state_ = State::shutting_down;  // FI_SHUTDOWN comes to both sides
    return to_return(id_->disconnect());
}

void Endpoint::on_failure(int err, std::span<const std::byte> data) {
    if (state_ == State::connecting && !accepts_) explain_failure(err, peer_);
    state_ = State::shut_down;
    eq_->push_error(face_.base(), face_.base()->context, err, err, data, &*spare_events_);
}

void Endpoint::report(std::uint32_t event, std::span<const std::byte> data) {
    eq_->push_cm(event, face_.base(), nullptr, data, &*spare_events_);
}

void Endpoint::on_disconnect() {
    switch (state_) {
        case State::connected:
        case State::shutting_down:
            state_ = State::shut_down;
            report(FI_SHUTDOWN);
            break;
        case State::connecting: on_failure(FI_ECONNRESET, {}); break;
        case State::unconnected:
        case State::shut_down: break;  // the program knows, or will learn when it accepts
    }
}

void Endpoint::on_event(core::CmEvent& event) {
    const std::lock_guard lock(mutex_);
    switch (event.type) {
        case core::CmEventType::established:
            state_ = State::connected;
            report(FI_CONNECTED,
                   accepts_ ? std::span<const std::byte>() : CmData::unframe(event.private_data));
            break;
        case core::CmEventType::rejected:
            on_failure(FI_ECONNREFUSED, CmData::unframe(event.private_data));
            break;
        case core::CmEventType::unreachable: on_failure(FI_ETIMEDOUT, {}); break;
        case core::CmEventType::connect_error: on_failure(FI_ECONNRESET, {}); break;
        case core::CmEventType::disconnected: on_disconnect(); break;
        case core::CmEventType::device_removed: on_failure(FI_ENODEV, {}); break;
        case core::CmEventType::connect_request:
        case core::CmEventType::count_: break;
    }
}

}  // namespace compat::fi
