// SPDX-License-Identifier: BSD-3-Clause
// Peers on one host tell each other where their memory is, behind the first message. From then on a
// request that has nothing in front of it is carried out at once, between the two address spaces
// (shm/direct.hpp); all others go through the socket, and so does every error.
#include <poll.h>

#include "core/base/log.hpp"
#include "core/device/soft/stream.hpp"
#include "core/device/soft/wait_until.hpp"

namespace compat::core::soft {

/// We may send, and the peer is one of ours.
void Stream::introduce() noexcept {
    if (!own_peer_ || !same_host_ || !qp_) return;
    shm::Export* shown = shm::Export::of_process();
    if (shown == nullptr) return;
    loan_ = shown->lend();
    open_slot();
    presence_due_ = loan_.slot != nullptr;
}

bool Stream::build_presence() noexcept {
    std::array<std::byte, wire::kPresenceBytes> content;
    if (!batch_->has_room(content.size(), 1)) return false;
    wire::Presence presence = shm::Export::of_process()->presence();
    presence.slot = loan_.index;
    presence.epoch = loan_.epoch;
    presence.pd = qp_->keys()->id();
    presence.access = qp_->access().bits();
    wire::encode(presence, content);
    const Payload payload{.kind = Payload::Kind::ours,
                          .address = reinterpret_cast<std::uint64_t>(content.data()),
                          .length = static_cast<std::uint32_t>(content.size())};
    (void)emit(wire::UntaggedHeader{.opcode = wire::RdmapOpcode::presence,
                                    .queue = wire::kQueueResponse,
                                    .msn = tx_msn_[wire::kQueueResponse]},
               {&payload, 1});
    presence_due_ = false;
    return true;
}

bool Stream::take_presence(std::span<const std::byte> content) noexcept {
    const auto presence = wire::parse_presence(content);
    if (!presence || !own_peer_) return violate(wire::terminate::rdmap_opcode);
    // Whoever shows nothing itself has been told to keep to the stream.
    if (same_host_ && shm::Export::of_process() != nullptr)
        to_peer_ = shm::Direct::attach(*presence);
    return true;
}

/// What the peer has not acknowledged yet has to come first.
bool Stream::carry_directly(SendEntry& entry) noexcept {
    if (!to_peer_ || !connected() || qp_->sends.oldest() != build_next_ ||
        !to_peer_->carry(entry, *qp_->keys(), socket_.get(), build_next_ >= posting_from_))
        return false;
    qp_->sends.finish(build_next_++);
    complete_sends();
    return true;
}

/// The same for a request that is not in the send queue yet. All that was posted before it has
/// completed.
bool Stream::carry_at_once(Opcode opcode, const PlainRequest& request) noexcept {
    SendQueue& sends = qp_->sends;
    const bool possible = to_peer_ && connected() && !failing_ && !parting_ &&
                          sends.takes_at_once() && opcode != Opcode::send &&
                          request.sge.length != 0 &&
                          to_peer_->carry(opcode, request, *qp_->keys(), socket_.get());
    if (possible) [[likely]]
        sends.succeed(opcode, request);
    return possible;
}

void Stream::open_slot() noexcept {
    if (loan_.slot != nullptr && qp_->observer == nullptr)
        loan_.slot->open.store(loan_.epoch, std::memory_order_release);
}

/// The peer begins nothing any more; what it is at goes on.
void Stream::close_slot() noexcept {
    if (loan_.slot != nullptr) loan_.slot->open.store(0, std::memory_order_seq_cst);
}

bool Stream::slot_busy() const noexcept {
    return loan_.slot != nullptr && !peer_ended_ &&
           loan_.slot->announced.load(std::memory_order_seq_cst) != 0;
}

/// Waits for what the peer is at, or for its end.
void Stream::await_slot() noexcept {
    wait_until([this] {
        if (!slot_busy() || !socket_) return true;
        pollfd hung_up{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
        return ::poll(&hung_up, 1, 0) != 0;
    });
}

/// A slot whose peer may still look at it is not lent again.
void Stream::return_slot() noexcept {
    if (loan_.slot == nullptr) return;
    close_slot();
    if (peer_ended_) shm::Export::of_process()->take_back(loan_);
    loan_ = {};
}

}  // namespace compat::core::soft
