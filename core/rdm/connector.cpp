// SPDX-License-Identifier: BSD-3-Clause
#include <poll.h>

#include <cstring>
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
// Too many ask the peer at once, perhaps a thousand.
constexpr auto kAwaitPlace = 200ms;
// From then on it is told that we know of none.
constexpr std::uint32_t kPatience = 2;

// Connections that somebody asked for and has sent nothing on yet, of all peers; and connections to
// one peer: that which we know of, that which the peer insists on, and those that just break.
constexpr std::size_t kMaxUnproven = 1024;
constexpr std::size_t kMaxOfPeer = 4;
// Whoever has a connection sends something at once, but perhaps its program makes no progress.
constexpr auto kProofTime = 5s;

Clock::duration wait_after(Refusal refusal) noexcept {
    if (refusal == Refusal::crossing) return kAwaitCrossing;
    if (refusal == Refusal::busy) return kAwaitPlace;
    return kAwaitNotice;
}

/// ::ffff:192.0.2.1, as a socket of both families gives it, is 192.0.2.1; others stay.
SocketAddress unmapped(const SocketAddress& address) noexcept {
    if (address.family() != AF_INET6) return address;
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&six)) return address;
    sockaddr_in four{};
    four.sin_family = AF_INET;
    std::memcpy(&four.sin_addr, six.s6_addr + sizeof six - sizeof four.sin_addr,
                sizeof four.sin_addr);
    return SocketAddress::from(reinterpret_cast<const sockaddr*>(&four), sizeof four)
        .value_or(address);
}

/// Whom the request is from: the host is the one that it came from, whatever it says itself.
SocketAddress name_of(const Hello& hello, const CmId& request) noexcept {
    SocketAddress name = unmapped(request.peer_address());
    name.set_port(hello.name.port());
    return name;
}

/// Whatever keeps a connection from being asked for, but for memory, is told by one operation.
Error as_unreachable(const Error& error) noexcept {
    return error.code == Errc::no_memory ? error : Error{Errc::unreachable, error.device_errno};
}

}  // namespace

Hello Endpoint::hello(bool extra) const noexcept {
    Hello out{.name = name_,
              .instance = instance_,
              .extra = extra,
              .data_buffers = kDataBuffers,
              .control_buffers = kControlBuffers,
              .buffer_length = kBufferLength};
    delivery_.describe(out);
    return out;
}

/// What the peer gives us with the connection.
void Endpoint::take_offer(Connection& connection, const Hello& said) noexcept {
    connection.data.allowed = said.data_buffers;
    connection.control.allowed = said.control_buffers;
    connection.transmit->set_probe(delivery_.at(said));
}

/// Where requests to the peer come from, so that it sees the host that we call ourselves; empty:
/// what the route gives.
SocketAddress Endpoint::source_towards(const SocketAddress& peer) const noexcept {
    const bool goes = !name_.is_wildcard() && name_.family() == peer.family() &&
                      (!name_.is_loopback() || peer.is_loopback());
    if (!goes) return {};
    SocketAddress source = name_;
    source.set_port(0);
    return source;
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
            const Status resolved =
                (*id)->resolve(source_towards(peer.name), peer.name, kResolveTimeoutMs);
            if (!resolved) return failure(as_unreachable(resolved.error()));
            return id;
        }
        auto started = Resolution::start(std::move(*id), source_towards(peer.name), peer.name,
                                         kResolveTimeoutMs);
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
    connection.proven = true;
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
    const auto found = peers_.named(name_of(*said, *request));
    if (!found) return refuse(*request, Refusal::unable);
    Peer& peer = **found;
    const bool extra = said->extra || said->instance == instance_;  // to itself: both ends
    if (!admit(peer, *said, extra, *request)) return;
    // On failure the identifier is gone with what there was of the connection, and has said no.
    if (const Status accepted = accept(peer, *said, std::move(request)); !accepted)
        COMPAT_LOG_ERROR("cannot accept a connection of %s, errno %d", peer.name.text().c_str(),
                         accepted.error().device_errno);
}

