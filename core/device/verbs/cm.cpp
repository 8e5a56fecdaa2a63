// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/cm.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "core/device/verbs/qp.hpp"

namespace compat::core::verbs {
namespace {

using namespace std::chrono_literals;

constexpr auto kDrainTime = 2s;       // for what was posted before a disconnect
constexpr int kDisconnectTries = 4;   // the peer would never hear of an end that failed
constexpr auto kResolveSlack = 5s;    // beyond what the kernel was told: it should have answered
constexpr std::uint8_t kRetries = 7;  // the most there is
constexpr std::uint8_t kDeviceMaximum = 255;

Error address_error(int error) noexcept {
    switch (error) {
        case EADDRINUSE: return {Errc::address_in_use, error};
        case EADDRNOTAVAIL:
        case ENODEV: return {Errc::no_device, error};
        default: return {Errc::device, error};
    }
}

Error resolve_error(int error) noexcept {
    switch (error) {
        case EADDRNOTAVAIL: return {Errc::no_device, error};
        case ENODEV:
        case ENETUNREACH:
        case EHOSTUNREACH:
        case ETIMEDOUT:
        case ECONNREFUSED: return {Errc::unreachable, error};
        default: return {Errc::device, error};
    }
}

/// The event that a failed call of rdma_connect stands for, if it is the peer that failed it.
std::optional<CmEventType> refusal(int error) noexcept {
    switch (error) {
        case ECONNREFUSED:
        case ECONNRESET: return CmEventType::rejected;
        case ETIMEDOUT:
        case EHOSTUNREACH:
        case ENETUNREACH: return CmEventType::unreachable;
        default: return std::nullopt;
    }
}

sockaddr* sockaddr_of(const SocketAddress& address) noexcept {
    return address.empty() ? nullptr : const_cast<sockaddr*>(address.get());
}

SocketAddress from_native(const sockaddr& address) noexcept {
    return SocketAddress::from(&address, sizeof(sockaddr_storage)).value_or(SocketAddress{});
}

}  // namespace

// --- making and unmaking

Result<std::unique_ptr<VerbsCmId>> VerbsCmId::create(ibv_context& context, const Limits& limits,
                                                     CmEventQueue* channel) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const auto started = Hub::start();
    if (!started) return failure(started.error());
    const HubLock lock(hub().mutex());
    if (const Status watched = hub().watch(context); !watched) return failure(watched.error());
    rdma_cm_id* id = nullptr;
    if (const int rc = api().rdma_create_id(hub().channel(), &id, nullptr, RDMA_PS_TCP); rc != 0)
        return failure(creation_error(errno_of(rc)));
    return take_over(context, limits, IdHandle(id), State::idle, channel);
}

Result<std::unique_ptr<VerbsCmId>> VerbsCmId::take_over(ibv_context& context, const Limits& limits,
                                                        IdHandle id, State state,
                                                        CmEventQueue* channel) noexcept try {
    std::unique_ptr<VerbsCmId> made(new VerbsCmId(context, limits, channel, std::move(id), state));
    hub().add(*made);
    made->id_->context = made.get();
    return made;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

VerbsCmId::VerbsCmId(ibv_context& context, const Limits& limits, CmEventQueue* channel, IdHandle id,
                     State state)
    : context_(context),
      limits_(limits),
      port_(std::make_shared<EventPort>(this, channel)),
      id_(std::move(id)),
      state_(state) {}

VerbsCmId::~VerbsCmId() {
    const CmEvents dropped = port_->close();  // requests among them are rejected, without the lock
    if (inherited()) return;
    const HubLock lock(hub().mutex());
    if (state_ == State::requested) api().rdma_reject(id_.get(), nullptr, 0);
    hub().remove(*this);
    id_.reset();
}

// --- calls of the program

Status VerbsCmId::bind(const SocketAddress& local) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (state_ != State::idle) return failure(Errc::wrong_state);
    if (const int rc = api().rdma_bind_addr(id_.get(), sockaddr_of(local)); rc != 0) {
        const int error = errno_of(rc);
        COMPAT_LOG_ERROR("cannot bind to %s, errno %d", local.text().c_str(), error);
        return failure(address_error(error));
    }
    state_ = State::bound;
    return {};
}

