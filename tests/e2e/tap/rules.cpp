// SPDX-License-Identifier: BSD-3-Clause
#include "tests/e2e/tap/rules.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/mpa.hpp"

namespace compat::test {
namespace {

using core::soft::wire::opcode_text;
using core::soft::wire::RdmapOpcode;

using Complaints = std::vector<std::string>;

// Expert items that every conversation of ours raises, or may.
struct AllowedExpert {
    std::string_view protocol;
    std::string_view beginning;
};
constexpr AllowedExpert kAllowedExperts[] = {
    {"IWARP_MPA", "Res field is NOT set to zero"},  // S of RFC 6581 and our extension bits
    {"IWARP_MPA", "Rev field is NOT set to one"},   // revision 2 of RFC 6581
    {"TCP", "Connection reset (RST)"},              // how a connection ends is not the format's
};

// Written down once more, not taken from the code under test.
constexpr unsigned kOpcodeCount = 14;
constexpr std::array<bool, kOpcodeCount> kIsTagged{true, false, true};
constexpr std::array<std::uint32_t, kOpcodeCount> kQueues{0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 1, 3, 1, 3};
constexpr unsigned kReadRequest = 1;
constexpr unsigned kReadResponse = 2;
constexpr unsigned kTerminate = 7;
constexpr unsigned kImmediate = 8;
constexpr unsigned kImmediateSolicited = 9;
constexpr unsigned kAtomicRequest = 10;
constexpr unsigned kAtomicResponse = 11;
constexpr std::size_t kUntaggedBytes = 18;
constexpr std::size_t kTaggedBytes = 14;

const char* name(Side side) {
    return side == Side::client ? "client" : "server";
}

std::string at(const FpduSeen& fpdu) {
    return std::string(name(fpdu.from)) + " packet " + std::to_string(fpdu.packet) + " " +
           opcode_text(RdmapOpcode{static_cast<std::uint8_t>(fpdu.opcode)}) + ": ";
}

bool is_allowed(const ExpertLine& line) {
    return std::ranges::any_of(kAllowedExperts, [&](const AllowedExpert& allowed) {
        return line.protocol == allowed.protocol && line.summary.starts_with(allowed.beginning);
    });
}

void check_tshark_is_content(const Dissection& dissection, Complaints& complaints) {
    for (const ExpertLine& line : dissection.experts)
        if (!is_allowed(line))
            complaints.push_back(line.severity + ": " + line.protocol + ": " + line.summary);
    for (const unsigned long packet : dissection.malformed)
        complaints.push_back("malformed packet " + std::to_string(packet));
    for (const unsigned long packet : dissection.bad_checksums)
        complaints.push_back("bad ip or tcp checksum in packet " + std::to_string(packet));
}

const StartFrameSeen* find(const Conversation& conversation, bool reply) {
    for (const StartFrameSeen& frame : conversation.start_frames)
        if (frame.is_reply == reply) return &frame;
    return nullptr;
}

void check_start_frames(const Conversation& conversation, Complaints& complaints) {
    const StartFrameSeen* request = find(conversation, false);
    const StartFrameSeen* reply = find(conversation, true);
    if (conversation.start_frames.size() != 2 || request == nullptr || reply == nullptr) {
        complaints.emplace_back("not exactly one start-up request and one reply");
        return;
    }
    if (request->from != Side::client || reply->from != Side::server)
        complaints.emplace_back("start-up frame from the wrong side");
    if (request != conversation.start_frames.data())
        complaints.emplace_back("start-up reply before the request");
    for (const StartFrameSeen* frame : {request, reply}) {
        if (frame->fpdus_before != 0) complaints.emplace_back("FPDU before a start-up frame");
        if (frame->markers) complaints.emplace_back("start-up frame asks for markers");
        if (frame->revision != 1 && frame->revision != 2)
            complaints.emplace_back("start-up frame of unknown revision");
    }
    if (request->rejected) complaints.emplace_back("start-up request with the reject flag");
}

bool crc_agreed(const Conversation& conversation) {
    return std::ranges::any_of(conversation.start_frames, &StartFrameSeen::crc);
}

bool extensions_agreed(const Conversation& conversation) {
    const StartFrameSeen* reply = find(conversation, true);
    return reply != nullptr &&
           core::soft::wire::own_extensions(static_cast<std::uint8_t>(reply->reserved));
}

// A wrong length puts every later FPDU out of place: bytes remain that belong to none.
void check_every_byte_is_accounted_for(const Conversation& conversation, Complaints& complaints) {
    std::size_t framed[2] = {0, 0};
    for (const StartFrameSeen& frame : conversation.start_frames)
        framed[static_cast<std::size_t>(frame.from)] +=
            core::soft::wire::kStartFrameBytes + frame.private_bytes;
    for (const FpduSeen& fpdu : conversation.fpdus)
        framed[static_cast<std::size_t>(fpdu.from)] +=
            (2 + fpdu.ulpdu_bytes + 3) / 4 * 4 + 4;  // length, ULPDU, padding, CRC
    for (const Side side : {Side::client, Side::server}) {
        const auto index = static_cast<std::size_t>(side);
        if (framed[index] != conversation.payload_bytes[index])
            complaints.push_back(std::string(name(side)) + " sent " +
                                 std::to_string(conversation.payload_bytes[index]) + " bytes, " +
                                 std::to_string(framed[index]) + " of them in frames");
    }
}

void check_headers(const Conversation& conversation, Complaints& complaints) {
    const bool with_crc = crc_agreed(conversation);
    const bool with_extensions = extensions_agreed(conversation);
    for (const FpduSeen& fpdu : conversation.fpdus) {
        if (with_crc && !fpdu.crc_checked) complaints.push_back(at(fpdu) + "no CRC was checked");
        if (fpdu.crc_checked && !fpdu.crc_good) complaints.push_back(at(fpdu) + "bad CRC");
        if (fpdu.segments != 1) {
            complaints.push_back(at(fpdu) + "not one DDP segment in an FPDU");
            continue;
        }
        if (fpdu.ddp_version != 1) complaints.push_back(at(fpdu) + "DDP version");
        if (fpdu.rdmap_version != 1) complaints.push_back(at(fpdu) + "RDMAP version");
        if (fpdu.ddp_reserved != 0) complaints.push_back(at(fpdu) + "reserved bits of DDP");
        const bool immediate = fpdu.opcode == kImmediate || fpdu.opcode == kImmediateSolicited;
        const unsigned allowed = with_extensions && immediate ? 1 : 0;
        if ((fpdu.rdmap_reserved & ~allowed) != 0)
            complaints.push_back(at(fpdu) + "reserved bits of RDMAP");
        if (fpdu.opcode >= kOpcodeCount || fpdu.tagged != kIsTagged.at(fpdu.opcode))
            complaints.push_back(at(fpdu) + "opcode does not go with the tagged flag");
        else if (!fpdu.tagged && fpdu.queue != kQueues.at(fpdu.opcode))
            complaints.push_back(at(fpdu) + "wrong queue");
        if (fpdu.opcode > kAtomicResponse && !with_extensions)
            complaints.push_back(at(fpdu) + "extension that was not agreed on");
    }
}

// MSN: from 1, by one per message, per queue and direction. MO: the bytes of the message so far.
void check_message_numbers(const Conversation& conversation, Complaints& complaints) {
    struct Position {
        std::uint32_t next_msn = 1;
        std::uint32_t offset = 0;
    };
    std::map<std::pair<Side, std::uint32_t>, Position> positions;
    for (const FpduSeen& fpdu : conversation.fpdus) {
        if (fpdu.tagged || fpdu.ulpdu_bytes < kUntaggedBytes) continue;
        Position& position = positions[{fpdu.from, fpdu.queue}];
        if (fpdu.msn != position.next_msn)
            complaints.push_back(at(fpdu) + "MSN " + std::to_string(fpdu.msn) + ", expected " +
                                 std::to_string(position.next_msn));
        if (fpdu.message_offset != position.offset)
            complaints.push_back(at(fpdu) + "message offset " +
                                 std::to_string(fpdu.message_offset) + ", expected " +
                                 std::to_string(position.offset));
        position.offset += static_cast<std::uint32_t>(fpdu.ulpdu_bytes - kUntaggedBytes);
        if (!fpdu.last) continue;
        ++position.next_msn;
        position.offset = 0;
    }
}

void check_turns(const Conversation& conversation, Complaints& complaints) {
    if (!conversation.fpdus.empty() && conversation.fpdus.front().from == Side::server)
        complaints.emplace_back("the server sent the first FPDU");
    bool terminated[2] = {false, false};
    for (const FpduSeen& fpdu : conversation.fpdus) {
        bool& side_is_done = terminated[static_cast<std::size_t>(fpdu.from)];
        if (side_is_done) complaints.push_back(at(fpdu) + "FPDU after a Terminate");
        side_is_done = side_is_done || fpdu.opcode == kTerminate;
    }
}

// Requests of one side against responses of the other: in order, complete unless one gave up.
void check_responses(const Conversation& conversation, Side asking, Complaints& complaints) {
    std::size_t bytes_asked = 0;
    std::size_t bytes_given = 0;
    std::vector<std::uint64_t> atomics_asked;
    std::vector<std::uint64_t> atomics_answered;
    bool terminated = false;
    for (const FpduSeen& fpdu : conversation.fpdus) {
        terminated = terminated || fpdu.opcode == kTerminate;
        const bool asks = fpdu.from == asking;
        if (asks && fpdu.opcode == kReadRequest) bytes_asked += fpdu.read_bytes;
        if (!asks && fpdu.opcode == kReadResponse) bytes_given += fpdu.ulpdu_bytes - kTaggedBytes;
        if (asks && fpdu.opcode == kAtomicRequest) atomics_asked.push_back(fpdu.request_id);
        if (!asks && fpdu.opcode == kAtomicResponse) atomics_answered.push_back(fpdu.response_id);
    }
    if (bytes_given > bytes_asked || (bytes_given < bytes_asked && !terminated))
        complaints.push_back(std::string(name(asking)) + " asked for " +
                             std::to_string(bytes_asked) + " bytes and got " +
                             std::to_string(bytes_given));
    const bool too_few = atomics_answered.size() < atomics_asked.size() && !terminated;
    const bool in_order =
        atomics_answered.size() <= atomics_asked.size() &&
        std::equal(atomics_answered.begin(), atomics_answered.end(), atomics_asked.begin());
    if (too_few || !in_order)
        complaints.push_back(std::string(name(asking)) +
                             ": atomic responses do not match the requests");
}

template <class Function>
void for_each_fpdu(const Dissection& dissection, Side from, Function&& function) {
    for (const auto& [stream, conversation] : dissection.conversations)
        for (const FpduSeen& fpdu : conversation.fpdus)
            if (fpdu.from == from) function(fpdu);
}

}  // namespace

std::vector<std::string> broken_rules(const Dissection& dissection) {
    Complaints complaints;
    check_tshark_is_content(dissection, complaints);
    if (dissection.conversations.empty()) complaints.emplace_back("no connection was captured");
    for (const auto& [stream, conversation] : dissection.conversations) {
        check_start_frames(conversation, complaints);
        check_every_byte_is_accounted_for(conversation, complaints);
        check_headers(conversation, complaints);
        check_message_numbers(conversation, complaints);
        check_turns(conversation, complaints);
        check_responses(conversation, Side::client, complaints);
        check_responses(conversation, Side::server, complaints);
    }
    return complaints;
}

std::string summary(const Dissection& dissection, Side from) {
    std::map<unsigned, std::size_t> counts;
    for_each_fpdu(dissection, from, [&](const FpduSeen& fpdu) { ++counts[fpdu.opcode]; });
    std::string text = name(from);
    const char* separator = ": ";
    for (const auto& [opcode, count] : counts) {
        text += separator + std::to_string(count) + " " +
                opcode_text(RdmapOpcode{static_cast<std::uint8_t>(opcode)});
        separator = ", ";
    }
    return text;
}

std::size_t count_opcode(const Dissection& dissection, Side from, unsigned opcode) {
    std::size_t count = 0;
    for_each_fpdu(dissection, from,
                  [&](const FpduSeen& fpdu) { count += fpdu.opcode == opcode ? 1 : 0; });
    return count;
}

bool all_with_crc(const Dissection& dissection) {
    return !dissection.conversations.empty() &&
           std::ranges::all_of(dissection.conversations,
                               [](const auto& each) { return crc_agreed(each.second); });
}

unsigned opcode_number(std::string_view name) {
    unsigned number = 0;
    while (number < 16 && name != opcode_text(RdmapOpcode{static_cast<std::uint8_t>(number)}))
        ++number;
    return number;
}

}  // namespace compat::test
