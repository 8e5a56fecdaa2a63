// SPDX-License-Identifier: BSD-3-Clause
// TCP connect and the MPA start-up frames: RFC 5044 section 7.1, RFC 6581.
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/soft/stream.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr auto kRequestTime = 5s;    // for a peer that connected to send its request
constexpr auto kFirstRepeat = 20ms;  // doubled each time
constexpr auto kLongestRepeat = 1s;
// Our own peers take any length; the payload is a multiple of 32, so that data stay aligned.
constexpr std::size_t kOwnPayload = (wire::kMaxUlpduBytes - wire::kUntaggedHeaderBytes) / 32 * 32;

bool same_host(int socket) {
    const SocketAddress peer = peer_address_of(socket);
    return peer.is_loopback() || peer.same_host(local_address_of(socket));
}

// What NICs want: a segment in one TCP segment.
std::size_t payload_of_mss(int socket) {
    int mss = 0;
    socklen_t length = sizeof mss;
    if (getsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &mss, &length) != 0 || mss < 128) mss = 536;
    const std::size_t ulpdu = wire::fitting_ulpdu(static_cast<std::size_t>(mss));
    return (ulpdu - wire::kUntaggedHeaderBytes) / 8 * 8;
}

std::uint32_t depth_of(std::uint8_t asked) {
    return std::min<std::uint32_t>(asked, kMaxReadDepth);
}

}  // namespace

// --- active side

Status Stream::connect(UniqueFd bound, const ConnectionParameters& parameters) noexcept {
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    if (state_ != State::idle || peer_.empty() || !qp_) return failure(Errc::wrong_state);
    if (parameters.private_data.size() > device().limits().max_connect_data)
        return failure(Errc::too_long);
    try {
        private_data_.assign(parameters.private_data.begin(), parameters.private_data.end());
    } catch (const std::bad_alloc&) {
        return failure(Errc::no_memory);
    }
    ord_ = depth_of(parameters.initiator_depth);
    ird_ = depth_of(parameters.responder_resources);
    rnr_retry_count_ = parameters.rnr_retry_count;
    return open_connection(std::move(bound));
}

Status Stream::open_connection(UniqueFd bound) noexcept {
    if (bound) {
        socket_ = std::move(bound);
    } else {
        auto socket = open_socket(peer_);
        if (!socket) return failure(socket.error());
        socket_ = std::move(*socket);
        if (!local_.empty() && ::bind(socket_.get(), local_.get(), local_.length()) != 0) {
            const int error = errno;
            socket_.reset();
            return failure(Errc::device, error);
        }
    }
    state_ = State::connecting;
    const int rc = ::connect(socket_.get(), peer_.get(), peer_.length());
    const int error = rc == 0 ? 0 : errno;
    if (error != 0 && error != EINPROGRESS && error != EINTR) {
        // An event, as any later outcome is: the caller has one place to look.
        fail_connecting(error == ECONNREFUSED ? CmEventType::rejected : CmEventType::unreachable,
                        std::strerror(error));
        return {};
    }
    interest_ = EPOLLOUT;
    if (const Status watched = watch(socket_.get(), shared_from_this(), interest_); !watched) {
        state_ = State::idle;
        socket_.reset();
        return watched;
    }
    arm(resolve_timeout_);
    return {};
}

void Stream::on_tcp_connected() noexcept {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
        const bool refused = error == ECONNREFUSED || error == ECONNRESET;
        fail_connecting(refused ? CmEventType::rejected : CmEventType::unreachable,
                        refused ? "nobody listens there" : std::strerror(error));
        return;
    }
    wire::StartFrame frame;
    frame.crc = wants_crc();
    frame.extension = wire::kExtensionOffer;
    frame.enhanced = frame.peer_to_peer = frame.rtr_write = frame.rtr_read = true;
    frame.ird = static_cast<std::uint16_t>(ird_);
    frame.ord = static_cast<std::uint16_t>(ord_);
    frame.private_data = private_data_;
    if (!send_start_frame(frame)) {
        fail_connecting(CmEventType::connect_error, "cannot send the request");
        return;
    }
    state_ = State::requesting;
    rewatch(socket_.get(), interest_ = EPOLLIN | EPOLLRDHUP);
    arm(options().connect_timeout);
}

bool Stream::wants_crc() const noexcept {
    const Crc crc = options().crc;
    return crc == Crc::on || (crc == Crc::automatic && !same_host(socket_.get()));
}

