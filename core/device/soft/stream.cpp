// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/stream.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/model/plain.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr auto kDrainTime = 2s;   // for posted requests to leave after disconnect()
constexpr auto kLingerTime = 2s;  // for the peer to end its side after we ended ours
constexpr auto kLookAfterPeer = 5s;
constexpr std::uint32_t kHostLostMs = 15'000;
constexpr Failure kFlushed{WcStatus::flushed};
constexpr Failure kPeerGone{WcStatus::retry_exceeded};

/// Our data is retransmitted, and nothing at all has come back for too long.
bool host_lost(int socket) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return true;
    return info.tcpi_unacked != 0 && info.tcpi_retransmits != 0 &&
           info.tcpi_last_ack_recv > kHostLostMs;
}

}  // namespace

// --- the connection manager's calls

void Stream::set_port(std::shared_ptr<EventPort> port) noexcept {
    const std::lock_guard guard(lock_);
    port_ = std::move(port);
}

void Stream::set_peer(const SocketAddress& local, const SocketAddress& peer,
                      int timeout_ms) noexcept {
    const std::lock_guard guard(lock_);
    local_ = local;
    peer_ = peer;
    resolve_timeout_ = std::chrono::milliseconds(timeout_ms);
}

Status Stream::disconnect() noexcept {
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    if (disconnect_raised_) return {};
    if (!alive()) return failure(Errc::wrong_state);
    drain();
    return {};
}

void Stream::abandon() noexcept {
    if (inherited()) return;
    const std::lock_guard guard(lock_);
    port_.reset();
    listener_.reset();
    if (alive() && unanswered_)
        drain();
    else if (alive())
        leave();
    else if (state_ != State::lingering)
        close_socket();
}

SocketAddress Stream::local_address() noexcept {
    const std::lock_guard guard(lock_);
    return socket_ ? local_address_of(socket_.get()) : local_;
}

SocketAddress Stream::peer_address() noexcept {
    const std::lock_guard guard(lock_);
    return peer_;
}

// --- the QP's calls

Status Stream::attach(std::unique_ptr<QpEnd> qp) noexcept {
    const std::lock_guard guard(lock_);
    if (qp_ != nullptr || (state_ != State::idle && state_ != State::requested))
        return failure(Errc::wrong_state);
    try {
        batch_ = std::make_unique<TxBatch>(qp->keys());
        awaited_ = Ring<Awaited>(kMaxReadDepth);
        owed_ = Ring<Owed>(kMaxReadDepth);
    } catch (const std::bad_alloc&) {
        return failure(Errc::no_memory);
    }
    qp_ = std::move(qp);
    return {};
}

void Stream::detach() noexcept {
    if (inherited()) return qp_.reset();
    std::unique_ptr<QpEnd> gone;
    std::unique_lock guard(lock_);
    if (alive() && unanswered_) drain();
    drain_before_detach(guard);
    if (alive()) leave();
    await_slot();
    gone = std::move(qp_);
}

// Requests posted before disconnect() still reach the peer, although the program does not wait for
// the event: their memory is the program's again once the QP is gone.
void Stream::drain_before_detach(std::unique_lock<Lock>& guard) noexcept {
    const auto deadline = Clock::now() + kDrainTime;
    while (state_ == State::draining && unsent() && Clock::now() < deadline) {
        pollfd ready{.fd = socket_.get(), .events = 0, .revents = 0};
        if (!blocked_) ready.events |= POLLIN;
        if (!batch_->empty()) ready.events |= POLLOUT;
        guard.unlock();
        ::poll(&ready, 1, 10);
        guard.lock();
        if (state_ == State::draining) progress();
    }
}

Status Stream::post_send(std::span<const WorkRequest> requests, std::size_t* posted) noexcept {
    if (posted != nullptr) *posted = 0;
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    return post_locked(requests, posted);
}

Status Stream::post_plain(Opcode opcode, const PlainRequest& request) noexcept {
    if (inherited()) [[unlikely]]
        return failure(Errc::wrong_state);
    lock_.lock();
    if (!carry_at_once(opcode, request)) [[unlikely]]
        return post_plain_slowly(request);
    qp_->sends.statistics().post(stat_of(opcode), request.sge.length);
    lock_.unlock();
    return {};
}

/// Gives the lock back.
[[gnu::noinline]] Status Stream::post_plain_slowly(const PlainRequest& plain) noexcept {
    const auto list = [this](std::span<const WorkRequest> request) {
        return post_locked(request, nullptr);
    };
    const Status posted = post_in_full(plain, qp_->sends.statistics(), list);
    lock_.unlock();
    return posted;
}

Status Stream::post_locked(std::span<const WorkRequest> requests, std::size_t* posted) noexcept {
    if (!alive() && state_ != State::lingering && state_ != State::closed)
        return failure(Errc::wrong_state);
    Status status;
    posting_from_ = qp_->sends.next();
    for (const WorkRequest& request : requests) {
        status = qp_->sends.post(request);
        if (!status) break;
        if (posted != nullptr) ++*posted;
    }
    if (connected())
        pump_posted();
    else if (state_ != State::draining)
        qp_->sends.flush();
    posting_from_ = kNotPosting;
    return status;
}