Status VerbsCmId::listen(int backlog) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (state_ != State::bound) return failure(Errc::wrong_state);
    if (const int rc = api().rdma_listen(id_.get(), std::max(backlog, 0)); rc != 0)
        return failure(address_error(errno_of(rc)));
    state_ = State::listening;
    return {};
}

Status VerbsCmId::resolve(const SocketAddress& local, const SocketAddress& peer,
                          int timeout_ms) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    if (peer.empty() || timeout_ms < 0) return failure(Errc::invalid_argument);
    HubLock lock(hub().mutex());
    if (state_ != State::idle && state_ != State::bound) return failure(Errc::wrong_state);
    const int wait_ms = std::max(timeout_ms, 1);
    const State before = state_;
    state_ = State::resolving;
    int rc = api().rdma_resolve_addr(id_.get(), sockaddr_of(local), sockaddr_of(peer), wait_ms);
    Status status =
        rc == 0 ? await_resolution(lock, wait_ms) : Status(failure(resolve_error(errno_of(rc))));
    if (status && id_->verbs != &context_) status = failure(Errc::no_device, ENODEV);
    if (status) {
        state_ = State::resolving;
        rc = api().rdma_resolve_route(id_.get(), wait_ms);
        status = rc == 0 ? await_resolution(lock, wait_ms)
                         : Status(failure(resolve_error(errno_of(rc))));
    }
    if (!status) {
        COMPAT_LOG_ERROR("cannot resolve %s, errno %d", peer.text().c_str(),
                         status.error().device_errno);
        state_ = before;
    }
    return status;
}

Status VerbsCmId::await_resolution(HubLock& lock, int timeout_ms) noexcept {
    const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms) + kResolveSlack;
    const bool answered =
        hub().changed().wait_until(lock, end, [this] { return state_ != State::resolving; });
    if (!answered) return failure(Errc::unreachable, ETIMEDOUT);
    if (resolve_error_ != 0) return failure(resolve_error(resolve_error_));
    return {};
}

Result<std::unique_ptr<QueuePair>> VerbsCmId::create_qp(const QpAttr& attr) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (qp_ != nullptr) return failure(Errc::invalid_argument);
    if (state_ != State::resolved && state_ != State::requested) return failure(Errc::wrong_state);
    auto qp = VerbsQp::create(*this, attr, limits_);
    if (!qp) return failure(qp.error());
    qp_ = qp->get();
    return std::unique_ptr<QueuePair>(std::move(*qp));
}

rdma_conn_param VerbsCmId::to_native(const ConnectionParameters& parameters) const noexcept {
    const auto depth = [this](std::uint8_t wanted) {
        if (wanted == kDeviceMaximum) return wanted;
        return static_cast<std::uint8_t>(std::min<std::uint32_t>(wanted, limits_.max_rd_atomic));
    };
    rdma_conn_param native{};
    native.private_data =
        parameters.private_data.empty() ? nullptr : parameters.private_data.data();
    native.private_data_len = static_cast<std::uint8_t>(parameters.private_data.size());
    native.responder_resources = depth(parameters.responder_resources);
    native.initiator_depth = depth(parameters.initiator_depth);
    native.flow_control = 1;
    native.retry_count = kRetries;
    native.rnr_retry_count = parameters.rnr_retry_count;
    return native;
}

