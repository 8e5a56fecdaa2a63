// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/wire/ddp.hpp"

#include "core/device/soft/wire/bytes.hpp"

namespace compat::core::soft::wire {
namespace {

using Input = std::span<const std::byte>;
using Output = std::span<std::byte>;

constexpr unsigned kTaggedBit = 0x80;
constexpr unsigned kLastBit = 0x40;
constexpr unsigned kDdpVersionMask = 0x03;
constexpr unsigned kDdpVersion = 0x01;
constexpr unsigned kRdmapVersionMask = 0xC0;
constexpr unsigned kRdmapVersion = 0x40;
constexpr unsigned kExtensionBit = 0x10;
constexpr unsigned kOpcodeMask = 0x0F;

// What RDMAP says of each opcode, in opcode order.
struct OpcodeRow {
    RdmapOpcode opcode;
    const char* text;
    bool tagged;
    std::uint32_t queue;        // of untagged ones
    std::size_t content_bytes;  // 0: any
};
constexpr OpcodeRow kOpcodes[] = {
    {RdmapOpcode::write, "write", true, 0, 0},
    {RdmapOpcode::read_request, "read request", false, kQueueRequest, kReadRequestBytes},
    {RdmapOpcode::read_response, "read response", true, 0, 0},
    {RdmapOpcode::send, "send", false, kQueueSend, 0},
    {RdmapOpcode::send_invalidate, "send with invalidate", false, kQueueSend, 0},
    {RdmapOpcode::send_solicited, "solicited send", false, kQueueSend, 0},
    {RdmapOpcode::send_solicited_invalidate, "solicited send with invalidate", false, kQueueSend,
     0},
    {RdmapOpcode::terminate, "terminate", false, kQueueTerminate, 0},
    {RdmapOpcode::immediate, "immediate", false, kQueueSend, kImmediateBytes},
    {RdmapOpcode::immediate_solicited, "solicited immediate", false, kQueueSend, kImmediateBytes},
    {RdmapOpcode::atomic_request, "atomic request", false, kQueueRequest, kAtomicRequestBytes},
    {RdmapOpcode::atomic_response, "atomic response", false, kQueueResponse, kAtomicResponseBytes},
    {RdmapOpcode::flush_request, "flush request", false, kQueueRequest, kFlushRequestBytes},
    {RdmapOpcode::flush_response, "flush response", false, kQueueResponse, kFlushResponseBytes},
    {RdmapOpcode::presence, "presence", false, kQueueResponse, kPresenceBytes},
};
constexpr bool rows_are_in_order() {
    std::size_t expected = 0;
    for (const OpcodeRow& row : kOpcodes)
        if (static_cast<std::size_t>(row.opcode) != expected++) return false;
    return true;
}
static_assert(rows_are_in_order(), "the table is indexed by opcode");

const OpcodeRow* find_row(unsigned opcode) noexcept {
    return opcode < std::size(kOpcodes) ? &kOpcodes[opcode] : nullptr;
}

void encode_control(std::byte* out, bool tagged, RdmapOpcode opcode, bool last,
                    bool extension) noexcept {
    out[0] =
        static_cast<std::byte>((tagged ? kTaggedBit : 0U) | (last ? kLastBit : 0U) | kDdpVersion);
    out[1] = static_cast<std::byte>(kRdmapVersion | (extension ? kExtensionBit : 0U) |
                                    static_cast<unsigned>(opcode));
}

// Both versions, then opcode and tag bit: what must hold before any other field means something.
std::optional<TerminateCode> control_violation(unsigned ddp, unsigned rdmap) noexcept {
    const bool tagged = (ddp & kTaggedBit) != 0;
    if ((ddp & kDdpVersionMask) != kDdpVersion)
        return tagged ? terminate::ddp_tagged_version : terminate::ddp_untagged_version;
    if ((rdmap & kRdmapVersionMask) != kRdmapVersion) return terminate::rdmap_version;
    const OpcodeRow* row = find_row(rdmap & kOpcodeMask);
    if (row == nullptr || row->tagged != tagged) return terminate::rdmap_opcode;
    return std::nullopt;
}

// A Terminate passes whatever its queue and offset say: it ends the stream in any case.
std::optional<TerminateCode> untagged_violation(const UntaggedHeader& header) noexcept {
    if (header.opcode == RdmapOpcode::terminate) return std::nullopt;
    const OpcodeRow& row = kOpcodes[static_cast<std::size_t>(header.opcode)];
    if (header.queue != row.queue) return terminate::ddp_untagged_queue;
    if (row.content_bytes != 0 && (!header.last || header.message_offset != 0))
        return terminate::ddp_untagged_offset;
    return std::nullopt;
}

TaggedHeader read_tagged(const std::byte* in) noexcept {
    TaggedHeader header;
    header.stag = load_be<std::uint32_t>(in + 2);
    header.offset = load_be<std::uint64_t>(in + 6);
    return header;
}

UntaggedHeader read_untagged(const std::byte* in) noexcept {
    UntaggedHeader header;
    header.word = load_be<std::uint32_t>(in + 2);
    header.queue = load_be<std::uint32_t>(in + 6);
    header.msn = load_be<std::uint32_t>(in + 10);
    header.message_offset = load_be<std::uint32_t>(in + 14);
    return header;
}

// Big-endian fields one after the other; the caller has checked the space.
class FieldWriter {
public:
    explicit FieldWriter(Output out) noexcept : next_(out.data()) {}
    template <class Integer>
    FieldWriter& put(Integer value) noexcept {
        store_be(next_, value);
        next_ += sizeof(value);
        return *this;
    }

private:
    std::byte* next_;
};

class FieldReader {
public:
    explicit FieldReader(Input in) noexcept : next_(in.data()) {}
    template <class Integer>
    FieldReader& get(Integer& value) noexcept {
        value = load_be<Integer>(next_);
        next_ += sizeof(value);
        return *this;
    }

private:
    const std::byte* next_;
};

}  // namespace

const char* opcode_text(RdmapOpcode opcode) noexcept {
    const OpcodeRow* row = find_row(static_cast<unsigned>(opcode));
    return row != nullptr ? row->text : "unknown opcode";
}

std::size_t fixed_content_bytes(RdmapOpcode opcode) noexcept {
    const OpcodeRow* row = find_row(static_cast<unsigned>(opcode));
    return row != nullptr ? row->content_bytes : 0;
}

std::size_t encode_header(const TaggedHeader& header, Output out) noexcept {
    if (out.size() < kTaggedHeaderBytes) return 0;
    encode_control(out.data(), true, header.opcode, header.last, header.extension);
    FieldWriter(out.subspan(2)).put(header.stag).put(header.offset);
    return kTaggedHeaderBytes;
}

std::size_t encode_header(const UntaggedHeader& header, Output out) noexcept {
    if (out.size() < kUntaggedHeaderBytes) return 0;
    encode_control(out.data(), false, header.opcode, header.last, header.extension);
    FieldWriter(out.subspan(2))
        .put(header.word)
        .put(header.queue)
        .put(header.msn)
        .put(header.message_offset);
    return kUntaggedHeaderBytes;
}

HeaderResult parse_header(Input header) noexcept {
    HeaderResult result;
    if (header.empty() || header.size() < header_bytes(header[0])) {
        result.violation = terminate::mpa_length;
        return result;
    }
    const auto ddp = std::to_integer<unsigned>(header[0]);
    const auto rdmap = std::to_integer<unsigned>(header[1]);
    result.violation = control_violation(ddp, rdmap);
    if (result.violation) return result;

    const auto opcode = static_cast<RdmapOpcode>(rdmap & kOpcodeMask);
    const bool last = (ddp & kLastBit) != 0;
    const bool extension = (rdmap & kExtensionBit) != 0;
    result.header.tagged = (ddp & kTaggedBit) != 0;
    if (result.header.tagged) {
        result.header.tagged_header = read_tagged(header.data());
        result.header.tagged_header.opcode = opcode;
        result.header.tagged_header.last = last;
        result.header.tagged_header.extension = extension;
    } else {
        result.header.untagged_header = read_untagged(header.data());
        result.header.untagged_header.opcode = opcode;
        result.header.untagged_header.last = last;
        result.header.untagged_header.extension = extension;
        result.violation = untagged_violation(result.header.untagged_header);
    }
    return result;
}

SegmentResult parse_segment(Input ulpdu) noexcept {
    const HeaderResult parsed = parse_header(ulpdu);
    if (parsed.violation) return {parsed.violation, {}};
    const Segment segment{parsed.header, ulpdu.subspan(parsed.header.bytes())};
    const std::size_t content = fixed_content_bytes(segment.opcode());
    if (content != 0 && segment.payload.size() > content)
        return {terminate::ddp_untagged_too_long, {}};
    if (segment.payload.size() < content) return {terminate::rdmap_stream_catastrophe, {}};
    return {std::nullopt, segment};
}

std::size_t encode(const ReadRequest& request, Output out) noexcept {
    if (out.size() < kReadRequestBytes) return 0;
    FieldWriter(out)
        .put(request.sink_stag)
        .put(request.sink_offset)
        .put(request.length)
        .put(request.source_stag)
        .put(request.source_offset);
    return kReadRequestBytes;
}

std::optional<ReadRequest> parse_read_request(Input content) noexcept {
    if (content.size() != kReadRequestBytes) return std::nullopt;
    ReadRequest request;
    FieldReader(content)
        .get(request.sink_stag)
        .get(request.sink_offset)
        .get(request.length)
        .get(request.source_stag)
        .get(request.source_offset);
    return request;
}

std::size_t encode(const AtomicRequest& request, Output out) noexcept {
    if (out.size() < kAtomicRequestBytes) return 0;
    FieldWriter(out)
        .put(static_cast<std::uint32_t>(request.operation))
        .put(request.request_id)
        .put(request.stag)
        .put(request.offset)
        .put(request.add_swap_data)
        .put(request.add_swap_mask)
        .put(request.compare_data)
        .put(request.compare_mask);
    return kAtomicRequestBytes;
}

std::optional<AtomicRequest> parse_atomic_request(Input content) noexcept {
    if (content.size() != kAtomicRequestBytes) return std::nullopt;
    AtomicRequest request;
    std::uint32_t operation = 0;
    FieldReader(content)
        .get(operation)
        .get(request.request_id)
        .get(request.stag)
        .get(request.offset)
        .get(request.add_swap_data)
        .get(request.add_swap_mask)
        .get(request.compare_data)
        .get(request.compare_mask);
    request.operation = static_cast<AtomicOpcode>(operation & kOpcodeMask);  // above it: reserved
    if (request.operation != AtomicOpcode::fetch_add &&
        request.operation != AtomicOpcode::compare_swap)
        return std::nullopt;
    return request;
}

std::size_t encode(const AtomicResponse& response, Output out) noexcept {
    if (out.size() < kAtomicResponseBytes) return 0;
    FieldWriter(out).put(response.request_id).put(response.original);
    return kAtomicResponseBytes;
}

std::optional<AtomicResponse> parse_atomic_response(Input content) noexcept {
    if (content.size() != kAtomicResponseBytes) return std::nullopt;
    AtomicResponse response;
    FieldReader(content).get(response.request_id).get(response.original);
    return response;
}

std::size_t encode_immediate(std::uint64_t data, Output out) noexcept {
    if (out.size() < kImmediateBytes) return 0;
    store_be(out.data(), data);
    return kImmediateBytes;
}

std::optional<std::uint64_t> parse_immediate(Input content) noexcept {
    if (content.size() != kImmediateBytes) return std::nullopt;
    return load_be<std::uint64_t>(content.data());
}

std::size_t encode(const FlushRequest& request, Output out) noexcept {
    const ReadRequest shape{.sink_stag = request.request_id,
                            .sink_offset = request.length,
                            .length = static_cast<std::uint32_t>(request.type),
                            .source_stag = request.stag,
                            .source_offset = request.offset};
    return encode(shape, out);
}

std::optional<FlushRequest> parse_flush_request(Input content) noexcept {
    const auto shape = parse_read_request(content);
    if (!shape || shape->length > static_cast<std::uint32_t>(FlushType::persistent))
        return std::nullopt;
    return FlushRequest{.request_id = shape->sink_stag,
                        .length = shape->sink_offset,
                        .type = static_cast<FlushType>(shape->length),
                        .stag = shape->source_stag,
                        .offset = shape->source_offset};
}

std::size_t encode(const FlushResponse& response, Output out) noexcept {
    if (out.size() < kFlushResponseBytes) return 0;
    FieldWriter(out).put(response.request_id).put(response.status);
    return kFlushResponseBytes;
}

std::optional<FlushResponse> parse_flush_response(Input content) noexcept {
    if (content.size() != kFlushResponseBytes) return std::nullopt;
    FlushResponse response;
    FieldReader(content).get(response.request_id).get(response.status);
    return response;
}

std::size_t encode(const Presence& presence, Output out) noexcept {
    if (out.size() < kPresenceBytes) return 0;
    FieldWriter(out)
        .put(presence.process)
        .put(presence.descriptor)
        .put(presence.inode)
        .put(presence.nonce)
        .put(presence.nonce_address)
        .put(presence.slot)
        .put(presence.epoch)
        .put(presence.pd)
        .put(presence.access);
    return kPresenceBytes;
}

std::optional<Presence> parse_presence(Input content) noexcept {
    if (content.size() != kPresenceBytes) return std::nullopt;
    Presence presence;
    FieldReader(content)
        .get(presence.process)
        .get(presence.descriptor)
        .get(presence.inode)
        .get(presence.nonce)
        .get(presence.nonce_address)
        .get(presence.slot)
        .get(presence.epoch)
        .get(presence.pd)
        .get(presence.access);
    return presence;
}

}  // namespace compat::core::soft::wire