// A start-up frame is the first thing in a socket's buffer: it always fits whole.
bool Stream::send_start_frame(const wire::StartFrame& frame) noexcept {
    std::array<std::byte, wire::kMaxStartFrameBytes> bytes;
    const std::size_t size = wire::encode_start_frame(frame, bytes);
    return size != 0 && ::send(socket_.get(), bytes.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                            static_cast<ssize_t>(size);
}

void Stream::on_start_frame_bytes() noexcept {
    const bool active = state_ == State::requesting;
    if (!staging_) {
        staging_.reset(new (std::nothrow) std::byte[kStagingBytes]);
        if (!staging_)
            return active ? fail_connecting(CmEventType::connect_error, "no memory")
                          : close_socket();
    }
    // Behind a request nothing may follow before our reply; behind a reply, FPDUs may.
    const ssize_t count = ::recv(socket_.get(), staging_.get() + staged_end_,
                                 kStagingBytes - staged_end_, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
        if (active)
            fail_connecting(CmEventType::rejected, "the peer ended the connection request");
        else
            close_socket();
        return;
    }
    staged_end_ += static_cast<std::size_t>(count);
    const auto result = wire::parse_start_frame({staging_.get(), staged_end_}, active);
    if (result.status == wire::Parse::need_more) return;
    const bool extra = !active && result.consumed != staged_end_;
    if (result.status == wire::Parse::malformed || extra) {
        const char* reason = extra ? "bytes behind the request" : result.reason;
        COMPAT_LOG_WARNING("bad start-up frame from %s: %s", peer_.text().c_str(), reason);
        if (active)
            fail_connecting(CmEventType::connect_error, "bad reply");
        else
            close_socket();
        return;
    }
    staged_begin_ = result.consumed;
    if (active)
        on_reply(result.frame);
    else
        on_request(result.frame);
}

void Stream::on_reply(const wire::StartFrame& frame) noexcept {
    if (frame.rejected) {
        COMPAT_LOG_NOTICE("connection to %s rejected", peer_.text().c_str());
        if (qp_) qp_->flush_receives();
        raise(CmEventType::rejected, frame.private_data);
        close_socket();
        return;
    }
    if (frame.markers || !qp_) {
        fail_connecting(CmEventType::connect_error,
                        frame.markers ? "the peer wants MPA markers" : "its QP is gone");
        return;
    }
    if (frame.enhanced && frame.ird != wire::kUnstatedDepth)
        ord_ = std::min<std::uint32_t>(ord_, frame.ird);
    state_ = State::open;
    begin_rdma(frame.crc || wants_crc(), wire::own_extensions(frame.extension));
    raise(CmEventType::established, frame.private_data);
    may_transmit_ = true;
    send_ready_to_receive(frame);
    introduce();
    disarm();
    update_interest();
    progress();
}

/// RFC 6581: the responder may not send before it has seen a message of ours. Linux's siw may not
/// see it: it answers before it watches the socket for messages, and looks at what has come
/// meanwhile when more comes. So other people's responders are asked for a sign that they read.
void Stream::send_ready_to_receive(const wire::StartFrame& reply) noexcept {
    if (!reply.peer_to_peer) return;
    const bool by_read = reply.rtr_read && !reply.rtr_write;
    unanswered_ = !own_peer_ && ord_ != 0;
    if (!by_read) emit_empty_write();
    if (by_read || unanswered_) build_acknowledgement();
    if (!unanswered_) return;
    repeat_after_ = kFirstRepeat;
    repeat_at_ = Clock::now() + repeat_after_;
}

void Stream::emit_empty_write() noexcept {
    wire::TaggedHeader write;
    write.opcode = wire::RdmapOpcode::write;
    (void)emit(write, {});
}

/// Any message does, and one of no bytes says nothing but that there is something to read.
void Stream::repeat_ready_to_receive() noexcept {
    repeat_after_ = std::min<Clock::duration>(2 * repeat_after_, kLongestRepeat);
    repeat_at_ = Clock::now() + repeat_after_;
    set_alarm();
    if (!alive() || !between_messages() || !batch_->has_room(0, 0)) return;
    emit_empty_write();
    pump();
}

// --- passive side

Status Stream::read_request(UniqueFd socket, std::shared_ptr<EventPort> listener,
                            std::shared_ptr<const void> ticket) noexcept {
    const std::lock_guard guard(lock_);
    ticket_ = std::move(ticket);
    socket_ = std::move(socket);
    local_ = local_address_of(socket_.get());
    peer_ = peer_address_of(socket_.get());
    listener_ = std::move(listener);
    state_ = State::reading_request;
    interest_ = EPOLLIN | EPOLLRDHUP;
    if (const Status watched = watch(socket_.get(), shared_from_this(), interest_); !watched) {
        state_ = State::closed;
        socket_.reset();
        return watched;
    }
    arm(kRequestTime);
    return {};
}

void Stream::on_request(const wire::StartFrame& frame) noexcept {
    disarm();
    request_ = frame;
    request_.private_data = {};
    state_ = State::requested;
    if (frame.markers) {
        COMPAT_LOG_WARNING("request from %s wants MPA markers: rejected", peer_.text().c_str());
        wire::StartFrame reply;
        reply.reply = reply.rejected = true;
        reply.revision = frame.revision;
        send_start_frame(reply);
        shut();
        return;
    }
    rewatch(socket_.get(), interest_ = EPOLLRDHUP);
    try {
        CmEvents event(1);
        event.front().type = CmEventType::connect_request;
        event.front().private_data.assign(frame.private_data.begin(), frame.private_data.end());
        event.front().request = SoftCmId::of_request(shared_from_this());
        if (listener_ && listener_->raise(event)) {
            listener_.reset();
            return;
        }
        static_cast<SoftCmId&>(*event.front().request)
            .release_stream();  // it must not call us back
    } catch (const std::bad_alloc&) {
        COMPAT_LOG_ERROR("no memory for a request from %s", peer_.text().c_str());
    }
    close_socket();
}

Status Stream::accept(const ConnectionParameters& parameters) noexcept {
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    if (state_ != State::requested || !qp_) return failure(Errc::wrong_state);
    if (parameters.private_data.size() > device().limits().max_accept_data)
        return failure(Errc::too_long);
    ord_ = depth_of(parameters.initiator_depth);
    ird_ = depth_of(parameters.responder_resources);
    if (request_.enhanced && request_.ird != wire::kUnstatedDepth)
        ord_ = std::min<std::uint32_t>(ord_, request_.ird);
    if (!request_.enhanced) ord_ = 0;  // it made no promise to take reads
    rnr_retry_count_ = parameters.rnr_retry_count;

    wire::StartFrame reply;
    reply.reply = true;
    reply.revision = request_.revision;
    reply.crc = request_.crc || wants_crc();
    const bool own_peer = request_.extension == wire::kExtensionOffer;
    if (own_peer) reply.extension = wire::kExtensionAccept;
    reply.enhanced = request_.enhanced;
    reply.ird = static_cast<std::uint16_t>(ird_);
    reply.ord = static_cast<std::uint16_t>(ord_);
    reply.peer_to_peer = request_.peer_to_peer;
    reply.rtr_write = request_.peer_to_peer && request_.rtr_write;
    reply.rtr_read = request_.peer_to_peer && !reply.rtr_write && request_.rtr_read;
    reply.rtr_send = request_.peer_to_peer && !reply.rtr_write && !reply.rtr_read;
    swallow_send_ = reply.rtr_send;
    reply.private_data = parameters.private_data;
    state_ = State::accepted;
    ticket_.reset();
    begin_rdma(reply.crc, own_peer);
    // Before the peer hears of it: its first message is then taken before what it sends to the
    // listener next, and the program sees this connection established before that request.
    update_interest();
    if (!send_start_frame(reply)) {
        // The peer is gone already: the program sees a connection that was lost at once.
        end_of_stream(true);
        return {};
    }
    // A peer that makes no use of RFC 6581's ready-to-receive sends its first message when its
    // program has one: the connection stands, only our messages wait.
    if (!request_.peer_to_peer) raise(CmEventType::established);
    if (state_ == State::accepted && request_.peer_to_peer) arm(options().connect_timeout);
    return {};
}

Status Stream::reject(std::span<const std::byte> private_data) noexcept {
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    if (state_ != State::requested) return failure(Errc::wrong_state);
    if (private_data.size() > device().limits().max_reject_data) return failure(Errc::too_long);
    wire::StartFrame reply;
    reply.reply = reply.rejected = true;
    reply.revision = request_.revision;
    reply.private_data = private_data;
    if (send_start_frame(reply))
        shut();
    else
        close_socket();
    return {};
}

void Stream::on_first_message() noexcept {
    state_ = State::open;
    may_transmit_ = true;
    introduce();
    if (request_.peer_to_peer) raise(CmEventType::established);
}

// --- both sides

void Stream::begin_rdma(bool crc, bool own_peer) noexcept {
    crc_ = crc;
    own_peer_ = own_peer;
    same_host_ = same_host(socket_.get());
    batch_->use_crc(crc);
    max_payload_ = own_peer ? kOwnPayload : payload_of_mss(socket_.get());
    tx_msn_.fill(wire::kFirstMsn);
    rx_msn_.fill(wire::kFirstMsn);
}

}  // namespace compat::core::soft
