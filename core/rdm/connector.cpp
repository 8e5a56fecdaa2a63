// SPDX-License-Identifier: BSD-3-Clause
#include <poll.h>

#include <utility>

#include "core/base/log.hpp"
#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

using namespace std::chrono_literals;

constexpr int kResolveTimeoutMs = 2000;
// The peer's own request is on its way; should it get lost, we ask again.
constexpr auto kAwaitCrossing = 200ms;
// The peer has not yet noticed that our end of the old connection is gone.
constexpr auto kAwaitNotice = 20ms;
// From then on it is told that we know of none.
constexpr std::uint32_t kPatience = 2;

/// The address where the peer can be reached, if it only knows its port.
SocketAddress name_of(const Hello& hello, const CmId& request) noexcept {
    if (!hello.name.is_wildcard()) return hello.name;
    SocketAddress name = request.peer_address();
    name.set_port(hello.name.port());
    return name;
}

/// Whatever keeps a connection from being asked for, but for memory, is told by one operation.
Error as_unreachable(const Error& error) noexcept {
    return error.code == Errc::no_memory ? error : Error{Errc::unreachable, error.device_errno};
}

}  // namespace

Hello Endpoint::hello(bool extra) const noexcept {
    return {.name = name_,
            .instance = instance_,
            .extra = extra,
            .data_buffers = kDataBuffers,
            .control_buffers = kControlBuffers,
            .buffer_length = kBufferLength};
}

/// Errors: would_block (to be called again), unreachable (the peer is marked), no_memory, device.
Status Endpoint::connect(Peer& peer) noexcept {
    auto id = find(peer);
    const Status asked = id ? ask(peer, std::move(*id)) : Status(failure(id.error()));
    if (asked || asked.error().code != Errc::unreachable) return asked;
    peer.failed = true;
    peer.failed_at = Clock::now();
    return asked;
}

/// An identifier that knows the way to the peer. Errors as connect().
Result<std::unique_ptr<CmId>> Endpoint::find(Peer& peer) noexcept {
    if (!peer.resolution) {
        auto id = attr_.device->create_cm_id(nullptr);
        if (!id) return id;
        const bool may_take_long = attr_.device->native_context() != nullptr;
        if (!may_take_long) {
            const Status resolved = (*id)->resolve({}, peer.name, kResolveTimeoutMs);
            if (!resolved) return failure(as_unreachable(resolved.error()));
            return id;
        }
        auto started = Resolution::start(std::move(*id), peer.name, kResolveTimeoutMs);
        if (!started) return failure(started.error());
        peer.resolution = std::move(*started);
    }
    if (!peer.resolution->done()) return failure(Errc::would_block);
    auto found = std::exchange(peer.resolution, nullptr)->take();
    if (!found) return failure(as_unreachable(found.error()));
    return found;
}

Status Endpoint::ask(Peer& peer, std::unique_ptr<CmId> id) noexcept {
    if (const Status moved = id->migrate(*cm_channel_); !moved) return moved;
    const auto made = make_connection(peer, std::move(id));
    if (!made) return failure(made.error());
    Connection& connection = **made;
    const auto bytes = encode(hello(peer.refusals >= kPatience));
    const Status asked = connection.id->connect({.private_data = bytes});
    if (asked) {
        peer.connection = &connection;
        return {};
    }
    remove(connection);
    return failure(as_unreachable(asked.error()));
}

void Endpoint::take_cm_events() noexcept {
    for (;;) {
        pollfd ready{.fd = cm_channel_->fd(), .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, 0) != 1) return;
        auto event = cm_channel_->get_event();
        if (!event) return;
        on_event(*event);
    }
}

void Endpoint::on_event(CmEvent& event) noexcept {
    if (event.type == CmEventType::connect_request) return on_request(event);
    auto* const connection =
        event.id != nullptr ? static_cast<Connection*>(event.id->context()) : nullptr;
    if (connection == nullptr) return;
    switch (event.type) {
        case CmEventType::established: return on_established(*connection, event);
        case CmEventType::rejected: return on_refused(*connection, event);
        case CmEventType::unreachable:
        case CmEventType::connect_error: return on_failed(*connection);
        default:
            if (connection->state == Connection::State::open) return drain(*connection);
            if (connection->state != Connection::State::draining) on_failed(*connection);
    }
}

