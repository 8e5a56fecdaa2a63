// SPDX-License-Identifier: BSD-3-Clause
// What the peer sends: bytes become FPDUs, FPDUs DDP segments, and their contents are placed. A
// peer is trusted with nothing: every key, range, number and state is checked before use. The
// take_* functions return false when nothing more can be taken now: a receive is missing, or the
// connection has ended.
//
// A message without a receive is parked, and behind it all that the peer wanted later. Its answers
// to what we wanted are still taken: the program may wait for those before it posts the receive.
// Only when too much is parked the socket is left alone, and TCP holds the peer back.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"
#include "core/device/soft/stream.hpp"
#include "core/device/soft/user_memory.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kDirectFrom = 8192;  // payload bytes that are worth a receive of their own
constexpr std::size_t kTaggedFront = wire::kFpduLengthBytes + wire::kTaggedHeaderBytes;
constexpr std::size_t kGatherUpTo = 2048;  // payload bytes that wait to be stored with others
constexpr int kReadsAtOnce = 8;            // then others have their turn
constexpr auto kRetry = 1ms;               // where nobody tells us that we may go on
constexpr auto kPartingTime = 2s;          // for earned responses to leave
constexpr auto kRnrTimer = 655ms;          // the longest that InfiniBand's RNR timer can say

struct FaultRow {
    Fault fault;
    wire::TerminateCode of_write;
    wire::TerminateCode of_request;
};
constexpr std::array kFaultCodes{
    FaultRow{Fault::unknown_key, wire::terminate::ddp_tagged_invalid_stag,
             wire::terminate::rdmap_invalid_stag},
    FaultRow{Fault::out_of_range, wire::terminate::ddp_tagged_bounds,
             wire::terminate::rdmap_bounds},
    // DDP knows no access rights: RFC 5040 reports those of a write as RDMAP errors, too
    FaultRow{Fault::no_right, wire::terminate::rdmap_access, wire::terminate::rdmap_access},
    FaultRow{Fault::address_wrap, wire::terminate::ddp_tagged_offset_wrap,
             wire::terminate::rdmap_offset_wrap},
    FaultRow{Fault::unmapped, wire::terminate::rdmap_protection, wire::terminate::rdmap_protection},
};

/// Of the peer, to what we asked for; or the end.
bool is_answer(wire::RdmapOpcode opcode) {
    return opcode == wire::RdmapOpcode::read_response ||
           opcode == wire::RdmapOpcode::atomic_response ||
           opcode == wire::RdmapOpcode::flush_response || opcode == wire::RdmapOpcode::presence ||
           opcode == wire::RdmapOpcode::terminate;
}

/// The SGE that holds `offset`, cut to what follows it there.
std::optional<Sge> sge_at(std::span<const Sge> sges, std::uint64_t offset) {
    for (const Sge& sge : sges) {
        if (offset < sge.length)
            return Sge{static_cast<std::byte*>(sge.address) + offset,
                       static_cast<std::uint32_t>(sge.length - offset), sge.lkey};
        offset -= sge.length;
    }
    return std::nullopt;
}

}  // namespace

void Stream::pull() noexcept {
    if (parting_) return;
    blocked_ = false;
    if (take_parked() && take_staged()) {
        for (int i = 0; i < kReadsAtOnce; ++i) {
            const Read read = read_some();
            if (read == Read::drained) break;
            if (read == Read::ended || read == Read::lost) {
                const bool torn = direct_ || staged_begin_ != staged_end_;
                end_of_stream(read == Read::lost || torn);
                return;
            }
            if (!take_staged() || read == Read::last) break;
        }
    }
    if (alive()) update_interest();
}

