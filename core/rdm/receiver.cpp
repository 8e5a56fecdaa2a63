// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/log.hpp"
#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

/// A message on the heap; its bytes follow.
struct Copy : Unexpected {
    [[nodiscard]] std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

std::size_t heap_length(const Unexpected& message) noexcept {
    return sizeof(Copy) + message.arrival.message.size();
}

}  // namespace

void Endpoint::on_buffer(Buffer& buffer, std::uint64_t length) noexcept {
    Connection& connection = *buffer.connection;
    --connection.posted;
    if (connection.state == Connection::State::gone) return;
    Arrival arrival{.endpoint = this,
                    .peer = &connection.peer,
                    .connection = &connection,
                    .header = {},
                    .message = {buffer.data, static_cast<std::size_t>(length)}};
    const auto header = parse_header(arrival.message);
    if (!header) {
        COMPAT_LOG_ERROR("%s sent what is no message: the connection ends",
                         connection.peer.name.text().c_str());
        return drain(connection);
    }
    arrival.header = *header;
    connection.data.learn(header->data_permit);
    connection.control.learn(header->control_permit);
    switch (header->kind) {
        case MessageKind::eager:
        case MessageKind::rendezvous: on_message(arrival, buffer); break;
        case MessageKind::written:
            on_written(connection, *header);
            free_data_buffer(connection, buffer);
            break;
        case MessageKind::acknowledge:
            on_acknowledge(connection, *header);
            ++connection.control.granted;
            [[fallthrough]];
        default:
            if (connection.state == Connection::State::open && !post_buffer(connection, buffer))
                return drain(connection);
    }
    announce(connection);
}

void Endpoint::on_remote_write(Connection& connection, const Completion& completion) noexcept {
    push(*attr_.receive_cq, {.flags = attr_.remote_write_flags,
                             .length = completion.length,
                             .imm = completion.imm,
                             .peer = index_of(connection.peer),
                             .kind = CompletionKind::remote_write,
                             .has_imm = completion.has_imm});
    if (completion.context == nullptr) return;  // it took no buffer
    --connection.posted;
    free_data_buffer(connection, *static_cast<Buffer*>(completion.context));
    announce(connection);
}

/// The buffer of a message goes back to the device, and the peer may send another one.
void Endpoint::free_data_buffer(Connection& connection, Buffer& buffer) noexcept {
    if (connection.state != Connection::State::open) return;
    if (!post_buffer(connection, buffer)) return drain(connection);
    ++connection.data.granted;
}

void Endpoint::on_message(const Arrival& arrival, Buffer& buffer) noexcept {
    Connection& connection = *arrival.connection;
    // What the message describes cannot be read any more, and the sender knows.
    const bool lost = connection.state != Connection::State::open &&
                      arrival.header.kind == MessageKind::rendezvous;
    if (lost) return;
    Placement placement;
    if (!matcher_->find_receive(arrival, placement)) return keep(arrival, buffer);
    deliver(arrival, placement);
    free_data_buffer(connection, buffer);
}

void Endpoint::on_acknowledge(Connection& connection, const Header& header) noexcept {
    Transfer* const transfer = transfers_.find(header.id);
    const bool expected = transfer != nullptr && transfer->connection == &connection &&
                          (transfer->awaits & Transfer::kAwaitsPeer) != 0;
    if (!expected) {
        COMPAT_LOG_ERROR("%s acknowledged what was not sent", connection.peer.name.text().c_str());
        return;
    }
    transfer->awaits &= static_cast<std::uint8_t>(~Transfer::kAwaitsPeer);
    --connection.peer.awaiting_peer;
    const bool failed = header.flags.has(HeaderFlag::failed);
    if (failed) transfer->failed = true;
    if (transfer->awaits == 0)
        complete(*transfer, failed ? WcStatus::remote_operation_error : WcStatus::success, 0);
}

// --- messages that nobody waits for

