// SPDX-License-Identifier: BSD-3-Clause
// librdmacm's functions. Listeners and connections are of this process; every address of this
// host is the device's.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/verbs_mock/objects.hpp"

using namespace compat::mock;

namespace {

constexpr std::size_t kConnectData = 56;  // what InfiniBand always carries
constexpr std::size_t kAcceptData = 196;
constexpr std::size_t kRejectData = 148;
constexpr std::size_t kMostData = 255;
constexpr int kRejectedByProgram = 28;

enum class State : std::uint8_t {
    idle,
    bound,
    listening,
    resolved,
    connecting,
    requested,
    accepted,
    connected,
    ended,
};

struct Id : rdma_cm_id {
    State state = State::idle;
    Id* other = nullptr;
    unsigned unacknowledged = 0;
    std::uint8_t rnr_retry = 7;
    bool taken = true;  ///< false: its request still waits in the channel
};

struct Event : rdma_cm_event {
    Id* owner = nullptr;  ///< whose channel it is in
    std::array<std::byte, kMostData> data{};
};

struct Channel : rdma_event_channel {
    Counted ready;
    std::deque<Event*> events;
};

std::list<Id*>& ids() noexcept {
    static std::list<Id*>& all = *new std::list<Id*>;
    return all;
}
std::uint16_t g_next_port = 40000;

sockaddr_in& source(rdma_cm_id& id) noexcept {
    return id.route.addr.src_sin;
}
sockaddr_in& target(rdma_cm_id& id) noexcept {
    return id.route.addr.dst_sin;
}
bool is_wildcard(const sockaddr_in& address) noexcept {
    return address.sin_addr.s_addr == htonl(INADDR_ANY);
}
/// The kernel lets a socket be bound to none but the host's addresses.
bool is_own(sockaddr_in address) noexcept {
    if (is_wildcard(address)) return false;
    address.sin_port = 0;
    const int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool own = bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(probe);
    return own;
}
sockaddr* copy_of(const sockaddr* address) {
    if (address == nullptr) return nullptr;
    auto* const copy = new sockaddr_in(*reinterpret_cast<const sockaddr_in*>(address));
    return reinterpret_cast<sockaddr*>(copy);
}
ibv_context* open_device() {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return context;
}

Event* make_event(rdma_cm_event_type type, Id& id, int status = 0) {
    auto* const event = new Event{};
    event->event = type;
    event->id = event->owner = &id;
    event->status = status;
    return event;
}

void add_data(Event& event, const rdma_conn_param* from, std::size_t padded) noexcept {
    if (world().config.iwarp) padded = 0;
    std::size_t length = padded;
    if (from != nullptr && from->private_data_len != 0) {
        std::memcpy(event.data.data(), from->private_data, from->private_data_len);
        length = std::max<std::size_t>(padded, from->private_data_len);
    }
    event.param.conn.private_data = length != 0 ? event.data.data() : nullptr;
    event.param.conn.private_data_len = static_cast<std::uint8_t>(length);
    if (from == nullptr) return;
    event.param.conn.responder_resources = from->responder_resources;
    event.param.conn.initiator_depth = from->initiator_depth;
    event.param.conn.rnr_retry_count = from->rnr_retry_count;
}

void send(Event* event) {
    auto* const channel = static_cast<Channel*>(event->owner->channel);
    if (channel == nullptr) {
        delete event;
        return;
    }
    channel->events.push_back(event);
    channel->ready.post();
}

void disconnected(Id& id) {
    if (id.state == State::ended) return;
    id.state = State::ended;
    send(make_event(RDMA_CM_EVENT_DISCONNECTED, id));
}

void connect_queues(Id& one, Id& other) noexcept {
    auto* const first = static_cast<Qp*>(one.qp);
    auto* const second = static_cast<Qp*>(other.qp);
    if (first == nullptr || second == nullptr) return;
    first->peer = second;
    second->peer = first;
    first->rnr_retry = one.rnr_retry;
    second->rnr_retry = other.rnr_retry;
}

/// What librdmacm does while it hands an event out.
void on_take(Event& event) {
    Id& id = *event.owner;
    if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        static_cast<Id*>(event.id)->taken = true;
        count(Kind::id, 1);
        return;
    }
    if (event.event != RDMA_CM_EVENT_ESTABLISHED || id.state != State::connecting) return;
    id.state = State::connected;
    if (id.qp != nullptr && id.qp->state != IBV_QPS_ERR)
        set_state(*static_cast<Qp*>(id.qp), IBV_QPS_RTS);
    Id* const other = id.other;
    if (other == nullptr) return;
    other->state = State::connected;
    send(make_event(RDMA_CM_EVENT_ESTABLISHED, *other));
}