Stream::Read Stream::read_some() noexcept {
    if (staged_begin_ == staged_end_) {
        staged_begin_ = staged_end_ = 0;
    } else if (kStagingBytes - staged_end_ < wire::kMaxFpduBytes) {
        std::memmove(staging_.get(), staging_.get() + staged_begin_, staged_end_ - staged_begin_);
        staged_end_ -= staged_begin_;
        staged_begin_ = 0;
    }
    // The rest of a large segment goes where it belongs, what follows it into the staging buffer.
    std::array<iovec, 2> iov;
    std::size_t count = 0;
    std::uint64_t direct = 0;
    std::uint64_t room = 0;
    Pin pin;
    if (direct_ && direct_->left != 0) {
        direct = direct_->left;
        const Fault fault = direct_->header.opcode == wire::RdmapOpcode::write
                                ? pin_target(direct_->header, direct, pin)
                                : pin_sink(read_arrived_, direct, pin, direct);
        if (fault != Fault::none) {
            refuse_direct(fault);
            return Read::drained;
        }
        iov[count++] = {pin.address(), direct};
        room = direct;
    }
    if (direct == 0 || direct == direct_->left) {
        // Payload that comes here is copied once more: behind a large segment only a header is
        // wanted, so that the socket delivers the next one where it belongs, too.
        const std::size_t free = kStagingBytes - staged_end_;
        const std::size_t wanted =
            large_before_ ? kTaggedFront + (direct_ ? direct_->trailer : 0) : free;
        iov[count++] = {staging_.get() + staged_end_, wanted};
        room += wanted;
    }
    ssize_t got = 0;
    do {
        got = ::readv(socket_.get(), iov.data(), static_cast<int>(count));
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EFAULT && direct != 0) {
        pin.release();
        refuse_direct(Fault::unmapped);
        return Read::drained;
    }
    if (got < 0) return errno == EAGAIN ? Read::drained : Read::lost;
    if (got == 0) return Read::ended;
    const auto bytes = static_cast<std::uint64_t>(got);
    const std::uint64_t placed = std::min(bytes, direct);
    staged_end_ += bytes - placed;
    if (placed != 0) {
        direct_->left -= static_cast<std::uint32_t>(placed);
        direct_->header.offset += placed;
        if (direct_->header.opcode == wire::RdmapOpcode::write) {
            write_length_ += placed;
            write_end_ = direct_->header.offset;
        } else {
            read_arrived_ += placed;
        }
    }
    return bytes == room ? Read::some : Read::last;
}

/// What the socket should deliver straight into memory may not go there.
void Stream::refuse_direct(Fault fault) noexcept {
    if (direct_->header.opcode != wire::RdmapOpcode::write) {
        fail_awaited(fault);
        return;
    }
    rx_header_ = {.tagged = true, .tagged_header = direct_->header, .untagged_header = {}};
    rx_before_ = rx_messages_;
    refuse(fault, true);
}

bool Stream::take_staged() noexcept {
    const bool all = take_fpdus();
    return store_placements() && all;
}

bool Stream::take_fpdus() noexcept {
    while (!blocked_ && alive()) {
        if (direct_ && !take_direct()) return alive();
        rx_before_ = rx_messages_;
        const std::span<const std::byte> staged(staging_.get() + staged_begin_,
                                                staged_end_ - staged_begin_);
        const auto fpdu = wire::parse_fpdu(staged, crc_);
        if (fpdu.status == wire::Parse::malformed) return violate(wire::terminate::mpa_crc);
        if (fpdu.status == wire::Parse::need_more) {
            if (staged.size() < kTaggedFront) return true;
            large_before_ = false;
            const std::size_t ulpdu = wire::decode_fpdu_length(staged.first<2>());
            if (crc_ || ulpdu < kDirectFrom) return true;
            if (!begin_direct(staged, ulpdu)) return alive();
            continue;
        }
        const auto parsed = wire::parse_segment(fpdu.ulpdu);
        if (parsed.violation) {
            const auto header = wire::parse_header(fpdu.ulpdu);
            if (!header.violation) rx_header_ = header.header;
            return violate(*parsed.violation);
        }
        large_before_ = false;
        if (!take_or_park(parsed.segment, fpdu.ulpdu)) return false;
        if (parsed.segment.last()) ++rx_messages_;
        staged_begin_ += fpdu.consumed;
    }
    return false;
}