/// A peer may take no more than it leaves to others, so that none, whoever it is, can hold up all.
bool Endpoint::may_keep(const Peer& peer, std::size_t length) const noexcept {
    const std::size_t used = unexpected_bytes_ + length;
    return used <= attr_.max_unexpected &&
           peer.unexpected_bytes + length <= attr_.max_unexpected - unexpected_bytes_;
}

/// Moves it out of the way if there is memory; otherwise it stays where it is, and the peer will
/// have to wait.
void Endpoint::keep(const Arrival& arrival, Buffer& buffer) noexcept {
    statistics_->add(Stat::receiver_not_ready, 1);
    const std::size_t length = sizeof(Copy) + arrival.message.size();
    void* memory = nullptr;
    if (may_keep(*arrival.peer, length)) memory = ::operator new(length, std::nothrow);
    if (memory == nullptr) {
        buffer.parked.arrival = arrival;
        buffer.parked.peer_ref = PeerRef(*arrival.peer);
        buffer.parked.stayed = true;
        buffer.parked.claimed = false;
        ++arrival.connection->stayed;
        matcher_->keep(buffer.parked);
        return;
    }
    Copy* const copy = new (memory) Copy;
    copy->arrival = arrival;
    copy->peer_ref = PeerRef(*arrival.peer);
    std::memcpy(copy->bytes(), arrival.message.data(), arrival.message.size());
    copy->arrival.message = {copy->bytes(), arrival.message.size()};
    unexpected_bytes_ += length;
    arrival.peer->unexpected_bytes += length;
    matcher_->keep(*copy);
    free_data_buffer(*arrival.connection, buffer);
}

/// It is in no list any more.
void Endpoint::dispose(Unexpected& message) noexcept {
    if (!message.stayed) {
        unexpected_bytes_ -= heap_length(message);
        message.arrival.peer->unexpected_bytes -= heap_length(message);
        Copy* const copy = static_cast<Copy*>(&message);
        copy->~Copy();
        ::operator delete(copy);
        return;
    }
    Connection& connection = *message.arrival.connection;
    const auto at =
        static_cast<std::size_t>(message.arrival.message.data() - connection.memory.get()) /
        kBufferLength;
    --connection.stayed;
    message.peer_ref = PeerRef();
    free_data_buffer(connection, connection.buffers[at]);
}

void Endpoint::deliver_kept(Unexpected& message, Placement& placement) noexcept {
    deliver(message.arrival, placement);
    Connection* const connection = message.stayed ? message.arrival.connection : nullptr;
    dispose(message);
    if (connection != nullptr) announce(*connection);
}

// --- what a receive gets

void Endpoint::deliver(const Arrival& arrival, Placement& placement) noexcept {
    if (arrival.header.kind == MessageKind::rendezvous)
        start_pull(arrival, placement);
    else
        deliver_eager(arrival, placement);
}

void Endpoint::deliver_eager(const Arrival& arrival, Placement& placement) noexcept {
    std::span<const std::byte> left = arrival.payload();
    for (std::size_t at = 0; at < placement.local_count && !left.empty(); ++at) {
        const LocalBuffer& buffer = placement.local[at];
        const auto length =
            static_cast<std::size_t>(std::min<std::uint64_t>(buffer.length, left.size()));
        std::memcpy(buffer.address, left.data(), length);
        left = left.subspan(length);
    }
    finish_receive(placement, arrival.header, *arrival.peer, WcStatus::success);
    if (arrival.header.flags.has(HeaderFlag::acknowledge) && arrival.connection != nullptr)
        acknowledge(*arrival.connection, arrival.header.id, false);
}

