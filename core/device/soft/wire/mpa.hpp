// SPDX-License-Identifier: BSD-3-Clause
// MPA: the start-up frames (RFC 5044 section 7.1, RFC 6581) and the framing of FPDUs (RFC 5044
// section 4). Pure functions over bytes. Markers are not implemented: a peer that asks for them
// (StartFrame::markers) is to be rejected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace compat::core::soft::wire {

inline constexpr std::size_t kStartFrameBytes = 20;       ///< without private data
inline constexpr std::size_t kEnhancedBytes = 4;          ///< IRD/ORD words of RFC 6581
inline constexpr std::size_t kMaxStartPrivateData = 512;  ///< includes the enhanced bytes
inline constexpr std::size_t kMaxStartFrameBytes = kStartFrameBytes + kMaxStartPrivateData;
inline constexpr std::uint16_t kUnstatedDepth = 0x3FFF;  ///< "no statement" as IRD or ORD
inline constexpr std::uint8_t kEnhancedRevision = 2;     ///< the first with enhanced data

/// Reserved flag bits by which our own peers find each other: the request carries `offer`; our
/// responder takes it out and sets `accept`. A peer that echoes the flags (Linux siw) returns both
/// or only `offer`, so the reply must have `accept` and not `offer`.
inline constexpr std::uint8_t kExtensionOffer = 0x01;
inline constexpr std::uint8_t kExtensionAccept = 0x02;
inline constexpr std::uint8_t kExtensionMask = kExtensionOffer | kExtensionAccept;

struct StartFrame {
    bool reply = false;     ///< chooses the key
    bool markers = false;   ///< M: the sender wants markers in what it receives
    bool crc = false;       ///< C
    bool rejected = false;  ///< R; replies only
    std::uint8_t revision = kEnhancedRevision;
    std::uint8_t extension = 0;  ///< raw, kExtensionOffer | kExtensionAccept
    bool enhanced = false;       ///< S: the five fields below are on the wire (revision 2 only)
    bool peer_to_peer = false;   ///< A: the initiator sends a ready-to-receive message first
    bool rtr_send = false;       ///< B: it may be a zero-length Send
    bool rtr_write = false;      ///< C: it may be a zero-length Write
    bool rtr_read = false;       ///< D: it may be a zero-length Read
    std::uint16_t ird = kUnstatedDepth;  ///< 14 bits: inbound reads that the sender takes
    std::uint16_t ord = kUnstatedDepth;  ///< 14 bits: reads that the sender will have outstanding
    std::span<const std::byte> private_data{};  ///< the user's: without the enhanced bytes
};

enum class Parse : std::uint8_t { complete, need_more, malformed };

struct StartFrameResult {
    Parse status = Parse::need_more;
    std::size_t consumed = 0;      ///< bytes of the frame when complete, else 0
    StartFrame frame;              ///< valid when complete; private_data points into the input
    const char* reason = nullptr;  ///< for the log when malformed
};

/// Takes any prefix of what a peer sent. Malformed as soon as a byte that is there is wrong: key,
/// revision other than 1 or 2, more private data than 512, S with fewer than 4 bytes of it.
/// Unknown reserved flags are ignored, so are R in a request and S in revision 1, as RFC 5044 says.
/// Bytes behind the frame are not looked at; before the reply there must be none (consumed).
StartFrameResult parse_start_frame(std::span<const std::byte> input, bool expect_reply) noexcept;

/// Returns the bytes written; 0 when out is too small or the frame cannot be expressed: too much
/// private data, depth beyond 14 bits, enhanced in revision 1.
std::size_t encode_start_frame(const StartFrame& frame, std::span<std::byte> out) noexcept;

/// Our responder said yes to our request's kExtensionOffer: own_extensions(reply.extension).
constexpr bool own_extensions(std::uint8_t reply_extension) noexcept {
    return (reply_extension & kExtensionMask) == kExtensionAccept;
}

// FPDU: 2 bytes ULPDU length | ULPDU | 0 to 3 bytes 0 | 4 bytes CRC. The CRC field is always there
// and 0 when no CRC was agreed; it covers everything before it.
inline constexpr std::size_t kFpduLengthBytes = 2;
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kMaxUlpduBytes = 0xFFFF;

constexpr std::size_t fpdu_padding(std::size_t ulpdu_length) noexcept {
    return (0 - (kFpduLengthBytes + ulpdu_length)) % 4;
}
constexpr std::size_t fpdu_bytes(std::size_t ulpdu_length) noexcept {
    return kFpduLengthBytes + ulpdu_length + fpdu_padding(ulpdu_length) + kCrcBytes;
}
inline constexpr std::size_t kMaxFpduBytes = fpdu_bytes(kMaxUlpduBytes);

/// The longest ULPDU whose FPDU fits into `bytes` (a TCP segment, a buffer); 0 when none does.
constexpr std::size_t fitting_ulpdu(std::size_t bytes) noexcept {
    const std::size_t whole = bytes / 4 * 4;
    if (whole < fpdu_bytes(0)) return 0;
    const std::size_t ulpdu = whole - kFpduLengthBytes - kCrcBytes;
    return ulpdu < kMaxUlpduBytes ? ulpdu : kMaxUlpduBytes;
}

void encode_fpdu_length(std::uint16_t ulpdu_length,
                        std::span<std::byte, kFpduLengthBytes> out) noexcept;
std::uint16_t decode_fpdu_length(std::span<const std::byte, kFpduLengthBytes> in) noexcept;

/// Least significant byte first, unlike everything else.
void encode_crc(std::uint32_t crc, std::span<std::byte, kCrcBytes> out) noexcept;
std::uint32_t decode_crc(std::span<const std::byte, kCrcBytes> in) noexcept;

/// crc: of length field, ULPDU and padding.
bool crc_matches(std::uint32_t crc, std::span<const std::byte, kCrcBytes> received) noexcept;
/// covered: length field, ULPDU and padding.
bool crc_matches(std::span<const std::byte> covered,
                 std::span<const std::byte, kCrcBytes> received) noexcept;

/// Makes an FPDU of a buffer whose ULPDU is already in place behind 2 free bytes: fills in length,
/// padding and CRC (0 without with_crc). Returns its size; 0 when buffer is shorter than
/// fpdu_bytes(ulpdu_length) or the ULPDU is too long.
std::size_t seal_fpdu(std::span<std::byte> buffer, std::size_t ulpdu_length,
                      bool with_crc) noexcept;

struct FpduResult {
    Parse status = Parse::need_more;        ///< malformed: the CRC is wrong
    std::size_t consumed = 0;               ///< bytes of the FPDU when complete, else 0
    std::size_t needed = kFpduLengthBytes;  ///< bytes of input that the next step wants
    std::span<const std::byte> ulpdu;       ///< when complete; points into the input
};

/// Takes the FPDU at the front of the input, whole or not.
FpduResult parse_fpdu(std::span<const std::byte> input, bool check_crc) noexcept;

}  // namespace compat::core::soft::wire