Id* find_listener(const sockaddr_in& address) noexcept {
    const auto found = std::ranges::find_if(ids(), [&](Id* id) {
        const sockaddr_in& own = source(*id);
        return id->state == State::listening && own.sin_port == address.sin_port &&
               (is_wildcard(own) || own.sin_addr.s_addr == address.sin_addr.s_addr);
    });
    return found != ids().end() ? *found : nullptr;
}

bool is_taken(const Id& own, const sockaddr_in& address) noexcept {
    return std::ranges::any_of(ids(), [&](Id* id) {
        const sockaddr_in& other = source(*id);
        const bool holds = id->state == State::bound || id->state == State::listening;
        return id != &own && holds && other.sin_port == address.sin_port &&
               (is_wildcard(other) || is_wildcard(address) ||
                other.sin_addr.s_addr == address.sin_addr.s_addr);
    });
}

void set_address(Id& id, const sockaddr_in& address) noexcept {
    source(id) = address;
    if (source(id).sin_port == 0) source(id).sin_port = htons(g_next_port++);
    if (is_wildcard(address)) return;
    id.verbs = &world().context.context;
    id.port_num = 1;
}

int refused(int error) noexcept {
    errno = error;
    return -1;
}

/// Everything that waits in its channel; requests among it go with their identifiers.
void drop_events(Id& id) {
    auto* const channel = static_cast<Channel*>(id.channel);
    if (channel == nullptr) return;
    for (auto at = channel->events.begin(); at != channel->events.end();) {
        Event* const event = *at;
        if (event->owner != &id) {
            ++at;
            continue;
        }
        at = channel->events.erase(at);
        channel->ready.withdraw();
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            auto* const request = static_cast<Id*>(event->id);
            if (request->other != nullptr) {
                request->other->other = nullptr;
                send(make_event(RDMA_CM_EVENT_REJECTED, *request->other, ECONNREFUSED));
            }
            ids().remove(request);
            delete request;
        }
        delete event;
    }
}

void tell_other_of_end(Id& id) {
    Id* const other = id.other;
    if (other == nullptr) return;
    other->other = nullptr;
    switch (id.state) {
        case State::requested:
        case State::connecting:
            send(make_event(RDMA_CM_EVENT_REJECTED, *other, ECONNREFUSED));
            break;
        case State::accepted:
            send(make_event(RDMA_CM_EVENT_CONNECT_ERROR, *other, -ECONNRESET));
            break;
        case State::connected: disconnected(*other); break;
        default: break;
    }
}

void on_removal() {
    const Guard guard;
    for (Id* const id : ids())
        if (id->channel != nullptr && id->verbs != nullptr)
            send(make_event(RDMA_CM_EVENT_DEVICE_REMOVAL, *id));
}

}  // namespace