void Endpoint::refuse(CmId& request, Refusal refusal) noexcept {
    const auto bytes = encode(refusal);
    static_cast<void>(request.reject(bytes));
}

void Endpoint::on_request(CmEvent& event) noexcept {
    std::unique_ptr<CmId> request = std::move(event.request);
    if (!request) return;
    const auto said = parse_hello(event.private_data);
    if (!said) {
        COMPAT_LOG_ERROR("a connection request is not of this protocol, or of another version");
        return refuse(*request, Refusal::bad_request);
    }
    const auto peer = peer_named(name_of(*said, *request));
    if (!peer) return refuse(*request, Refusal::unable);
    const bool extra = said->extra || said->instance == instance_;  // to itself: both ends
    if (!admit(**peer, *said, extra, *request)) return;
    // On failure the identifier is gone with what there was of the connection, and has said no.
    if (const Status accepted = accept(**peer, *said, std::move(request)); !accepted)
        COMPAT_LOG_ERROR("cannot accept a connection of %s, errno %d", (*peer)->name.text().c_str(),
                         accepted.error().device_errno);
}

/// Whether the request is to be accepted; otherwise it was refused.
bool Endpoint::admit(Peer& peer, const Hello& said, bool extra, CmId& request) noexcept {
    Connection* const own = peer.connection;
    if (own == nullptr || extra) return true;
    if (own->state == Connection::State::connecting) {
        if (instance_ < said.instance) {
            refuse(request, Refusal::crossing);
            return false;
        }
        remove(*own);
        return true;
    }
    if (peer.instance == said.instance) {
        refuse(request, Refusal::connected);
        return false;
    }
    // Another process has taken the place of that one.
    if (own->state == Connection::State::open)
        drain(*own);
    else
        remove(*own);
    return true;
}

Status Endpoint::accept(Peer& peer, const Hello& said, std::unique_ptr<CmId> request) noexcept {
    const auto made = make_connection(peer, std::move(request));
    if (!made) return failure(made.error());
    Connection& connection = **made;
    connection.state = Connection::State::accepting;
    connection.data.allowed = said.data_buffers;
    connection.control.allowed = said.control_buffers;
    const auto bytes = encode(hello(false));
    Status accepted = connection.id->migrate(*cm_channel_);
    if (accepted) accepted = connection.id->accept({.private_data = bytes});
    if (!accepted) {
        remove(connection);
        return accepted;
    }
    peer.failed = false;
    peer.refusals = 0;
    peer.resolution.reset();
    if (peer.connection == nullptr) {
        peer.connection = &connection;
        peer.instance = said.instance;
    }
    return {};
}

void Endpoint::on_established(Connection& connection, CmEvent& event) noexcept {
    if (connection.state == Connection::State::accepting) {
        // On iWARP the side that asked speaks first: note_arrival() opens it.
        if (!is_iwarp_nic()) connection.state = Connection::State::open;
        return;
    }
    if (connection.state != Connection::State::connecting) return;
    const auto said = parse_hello(event.private_data);
    if (!said) return on_failed(connection);
    connection.peer.instance = said->instance;
    connection.peer.refusals = 0;
    connection.data.allowed = said->data_buffers;
    connection.control.allowed = said->control_buffers;
    connection.state = Connection::State::open;
    if (!is_iwarp_nic()) return;
    connection.owes_permit = true;
    ++waiting_count_;
    announce(connection);
}

void Endpoint::on_refused(Connection& connection, const CmEvent& event) noexcept {
    Peer& peer = connection.peer;
    const auto refusal = parse_refusal(event.private_data);
    const bool waits = refusal == Refusal::crossing || refusal == Refusal::connected;
    if (!waits) return on_failed(connection);
    ++peer.refusals;
    peer.retry_at = Clock::now() + (refusal == Refusal::crossing ? Clock::duration(kAwaitCrossing)
                                                                 : Clock::duration(kAwaitNotice));
    remove(connection);
}

/// It has never stood.
void Endpoint::on_failed(Connection& connection) noexcept {
    Peer& peer = connection.peer;
    if (connection.state == Connection::State::connecting && peer.connection == &connection) {
        peer.failed = true;
        peer.failed_at = Clock::now();
    }
    remove(connection);
}

}  // namespace compat::core::rdm
