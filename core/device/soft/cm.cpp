// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/cm.hpp"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "core/base/log.hpp"
#include "core/device/soft/qp_end.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/soft/soft_qp.hpp"
#include "core/device/soft/stream.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr auto kOutOfDescriptors = 100ms;  // until the next try to accept
constexpr long kMaxRequests = 256;         // unanswered at one listener; others wait in its backlog
constexpr auto kTooManyRequests = 10ms;    // until the next look
constexpr int kProbeSeconds = 5;  // an idle connection whose host answers three of them not is lost

void set_option(int socket, int level, int name, int value) {
    setsockopt(socket, level, name, &value, sizeof value);
}

void set_connection_options(int socket) {
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

SocketAddress address_by(int socket, int (*get)(int, sockaddr*, socklen_t*)) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (get(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
    return SocketAddress::from(reinterpret_cast<sockaddr*>(&storage), length)
        .value_or(SocketAddress{});
}

}  // namespace

Result<UniqueFd> open_socket(const SocketAddress& address) noexcept {
    UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) return failure(Errc::device, errno);
    set_connection_options(socket.get());
    return socket;
}

SocketAddress local_address_of(int socket) noexcept {
    return address_by(socket, ::getsockname);
}
SocketAddress peer_address_of(int socket) noexcept {
    return address_by(socket, ::getpeername);
}

// --- SoftCmChannel

Result<CmEvent> SoftCmChannel::get_event() noexcept {
    stop_stealing();
    return CmEventQueue::get_event();
}

// --- Listener

Listener::Listener(UniqueFd socket, std::shared_ptr<EventPort> port)
    : socket_(std::move(socket)), port_(std::move(port)) {}

Status Listener::start(int backlog) noexcept {
    if (::listen(socket_.get(), backlog > 0 ? backlog : SOMAXCONN) != 0)
        return failure(errno == EADDRINUSE ? Errc::address_in_use : Errc::device, errno);
    return watch(socket_.get(), shared_from_this(), EPOLLIN);
}

void Listener::stop() noexcept {
    if (origin_.is_parent()) return;
    const std::lock_guard guard(lock_);
    stopped_ = true;
    cancel_deadline(this);
    unwatch(socket_.get());
    socket_.reset();
}

void Listener::on_ready(std::uint32_t) noexcept {
    const std::lock_guard guard(lock_);
    while (!stopped_) {
        if (requests_.use_count() > kMaxRequests) return pause(kTooManyRequests);
        UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno != EAGAIN) {
                // The connection stays in the backlog; without a pause we would spin on it.
                COMPAT_LOG_ERROR("cannot accept a connection, errno %d", errno);
                pause(kOutOfDescriptors);
            }
            return;
        }
        set_connection_options(socket.get());
        try {
            (void)std::make_shared<Stream>()->read_request(std::move(socket), port_, requests_);
        } catch (const std::bad_alloc&) {
            COMPAT_LOG_ERROR("no memory for a connection");
        }
    }
}

void Listener::pause(Clock::duration length) noexcept {
    rewatch(socket_.get(), 0);
    set_deadline(shared_from_this(), Clock::now() + length);
}

void Listener::on_deadline() noexcept {
    const std::lock_guard guard(lock_);
    if (!stopped_) rewatch(socket_.get(), EPOLLIN);
}

// --- SoftCmId

SoftCmId::SoftCmId(SoftCmChannel* channel, std::shared_ptr<Stream> stream)
    : port_(std::make_shared<EventPort>(this, channel)), stream_(std::move(stream)) {}

SoftCmId::SoftCmId(SoftCmChannel* channel) : SoftCmId(channel, std::make_shared<Stream>()) {
    stream_->set_port(port_);
}

std::unique_ptr<SoftCmId> SoftCmId::of_request(std::shared_ptr<Stream> stream) {
    return std::unique_ptr<SoftCmId>(new SoftCmId(nullptr, std::move(stream)));
}

SoftCmId::~SoftCmId() {
    if (listener_) listener_->stop();
    const auto dropped = port_->close();  // requests among them are rejected by their destructors
    if (!stream_) return;
    (void)stream_->reject({});  // unless the program has decided
    stream_->abandon();
}

Status SoftCmId::bind(const SocketAddress& local) noexcept {
    auto socket = open_socket(local);
    if (!socket) return failure(socket.error());
    set_option(socket->get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket->get(), local.get(), local.length()) != 0) {
        const int error = errno;
        COMPAT_LOG_ERROR("cannot bind to %s, errno %d", local.text().c_str(), error);
        if (error == EADDRINUSE) return failure(Errc::address_in_use, error);
        return failure(error == EADDRNOTAVAIL ? Errc::no_device : Errc::device, error);
    }
    bound_ = std::move(*socket);
    return {};
}

Status SoftCmId::listen(int backlog) noexcept try {
    if (!bound_ || listener_) return failure(Errc::wrong_state);
    listening_at_ = local_address_of(bound_.get());
    auto listener = std::make_shared<Listener>(std::move(bound_), port_);
    const Status started = listener->start(backlog);
    if (started) listener_ = std::move(listener);
    return started;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Status SoftCmId::resolve(const SocketAddress& local, const SocketAddress& peer,
                         int timeout_ms) noexcept {
    if (peer.empty() || timeout_ms < 0) return failure(Errc::invalid_argument);
    stream_->set_peer(local, peer, timeout_ms);
    return {};
}

Result<std::unique_ptr<QueuePair>> SoftCmId::create_qp(const QpAttr& attr) noexcept {
    auto end = QpEnd::create(attr);
    if (!end) return failure(end.error());
    const std::uint32_t number = (*end)->number();
    if (const Status attached = stream_->attach(std::move(*end)); !attached)
        return failure(attached.error());
    std::unique_ptr<QueuePair> qp(new (std::nothrow) SoftQp(stream_, number, attr.plain_posts));
    if (!qp) {
        stream_->detach();
        return failure(Errc::no_memory);
    }
    return qp;
}

Status SoftCmId::connect(const ConnectionParameters& parameters) noexcept {
    return stream_->connect(std::move(bound_), parameters);
}

Status SoftCmId::accept(const ConnectionParameters& parameters) noexcept {
    stream_->set_port(port_);
    return stream_->accept(parameters);
}

Status SoftCmId::reject(std::span<const std::byte> private_data) noexcept {
    return stream_->reject(private_data);
}

Status SoftCmId::disconnect() noexcept {
    return stream_->disconnect();
}

Status SoftCmId::migrate(CmChannel& channel) noexcept {
    port_->migrate(static_cast<SoftCmChannel*>(&channel));
    return {};
}

SocketAddress SoftCmId::local_address() const noexcept {
    if (listener_) return listening_at_;
    if (bound_) return local_address_of(bound_.get());
    return stream_->local_address();
}

SocketAddress SoftCmId::peer_address() const noexcept {
    return stream_->peer_address();
}

}  // namespace compat::core::soft