bool Stream::take_or_park(const wire::Segment& segment, std::span<const std::byte> ulpdu) noexcept {
    if (!waiting() || is_answer(segment.opcode())) {
        receive_missing_ = false;
        if (take_segment(segment)) return true;
        if (!receive_missing_) return false;
    }
    return park(ulpdu);
}

bool Stream::park(std::span<const std::byte> ulpdu) noexcept {
    if (!waiting()) {
        notice_due_ = own_peer_;
        statistics_->add(Stat::receiver_not_ready, 1);
    }
    const ParkedHeader header{static_cast<std::uint32_t>(ulpdu.size()), rx_before_};
    const auto bytes = std::as_bytes(std::span(&header, 1));
    try {
        parked_.erase(parked_.begin(),
                      parked_.begin() + static_cast<std::ptrdiff_t>(parked_begin_));
        parked_begin_ = 0;
        if (parked_.size() + bytes.size() + ulpdu.size() <= kParkedBytes) {
            parked_.reserve(parked_.size() + bytes.size() + ulpdu.size());
            parked_.insert(parked_.end(), bytes.begin(), bytes.end());
            parked_.insert(parked_.end(), ulpdu.begin(), ulpdu.end());
            if (state_ == State::accepted) on_first_message();
            return true;
        }
    } catch (const std::bad_alloc&) {
        COMPAT_LOG_WARNING("qp 0x%x: no memory for a message that waits", qp_->number());
    }
    blocked_ = true;
    return false;
}

Stream::Parked Stream::first_parked() const noexcept {
    ParkedHeader header;
    std::memcpy(&header, parked_.data() + parked_begin_, sizeof header);
    const std::size_t begin = parked_begin_ + sizeof header;
    const std::span<const std::byte> ulpdu(parked_.data() + begin, header.length);
    return {wire::parse_segment(ulpdu).segment, header.messages_before, begin + header.length};
}

/// As much of what is parked as there are receives for. False when the connection has ended.
bool Stream::take_parked() noexcept {
    while (waiting()) {
        const Parked first = first_parked();
        rx_before_ = first.messages_before;
        receive_missing_ = false;
        if (!take_segment(first.segment)) return receive_missing_;
        if (!store_placements()) return false;
        parked_begin_ = first.end;
        notice_due_ = own_peer_ && waiting();
    }
    parked_.clear();
    parked_begin_ = 0;
    return true;
}

/// The RNR timer of the first parked message, or time to try again.
void Stream::on_receive_deadline() noexcept {
    const bool rnr = rnr_timer_runs_;
    const std::uint32_t message = first_parked().messages_before;
    progress();
    if (!rnr || !waiting()) return;
    const Parked first = first_parked();
    if (first.messages_before == message)
        terminate(wire::terminate::ddp_untagged_no_buffer, first.segment, message);
}

/// The beginning of a large tagged segment is here: place that, and let the socket deliver the
/// rest. False: not such a segment, wait for all of it.
bool Stream::begin_direct(std::span<const std::byte> staged, std::size_t ulpdu) noexcept {
    const auto parsed = wire::parse_header(staged.subspan(wire::kFpduLengthBytes));
    if (parsed.violation || !parsed.header.tagged) return false;
    if (waiting() && !is_answer(parsed.header.opcode())) return false;
    rx_header_ = parsed.header;
    wire::TaggedHeader header = parsed.header.tagged_header;
    const std::size_t whole = ulpdu - wire::kTaggedHeaderBytes;
    const auto payload =
        staged.subspan(kTaggedFront, std::min(whole, staged.size() - kTaggedFront));
    large_before_ = true;
    if (!take_tagged(header, payload, whole)) return false;
    staged_begin_ += kTaggedFront + payload.size();
    header.offset += payload.size();
    direct_ =
        Direct{.header = header,
               .left = static_cast<std::uint32_t>(whole - payload.size()),
               .trailer = static_cast<std::uint32_t>(wire::fpdu_padding(ulpdu) + wire::kCrcBytes)};
    return true;
}

