// SPDX-License-Identifier: BSD-3-Clause
// The initiator: entries of the send queue become DDP messages. A write or send is done when a
// zero-length read that went behind it has come back; one such read covers all before it, and at
// most two are out, so that a stream of small writes does not pay a round trip each.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/device/soft/stream.hpp"

namespace compat::core::soft {
namespace {

constexpr std::uint32_t kMaxAcknowledgements = 2;
constexpr std::size_t kAskAfter = 128 * 1024;    // bytes built since the last one was asked for
constexpr std::size_t kEntryCharge = 4096;       // what an entry counts beside its bytes
constexpr std::size_t kMaxPieces = 4;            // SGEs in one segment
constexpr std::size_t kHoldBytes = 8 * 1024;     // more is worth a system call of its own
constexpr std::uint64_t kForeignFlushBytes = 8;  // librpma's appliance method

Payload ours(std::span<const std::byte> bytes) {
    return {.kind = Payload::Kind::ours,
            .key = 0,
            .address = reinterpret_cast<std::uint64_t>(bytes.data()),
            .length = static_cast<std::uint32_t>(bytes.size())};
}

// The part [offset, offset + length) of a request's local memory. Cuts length where the pieces
// would be too many.
std::size_t slice(const SendEntry& entry, std::uint64_t offset, std::uint64_t& length,
                  std::array<Payload, kMaxPieces>& pieces) {
    std::size_t count = 0;
    std::uint64_t taken = 0;
    for (const Sge& sge : entry.request.sges) {
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        if (taken == length || count == kMaxPieces) break;
        const std::uint64_t part = std::min<std::uint64_t>(sge.length - offset, length - taken);
        pieces[count++] = {.kind = entry.copied ? Payload::Kind::ours : Payload::Kind::local,
                           .key = sge.lkey,
                           .address = reinterpret_cast<std::uint64_t>(sge.address) + offset,
                           .length = static_cast<std::uint32_t>(part)};
        taken += part;
        offset = 0;
    }
    length = taken;
    return count;
}

struct TerminateRow {
    std::uint8_t layer;
    std::uint8_t type;
    WcStatus status;
};
constexpr std::array kTerminateStatus{
    TerminateRow{wire::kLayerRdmap, wire::kTypeRemoteProtection, WcStatus::remote_access_error},
    TerminateRow{wire::kLayerDdp, wire::kTypeTaggedBuffer, WcStatus::remote_access_error},
    TerminateRow{wire::kLayerDdp, wire::kTypeUntaggedBuffer, WcStatus::remote_invalid_request},
};
struct FaultRow {
    wire::TerminateCode code;
    Fault fault;
};
constexpr std::array kTerminateFaults{
    FaultRow{wire::terminate::ddp_tagged_invalid_stag, Fault::unknown_key},
    FaultRow{wire::terminate::rdmap_invalid_stag, Fault::unknown_key},
    FaultRow{wire::terminate::ddp_tagged_bounds, Fault::out_of_range},
    FaultRow{wire::terminate::rdmap_bounds, Fault::out_of_range},
    FaultRow{wire::terminate::rdmap_access, Fault::no_right},
    FaultRow{wire::terminate::ddp_tagged_offset_wrap, Fault::address_wrap},
    FaultRow{wire::terminate::rdmap_offset_wrap, Fault::address_wrap},
    FaultRow{wire::terminate::rdmap_protection, Fault::unmapped},
};

Failure failure_of(wire::TerminateCode code) {
    if (code == wire::terminate::ddp_untagged_no_buffer) return {WcStatus::rnr_retry_exceeded};
    Failure failure{WcStatus::remote_operation_error};
    for (const TerminateRow& row : kTerminateStatus)
        if (row.layer == code.layer && row.type == code.type) failure.status = row.status;
    for (const FaultRow& row : kTerminateFaults)
        if (row.code == code) failure.vendor_error = static_cast<std::uint32_t>(row.fault);
    return failure;
}

}  // namespace

// --- sending

/// What a program that polls posts behind something unanswered leaves with its next poll, or when
/// there is enough of it: one system call for many small messages. A first message never waits.
void Stream::pump_posted() noexcept {
    if (acknowledgements_out_ != 0 && may_transmit_ && alive()) {
        build();
        if (alive() && built_all() && owed_.empty() && batch_->bytes() < kHoldBytes &&
            program_polls())
            return flush_later(shared_from_this());
    }
    pump();
}

bool Stream::between_messages() const noexcept {
    return part_ == Part::begin && !parting_ && (owed_.empty() || !owed_.front().started);
}

/// Nothing but what the batch holds waits to leave; what is owed to the peer apart.
bool Stream::built_all() const noexcept {
    return between_messages() && !failing_ && !notice_due_ && !presence_due_ &&
           build_next_ == qp_->sends.next();
}

void Stream::pump() noexcept {
    while (may_transmit_ && alive()) {
        build();
        if (!alive()) return;
        if (between_messages() && wants_acknowledgement()) build_acknowledgement();
        const TxBatch::Sent sent = batch_->send(socket_.get());
        switch (sent) {
            case TxBatch::Sent::all:
                if (ord_ != 0) continue;
                // A peer that takes no reads cannot acknowledge: what TCP has taken is done.
                qp_->sends.acknowledge(build_next_);
                complete_sends();
                continue;
            case TxBatch::Sent::lost: end_of_stream(true); return;
            case TxBatch::Sent::local_gone:
            case TxBatch::Sent::remote_gone:
                // The FPDU stays a torso, so that nothing can be said to the peer any more. How far
                // it has come is unknown: the oldest request stands for the one that tore it.
                COMPAT_LOG_ERROR("qp 0x%x: memory was taken away while its bytes were sent",
                                 qp_->number());
                end(sent == TxBatch::Sent::local_gone ? Failure{WcStatus::local_protection_error}
                                                      : Failure{WcStatus::flushed});
                return;
            case TxBatch::Sent::nothing_left:
            case TxBatch::Sent::partly:
                socket_full_ = sent == TxBatch::Sent::partly;
                update_interest();
                watch_peer();
                return;
        }
    }
}

bool Stream::unsent() const noexcept {
    return unanswered_ || (batch_ && !batch_->empty()) ||
           (qp_ && !failing_ && build_next_ < drain_end_);
}

// Fills the batch. Messages are never interleaved: a response or an entry, once begun, is finished.
void Stream::build() noexcept {
    for (;;) {
        if (parting_ && owed_.empty()) return part();
        const bool inside_response = !owed_.empty() && owed_.front().started;
        if (inside_response || parting_ || (part_ == Part::begin && !owed_.empty())) {
            if (!build_response()) return;
            continue;
        }
        if (notice_due_ && part_ == Part::begin) {
            if (!build_notice()) return;
            continue;
        }
        if (presence_due_ && part_ == Part::begin) {
            if (!build_presence()) return;
            continue;
        }
        if (built_since_asked_ >= kAskAfter && part_ == Part::begin && wants_acknowledgement())
            build_acknowledgement();
        if (!build_entry()) return;
    }
}

/// False when nothing more can be built now.
bool Stream::build_entry() noexcept {
    const auto end = state_ == State::draining ? drain_end_ : qp_->sends.next();
    if (failing_ || build_next_ >= end) return false;
    SendEntry& entry = qp_->sends.at(build_next_);
    if (part_ == Part::begin && carry_directly(entry)) return true;
    if (part_ == Part::begin && answers(entry) && !build_notice()) return false;
    if (part_ == Part::begin && !may_start(entry)) return false;
    if (!build_messages(entry)) return false;

    part_ = Part::begin;
    ++build_next_;
    built_since_asked_ += kEntryCharge + entry.length;
    if (has_response(entry.request.opcode))
        acknowledge_asked_ = build_next_;  // its response proves all that went before
    else if (entry.request.flags.has(SendFlag::signaled))
        signaled_end_ = build_next_;
    return true;
}

/// Whether the peer's program may take the entry for an answer to messages that we have not told
/// the peer to be taken: it would see the answer before it knows that they have arrived.
bool Stream::answers(const SendEntry& entry) const noexcept {
    const Opcode opcode = entry.request.opcode;
    const bool seen =
        opcode == Opcode::send || opcode == Opcode::send_imm || opcode == Opcode::write_imm;
    return seen && own_peer_ && untold_;
}

bool Stream::may_start(SendEntry& entry) noexcept {
    const WorkRequest& request = entry.request;
    const bool reads_out = awaited_.size() > acknowledgements_out_;
    if (request.flags.has(SendFlag::fence) && reads_out) return false;
    if (has_response(request.opcode) && awaited_.size() >= ord_) {
        if (ord_ != 0) return false;
        fail_at(build_next_, {WcStatus::remote_invalid_request});
        return false;
    }
    // Local memory is checked before anything is sent.
    const bool writes = request.opcode != Opcode::flush && has_response(request.opcode);
    Pin pin;
    for (const Sge& sge : request.sges) {
        const Fault fault = qp_->keys()->pin_local(sge, writes, pin);
        if (fault == Fault::none) continue;
        COMPAT_LOG_WARNING("qp 0x%x: local range of %u bytes, lkey 0x%x: local protection error",
                           qp_->number(), sge.length, sge.lkey);
        fail_at(build_next_, {WcStatus::local_protection_error, static_cast<std::uint32_t>(fault)});
        return false;
    }
    entry.first_message = tx_messages_;
    entry.send_msn = tx_msn_[wire::kQueueSend];
    entry.request_msn = tx_msn_[wire::kQueueRequest];
    return true;
}

/// False when there is no room, or the entry failed: then it goes on from part_ and entry.moved.
bool Stream::build_messages(SendEntry& entry) noexcept {
    const Opcode opcode = entry.request.opcode;
    if (has_response(opcode)) return build_request(entry);
    if (part_ == Part::begin) {
        if (opcode == Opcode::send_imm && !build_immediate(entry, true)) return false;
        part_ = Part::payload;
    }
    if (part_ == Part::payload) {
        if (!build_payload(entry)) return false;
        part_ = Part::immediate;
    }
    return opcode != Opcode::write_imm || build_immediate(entry, false);
}

bool Stream::build_payload(SendEntry& entry) noexcept {
    const WorkRequest& request = entry.request;
    const bool tagged = request.opcode != Opcode::send && request.opcode != Opcode::send_imm;
    do {
        std::array<Payload, kMaxPieces> pieces;
        std::uint64_t length = std::min<std::uint64_t>(max_payload_, entry.length - entry.moved);
        const std::size_t count = slice(entry, entry.moved, length, pieces);
        for (Payload& piece : pieces) piece.in_post = build_next_ >= posting_from_;
        if (!batch_->has_room(length, count)) return false;
        const bool last = entry.moved + length == entry.length;
        Fault fault = Fault::none;
        if (tagged) {
            fault = emit(wire::TaggedHeader{.opcode = wire::RdmapOpcode::write,
                                            .last = last,
                                            .stag = request.rkey,
                                            .offset = request.remote_address + entry.moved},
                         {pieces.data(), count});
        } else {
            fault = emit(
                wire::UntaggedHeader{.opcode = request.flags.has(SendFlag::solicited)
                                                   ? wire::RdmapOpcode::send_solicited
                                                   : wire::RdmapOpcode::send,
                                     .last = last,
                                     .queue = wire::kQueueSend,
                                     .msn = tx_msn_[wire::kQueueSend],
                                     .message_offset = static_cast<std::uint32_t>(entry.moved)},
                {pieces.data(), count});
        }
        if (fault != Fault::none) {  // deregistered since may_start(): the message stays a torso
            fail_at(build_next_,
                    {WcStatus::local_protection_error, static_cast<std::uint32_t>(fault)});
            return false;
        }
        entry.moved += length;
        if (last) ++entry.message_count;
    } while (entry.moved < entry.length);
    return true;
}

/// The RFC 7306 message behind a write; or, between our own peers, the one that announces a Send.
bool Stream::build_immediate(SendEntry& entry, bool announces_send) noexcept {
    if (!batch_->has_room(wire::kImmediateBytes, 1)) return false;
    const WorkRequest& request = entry.request;
    std::array<std::byte, wire::kImmediateBytes> content;
    wire::encode_immediate(
        own_peer_ ? request.imm : wire::immediate_of_verbs(static_cast<std::uint32_t>(request.imm)),
        content);
    const bool solicited = request.flags.has(SendFlag::solicited) && !announces_send;
    (void)emit(wire::UntaggedHeader{.opcode = solicited ? wire::RdmapOpcode::immediate_solicited
                                                        : wire::RdmapOpcode::immediate,
                                    .extension = announces_send,
                                    .queue = wire::kQueueSend,
                                    .msn = tx_msn_[wire::kQueueSend]},
               std::array{ours(content)});
    ++entry.message_count;
    return true;
}

std::uint32_t Stream::new_request_id() noexcept {
    if (next_request_id_ == wire::kNoRequest) ++next_request_id_;
    return next_request_id_++;
}

bool Stream::build_request(SendEntry& entry) noexcept {
    std::array<std::byte, wire::kAtomicRequestBytes> content;
    if (!batch_->has_room(content.size(), 1)) return false;
    const WorkRequest& request = entry.request;
    const std::uint32_t id = new_request_id();
    Awaited awaited{.id = id, .sequence = build_next_};
    auto opcode = wire::RdmapOpcode::read_request;
    std::size_t size = 0;
    const bool foreign_flush = request.opcode == Opcode::flush && !own_peer_;
    if (request.opcode == Opcode::read || foreign_flush) {
        awaited.kind = foreign_flush ? Awaited::Kind::flush : Awaited::Kind::read;
        awaited.expected =
            foreign_flush ? std::min(request.flush_length, kForeignFlushBytes) : entry.length;
        size =
            wire::encode(wire::ReadRequest{.sink_stag = id,
                                           .length = static_cast<std::uint32_t>(awaited.expected),
                                           .source_stag = request.rkey,
                                           .source_offset = request.remote_address},
                         content);
    } else if (request.opcode == Opcode::flush) {
        opcode = wire::RdmapOpcode::flush_request;
        awaited.kind = Awaited::Kind::flush;
        size = wire::encode(wire::FlushRequest{.request_id = id,
                                               .length = request.flush_length,
                                               .type = request.flush_type == FlushType::persistent
                                                           ? wire::FlushType::persistent
                                                           : wire::FlushType::visibility,
                                               .stag = request.rkey,
                                               .offset = request.remote_address},
                            content);
    } else {
        const bool add = request.opcode == Opcode::atomic_fadd;
        opcode = wire::RdmapOpcode::atomic_request;
        awaited.kind = Awaited::Kind::atomic;
        size = wire::encode(wire::AtomicRequest{.operation = add ? wire::AtomicOpcode::fetch_add
                                                                 : wire::AtomicOpcode::compare_swap,
                                                .request_id = id,
                                                .stag = request.rkey,
                                                .offset = request.remote_address,
                                                .add_swap_data = request.operand,
                                                .add_swap_mask = add ? 0 : ~std::uint64_t{0},
                                                .compare_data = request.compare,
                                                .compare_mask = add ? 0 : ~std::uint64_t{0}},
                            content);
    }
    (void)emit(
        wire::UntaggedHeader{
            .opcode = opcode, .queue = wire::kQueueRequest, .msn = tx_msn_[wire::kQueueRequest]},
        std::array{ours({content.data(), size})});
    ++entry.message_count;
    awaited_.push(awaited);
    return true;
}

bool Stream::wants_acknowledgement() const noexcept {
    return std::max(signaled_end_, failing_.value_or(0)) > acknowledge_asked_ &&
           acknowledgements_out_ < kMaxAcknowledgements && awaited_.size() < ord_;
}

bool Stream::build_acknowledgement() noexcept {
    std::array<std::byte, wire::kReadRequestBytes> content;
    if (!batch_->has_room(content.size(), 1)) return false;
    const std::uint32_t id = new_request_id();
    wire::encode(wire::ReadRequest{.sink_stag = id}, content);
    (void)emit(wire::UntaggedHeader{.opcode = wire::RdmapOpcode::read_request,
                                    .queue = wire::kQueueRequest,
                                    .msn = tx_msn_[wire::kQueueRequest]},
               std::array{ours(content)});
    awaited_.push({.kind = Awaited::Kind::acknowledgement, .id = id, .sequence = build_next_});
    ++acknowledgements_out_;
    acknowledge_asked_ = build_next_;
    built_since_asked_ = 0;
    return true;
}

/// Tells a peer of ours, unasked, up to where its messages have been taken: when the next one has
/// to wait for a receive (what asks for an acknowledgement may be behind it), in front of what may
/// answer them, and before we leave.
bool Stream::build_notice() noexcept {
    std::array<std::byte, wire::kFlushResponseBytes> content;
    if (!batch_->has_room(content.size(), 1)) return false;
    const std::uint32_t taken = waiting() ? first_parked().messages_before : rx_messages_;
    wire::encode(wire::FlushResponse{wire::kNoRequest, taken}, content);
    (void)emit(wire::UntaggedHeader{.opcode = wire::RdmapOpcode::flush_response,
                                    .queue = wire::kQueueResponse,
                                    .msn = tx_msn_[wire::kQueueResponse]},
               std::array{ours(content)});
    notice_due_ = false;
    untold_ = false;
    return true;
}

/// The peer has taken so many messages of this stream.
void Stream::on_notice(std::uint32_t taken) noexcept {
    auto end = qp_->sends.oldest();
    const auto is_taken = [&](const SendEntry& entry) {
        return static_cast<std::int32_t>(taken - entry.first_message - entry.message_count) >= 0;
    };
    while (end < build_next_ && is_taken(qp_->sends.at(end))) ++end;
    qp_->sends.acknowledge(end);
    acknowledge_asked_ = std::max(acknowledge_asked_, end);
    complete_sends();
}

Fault Stream::emit(wire::TaggedHeader header, std::span<const Payload> pieces) noexcept {
    const Fault fault = batch_->add(header, pieces);
    if (fault == Fault::none) count_message(header.last, nullptr);
    return fault;
}

Fault Stream::emit(wire::UntaggedHeader header, std::span<const Payload> pieces) noexcept {
    const Fault fault = batch_->add(header, pieces);
    if (fault == Fault::none) count_message(header.last, &tx_msn_[header.queue]);
    return fault;
}

void Stream::count_message(bool last, std::uint32_t* msn) noexcept {
    if (!last) return;
    ++tx_messages_;
    if (msn != nullptr) ++*msn;
}

// --- completing and failing

/// The entry at build_next_ cannot go. Those before it complete first, as they deserve.
void Stream::fail_at(SendQueue::Sequence sequence, Failure failure) noexcept {
    failing_ = sequence;
    failing_with_ = failure;
    complete_sends();
}

void Stream::complete_sends() noexcept {
    qp_->sends.complete();
    if (failing_ && qp_->sends.oldest() == *failing_)
        terminate(wire::terminate::rdmap_local_catastrophic, {}, rx_messages_);
}

/// Tells the peer why, as the last message, and ends the connection.
void Stream::terminate(wire::TerminateCode code, const wire::Header& offender,
                       std::uint32_t messages_before) noexcept {
    COMPAT_LOG_WARNING("qp 0x%x: terminating the connection to %s: %s", qp_->number(),
                       peer_.text().c_str(), wire::terminate_text(code));
    wire::Terminate message;
    message.code = code;
    message.has_ddp_header = true;
    if (offender.tagged)
        wire::encode_header(offender.tagged_header, message.ddp_header);
    else
        wire::encode_header(offender.untagged_header, message.ddp_header);
    message.has_message_count = own_peer_;
    message.message_count = messages_before;
    std::array<std::byte, wire::kMaxTerminateBytes> content;
    const std::size_t size = wire::encode_terminate(message, content);
    if (batch_->has_room(size, 1)) {
        (void)emit(wire::UntaggedHeader{.opcode = wire::RdmapOpcode::terminate,
                                        .queue = wire::kQueueTerminate},
                   std::array{ours({content.data(), size})});
        batch_->send(socket_.get());
    }
    end(failing_ ? failing_with_ : Failure{WcStatus::flushed});
}

void Stream::on_terminate(std::span<const std::byte> content) noexcept {
    const auto message = wire::parse_terminate(content, own_peer_);
    if (!message) return end_of_stream(true);
    COMPAT_LOG_WARNING("qp 0x%x: %s ended the connection: %s", qp_->number(), peer_.text().c_str(),
                       wire::terminate_text(message->code));
    const auto offender = find_offender(*message);
    const bool peers_own_trouble = message->code == wire::terminate::rdmap_local_catastrophic;
    if (peers_own_trouble && message->has_message_count) on_notice(message->message_count);
    if (!alive()) return;
    if (!peers_own_trouble && offender < qp_->sends.next()) {
        qp_->sends.fail(offender, failure_of(message->code));
    }
    end({WcStatus::flushed});
    if (state_ == State::lingering) close_socket();
}

/// The request that the peer complains of; next() if none is out.
SendQueue::Sequence Stream::find_offender(const wire::Terminate& message) noexcept {
    SendQueue& sends = qp_->sends;
    std::optional<wire::Header> header;
    if (message.has_ddp_header) {
        const auto parsed = wire::parse_header(message.ddp_header);
        if (!parsed.violation) header = parsed.header;
    }
    const auto hit = [&](SendQueue::Sequence sequence) {
        const SendEntry& entry = sends.at(sequence);
        const std::uint32_t begun = sequence == build_next_ ? 1 : 0;  // a message half sent
        if (message.has_message_count)
            return message.message_count - entry.first_message < entry.message_count + begun;
        if (!header) return true;
        if (!header->tagged) {
            const auto& untagged = header->untagged_header;
            const bool request = has_response(entry.request.opcode);
            return untagged.queue == (request ? wire::kQueueRequest : wire::kQueueSend) &&
                   untagged.msn == (request ? entry.request_msn : entry.send_msn);
        }
        return header->tagged_header.stag == entry.request.rkey &&
               header->tagged_header.offset - entry.request.remote_address <= entry.length;
    };
    const auto end = std::min(sends.next(), build_next_ + (part_ == Part::begin ? 0 : 1));
    for (auto sequence = sends.oldest(); sequence < end; ++sequence)
        if (hit(sequence)) return sequence;
    return message.has_message_count || sends.oldest() >= end ? sends.next() : sends.oldest();
}

}  // namespace compat::core::soft