void Endpoint::finish_receive(Placement& placement, const Header& header, Peer& peer,
                              WcStatus status) noexcept {
    Posted& posted = *placement.posted;
    const bool cut = header.length > placement.room;
    if (status == WcStatus::success && cut) status = WcStatus::local_length_error;
    const bool good = status == WcStatus::success;
    const bool arrived = good || cut;
    Completion completion{.context = posted.context,
                          .flags = posted.flags,
                          .length = arrived ? std::min(header.length, placement.room) : 0,
                          .buffer = placement.start,
                          .imm = header.imm,
                          .peer = index_of(peer),
                          .tag = header.tag,
                          .excess = cut ? header.length - placement.room : 0,
                          .kind = CompletionKind::receive,
                          .status = status,
                          .has_imm = header.flags.has(HeaderFlag::data)};
    const bool wanted = posted.entry || !good;
    posted.status = wc_status_text(status);
    posted.received += completion.length;
    completion.buffer_released = matcher_->release(*placement.posted);
    const bool tells = wanted || completion.buffer_released;
    if (tells) push(*attr_.receive_cq, completion);
    if (attr_.receive_counter == nullptr) return;
    if (!tells) statistics_->add(Stat::completions, 1);
    if (good)
        attr_.receive_counter->tick(completion.length);
    else
        attr_.receive_counter->add_errors(1);
}

void Endpoint::report_released(const Posted& posted) noexcept {
    push(*attr_.receive_cq, {.context = posted.context,
                             .peer = kNoAddress,
                             .kind = CompletionKind::receive,
                             .buffer_released = true});
}

// --- looks

/// What a look, and the end of a message without a receive, tell of it.
Completion Endpoint::tell(const Unexpected& message, void* context, std::uint64_t flags) noexcept {
    const Header& header = message.arrival.header;
    return {.context = context,
            .flags = flags,
            .length = header.length,
            .imm = header.imm,
            .peer = message.arrival.endpoint->index_of(*message.arrival.peer),
            .tag = header.tag,
            .kind = CompletionKind::receive,
            .has_imm = header.flags.has(HeaderFlag::data)};
}

Status Endpoint::peek(const MessagePeek& peek) noexcept {
    progress();
    const std::lock_guard guard(*matcher_);
    if (!may_report()) return matcher_->hold_back();
    Unexpected* const message = matcher_->find_message(peek.match);
    if (message == nullptr) {
        push(*attr_.receive_cq, {.context = peek.context,
                                 .flags = peek.entry_flags,
                                 .peer = kNoAddress,
                                 .kind = CompletionKind::receive,
                                 .status = WcStatus::no_message});
        return {};
    }
    const Completion completion = tell(*message, peek.context, peek.entry_flags);
    if (peek.discard) {
        matcher_->unlink(*message);
        message->arrival.endpoint->discard(*message);
    } else if (peek.claim) {
        matcher_->claim(*message, peek.context);
    }
    push(*attr_.receive_cq, completion);
    return {};
}

/// The sender is not left waiting.
void Endpoint::discard(Unexpected& message) noexcept {
    const Arrival arrival = message.arrival;
    if (arrival.header.flags.has(HeaderFlag::acknowledge) && arrival.connection != nullptr)
        acknowledge(*arrival.connection, arrival.header.id, false);
    dispose(message);
}

Status Endpoint::take_claimed(const MessageReceive& receive, bool discards) noexcept {
    const std::lock_guard guard(*matcher_);
    if (!may_report()) return matcher_->hold_back();
    Unexpected* const message = matcher_->find_claimed(receive.context);
    if (message == nullptr) return failure(Errc::invalid_argument);
    Endpoint& endpoint = *message->arrival.endpoint;
    if (discards) {
        const Completion completion = tell(*message, receive.context, receive.entry_flags);
        endpoint.discard(*message);
        push(*attr_.receive_cq, completion);
        return {};
    }
    const auto posted = matcher_->take_record(receive);
    if (!posted) {
        matcher_->claim_again(*message);
        return failure(posted.error());
    }
    Placement placement;
    Matcher::place(**posted, message->arrival.header.length, placement);
    endpoint.deliver_kept(*message, placement);
    return {};
}

}  // namespace compat::core::rdm
