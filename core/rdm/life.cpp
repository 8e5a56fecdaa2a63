// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <new>

#include "core/base/log.hpp"
#include "core/rdm/hub.hpp"

namespace compat::core::rdm {

Result<Connection*> Endpoint::make_connection(Peer& peer, std::unique_ptr<CmId> id) noexcept {
    std::unique_ptr<Connection> connection(new (std::nothrow) Connection(*this, peer));
    if (!connection) return failure(Errc::no_memory);
    connection->id = std::move(id);
    connection->id->set_context(connection.get());
    connection->data.start(kDataBuffers);
    connection->control.start(kControlBuffers);
    if (const Status furnished = furnish(*connection); !furnished)
        return failure(furnished.error());
    connections_.push(*connection);
    return connection.release();
}

Status Endpoint::furnish(Connection& connection) noexcept {
    constexpr std::size_t kLength = std::size_t{kBuffers} * kBufferLength;
    connection.memory.reset(new (std::nothrow) std::byte[kLength]);
    connection.buffers.reset(new (std::nothrow) Buffer[kBuffers]);
    if (!connection.memory || !connection.buffers) return failure(Errc::no_memory);
    if (!limits_.unregistered_local) {
        auto region = attr_.pd->register_memory(
            {.address = connection.memory.get(), .length = kLength, .access = Access::local_write});
        if (!region) return failure(region.error());
        connection.region = std::move(*region);
    }
    const std::size_t inject = std::max(attr_.max_inject_rma, kHeaderLength);
    const auto max_inline =
        static_cast<std::uint32_t>(std::min<std::size_t>(inject, limits_.max_inline));
    auto transmit = TransmitQueue::create(
        *cq_, {// Room for our own messages beside the program's operations, and for a marker.
               .depth = std::min(attr_.transmit_depth + kBuffers + 1, limits_.max_qp_wr),
               .split = {.max_sge = limits_.max_sge,
                         .max_sge_read = limits_.max_sge_read,
                         .max_message = limits_.max_message},
               .max_inline = max_inline,
               .max_inject = inject,
               .bounce_pd = limits_.unregistered_local ? nullptr : attr_.pd,
               .scope = StatScope::internal});
    if (!transmit) return failure(transmit.error());
    connection.transmit = std::move(*transmit);
    auto receive = ReceiveQueue::create(kBuffers, 1, StatScope::internal);
    if (!receive) return failure(receive.error());
    connection.receive = std::move(*receive);
    auto qp = TrackedQp::create(
        *connection.id,
        {.send_cq = cq_.get(),
         .receive_cq = cq_.get(),
         .transmit = connection.transmit.get(),
         .receive = connection.receive.get(),
         .qp = {.pd = attr_.pd,
                .send_depth = connection.transmit->depth(),
                .receive_depth = kBuffers,
                .max_send_sge = std::min<std::uint32_t>(limits_.max_sge, kMaxSegments),
                .max_inline = max_inline,
                .imm_without_receive = limits_.imm_without_receive,
                .access = attr_.remote_access | Access::read_source},
         .port = {.peer = reinterpret_cast<std::uintptr_t>(&connection)}});
    if (!qp) return failure(qp.error());
    connection.qp = std::move(*qp);
    connection.observer.set(attr_.remote_writes, attr_.remote_reads);
    if (!connection.observer.empty()) {
        const Status observed = connection.qp->queue_pair().set_observer(&connection.observer);
        if (!observed) return observed;
    }
    for (std::uint32_t at = 0; at < kBuffers; ++at) {
        Buffer& buffer = connection.buffers[at];
        buffer.connection = &connection;
        buffer.data = connection.memory.get() + std::size_t{at} * kBufferLength;
        if (const Status posted = post_buffer(connection, buffer); !posted) return posted;
    }
    return {};
}

Status Endpoint::post_buffer(Connection& connection, Buffer& buffer) noexcept {
    const LocalBuffer local{
        .address = buffer.data,
        .length = kBufferLength,
        .lkey = connection.region ? connection.region->lkey() : kUnregisteredLkey};
    const Status posted = connection.receive->post({.local = {&local, 1}, .context = &buffer});
    if (posted) ++connection.posted;
    return posted;
}

/// The peer can be reached by another connection from now on.
void Endpoint::detach_peer(Connection& connection) noexcept {
    Peer& peer = connection.peer;
    if (peer.connection != &connection) return;
    peer.connection = nullptr;
    for (Connection* other = connections_.first(); other != nullptr;
         other = List<Connection>::next(*other)) {
        const bool serves = &other->peer == &peer && other != &connection && other->proven &&
                            other->state == Connection::State::open;
        if (serves) peer.connection = other;
    }
}

/// It is broken, or shall be: what was posted comes back from the device before it goes.
void Endpoint::drain(Connection& connection) noexcept {
    if (connection.state != Connection::State::open) return;
    connection.state = Connection::State::draining;
    ++leaving_count_;
    detach_peer(connection);
    if (connection.owes_permit) --waiting_count_;
    connection.owes_permit = false;
    static_cast<void>(connection.id->disconnect());
    connection.qp->queue_pair().fail();
}

/// Only while no completion waits between the device and here: they refer to connections.
void Endpoint::reap() noexcept {
    for (Connection* at = connections_.first(); at != nullptr;) {
        Connection& connection = *at;
        at = List<Connection>::next(connection);
        const bool drained = connection.state == Connection::State::draining &&
                             connection.posted == 0 && connection.transmit->idle();
        if (drained) bury(connection);
        if (connection.state != Connection::State::gone || connection.stayed != 0) continue;
        --leaving_count_;
        connections_.remove(connection);
        delete &connection;
    }
}

/// Whatever waits for something of the peer gets its answer.
void Endpoint::bury(Connection& connection) noexcept {
    connection.qp.reset();
    connection.id.reset();
    for (List<Transfer>* list : {&connection.waiting, &connection.transfers}) {
        while (Transfer* transfer = list->first()) {
            if (transfer->kind == Transfer::Kind::pull)
                finish_pull(*transfer, WcStatus::retry_exceeded);
            else if (transfer->kind == Transfer::Kind::acknowledge)
                drop_transfer(*transfer);
            else
                complete(*transfer, WcStatus::retry_exceeded, 0);
        }
    }
    forget_messages(connection);
    let_go(connection);
}

/// Eager messages are complete and stay; of others there is nothing left to read.
void Endpoint::forget_messages(Connection& connection) noexcept {
    matcher_->sift([&](Unexpected& message) {
        if (message.arrival.connection != &connection) return false;
        if (message.arrival.header.kind != MessageKind::rendezvous) {
            if (!message.stayed) message.arrival.connection = nullptr;
            return false;
        }
        dispose(message);
        return true;
    });
}

/// Ends a connection that has never been open.
void Endpoint::remove(Connection& connection) noexcept {
    if (connection.state == Connection::State::gone) return;
    detach_peer(connection);
    ++leaving_count_;
    let_go(connection);
}

void Endpoint::let_go(Connection& connection) noexcept {
    connection.qp.reset();
    connection.id.reset();
    connection.transmit.reset();
    connection.receive.reset();
    connection.state = Connection::State::gone;
}

/// Sends off what was posted, and ends all connections; the program's memory is its own afterwards.
void Endpoint::close_all() noexcept {
    for (Connection* at = connections_.first(); at != nullptr; at = List<Connection>::next(*at)) {
        if (at->transmit) at->transmit->flush();
        if (at->id && at->state == Connection::State::open) static_cast<void>(at->id->disconnect());
    }
    matcher_->sift([this](Unexpected& message) {
        if (message.arrival.endpoint != this) return false;
        dispose(message);
        return true;
    });
    while (Connection* connection = connections_.first()) {
        connection->qp.reset();
        connection->id.reset();
        for (List<Transfer>* list : {&connection->waiting, &connection->transfers}) {
            while (Transfer* transfer = list->first()) {
                const bool reserved = transfer->entry && transfer->kind != Transfer::Kind::pull;
                release(reserved);
                if (transfer->kind == Transfer::Kind::pull)
                    static_cast<void>(matcher_->release(*transfer->pull->placement.posted));
                drop_transfer(*transfer);
            }
        }
        connections_.remove(*connection);
        delete connection;
    }
}

}  // namespace compat::core::rdm