Status VerbsCmId::connect(const ConnectionParameters& parameters) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (state_ != State::resolved || qp_ == nullptr) return failure(Errc::wrong_state);
    if (parameters.private_data.size() > limits_.max_connect_data) return failure(Errc::too_long);
    rdma_conn_param native = to_native(parameters);
    const int rc = api().rdma_connect(id_.get(), &native);
    state_ = State::connecting;
    if (rc == 0) return {};
    // iWARP drivers connect during the call; an event tells of the outcome all the same.
    const int error = errno_of(rc);
    if (const auto outcome = refusal(error)) {
        start_failed(*outcome, {});
        return {};
    }
    state_ = State::resolved;
    return failure(Errc::device, error);
}

Status VerbsCmId::accept(const ConnectionParameters& parameters) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (state_ != State::requested || qp_ == nullptr) return failure(Errc::wrong_state);
    if (parameters.private_data.size() > limits_.max_accept_data) return failure(Errc::too_long);
    rdma_conn_param native = to_native(parameters);
    if (const int rc = api().rdma_accept(id_.get(), &native); rc != 0)
        return failure(Errc::device, errno_of(rc));
    state_ = State::accepted;
    qp_->connected();
    return {};
}

Status VerbsCmId::reject(std::span<const std::byte> private_data) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (state_ != State::requested) return failure(Errc::wrong_state);
    if (private_data.size() > limits_.max_reject_data) return failure(Errc::too_long);
    const int rc =
        api().rdma_reject(id_.get(), private_data.empty() ? nullptr : private_data.data(),
                          static_cast<std::uint8_t>(private_data.size()));
    state_ = State::failed;
    if (rc != 0) return failure(Errc::device, errno_of(rc));
    return {};
}

Status VerbsCmId::disconnect() noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const HubLock lock(hub().mutex());
    if (state_ == State::ended || draining_) return {};
    if (!is_connection()) return failure(Errc::wrong_state);
    if (qp_ == nullptr || !qp_->begin_drain()) {
        end();
        return {};
    }
    draining_ = true;
    drain_end_ = Clock::now() + kDrainTime;
    hub().wake();
    return {};
}

Status VerbsCmId::migrate(CmChannel& channel) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    port_->migrate(static_cast<CmEventQueue*>(&channel));
    return {};
}

SocketAddress VerbsCmId::local_address() const noexcept {
    const HubLock lock(hub().mutex());
    return from_native(*rdma_get_local_addr(id_.get()));
}

SocketAddress VerbsCmId::peer_address() const noexcept {
    const HubLock lock(hub().mutex());
    return from_native(*rdma_get_peer_addr(id_.get()));
}

// --- events

IdHandle VerbsCmId::handle(const rdma_cm_event& event, CmEvents& left_over) noexcept {
    switch (event.event) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
        case RDMA_CM_EVENT_ROUTE_RESOLVED: resolved(0); break;
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR: resolved(event.status != 0 ? -event.status : EIO); break;
        case RDMA_CM_EVENT_CONNECT_REQUEST: return handle_request(event, left_over);
        case RDMA_CM_EVENT_ESTABLISHED: established(event); break;
        case RDMA_CM_EVENT_REJECTED: start_failed(CmEventType::rejected, event); break;
        case RDMA_CM_EVENT_UNREACHABLE: start_failed(CmEventType::unreachable, event); break;
        case RDMA_CM_EVENT_CONNECT_ERROR: start_failed(CmEventType::connect_error, event); break;
        case RDMA_CM_EVENT_DISCONNECTED: end(); break;
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            raise(CmEventType::device_removed);
            end();
            break;
        default: break;  // of no consequence: time-wait is over, addresses of bonded ports changed
    }
    return {};
}

void VerbsCmId::resolved(int error) noexcept {
    if (state_ != State::resolving) return;
    resolve_error_ = error;
    state_ = State::resolved;
    hub().changed().notify_all();
}