extern "C" {

// --- devices and channels

ibv_context** rdma_get_devices(int* number) {
    if (fails(Call::get_devices)) return nullptr;
    g_on_removal.store(on_removal);
    auto** const contexts = new ibv_context* [2] { open_device(), nullptr };
    if (number != nullptr) *number = 1;
    return contexts;
}
void rdma_free_devices(ibv_context** list) {
    delete[] list;
}

rdma_event_channel* rdma_create_event_channel() {
    if (fails(Call::create_event_channel)) return nullptr;
    auto* const channel = new Channel{};
    channel->fd = channel->ready.fd();
    count(Kind::event_channel, 1);
    return channel;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
    auto* const own = static_cast<Channel*>(channel);
    if (!own->events.empty()) violation("a channel with events in it was destroyed");
    count(Kind::event_channel, -1);
    delete own;
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** out) {
    if (fails(Call::get_cm_event)) return -1;
    auto* const own = static_cast<Channel*>(channel);
    if (!own->ready.take()) return -1;
    const Guard guard;
    Event* const event = own->events.front();
    own->events.pop_front();
    ++event->owner->unacknowledged;
    count(Kind::event, 1);
    on_take(*event);
    *out = event;
    return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
    const Guard guard;
    auto* const own = static_cast<Event*>(event);
    --own->owner->unacknowledged;
    count(Kind::event, -1);
    delete own;
    return 0;
}
const char* rdma_event_str(rdma_cm_event_type) {
    return "event";
}

// --- identifiers

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* id_context,
                   rdma_port_space ps) {
    if (fails(Call::create_id)) return -1;
    open_device();
    const Guard guard;
    auto* const id = new Id{};
    id->channel = channel;
    id->context = id_context;
    id->ps = ps;
    ids().push_back(id);
    count(Kind::id, 1);
    *out = id;
    return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    if (own->qp != nullptr) violation("an identifier was destroyed before its queue pair");
    if (own->unacknowledged != 0)
        violation("an identifier with unacknowledged events was destroyed");
    tell_other_of_end(*own);
    drop_events(*own);
    ids().remove(own);
    count(Kind::id, -1);
    delete own;
    return 0;
}
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
    const Guard guard;
    auto* const from = static_cast<Channel*>(id->channel);
    auto* const to = static_cast<Channel*>(channel);
    id->channel = channel;
    if (from == nullptr) return 0;
    for (auto at = from->events.begin(); at != from->events.end();) {
        if ((*at)->owner != id) {
            ++at;
            continue;
        }
        to->events.push_back(*at);
        to->ready.post();
        from->ready.withdraw();
        at = from->events.erase(at);
    }
    return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
    if (fails(Call::bind_addr)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    const auto& wanted = *reinterpret_cast<const sockaddr_in*>(address);
    if (wanted.sin_family != AF_INET) return refused(EAFNOSUPPORT);
    if (!is_own(wanted) && !is_wildcard(wanted)) return refused(ENODEV);
    if (wanted.sin_port != 0 && is_taken(*own, wanted)) return refused(EADDRINUSE);
    set_address(*own, wanted);
    own->state = State::bound;
    return 0;
}
int rdma_listen(rdma_cm_id* id, int) {
    if (fails(Call::listen)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    if (own->state != State::bound) return refused(EINVAL);
    own->state = State::listening;
    return 0;
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* local, sockaddr* peer, int) {
    if (fails(Call::resolve_addr)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    const auto& wanted = *reinterpret_cast<const sockaddr_in*>(peer);
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (local != nullptr) from = *reinterpret_cast<const sockaddr_in*>(local);
    if (!is_own(from)) return refused(EADDRNOTAVAIL);
    target(*own) = wanted;
    if (!is_own(wanted)) {
        send(make_event(RDMA_CM_EVENT_ADDR_ERROR, *own, -ENETUNREACH));
        return 0;
    }
    if (own->state == State::idle) set_address(*own, from);
    send(make_event(RDMA_CM_EVENT_ADDR_RESOLVED, *own));
    return 0;
}
int rdma_resolve_route(rdma_cm_id* id, int) {
    if (fails(Call::resolve_route)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    own->state = State::resolved;
    send(make_event(RDMA_CM_EVENT_ROUTE_RESOLVED, *own));
    return 0;
}

// --- queue pairs

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
    if (fails(Call::rdma_create_qp)) return -1;
    const Guard guard;
    Qp* const qp = create_qp(attr->pd, *attr);
    if (qp == nullptr) return -1;
    qp->state = IBV_QPS_INIT;
    id->qp = qp;
    id->pd = attr->pd;
    return 0;
}
int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
    ibv_qp_init_attr_ex extended{};
    extended.qp_context = attr->qp_context;
    extended.send_cq = attr->send_cq;
    extended.recv_cq = attr->recv_cq;
    extended.srq = attr->srq;
    extended.cap = attr->cap;
    extended.qp_type = attr->qp_type;
    extended.sq_sig_all = attr->sq_sig_all;
    extended.comp_mask = IBV_QP_INIT_ATTR_PD;
    extended.pd = pd;
    return rdma_create_qp_ex(id, &extended);
}
void rdma_destroy_qp(rdma_cm_id* id) {
    const Guard guard;
    destroy_qp(*static_cast<Qp*>(id->qp));
    id->qp = nullptr;
}

// --- connections

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
    if (fails(Call::connect)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    if (own->state != State::resolved) return refused(EINVAL);
    own->state = State::connecting;
    own->rnr_retry = param->rnr_retry_count;
    Id* const listener = find_listener(target(*own));
    if (listener == nullptr) {
        send(make_event(RDMA_CM_EVENT_REJECTED, *own, ECONNREFUSED));
        return 0;
    }
    auto* const request = new Id{};
    request->taken = false;
    request->state = State::requested;
    request->channel = listener->channel;
    request->context = listener->context;
    request->verbs = own->verbs;
    request->ps = own->ps;
    request->port_num = 1;
    source(*request) = target(*own);
    target(*request) = source(*own);
    request->other = own;
    own->other = request;
    ids().push_back(request);
    Event* const event = make_event(RDMA_CM_EVENT_CONNECT_REQUEST, *listener);
    event->id = request;
    event->listen_id = listener;
    add_data(*event, param, kConnectData);
    send(event);
    return 0;
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
    if (fails(Call::accept)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    const bool waits = own->state == State::requested && own->other != nullptr;
    if (!waits || own->qp == nullptr) return refused(EINVAL);
    own->state = State::accepted;
    if (param != nullptr) own->rnr_retry = param->rnr_retry_count;
    connect_queues(*own, *own->other);
    if (own->qp->state != IBV_QPS_ERR) own->qp->state = IBV_QPS_RTS;
    Event* const event = make_event(RDMA_CM_EVENT_ESTABLISHED, *own->other);
    add_data(*event, param, kAcceptData);
    send(event);
    return 0;
}

int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t length) {
    if (fails(Call::reject)) return -1;
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    if (own->state != State::requested) return refused(EINVAL);
    own->state = State::ended;
    if (own->other == nullptr) return 0;
    Event* const event = make_event(RDMA_CM_EVENT_REJECTED, *own->other, kRejectedByProgram);
    own->other->other = nullptr;
    own->other = nullptr;
    rdma_conn_param param{};
    param.private_data = data;
    param.private_data_len = length;
    add_data(*event, &param, kRejectData);
    send(event);
    return 0;
}

int rdma_disconnect(rdma_cm_id* id) {
    if (fails(Call::disconnect)) return -1;
    if (world().dead) return refused(EIO);
    const Guard guard;
    auto* const own = static_cast<Id*>(id);
    const bool has_begun = own->state == State::connected || own->state == State::ended;
    if (!has_begun && own->state != State::accepted) return refused(EINVAL);
    if (own->qp != nullptr) set_state(*static_cast<Qp*>(own->qp), IBV_QPS_ERR);
    if (own->state != State::connected) return 0;
    Id* const other = own->other;
    disconnected(*own);
    if (other != nullptr) disconnected(*other);
    return 0;
}
int rdma_establish(rdma_cm_id*) {
    return 0;
}
void rdma_destroy_ep(rdma_cm_id* id) {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    rdma_destroy_id(id);
}
int rdma_notify(rdma_cm_id*, ibv_event_type) {
    return 0;
}
int rdma_set_option(rdma_cm_id*, int, int, void*, size_t) {
    return 0;
}
__be16 rdma_get_src_port(rdma_cm_id* id) {
    return source(*id).sin_port;
}
__be16 rdma_get_dst_port(rdma_cm_id* id) {
    return target(*id).sin_port;
}

// --- addresses

/// An address that is named is the target's or, for a passive side, the own one; hints give what is
/// not named.
int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** out) {
    const rdma_addrinfo given = hints != nullptr ? *hints : rdma_addrinfo{};
    const bool passive = (given.ai_flags & RAI_PASSIVE) != 0;
    sockaddr* named = nullptr;
    if (node != nullptr || service != nullptr) {
        addrinfo wanted{};
        wanted.ai_family = AF_INET;
        wanted.ai_socktype = SOCK_STREAM;
        if (passive) wanted.ai_flags = AI_PASSIVE;
        addrinfo* found = nullptr;
        if (const int rc = getaddrinfo(node, service, &wanted, &found); rc != 0) {
            errno = EADDRNOTAVAIL;
            return rc;
        }
        named = copy_of(found->ai_addr);
        freeaddrinfo(found);
    }
    auto* const made = new rdma_addrinfo{};
    made->ai_flags = given.ai_flags;
    made->ai_family = AF_INET;
    made->ai_qp_type = IBV_QPT_RC;
    made->ai_port_space = RDMA_PS_TCP;
    made->ai_src_addr = passive && named != nullptr ? named : copy_of(given.ai_src_addr);
    made->ai_dst_addr = !passive && named != nullptr ? named : copy_of(given.ai_dst_addr);
    if (made->ai_src_addr != nullptr) made->ai_src_len = sizeof(sockaddr_in);
    if (made->ai_dst_addr != nullptr) made->ai_dst_len = sizeof(sockaddr_in);
    *out = made;
    return 0;
}
void rdma_freeaddrinfo(rdma_addrinfo* info) {
    delete reinterpret_cast<sockaddr_in*>(info->ai_src_addr);
    delete reinterpret_cast<sockaddr_in*>(info->ai_dst_addr);
    delete info;
}

}  // extern "C"