/// False until the segment and its trailer are here.
bool Stream::take_direct() noexcept {
    if (direct_->left != 0) return false;
    const std::size_t skip = std::min<std::size_t>(direct_->trailer, staged_end_ - staged_begin_);
    staged_begin_ += skip;
    direct_->trailer -= static_cast<std::uint32_t>(skip);
    if (direct_->trailer != 0) return false;
    const wire::TaggedHeader header = direct_->header;
    direct_.reset();
    if (!header.last) return true;
    rx_before_ = rx_messages_++;
    return finish_tagged(header);
}

bool Stream::take_segment(const wire::Segment& segment) noexcept {
    if (segment.opcode() != wire::RdmapOpcode::write && !store_placements()) return false;
    rx_header_ = segment;
    if (!segment.tagged) return take_untagged(segment);
    if (!take_tagged(segment.tagged_header, segment.payload, segment.payload.size())) return false;
    return !segment.last() || finish_tagged(segment.tagged_header);
}

/// Places payload, the beginning of a segment of segment_length bytes.
bool Stream::take_tagged(const wire::TaggedHeader& header, std::span<const std::byte> payload,
                         std::uint64_t segment_length) noexcept {
    if (header.opcode == wire::RdmapOpcode::write)
        return place_write(header, payload, segment_length);
    Pin pin;
    // A read response: the sink's STag is the request's number, its offset counts bytes.
    if (awaited_.empty() || awaited_.front().id != header.stag || header.offset != read_arrived_ ||
        awaited_.front().expected < read_arrived_ + segment_length)
        return violate(wire::terminate::ddp_tagged_invalid_stag);
    while (!payload.empty()) {
        std::uint64_t part = payload.size();
        const Fault fault = pin_sink(read_arrived_, part, pin, part);
        if (fault != Fault::none) return fail_awaited(fault);
        if (!store_to_user(pin.address(), payload.data(), part))
            return fail_awaited(Fault::unmapped);
        payload = payload.subspan(part);
        read_arrived_ += part;
    }
    return true;
}

bool Stream::place_write(const wire::TaggedHeader& header, std::span<const std::byte> payload,
                         std::uint64_t segment_length) noexcept {
    const bool whole = payload.size() == segment_length;
    const bool gathers = whole && !payload.empty() && payload.size() <= kGatherUpTo;
    if ((!gathers || placements_.full()) && !store_placements()) return false;
    if (std::exchange(write_ended_, false)) write_length_ = 0;
    Pin pin;
    const Fault fault = pin_target(header, segment_length, pin);
    if (fault != Fault::none) return refuse(fault, true);
    if (gathers)
        placements_.add(std::move(pin), payload, {header, rx_before_});
    else if (!store_to_user(pin.address(), payload.data(), payload.size()))
        return refuse(Fault::unmapped, true);
    write_length_ += payload.size();
    write_end_ = header.offset + payload.size();
    return true;
}

/// Before anything that follows is taken or answered.
bool Stream::store_placements() noexcept {
    if (placements_.empty()) return true;
    const Placements::Origin* failed = placements_.store();
    if (failed == nullptr) return true;
    rx_header_ = {.tagged = true, .tagged_header = failed->header, .untagged_header = {}};
    rx_before_ = rx_messages_ = failed->messages_before;
    return refuse(Fault::unmapped, true);
}

/// The last segment of a tagged message has been placed.
bool Stream::finish_tagged(const wire::TaggedHeader& header) noexcept {
    if (header.opcode == wire::RdmapOpcode::write) {
        write_ended_ = true;
        Pin pin;
        const bool found =
            write_length_ != 0 && qp_->keys()->pin_remote(header.stag, write_end_ - 1, 1,
                                                          Access::remote_write, pin) == Fault::none;
        const bool told = qp_->observer != nullptr || (found && pin.region()->observed());
        if (told && !store_placements()) return false;
        if (found) pin.region()->notify(Opcode::write, write_length_);
        if (qp_->observer != nullptr && write_length_ != 0)
            qp_->observer->remote_access(Opcode::write, write_length_);
        if (state_ == State::accepted) on_first_message();
        return true;
    }
    const Awaited& awaited = awaited_.front();
    if (read_arrived_ != awaited.expected) return violate(wire::terminate::ddp_tagged_bounds);
    read_arrived_ = 0;
    return on_response(awaited.kind, awaited.id);
}

