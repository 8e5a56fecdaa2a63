// SPDX-License-Identifier: BSD-3-Clause
// The Terminate message: the last words of a stream (RFC 5040 section 4.8).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace compat::core::soft::wire {

struct TerminateCode {
    std::uint8_t layer;  ///< 4 bits
    std::uint8_t type;   ///< 4 bits; its meaning depends on the layer
    std::uint8_t code;   ///< its meaning depends on layer and type

    friend constexpr bool operator==(const TerminateCode&, const TerminateCode&) = default;
};

inline constexpr std::uint8_t kLayerRdmap = 0;
inline constexpr std::uint8_t kLayerDdp = 1;
inline constexpr std::uint8_t kLayerLlp = 2;

inline constexpr std::uint8_t kTypeLocalCatastrophic = 0;  // RDMAP and DDP
inline constexpr std::uint8_t kTypeRemoteProtection = 1;   // RDMAP
inline constexpr std::uint8_t kTypeRemoteOperation = 2;    // RDMAP
inline constexpr std::uint8_t kTypeTaggedBuffer = 1;       // DDP
inline constexpr std::uint8_t kTypeUntaggedBuffer = 2;     // DDP
inline constexpr std::uint8_t kTypeMpa = 0;                // LLP

/// Every code that RFC 5040, 5041, 5044 and 6581 define: name, layer, type, code, text.
/// Names say where the fault was found: rdmap_*, ddp_tagged_*, ddp_untagged_*, mpa_*.
#define COMPAT_TERMINATE_CODES(X)                                                                \
    X(rdmap_local_catastrophic, kLayerRdmap, kTypeLocalCatastrophic, 0x00, "local catastrophe")  \
    X(rdmap_invalid_stag, kLayerRdmap, kTypeRemoteProtection, 0x00, "invalid stag")              \
    X(rdmap_bounds, kLayerRdmap, kTypeRemoteProtection, 0x01, "base or bounds violation")        \
    X(rdmap_access, kLayerRdmap, kTypeRemoteProtection, 0x02, "access rights violation")         \
    X(rdmap_foreign_stag, kLayerRdmap, kTypeRemoteProtection, 0x03, "stag of another stream")    \
    X(rdmap_offset_wrap, kLayerRdmap, kTypeRemoteProtection, 0x04, "tagged offset wraps")        \
    X(rdmap_cannot_invalidate, kLayerRdmap, kTypeRemoteProtection, 0x09, "cannot invalidate")    \
    X(rdmap_protection, kLayerRdmap, kTypeRemoteProtection, 0xff, "remote protection error")     \
    X(rdmap_version, kLayerRdmap, kTypeRemoteOperation, 0x05, "rdmap version")                   \
    X(rdmap_opcode, kLayerRdmap, kTypeRemoteOperation, 0x06, "unexpected opcode")                \
    X(rdmap_stream_catastrophe, kLayerRdmap, kTypeRemoteOperation, 0x07, "stream catastrophe")   \
    X(rdmap_global_catastrophe, kLayerRdmap, kTypeRemoteOperation, 0x08, "global catastrophe")   \
    X(rdmap_operation_cannot_invalidate, kLayerRdmap, kTypeRemoteOperation, 0x09,                \
      "stag cannot be invalidated")                                                              \
    X(rdmap_operation, kLayerRdmap, kTypeRemoteOperation, 0xff, "remote operation error")        \
    X(ddp_local_catastrophic, kLayerDdp, kTypeLocalCatastrophic, 0x00, "local catastrophe")      \
    X(ddp_tagged_invalid_stag, kLayerDdp, kTypeTaggedBuffer, 0x00, "invalid stag")               \
    X(ddp_tagged_bounds, kLayerDdp, kTypeTaggedBuffer, 0x01, "base or bounds violation")         \
    X(ddp_tagged_foreign_stag, kLayerDdp, kTypeTaggedBuffer, 0x02, "stag of another stream")     \
    X(ddp_tagged_offset_wrap, kLayerDdp, kTypeTaggedBuffer, 0x03, "tagged offset wraps")         \
    X(ddp_tagged_version, kLayerDdp, kTypeTaggedBuffer, 0x04, "ddp version")                     \
    X(ddp_untagged_queue, kLayerDdp, kTypeUntaggedBuffer, 0x01, "invalid queue number")          \
    X(ddp_untagged_no_buffer, kLayerDdp, kTypeUntaggedBuffer, 0x02, "no buffer for the message") \
    X(ddp_untagged_msn, kLayerDdp, kTypeUntaggedBuffer, 0x03, "message number out of range")     \
    X(ddp_untagged_offset, kLayerDdp, kTypeUntaggedBuffer, 0x04, "invalid message offset")       \
    X(ddp_untagged_too_long, kLayerDdp, kTypeUntaggedBuffer, 0x05, "message too long")           \
    X(ddp_untagged_version, kLayerDdp, kTypeUntaggedBuffer, 0x06, "ddp version")                 \
    X(mpa_tcp_lost, kLayerLlp, kTypeMpa, 0x01, "tcp connection lost")                            \
    X(mpa_crc, kLayerLlp, kTypeMpa, 0x02, "crc error")                                           \
    X(mpa_length, kLayerLlp, kTypeMpa, 0x03, "marker or length mismatch")                        \
    X(mpa_start_frame, kLayerLlp, kTypeMpa, 0x04, "bad start-up frame")                          \
    X(mpa_local, kLayerLlp, kTypeMpa, 0x05, "local catastrophe")                                 \
    X(mpa_ird_too_small, kLayerLlp, kTypeMpa, 0x06, "inbound read depth too small")              \
    X(mpa_no_rtr, kLayerLlp, kTypeMpa, 0x07, "no common ready-to-receive message")