Status Stream::post_receive(const ReceiveRequest& request) noexcept {
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    const Status posted = qp_->post_receive(request);
    if (!posted) return posted;
    if (state_ == State::lingering || state_ == State::closed)
        qp_->flush_receives();
    else if (waiting() || blocked_)
        progress();
    return posted;
}

Status Stream::cancel_receive(std::uint64_t wr_id) noexcept {
    if (inherited()) return failure(Errc::wrong_state);
    const std::lock_guard guard(lock_);
    return qp_->cancel_receive(wr_id);
}

void Stream::set_observer(RemoteAccessObserver* observer) noexcept {
    const std::lock_guard guard(lock_);
    // A peer that reaches the memory by itself tells nobody.
    close_slot();
    await_slot();
    qp_->observer = observer;
    if (connected()) open_slot();
}

void Stream::fail_qp() noexcept {
    if (inherited()) return;
    const std::lock_guard guard(lock_);
    if (alive())
        leave();
    else
        qp_->flush_receives();
}

// --- the reactor's calls

void Stream::on_ready(std::uint32_t epoll_events) noexcept {
    const auto self = shared_from_this();  // outlives the lock, whatever happens below
    const std::lock_guard guard(lock_);
    if (socket_) serve(epoll_events);
}

void Stream::serve(std::uint32_t epoll_events) noexcept {
    switch (state_) {
        case State::connecting: on_tcp_connected(); return;
        case State::requesting:
        case State::reading_request: on_start_frame_bytes(); return;
        case State::requested:
            // The peer gave up before the program decided: accept() will find out.
            rewatch(socket_.get(), interest_ = 0);
            if ((epoll_events & EPOLLERR) != 0U) close_socket();
            return;
        case State::accepted:
        case State::open:
        case State::draining:
            if (blocked_ && (epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0U) {
                end_of_stream((epoll_events & EPOLLERR) != 0U);
                return;
            }
            progress();
            return;
        case State::lingering: {
            std::byte ignored[4096];
            ssize_t count = 0;
            do {
                count = ::recv(socket_.get(), ignored, sizeof ignored, MSG_DONTWAIT);
            } while (count > 0 || (count < 0 && errno == EINTR));
            if (count != 0 && errno == EAGAIN) return;
            peer_ended_ = true;
            close_socket();
            return;
        }
        case State::idle:
        case State::closed: return;
    }
}

void Stream::on_deadline() noexcept {
    const auto self = shared_from_this();
    const std::lock_guard guard(lock_);
    const auto now = Clock::now();
    if (now >= repeat_at_) repeat_ready_to_receive();
    // It was called off, or put off, while the reactor was on its way here.
    if (now < deadline_) return;
    const bool watched = watching_peer_;
    disarm();
    switch (state_) {
        case State::connecting:
            fail_connecting(CmEventType::unreachable, "no answer from the host");
            return;
        case State::requesting:
            fail_connecting(CmEventType::unreachable, "no answer from the program");
            return;
        case State::reading_request: close_socket(); return;
        case State::draining: leave(); return;
        case State::lingering:
            if (slot_busy()) return arm(kLingerTime);
            close_socket();
            return;
        case State::accepted:
            if (request_.peer_to_peer && !may_transmit_) return end_of_stream(true);
            [[fallthrough]];
        case State::open:
            if (parting_) return part();
            if (watched) {
                if (host_lost(socket_.get())) return end_of_stream(true);
                watch_peer();
            }
            if (waiting()) on_receive_deadline();
            return;
        case State::idle:
        case State::requested:
        case State::closed: return;
    }
}

void Stream::on_flush() noexcept {
    const auto self = shared_from_this();
    const std::lock_guard guard(lock_);
    if (qp_) pump();
}

void Stream::receive_posted() noexcept {
    if (inherited()) return;
    const std::lock_guard guard(lock_);
    if ((waiting() || blocked_) && qp_) progress();
}

// --- states and closing

bool Stream::connected() const noexcept {
    return state_ == State::accepted || state_ == State::open;
}

bool Stream::alive() const noexcept {
    return connected() || state_ == State::draining;
}

void Stream::progress() noexcept {
    if (!alive()) return;
    const std::uint64_t received = qp_->received();
    pull();
    if (!alive()) return;
    // A program that polls and has got a message is likely to answer it at once: our
    // acknowledgement then leaves with its answer, and otherwise with its next poll.
    if (qp_->received() != received && owes_acknowledgement_only() && program_polls())
        flush_later(shared_from_this());
    else
        pump();
    if (state_ == State::draining && !unsent()) leave();
}

bool Stream::owes_acknowledgement_only() const noexcept {
    return owed_.size() == 1 && owed_.front().opcode == wire::RdmapOpcode::read_response &&
           owed_.front().left == 0 && batch_->empty() && built_all() && !wants_acknowledgement();
}

/// A host that dies, or whose network does, sends no end of stream. TCP itself would take 15
/// minutes to tell, and its user timeout also ends a connection whose peer merely reads nothing
/// (a receive is missing there), so we look ourselves while something is unanswered.
void Stream::watch_peer() noexcept {
    if (watching_peer_ || blocked_ || !alive() || (awaited_.empty() && batch_->empty())) return;
    if (waiting() && (rnr_timer_runs_ || qp_->imm_without_receive())) return;  // one deadline only
    arm(kLookAfterPeer);
    watching_peer_ = true;
}

void Stream::arm(Clock::duration in) noexcept {
    watching_peer_ = false;  // a connection has one deadline
    deadline_ = Clock::now() + in;
    set_alarm();
}

void Stream::disarm() noexcept {
    watching_peer_ = false;
    deadline_ = Clock::time_point::max();
    set_alarm();
}

void Stream::set_alarm() noexcept {
    const auto first = std::min(deadline_, repeat_at_);
    if (first == Clock::time_point::max())
        cancel_deadline(this);
    else
        set_deadline(shared_from_this(), first);
}

void Stream::update_interest() noexcept {
    if (!socket_) return;
    std::uint32_t wanted = EPOLLRDHUP;
    if (!blocked_) wanted |= EPOLLIN;
    if (socket_full_) wanted |= EPOLLOUT;
    if (wanted == interest_) return;
    interest_ = wanted;
    rewatch(socket_.get(), wanted);
}

void Stream::close_socket() noexcept {
    state_ = State::closed;
    ticket_.reset();
    return_slot();
    disarm();
    if (!socket_) return;
    unwatch(socket_.get());
    socket_.reset();
}

/// Ends our side; the socket is closed when the peer has ended its own.
void Stream::shut() noexcept {
    if (::shutdown(socket_.get(), SHUT_WR) != 0) return close_socket();
    state_ = State::lingering;
    ticket_.reset();
    interest_ = EPOLLIN;
    rewatch(socket_.get(), interest_);
    arm(kLingerTime);
}

/// The connection is over: everything outstanding completes, the program is told.
void Stream::end(Failure first_outstanding) noexcept {
    const bool broken = batch_ && !batch_->empty();  // the stream ends in the middle of an FPDU
    if (batch_) batch_->clear();
    awaited_.clear();
    owed_.clear();
    failing_.reset();
    parting_.reset();
    direct_.reset();
    placements_.drop();
    blocked_ = rnr_timer_runs_ = notice_due_ = presence_due_ = unanswered_ = false;
    repeat_at_ = Clock::time_point::max();
    to_peer_.reset();
    close_slot();
    parked_.clear();
    parked_begin_ = 0;
    disarm();
    if (broken && !slot_busy())
        close_socket();
    else
        shut();
    if (qp_) {
        qp_->sends.fail(qp_->sends.oldest(), first_outstanding);
        if (arriving_)
            qp_->complete_receive(arriving_->receive,
                                  {.status = WcStatus::flushed, .opcode = WcOpcode::receive}, true);
        qp_->flush_receives();
    }
    arriving_.reset();
    if (!std::exchange(disconnect_raised_, true)) raise(CmEventType::disconnected);
}

/// Ends the connection when what was posted has left, and the peer is known to read: Linux's siw,
/// told of the end while it has not taken our first message yet, ends in a fault of the kernel.
void Stream::drain() noexcept {
    if (state_ == State::draining) return;
    state_ = State::draining;
    drain_end_ = qp_ ? qp_->sends.next() : 0;
    pump();
    if (state_ != State::draining) return;
    if (unsent())
        arm(kDrainTime);
    else
        leave();
}

/// Ends the connection in order.
void Stream::leave() noexcept {
    pump();  // what was held back
    if (!alive()) return;
    // The peer may not have asked yet for the messages that our program has seen already.
    if (may_transmit_ && own_peer_ && batch_->empty() && part_ == Part::begin && build_notice())
        batch_->send(socket_.get());
    end(kFlushed);
}

/// The peer's side ended. Orderly: between two messages.
void Stream::end_of_stream(bool lost) noexcept {
    if (lost) COMPAT_LOG_NOTICE("connection to %s lost", peer_.text().c_str());
    peer_ended_ = true;
    end(lost ? kPeerGone : kFlushed);
    if (state_ == State::lingering) close_socket();
}

void Stream::raise(CmEventType type, std::span<const std::byte> data) noexcept {
    if (!port_ || !COMPAT_ASSERT(!spare_events_.empty())) return;
    CmEvents event;
    event.splice(event.begin(), spare_events_, spare_events_.begin());
    event.front().type = type;
    try {
        event.front().private_data.assign(data.begin(), data.end());
    } catch (const std::bad_alloc&) {
        COMPAT_LOG_ERROR("no memory for the private data of %s", peer_.text().c_str());
    }
    port_->raise(event);
}

void Stream::fail_connecting(CmEventType type, const char* why) noexcept {
    COMPAT_LOG_NOTICE("connection to %s: %s", peer_.text().c_str(), why);
    close_socket();
    if (qp_) qp_->flush_receives();
    raise(type);
}

}  // namespace compat::core::soft