Fault Stream::pin_target(const wire::TaggedHeader& header, std::uint64_t length,
                         Pin& pin) noexcept {
    return qp_->pin_remote(header.stag, header.offset, length, Access::remote_write, pin);
}

/// Where the bytes from offset of the awaited read go; contiguous says how many of length.
Fault Stream::pin_sink(std::uint64_t offset, std::uint64_t length, Pin& pin,
                       std::uint64_t& contiguous) noexcept {
    static thread_local std::array<std::byte, 64> discarded;
    const Awaited& awaited = awaited_.front();
    if (awaited.kind != Awaited::Kind::read) {  // a flush by a small read: the bytes say nothing
        contiguous = std::min<std::uint64_t>(length, discarded.size());
        pin = Pin(nullptr, discarded.data());
        return Fault::none;
    }
    auto sge = sge_at(qp_->sends.at(awaited.sequence).request.sges, offset);
    if (!sge) return Fault::out_of_range;
    sge->length = static_cast<std::uint32_t>(std::min<std::uint64_t>(sge->length, length));
    contiguous = sge->length;
    return qp_->keys()->pin_local(*sge, true, pin);
}

bool Stream::take_untagged(const wire::Segment& segment) noexcept {
    const wire::UntaggedHeader& header = segment.untagged_header;
    if (header.queue != wire::kQueueTerminate && header.msn != rx_msn_[header.queue])
        return violate(wire::terminate::ddp_untagged_msn);
    bool taken = false;
    switch (header.opcode) {
        case wire::RdmapOpcode::terminate: on_terminate(segment.payload); return false;
        case wire::RdmapOpcode::send:
        case wire::RdmapOpcode::send_solicited:
        case wire::RdmapOpcode::send_invalidate:
        case wire::RdmapOpcode::send_solicited_invalidate: taken = take_send(segment); break;
        case wire::RdmapOpcode::immediate:
        case wire::RdmapOpcode::immediate_solicited: taken = take_immediate(segment); break;
        case wire::RdmapOpcode::read_request:
        case wire::RdmapOpcode::atomic_request:
        case wire::RdmapOpcode::flush_request: taken = take_request(segment); break;
        case wire::RdmapOpcode::atomic_response:
        case wire::RdmapOpcode::flush_response: taken = take_response(segment); break;
        case wire::RdmapOpcode::presence: taken = take_presence(segment.payload); break;
        case wire::RdmapOpcode::write:
        case wire::RdmapOpcode::read_response: break;  // tagged
    }
    if (!taken) return false;
    if (!header.last) return true;
    ++rx_msn_[header.queue];
    if (state_ == State::accepted) on_first_message();
    return true;
}

bool Stream::take_send(const wire::Segment& segment) noexcept {
    const wire::UntaggedHeader& header = segment.untagged_header;
    // Nothing of ours can be invalidated by a peer.
    if (header.opcode == wire::RdmapOpcode::send_invalidate ||
        header.opcode == wire::RdmapOpcode::send_solicited_invalidate)
        return violate(wire::terminate::rdmap_cannot_invalidate);
    if (std::exchange(swallow_send_, false) && segment.payload.empty() && header.last) return true;
    if (!arriving_) {
        if (header.message_offset != 0) return violate(wire::terminate::ddp_untagged_offset);
        TakenReceive receive;
        if (!take_receive(receive)) return false;
        arriving_ = Arriving{.receive = receive, .capacity = total_length(receive.sges)};
    }
    if (header.message_offset != arriving_->length)
        return violate(wire::terminate::ddp_untagged_offset);
    if (!place_send(segment.payload)) return false;
    if (!header.last) return true;
    WorkCompletion wc;
    wc.opcode = WcOpcode::receive;
    wc.byte_length = arriving_->length;
    wc.has_imm = immediate_of_send_.has_value();
    wc.imm = immediate_of_send_.value_or(0);
    immediate_of_send_.reset();
    const TakenReceive receive = arriving_->receive;
    arriving_.reset();
    qp_->complete_receive(receive, wc, header.opcode == wire::RdmapOpcode::send_solicited);
    delivered();
    if (qp_->observer != nullptr) qp_->observer->remote_access(Opcode::send, wc.byte_length);
    return true;
}

