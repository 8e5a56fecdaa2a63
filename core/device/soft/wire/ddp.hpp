// SPDX-License-Identifier: BSD-3-Clause
// DDP segments (RFC 5041) and what RDMAP puts into them (RFC 5040, RFC 7306). Pure functions over
// bytes; state (MSN, message offset, STags, depths) is the stream's to check.
//
// Extensions of ours, in use only after both sides agreed (mpa.hpp, own_extensions):
// - Send with immediate: an Immediate Data message whose header has `extension` set, directly
// before
//   the Send it belongs to. It takes an MSN of queue 0 and no receive.
// - Flush: opcodes flush_request and flush_response, below.
// - Notice: a flush_response to kNoRequest. Its status says how many messages of the stream to its
//   sender have been taken, counted as in terminate.hpp.
// - Presence: how a peer on the same host reaches the sender's memory without the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/device/soft/wire/terminate.hpp"

namespace compat::core::soft::wire {

enum class RdmapOpcode : std::uint8_t {
    write = 0,
    read_request = 1,
    read_response = 2,
    send = 3,
    send_invalidate = 4,
    send_solicited = 5,
    send_solicited_invalidate = 6,
    terminate = 7,
    immediate = 8,
    immediate_solicited = 9,
    atomic_request = 10,
    atomic_response = 11,
    flush_request = 12,   ///< ours
    flush_response = 13,  ///< ours
    presence = 14,        ///< ours
};

/// "write", "read request"; for log lines.
const char* opcode_text(RdmapOpcode opcode) noexcept;

inline constexpr std::uint32_t kQueueSend = 0;     ///< Sends and Immediate Data
inline constexpr std::uint32_t kQueueRequest = 1;  ///< Read, Atomic and Flush Requests
inline constexpr std::uint32_t kQueueTerminate = 2;
inline constexpr std::uint32_t kQueueResponse = 3;  ///< Atomic and Flush Responses, Presence
inline constexpr std::uint32_t kQueueCount = 4;
inline constexpr std::uint32_t kFirstMsn = 1;  ///< of every queue in either direction

inline constexpr std::size_t kTaggedHeaderBytes = 14;
inline constexpr std::size_t kUntaggedHeaderBytes = 18;
inline constexpr std::size_t kMaxHeaderBytes = kUntaggedHeaderBytes;

struct TaggedHeader {
    RdmapOpcode opcode = RdmapOpcode::write;
    bool last = true;
    bool extension = false;  ///< RDMAP reserved bit 0x10
    std::uint32_t stag = 0;
    std::uint64_t offset = 0;
};

struct UntaggedHeader {
    RdmapOpcode opcode = RdmapOpcode::send;
    bool last = true;
    bool extension = false;  ///< RDMAP reserved bit 0x10
    std::uint32_t word = 0;  ///< bytes 2 to 5: the STag to invalidate, else 0
    std::uint32_t queue = kQueueSend;
    std::uint32_t msn = kFirstMsn;
    std::uint32_t message_offset = 0;
};

/// Both return the bytes written; 0 when out is too small.
std::size_t encode_header(const TaggedHeader& header, std::span<std::byte> out) noexcept;
std::size_t encode_header(const UntaggedHeader& header, std::span<std::byte> out) noexcept;

/// 14 or 18, from the first byte of a ULPDU.
constexpr std::size_t header_bytes(std::byte first) noexcept {
    return (first & std::byte{0x80}) != std::byte{0} ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
}

struct Header {
    bool tagged = false;
    TaggedHeader tagged_header;      ///< when tagged
    UntaggedHeader untagged_header;  ///< when not

    [[nodiscard]] constexpr RdmapOpcode opcode() const noexcept {
        return tagged ? tagged_header.opcode : untagged_header.opcode;
    }
    [[nodiscard]] constexpr bool last() const noexcept {
        return tagged ? tagged_header.last : untagged_header.last;
    }
    [[nodiscard]] constexpr bool extension() const noexcept {
        return tagged ? tagged_header.extension : untagged_header.extension;
    }
    [[nodiscard]] constexpr std::size_t bytes() const noexcept {
        return tagged ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
    }
};

struct Segment : Header {
    std::span<const std::byte> payload;
};

struct HeaderResult {
    std::optional<TerminateCode> violation;  ///< set: the Terminate to send; header is not valid
    Header header;
};

struct SegmentResult {
    std::optional<TerminateCode> violation;  ///< set: the Terminate to send; segment is not valid
    Segment segment;
};

/// header: at least header_bytes(header[0]) bytes; more are not looked at.
/// Violations: mpa_length when it is shorter; DDP or RDMAP version; rdmap_opcode for an opcode
/// that does not exist or has the wrong tag bit; ddp_untagged_queue for a queue that is not the
/// opcode's; ddp_untagged_offset for a message of fixed size that is not in one segment.
/// Reserved bits other than `extension` are ignored (RFC 5040 and 5041: not checked on receipt).
HeaderResult parse_header(std::span<const std::byte> header) noexcept;

/// ulpdu: all of it. Violations: as parse_header, and for a message of fixed size
/// ddp_untagged_too_long, or rdmap_stream_catastrophe when it is too short.
SegmentResult parse_segment(std::span<const std::byte> ulpdu) noexcept;

// Contents of untagged messages. encode_* return the bytes written, 0 when out is too small;
// parse_* return nothing for a content of another size or with a field that has no meaning.

inline constexpr std::size_t kReadRequestBytes = 28;
inline constexpr std::size_t kAtomicRequestBytes = 52;
inline constexpr std::size_t kAtomicResponseBytes = 12;
inline constexpr std::size_t kImmediateBytes = 8;
inline constexpr std::size_t kFlushRequestBytes = 28;
inline constexpr std::size_t kFlushResponseBytes = 8;
inline constexpr std::size_t kPresenceBytes = 48;

/// The size of the content if it is the same for every message of that opcode, else 0.
std::size_t fixed_content_bytes(RdmapOpcode opcode) noexcept;

struct ReadRequest {
    std::uint32_t sink_stag = 0;
    std::uint64_t sink_offset = 0;
    std::uint32_t length = 0;
    std::uint32_t source_stag = 0;
    std::uint64_t source_offset = 0;

    friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};
std::size_t encode(const ReadRequest& request, std::span<std::byte> out) noexcept;
std::optional<ReadRequest> parse_read_request(std::span<const std::byte> content) noexcept;

enum class AtomicOpcode : std::uint8_t { fetch_add = 0, compare_swap = 2 };

/// Plain operations: masks all ones for compare_swap; add_swap_mask 0 for fetch_add (a set bit is
/// the top bit of an independent sub-field).
struct AtomicRequest {
    AtomicOpcode operation = AtomicOpcode::fetch_add;
    std::uint32_t request_id = 0;
    std::uint32_t stag = 0;
    std::uint64_t offset = 0;
    std::uint64_t add_swap_data = 0;
    std::uint64_t add_swap_mask = 0;
    std::uint64_t compare_data = 0;
    std::uint64_t compare_mask = 0;

    friend bool operator==(const AtomicRequest&, const AtomicRequest&) = default;
};
std::size_t encode(const AtomicRequest& request, std::span<std::byte> out) noexcept;
std::optional<AtomicRequest> parse_atomic_request(std::span<const std::byte> content) noexcept;

struct AtomicResponse {
    std::uint32_t request_id = 0;
    std::uint64_t original = 0;

    friend bool operator==(const AtomicResponse&, const AtomicResponse&) = default;
};
std::size_t encode(const AtomicResponse& response, std::span<std::byte> out) noexcept;
std::optional<AtomicResponse> parse_atomic_response(std::span<const std::byte> content) noexcept;

/// Immediate Data is 8 bytes. A 32-bit immediate of verbs takes the first four of them (as NICs
/// that offer it do), the rest 0: immediate_of_verbs(); the bytes of imm_data go unchanged.
std::size_t encode_immediate(std::uint64_t data, std::span<std::byte> out) noexcept;
std::optional<std::uint64_t> parse_immediate(std::span<const std::byte> content) noexcept;
constexpr std::uint64_t immediate_of_verbs(std::uint32_t host_order) noexcept {
    return std::uint64_t{host_order} << 32;
}
constexpr std::uint32_t verbs_of_immediate(std::uint64_t data) noexcept {
    return static_cast<std::uint32_t>(data >> 32);
}

enum class FlushType : std::uint8_t { visibility = 0, persistent = 1 };

/// On the wire it has the shape of a Read Request, so that existing tools show its fields:
///   sink STag: request id | sink TO: length, 64 bits | length: type, the other bits 0 |
///   source STag and TO: the range.
struct FlushRequest {
    std::uint32_t request_id = 0;
    std::uint64_t length = 0;  ///< 0: the whole region of stag
    FlushType type = FlushType::visibility;
    std::uint32_t stag = 0;
    std::uint64_t offset = 0;

    friend bool operator==(const FlushRequest&, const FlushRequest&) = default;
};
std::size_t encode(const FlushRequest& request, std::span<std::byte> out) noexcept;
std::optional<FlushRequest> parse_flush_request(std::span<const std::byte> content) noexcept;

inline constexpr std::uint32_t kNoRequest = 0;  ///< no request has this id

struct FlushResponse {
    std::uint32_t request_id = 0;
    std::uint32_t status = 0;  ///< 0: done; else an errno of the responder

    friend bool operator==(const FlushResponse&, const FlushResponse&) = default;
};
std::size_t encode(const FlushResponse& response, std::span<std::byte> out) noexcept;
std::optional<FlushResponse> parse_flush_response(std::span<const std::byte> content) noexcept;

/// Everything in it is a claim: the receiver tries it out.
struct Presence {
    std::uint32_t process = 0;
    std::uint32_t descriptor = 0;     ///< of the export, in that process
    std::uint64_t inode = 0;          ///< of the export
    std::uint64_t nonce = 0;          ///< at the beginning of the export
    std::uint64_t nonce_address = 0;  ///< where that process has it, too
    std::uint32_t slot = 0;           ///< in the export, for this connection
    std::uint32_t epoch = 0;          ///< what the slot says while the connection stands
    std::uint32_t pd = 0;             ///< whose keys this connection may use
    std::uint32_t access = 0;         ///< the QP's rights

    friend bool operator==(const Presence&, const Presence&) = default;
};
std::size_t encode(const Presence& presence, std::span<std::byte> out) noexcept;
std::optional<Presence> parse_presence(std::span<const std::byte> content) noexcept;

}  // namespace compat::core::soft::wire