namespace terminate {
#define COMPAT_DEFINE_CODE(name, layer, type, code, text) \
    inline constexpr TerminateCode name{layer, type, code};
COMPAT_TERMINATE_CODES(COMPAT_DEFINE_CODE)
#undef COMPAT_DEFINE_CODE
}  // namespace terminate

/// Words for a log line; "unknown terminate code" for what is not in the table.
const char* terminate_text(TerminateCode code) noexcept;

inline constexpr std::size_t kTerminateControlBytes = 4;
inline constexpr std::size_t kTerminateReadHeaderBytes = 28;
/// Control, segment length, the longest DDP header, a read request, our message count.
inline constexpr std::size_t kMaxTerminateBytes =
    kTerminateControlBytes + 2 + 18 + kTerminateReadHeaderBytes + 4;

/// The content of a Terminate (what follows its DDP header).
struct Terminate {
    TerminateCode code{};
    bool has_length = false;
    std::uint16_t ddp_length = 0;  ///< the offending segment, its DDP header included
    bool has_ddp_header = false;
    std::array<std::byte, 18> ddp_header{};  ///< the offender's; 14 bytes of it when tagged
    bool has_rdmap_header = false;           ///< never without has_ddp_header
    std::array<std::byte, kTerminateReadHeaderBytes> rdmap_header{};
    /// Extension, last in the content and only between our own peers: how many messages of the
    /// other direction the sender of the Terminate had taken before the offender. Lets the
    /// initiator name the failing work request exactly. Every message counts one: a Write (all its
    /// segments), a Send, an Immediate, a request of any kind, a response of any kind.
    bool has_message_count = false;
    std::uint32_t message_count = 0;

    /// 14 or 18, from the first byte of ddp_header.
    [[nodiscard]] std::size_t ddp_header_bytes() const noexcept;
};

/// Standard form (big-endian control word). Returns the bytes written; 0 when out is too small,
/// kMaxTerminateBytes always suffices.
std::size_t encode_terminate(const Terminate& message, std::span<std::byte> out) noexcept;

/// Takes the standard form and that of Linux siw, which swaps the nibbles of byte 0 and puts M, D
/// and R at the other end of byte 2. Nothing but the control word is required: a Terminate ends the
/// stream whatever else it holds, so optional parts that are cut short read as absent.
/// own_peer: the peer is one of ours, four bytes behind the standard content are message_count.
/// Returns nothing for fewer than 4 bytes.
std::optional<Terminate> parse_terminate(std::span<const std::byte> content,
                                         bool own_peer) noexcept;

}  // namespace compat::core::soft::wire