/// Into the receive that is being filled; a failure of it is the end of the connection.
bool Stream::place_send(std::span<const std::byte> payload) noexcept {
    WcStatus status = WcStatus::success;
    if (arriving_->length + payload.size() > arriving_->capacity)
        status = WcStatus::local_length_error;
    while (status == WcStatus::success && !payload.empty()) {
        auto sge = sge_at(arriving_->receive.sges, arriving_->length);
        const std::size_t part = std::min<std::size_t>(sge->length, payload.size());
        sge->length = static_cast<std::uint32_t>(part);
        Pin pin;
        if (qp_->keys()->pin_local(*sge, true, pin) != Fault::none ||
            !store_to_user(pin.address(), payload.data(), part)) {
            status = WcStatus::local_protection_error;
            break;
        }
        payload = payload.subspan(part);
        arriving_->length += part;
    }
    if (status == WcStatus::success) return true;
    const TakenReceive receive = arriving_->receive;
    arriving_.reset();
    qp_->complete_receive(receive, {.status = status, .opcode = WcOpcode::receive}, true);
    return violate(status == WcStatus::local_length_error
                       ? wire::terminate::ddp_untagged_too_long
                       : wire::terminate::rdmap_stream_catastrophe);
}

bool Stream::take_immediate(const wire::Segment& segment) noexcept {
    const auto data = wire::parse_immediate(segment.payload);
    if (!data) return violate(wire::terminate::rdmap_stream_catastrophe);
    const std::uint64_t imm = own_peer_ ? *data : wire::verbs_of_immediate(*data);
    if (segment.extension() && own_peer_) {  // belongs to the Send behind it
        immediate_of_send_ = imm;
        return true;
    }
    WorkCompletion wc;
    wc.opcode = WcOpcode::receive_write_imm;
    wc.has_imm = true;
    wc.imm = imm;
    wc.byte_length = std::exchange(write_length_, 0);
    const bool solicited = segment.opcode() == wire::RdmapOpcode::immediate_solicited;
    if (qp_->imm_without_receive()) {
        if (qp_->complete_imm(wc, solicited)) {
            delivered();
            return true;
        }
        write_length_ = wc.byte_length;
        receive_missing_ = true;
        arm(kRetry);
        return false;
    }
    TakenReceive receive;
    if (!take_receive(receive)) {
        write_length_ = wc.byte_length;
        return false;
    }
    qp_->complete_receive(receive, wc, solicited);
    delivered();
    return true;
}

bool Stream::take_receive(TakenReceive& receive) noexcept {
    while (!qp_->take_receive(receive))
        if (wait_for_receive()) return false;
    if (std::exchange(rnr_timer_runs_, false)) disarm();
    return true;
}

/// False when one has just been posted.
bool Stream::wait_for_receive() noexcept {
    const auto wait =
        qp_->srq() != nullptr ? qp_->srq()->wait(weak_from_this()) : SoftSrq::Wait::registered;
    if (wait == SoftSrq::Wait::not_needed) return false;
    receive_missing_ = true;
    if (wait == SoftSrq::Wait::no_memory) {
        arm(kRetry);
        return true;
    }
    if (rnr_retry_count_ < kRetryForEver && !std::exchange(rnr_timer_runs_, true))
        arm(kRnrTimer * rnr_retry_count_);
    return true;
}

bool Stream::take_request(const wire::Segment& segment) noexcept {
    switch (segment.opcode()) {
        case wire::RdmapOpcode::read_request: return take_read_request(segment.payload);
        case wire::RdmapOpcode::atomic_request: return take_atomic_request(segment.payload);
        default: break;
    }
    if (!own_peer_) return violate(wire::terminate::rdmap_opcode);
    return take_flush_request(segment.payload);
}

