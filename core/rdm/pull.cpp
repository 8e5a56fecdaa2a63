// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <new>

#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

/// Shortens a list of ranges or buffers to so many bytes; the number of those left.
template <class Range>
std::size_t shorten(std::span<Range> ranges, std::uint64_t length) noexcept {
    std::size_t count = 0;
    while (count < ranges.size() && length != 0) {
        ranges[count].length = std::min(ranges[count].length, length);
        length -= ranges[count++].length;
    }
    return count;
}

}  // namespace

/// Starts to read the message, as far as there is room for it.
void Endpoint::start_pull(const Arrival& arrival, Placement& placement) noexcept {
    Connection& connection = *arrival.connection;
    Transfer* const transfer = take_transfer(connection, Transfer::Kind::pull);
    if (transfer != nullptr) transfer->pull.reset(new (std::nothrow) Pull);
    if (transfer == nullptr || !transfer->pull) {
        if (transfer != nullptr) drop_transfer(*transfer);
        finish_receive(placement, arrival.header, *arrival.peer, WcStatus::general_error);
        return acknowledge(connection, arrival.header.id, true);
    }
    Pull& pull = *transfer->pull;
    pull.placement = placement;
    pull.header = arrival.header;
    for (std::size_t at = 0; at < arrival.header.source_count; ++at)
        pull.sources[at] = source_at(arrival.message, at);
    transfer->op = OpKind::read;
    if (std::min(placement.room, arrival.header.length) == 0)
        return finish_pull(*transfer, WcStatus::success);
    if (!limits_.unregistered_local) {
        const auto local = std::span(pull.placement.local).first(placement.local_count);
        AccessFlags access = Access::local_write;
        if (limits_.read_sink_needs_remote_write) {
            // A right that regions for messages do not have.
            access |= Access::remote_write;
            for (LocalBuffer& buffer : local) buffer.lkey = kUnregisteredLkey;
        }
        if (!register_into(pull.sinks, local, access))
            return finish_pull(*transfer, WcStatus::local_protection_error);
    }
    const Status posted = post_pull(*transfer);
    if (posted) return;
    if (posted.error().code == Errc::would_block) return wait(*transfer);
    finish_pull(*transfer, WcStatus::local_qp_operation_error);
}

Status Endpoint::post_pull(Transfer& transfer) noexcept {
    Pull& pull = *transfer.pull;
    const std::uint64_t length = std::min(pull.placement.room, pull.header.length);
    const auto local = std::span(pull.placement.local).first(pull.placement.local_count);
    const auto sources = std::span(pull.sources).first(pull.header.source_count);
    const Operation operation{.opcode = Opcode::read,
                              .flags = OpFlag::entry,
                              .local = local.first(shorten(local, length)),
                              .remote = sources.first(shorten(sources, length)),
                              .length = length,
                              .context = &transfer,
                              .entry_flags = kInternal};
    return transfer.connection->transmit->post(operation);
}

/// The receive has what it gets; the sender may have its memory back.
void Endpoint::finish_pull(Transfer& transfer, WcStatus status) noexcept {
    const std::unique_ptr<Pull> pull = std::move(transfer.pull);
    Connection& connection = *transfer.connection;
    drop_transfer(transfer);
    pull->sinks = {};
    finish_receive(pull->placement, pull->header, connection.peer, status);
    acknowledge(connection, pull->header.id, status != WcStatus::success);
}

/// tracked: is told of its outcome.
Status Endpoint::send_control(Connection& connection, Header header, Transfer* tracked) noexcept {
    header.data_permit = connection.data.granted;
    header.control_permit = connection.control.granted;
    std::array<std::byte, kHeaderLength> bytes;
    encode(header, bytes);
    SingleOperation operation{.opcode = Opcode::send,
                              .flags = OpFlag::inject,
                              .local = {.address = bytes.data(), .length = bytes.size()},
                              .context = &connection,
                              .entry_flags = kControl};
    if (tracked != nullptr) {
        operation.flags |= OpFlag::entry;
        operation.context = tracked;
        operation.entry_flags = kInternal;
    }
    Status posted = connection.transmit->post(operation);
    if (posted) {
        connection.data.announced = header.data_permit;
        connection.control.announced = header.control_permit;
    }
    return posted;
}

Status Endpoint::post_acknowledge(Connection& connection, std::uint32_t id, bool failed) noexcept {
    if (!connection.control.may_send()) return failure(Errc::would_block);
    Header header{.kind = MessageKind::acknowledge, .id = id};
    if (failed) header.flags |= HeaderFlag::failed;
    Status posted = send_control(connection, header);
    if (posted) ++connection.control.sent;
    return posted;
}

void Endpoint::acknowledge(Connection& connection, std::uint32_t id, bool failed) noexcept {
    if (connection.state != Connection::State::open) return;  // the sender will know
    // In the order of the messages, so that none waits for ever.
    if (connection.waiting.empty() && post_acknowledge(connection, id, failed)) return;
    Transfer* const transfer = take_transfer(connection, Transfer::Kind::acknowledge);
    if (transfer == nullptr) return drain(connection);
    transfer->id = id;
    transfer->failed = failed;
    wait(*transfer);
}

/// Tells the peer what it may send, when that is worth a message.
void Endpoint::announce(Connection& connection) noexcept {
    if (connection.state != Connection::State::open) return;
    const bool due = connection.data.is_due() || connection.control.is_due();
    if (!due && !connection.owes_permit) return;
    const bool owes = !send_control(connection, {.kind = MessageKind::permit});
    if (owes == connection.owes_permit) return;
    connection.owes_permit = owes;
    waiting_count_ += owes ? 1 : UINT32_MAX;
}

void Endpoint::wait(Transfer& transfer) noexcept {
    transfer.connection->transfers.remove(transfer);
    transfer.connection->waiting.push(transfer);
    transfer.waiting = true;
    ++waiting_count_;
}

void Endpoint::stop_waiting(Transfer& transfer) noexcept {
    transfer.connection->waiting.remove(transfer);
    transfer.connection->transfers.push(transfer);
    transfer.waiting = false;
    --waiting_count_;
}

void Endpoint::retry_waiting(Connection& connection) noexcept {
    while (Transfer* transfer = connection.waiting.first()) {
        if (transfer->kind == Transfer::Kind::acknowledge) {
            if (!post_acknowledge(connection, transfer->id, transfer->failed)) return;
            drop_transfer(*transfer);
        } else if (transfer->kind == Transfer::Kind::written) {
            const Status posted = post_written(*transfer);
            if (!posted && posted.error().code == Errc::would_block) return;
            if (!posted) return drain(connection);
            --connection.untold;
            stop_waiting(*transfer);
        } else {
            const Status posted = post_pull(*transfer);
            if (!posted && posted.error().code == Errc::would_block) return;
            if (!posted) {
                finish_pull(*transfer, WcStatus::local_qp_operation_error);
                continue;
            }
            stop_waiting(*transfer);
        }
    }
}

void Endpoint::retry_waiting() noexcept {
    if (waiting_count_ == 0) return;
    for (Connection* at = connections_.first(); at != nullptr; at = List<Connection>::next(*at)) {
        if (at->state != Connection::State::open) continue;
        if (at->owes_permit) announce(*at);
        retry_waiting(*at);
    }
}

}  // namespace compat::core::rdm