/// Whether the request is to be accepted; otherwise it was refused. Anybody on the peer's host can
/// say what a request says: one that stands, or will, is not given up for it.
bool Endpoint::admit(Peer& peer, const Hello& said, bool extra, CmId& request) noexcept {
    Connection* const own = extra ? nullptr : peer.connection;
    const bool crossing = own != nullptr && own->state == Connection::State::connecting;
    if (own != nullptr && (!crossing || instance_ < said.instance)) {
        refuse(request, crossing ? Refusal::crossing : Refusal::connected);
        return false;
    }
    if (!make_place(peer)) {
        refuse(request, Refusal::busy);
        return false;
    }
    if (own != nullptr) remove(*own);
    return true;
}

/// For one more connection that nothing has come over yet. Those that stay so give way.
bool Endpoint::make_place(const Peer& peer) noexcept {
    std::size_t of_peer = 0;
    std::size_t unproven = 0;
    Connection* idle = nullptr;  // the oldest
    Connection* idle_of_peer = nullptr;
    for (Connection* at = connections_.first(); at != nullptr; at = List<Connection>::next(*at)) {
        if (at->state == Connection::State::gone) continue;
        const bool same = &at->peer == &peer;
        of_peer += same ? 1 : 0;
        if (at->proven || at->state == Connection::State::draining) continue;
        ++unproven;
        if (!at->stands) continue;
        if (idle == nullptr) idle = at;
        if (same && idle_of_peer == nullptr) idle_of_peer = at;
    }
    if (of_peer >= kMaxOfPeer) return give_way(idle_of_peer);
    return unproven < kMaxUnproven || give_way(idle);
}

/// Whether the connection, if there is one, has made place. One that does not stand yet never does:
/// to the end that asked it would have failed, while one that it sees end it replaces.
bool Endpoint::give_way(Connection* idle) noexcept {
    if (idle == nullptr || Clock::now() - idle->since < kProofTime) return false;
    // It is perhaps we who are late, and its first word waits.
    if (idle->doubted_in == 0) idle->doubted_in = sweeps_;
    if (idle->doubted_in == sweeps_) return false;
    idle->state = Connection::State::open;  // on iWARP that waited for the word
    drain(*idle);
    return true;
}

Status Endpoint::accept(Peer& peer, const Hello& said, std::unique_ptr<CmId> request) noexcept {
    const auto made = make_connection(peer, std::move(request));
    if (!made) return failure(made.error());
    Connection& connection = **made;
    connection.state = Connection::State::accepting;
    take_offer(connection, said);
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
    if (peer.connection == nullptr) peer.connection = &connection;
    return {};
}

/// Something has come over the connection.
void Endpoint::prove(Connection& connection) noexcept {
    connection.proven = true;
    Connection*& used = connection.peer.connection;
    if (used == nullptr || !used->proven) used = &connection;
}

void Endpoint::on_established(Connection& connection, CmEvent& event) noexcept {
    if (connection.state == Connection::State::accepting) {
        connection.stands = true;
        // On iWARP the side that asked speaks first: note_arrival() opens it.
        if (!is_iwarp_nic()) connection.state = Connection::State::open;
        return;
    }
    if (connection.state != Connection::State::connecting) return;
    const auto said = parse_hello(event.private_data);
    if (!said) return on_failed(connection);
    connection.peer.refusals = 0;
    take_offer(connection, *said);
    connection.state = Connection::State::open;
    // The peer takes us for nobody until it hears of us, and does not send first.
    connection.owes_permit = true;
    ++waiting_count_;
    announce(connection);
}

void Endpoint::on_refused(Connection& connection, const CmEvent& event) noexcept {
    Peer& peer = connection.peer;
    const auto refusal = parse_refusal(event.private_data);
    const bool waits =
        refusal == Refusal::crossing || refusal == Refusal::connected || refusal == Refusal::busy;
    if (!waits) return on_failed(connection);
    if (refusal != Refusal::busy) ++peer.refusals;
    peer.retry_at = Clock::now() + wait_after(*refusal);
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