bool Stream::take_response(const wire::Segment& segment) noexcept {
    if (segment.opcode() == wire::RdmapOpcode::flush_response)
        return take_flush_response(segment.payload);
    if (awaited_.empty()) return violate(wire::terminate::rdmap_opcode);
    const Awaited awaited = awaited_.front();
    const auto response = wire::parse_atomic_response(segment.payload);
    if (!response || awaited.kind != Awaited::Kind::atomic || awaited.id != response->request_id)
        return violate(wire::terminate::rdmap_opcode);
    const auto sge = sge_at(qp_->sends.at(awaited.sequence).request.sges, 0);
    Pin pin;
    const Fault fault = sge && sge->length >= sizeof response->original
                            ? qp_->keys()->pin_local(*sge, true, pin)
                            : Fault::out_of_range;
    if (fault != Fault::none) return fail_awaited(fault);
    const auto original = std::as_bytes(std::span(&response->original, 1));
    if (!store_to_user(pin.address(), original.data(), original.size()))
        return fail_awaited(Fault::unmapped);
    return on_response(Awaited::Kind::atomic, response->request_id);
}

bool Stream::take_flush_response(std::span<const std::byte> content) noexcept {
    const auto response = wire::parse_flush_response(content);
    if (!response || !own_peer_) return violate(wire::terminate::rdmap_opcode);
    if (response->request_id == wire::kNoRequest) {
        on_notice(response->status);
        return alive();
    }
    if (awaited_.empty()) return violate(wire::terminate::rdmap_opcode);
    if (response->status == 0) return on_response(Awaited::Kind::flush, response->request_id);
    const Awaited awaited = awaited_.front();
    if (awaited.kind != Awaited::Kind::flush || awaited.id != response->request_id)
        return violate(wire::terminate::rdmap_opcode);
    qp_->sends.acknowledge(awaited.sequence);  // the target has come as far as this
    fail_at(awaited.sequence, {WcStatus::remote_operation_error, response->status});
    return false;
}

/// The response to the oldest request is complete: it, and all that was sent before it, is done.
bool Stream::on_response(Awaited::Kind kind, std::uint32_t id) noexcept {
    const Awaited awaited = awaited_.front();
    if (awaited.kind != kind || awaited.id != id) return violate(wire::terminate::rdmap_opcode);
    awaited_.pop();
    unanswered_ = false;
    repeat_at_ = Clock::time_point::max();
    qp_->sends.acknowledge(awaited.sequence);
    if (kind == Awaited::Kind::acknowledgement)
        --acknowledgements_out_;
    else
        qp_->sends.finish(awaited.sequence);
    complete_sends();
    return alive();
}

/// The result of the oldest request has come and cannot be put where we wanted it. Always false.
bool Stream::fail_awaited(Fault fault) noexcept {
    const auto sequence = awaited_.front().sequence;
    qp_->sends.acknowledge(sequence);  // the target has come as far as this
    fail_at(sequence, {WcStatus::local_protection_error, static_cast<std::uint32_t>(fault)});
    return false;
}

bool Stream::refuse(Fault fault, bool of_write) noexcept {
    for (const FaultRow& row : kFaultCodes)
        if (row.fault == fault) return violate(of_write ? row.of_write : row.of_request);
    return violate(wire::terminate::rdmap_protection);
}

/// The peer broke a rule. Ends the connection, but not before the responses that its earlier
/// requests have earned are out. Always false.
bool Stream::violate(wire::TerminateCode code) noexcept {
    if (!store_placements()) return false;
    parting_ = Parting{code, rx_header_, rx_before_};
    if (owed_.empty() || !may_transmit_) {
        part();
        return false;
    }
    blocked_ = true;
    arm(kPartingTime);
    return false;
}

void Stream::part() noexcept {
    const Parting last = *parting_;
    terminate(last.code, last.offender, last.messages_before);
}

}  // namespace compat::core::soft