IdHandle VerbsCmId::handle_request(const rdma_cm_event& event, CmEvents& left_over) noexcept try {
    IdHandle native(event.id);
    // A wildcard address takes requests of every device; but this listener is of one.
    if (native->verbs != &context_) return native;
    CmEvents request(1);
    CmEvent& front = request.front();
    front.type = CmEventType::connect_request;
    const auto* const data = static_cast<const std::byte*>(event.param.conn.private_data);
    if (data != nullptr) front.private_data.assign(data, data + event.param.conn.private_data_len);
    auto made = take_over(context_, limits_, std::move(native), State::requested, nullptr);
    if (!made) return {};
    front.request = std::move(*made);
    if (!port_->raise(request)) left_over.splice(left_over.end(), request);
    return {};
} catch (const std::bad_alloc&) {
    COMPAT_LOG_ERROR("no memory for a connection request");
    return {};
}

void VerbsCmId::established(const rdma_cm_event& event) noexcept {
    if (disconnect_again_) (void)api().rdma_disconnect(id_.get());
    const bool active = state_ == State::connecting;
    if (!active && state_ != State::accepted) return;
    state_ = State::connected;
    if (active && qp_ != nullptr) qp_->connected();
    raise(CmEventType::established, active ? &event.param.conn : nullptr);
}

/// The passive side learns so that the peer gave up, before or after the program's answer.
void VerbsCmId::start_failed(CmEventType type, const rdma_cm_event& event) noexcept {
    // InfiniBand's way to say that the peer went before it had seen the connection stand.
    if (state_ == State::connected) return end();
    if (state_ != State::connecting && state_ != State::accepted) return;
    const bool active = state_ == State::connecting;
    state_ = State::failed;
    if (qp_ != nullptr) qp_->enter_error_state();
    if (active)
        raise(type, type == CmEventType::rejected ? &event.param.conn : nullptr);
    else
        raise(CmEventType::connect_error);
}

void VerbsCmId::raise(CmEventType type, const rdma_conn_param* data) noexcept {
    if (spare_events_.empty()) return;
    CmEvents event;
    event.splice(event.end(), spare_events_, spare_events_.begin());
    event.front().type = type;
    if (data != nullptr && data->private_data != nullptr) try {
            const auto* const bytes = static_cast<const std::byte*>(data->private_data);
            event.front().private_data.assign(bytes, bytes + data->private_data_len);
        } catch (const std::bad_alloc&) {
            COMPAT_LOG_ERROR("no memory for private data: it is dropped");
        }
    (void)port_->raise(event);
}

// --- the end

bool VerbsCmId::look_after(Clock::time_point now) noexcept {
    if (draining_ && (qp_ == nullptr || qp_->is_drained() || now >= drain_end_)) end();
    if (end_wanted_.exchange(false, std::memory_order_acq_rel)) end();
    if (disconnect_tries_ != 0) disconnect_native();
    return draining_ || disconnect_tries_ != 0;
}

/// Leaves disconnect_tries_ at 0 when it need not be tried again.
void VerbsCmId::disconnect_native() noexcept {
    const int rc = api().rdma_disconnect(id_.get());
    if (rc == 0 || --disconnect_tries_ == 0) {
        disconnect_tries_ = 0;
        return;
    }
    COMPAT_LOG_DEBUG("rdma_disconnect failed, errno %d", errno_of(rc));
    hub().wake();
}

void VerbsCmId::end() noexcept {
    const bool ends = is_connection();
    draining_ = false;
    if (ends) {
        disconnect_tries_ = kDisconnectTries;
        disconnect_native();
        // What has not quite begun cannot be ended yet, and the kernel does not say so.
        disconnect_again_ = state_ == State::accepted;
        state_ = State::ended;
    }
    if (qp_ != nullptr) qp_->enter_error_state();
    if (ends) raise(CmEventType::disconnected);
    hub().changed().notify_all();
}

void VerbsCmId::release_qp(const VerbsQp& qp, HubLock& lock) noexcept {
    if (qp_ != &qp) return;
    if (draining_) hub().changed().wait_until(lock, drain_end_, [this] { return !draining_; });
    end();
    qp_ = nullptr;
}

}  // namespace compat::core::verbs
