// SPDX-License-Identifier: BSD-3-Clause
// DDP segments and the contents of RDMAP messages, Terminate included: each input is one ULPDU.
#include <algorithm>
#include <array>

#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/terminate.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using namespace core::soft::wire;
using Input = std::span<const std::byte>;

bool is_known(TerminateCode code) {
    return std::string_view(terminate_text(code)) != "unknown terminate code";
}

// Reserved bits of the control bytes are not kept; all others are.
void check_header(Input header, const Header& parsed) {
    std::array<std::byte, kMaxHeaderBytes> again{};
    const std::size_t written = parsed.tagged ? encode_header(parsed.tagged_header, again)
                                              : encode_header(parsed.untagged_header, again);
    FUZZ_REQUIRE(written == header.size() && written == parsed.bytes());
    FUZZ_REQUIRE(again[0] == (header[0] & std::byte{0xC3}));
    FUZZ_REQUIRE(again[1] == (header[1] & std::byte{0xDF}));
    FUZZ_REQUIRE(std::equal(header.begin() + 2, header.end(), again.begin() + 2));
}

template <class Content>
void check_content(Input payload, const std::optional<Content>& parsed) {
    if (!parsed) return;
    std::array<std::byte, kAtomicRequestBytes> again{};
    FUZZ_REQUIRE(encode(*parsed, again) == payload.size());
    const Input bytes = Input(again).first(payload.size());
    if constexpr (std::is_same_v<Content, AtomicRequest>)  // 28 reserved bits in front
        FUZZ_REQUIRE(std::ranges::equal(bytes.subspan(4), payload.subspan(4)));
    else
        FUZZ_REQUIRE(std::ranges::equal(bytes, payload));
}

void check_terminate(Input payload) {
    for (const bool own_peer : {false, true}) {
        const auto message = parse_terminate(payload, own_peer);
        FUZZ_REQUIRE(message.has_value() == (payload.size() >= kTerminateControlBytes));
        if (!message) return;
        FUZZ_REQUIRE(own_peer || !message->has_message_count);
        std::array<std::byte, kMaxTerminateBytes> buffer{};
        const std::size_t written = encode_terminate(*message, buffer);
        FUZZ_REQUIRE(written >= kTerminateControlBytes && written <= payload.size());
        // The standard form of a message that came swapped or cut: the same content once more.
        const auto again = parse_terminate(Input(buffer).first(written), own_peer);
        FUZZ_REQUIRE(again.has_value());
        FUZZ_REQUIRE(again->code == message->code || !is_known(message->code));
        FUZZ_REQUIRE(again->has_length == message->has_length);
        FUZZ_REQUIRE(again->ddp_length == message->ddp_length);
        FUZZ_REQUIRE(again->has_ddp_header == message->has_ddp_header);
        FUZZ_REQUIRE(again->ddp_header == message->ddp_header);
        FUZZ_REQUIRE(again->has_rdmap_header == message->has_rdmap_header);
        FUZZ_REQUIRE(again->rdmap_header == message->rdmap_header);
        FUZZ_REQUIRE(again->has_message_count == message->has_message_count);
        FUZZ_REQUIRE(again->message_count == message->message_count);
    }
}

void check_payload(const Segment& segment) {
    const Input payload = segment.payload;
    switch (segment.opcode()) {
        case RdmapOpcode::read_request:
            FUZZ_REQUIRE(parse_read_request(payload).has_value());
            return check_content(payload, parse_read_request(payload));
        case RdmapOpcode::atomic_request:
            return check_content(payload, parse_atomic_request(payload));
        case RdmapOpcode::atomic_response:
            FUZZ_REQUIRE(parse_atomic_response(payload).has_value());
            return check_content(payload, parse_atomic_response(payload));
        case RdmapOpcode::flush_request:
            return check_content(payload, parse_flush_request(payload));
        case RdmapOpcode::flush_response:
            FUZZ_REQUIRE(parse_flush_response(payload).has_value());
            return check_content(payload, parse_flush_response(payload));
        case RdmapOpcode::presence:
            FUZZ_REQUIRE(parse_presence(payload).has_value());
            return check_content(payload, parse_presence(payload));
        case RdmapOpcode::immediate:
        case RdmapOpcode::immediate_solicited:
            FUZZ_REQUIRE(parse_immediate(payload).has_value());
            return;
        case RdmapOpcode::terminate: return check_terminate(payload);
        default: return;
    }
}

constexpr std::string_view kSeeds[] = {
    "c140 aabbccdd 0000000000001000 0102030405060708",
    "8140 00000001 ffffffffffffff00",
    "c142 aabbccdd 0000000000001000 00",
    "4141 00000000 00000001 00000001 00000000 "
    "01020304 1112131415161718 21222324 31323334 4142434445464748",
    "4143 00000000 00000000 00000001 00000000 68656c6c6f",
    "0146 0a0b0c0d 00000000 ffffffff 00010000 00",
    "4158 00000000 00000000 00000001 00000000 0102030400000000",
    "414a 00000000 00000001 00000002 00000000 00000002 00000008 00000001 0000000000000002 "
    "0000000000000003 ffffffffffffffff 0000000000000004 ffffffffffffffff",
    "414b 00000000 00000003 00000001 00000000 01020304 1112131415161718",
    "414c 00000000 00000001 00000003 00000000 "
    "01020304 1112131415161718 00000001 31323334 4142434445464748",
    "414d 00000000 00000003 00000002 00000000 01020304 00000005",
    "4147 00000000 00000002 00000001 00000000 20020000",
    "4147 00000000 00000002 00000001 00000000 1100c000 0012 c140 aabbccdd 0000000000001000 "
    "00000007",
    "4147 00000000 00000002 00000001 00000000 "
    "0102e000 002e 4141 00000000 00000001 00000009 00000000 "
    "00000001 0000000000000002 00000003 00000004 0000000000000005 00000007",
    "4147 00000000 00000002 00000001 00000000 21020300 0004 4143 00000000 00000000 00000005 "
    "00000000",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input ulpdu) {
    const HeaderResult header = parse_header(ulpdu);
    const SegmentResult result = parse_segment(ulpdu);
    if (header.violation) {
        FUZZ_REQUIRE(result.violation == header.violation && is_known(*header.violation));
        return;
    }
    check_header(ulpdu.first(header.header.bytes()), header.header);
    if (result.violation) {
        FUZZ_REQUIRE(is_known(*result.violation));
        return;
    }
    FUZZ_REQUIRE(result.segment.payload.size() == ulpdu.size() - result.segment.bytes());
    check_payload(result.segment);
}

}  // namespace compat::fuzz
