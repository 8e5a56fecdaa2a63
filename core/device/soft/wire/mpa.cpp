// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/wire/mpa.hpp"

#include <algorithm>
#include <string_view>

#include "core/device/soft/wire/bytes.hpp"
#include "core/device/soft/wire/crc32c.hpp"

namespace compat::core::soft::wire {
namespace {

using Input = std::span<const std::byte>;

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
static_assert(kRequestKey.size() == 16 && kReplyKey.size() == 16);

constexpr std::size_t kFlagsAt = 16;
constexpr std::size_t kRevisionAt = 17;
constexpr std::size_t kLengthAt = 18;

constexpr unsigned kMarkersFlag = 0x80;   // M
constexpr unsigned kCrcFlag = 0x40;       // C
constexpr unsigned kRejectedFlag = 0x20;  // R
constexpr unsigned kEnhancedFlag = 0x10;  // S

// The two enhanced words: two flags above a 14-bit depth each.
constexpr unsigned kHighFlag = 0x8000;  // A in the first word, C in the second
constexpr unsigned kLowFlag = 0x4000;   // B and D

Input key_of(bool reply) noexcept {
    const std::string_view key = reply ? kReplyKey : kRequestKey;
    return std::as_bytes(std::span(key));
}

bool key_is_right_so_far(Input input, bool reply) noexcept {
    const Input key = key_of(reply);
    const std::size_t present = std::min(input.size(), key.size());
    return std::equal(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(present),
                      input.begin());
}

StartFrameResult malformed(const char* reason) noexcept {
    StartFrameResult result;
    result.status = Parse::malformed;
    result.reason = reason;
    return result;
}

void read_enhanced(Input bytes, StartFrame& frame) noexcept {
    const auto first = load_be<std::uint16_t>(bytes.data());
    const auto second = load_be<std::uint16_t>(bytes.data() + 2);
    frame.peer_to_peer = (first & kHighFlag) != 0;
    frame.rtr_send = (first & kLowFlag) != 0;
    frame.ird = first & kUnstatedDepth;
    frame.rtr_write = (second & kHighFlag) != 0;
    frame.rtr_read = (second & kLowFlag) != 0;
    frame.ord = second & kUnstatedDepth;
}

void write_enhanced(const StartFrame& frame, std::byte* out) noexcept {
    const unsigned first =
        (frame.peer_to_peer ? kHighFlag : 0U) | (frame.rtr_send ? kLowFlag : 0U) | frame.ird;
    const unsigned second =
        (frame.rtr_write ? kHighFlag : 0U) | (frame.rtr_read ? kLowFlag : 0U) | frame.ord;
    store_be(out, static_cast<std::uint16_t>(first));
    store_be(out + 2, static_cast<std::uint16_t>(second));
}

std::byte flags_of(const StartFrame& frame) noexcept {
    const unsigned flags = (frame.markers ? kMarkersFlag : 0U) | (frame.crc ? kCrcFlag : 0U) |
                           (frame.rejected ? kRejectedFlag : 0U) |
                           (frame.enhanced ? kEnhancedFlag : 0U) |
                           (frame.extension & unsigned{kExtensionMask});
    return static_cast<std::byte>(flags);
}

}  // namespace

StartFrameResult parse_start_frame(Input input, bool expect_reply) noexcept {
    if (!key_is_right_so_far(input, expect_reply)) return malformed("not an mpa start-up frame");
    if (input.size() <= kRevisionAt) return {};
    StartFrame frame;
    frame.reply = expect_reply;
    frame.revision = std::to_integer<std::uint8_t>(input[kRevisionAt]);
    if (frame.revision < 1 || frame.revision > kEnhancedRevision)
        return malformed("unknown mpa revision");
    if (input.size() < kStartFrameBytes) return {};
    const auto flags = std::to_integer<unsigned>(input[kFlagsAt]);
    frame.markers = (flags & kMarkersFlag) != 0;
    frame.crc = (flags & kCrcFlag) != 0;
    frame.rejected = expect_reply && (flags & kRejectedFlag) != 0;
    frame.enhanced = frame.revision >= kEnhancedRevision && (flags & kEnhancedFlag) != 0;
    frame.extension = static_cast<std::uint8_t>(flags & kExtensionMask);

    const std::size_t length = load_be<std::uint16_t>(input.data() + kLengthAt);
    if (length > kMaxStartPrivateData) return malformed("too much private data");
    if (frame.enhanced && length < kEnhancedBytes) return malformed("enhanced data cut short");
    if (input.size() < kStartFrameBytes + length) return {};
    frame.private_data = input.subspan(kStartFrameBytes, length);
    if (frame.enhanced) {
        read_enhanced(frame.private_data, frame);
        frame.private_data = frame.private_data.subspan(kEnhancedBytes);
    }
    return {Parse::complete, kStartFrameBytes + length, frame, nullptr};
}

std::size_t encode_start_frame(const StartFrame& frame, std::span<std::byte> out) noexcept {
    const std::size_t enhanced_bytes = frame.enhanced ? kEnhancedBytes : 0;
    if (frame.private_data.size() > kMaxStartPrivateData - enhanced_bytes) return 0;
    const std::size_t length = enhanced_bytes + frame.private_data.size();
    if (out.size() < kStartFrameBytes + length) return 0;
    if (frame.enhanced && frame.revision < kEnhancedRevision) return 0;
    if (frame.ird > kUnstatedDepth || frame.ord > kUnstatedDepth) return 0;

    const Input key = key_of(frame.reply);
    std::copy(key.begin(), key.end(), out.begin());
    out[kFlagsAt] = flags_of(frame);
    out[kRevisionAt] = std::byte{frame.revision};
    store_be(out.data() + kLengthAt, static_cast<std::uint16_t>(length));
    if (frame.enhanced) write_enhanced(frame, out.data() + kStartFrameBytes);
    std::copy(frame.private_data.begin(), frame.private_data.end(),
              out.subspan(kStartFrameBytes + enhanced_bytes).begin());
    return kStartFrameBytes + length;
}

void encode_fpdu_length(std::uint16_t ulpdu_length,
                        std::span<std::byte, kFpduLengthBytes> out) noexcept {
    store_be(out.data(), ulpdu_length);
}

std::uint16_t decode_fpdu_length(std::span<const std::byte, kFpduLengthBytes> in) noexcept {
    return load_be<std::uint16_t>(in.data());
}

void encode_crc(std::uint32_t crc, std::span<std::byte, kCrcBytes> out) noexcept {
    store_be(out.data(), __builtin_bswap32(crc));
}

std::uint32_t decode_crc(std::span<const std::byte, kCrcBytes> in) noexcept {
    return __builtin_bswap32(load_be<std::uint32_t>(in.data()));
}

bool crc_matches(std::uint32_t crc, std::span<const std::byte, kCrcBytes> received) noexcept {
    return crc == decode_crc(received);
}

bool crc_matches(Input covered, std::span<const std::byte, kCrcBytes> received) noexcept {
    return crc_matches(crc32c(covered), received);
}

std::size_t seal_fpdu(std::span<std::byte> buffer, std::size_t ulpdu_length,
                      bool with_crc) noexcept {
    if (ulpdu_length > kMaxUlpduBytes || buffer.size() < fpdu_bytes(ulpdu_length)) return 0;
    encode_fpdu_length(static_cast<std::uint16_t>(ulpdu_length), buffer.first<kFpduLengthBytes>());
    const std::size_t content = kFpduLengthBytes + ulpdu_length;
    const std::size_t covered = content + fpdu_padding(ulpdu_length);
    std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(content),
              buffer.begin() + static_cast<std::ptrdiff_t>(covered), std::byte{0});
    encode_crc(with_crc ? crc32c(buffer.first(covered)) : 0,
               buffer.subspan(covered).first<kCrcBytes>());
    return covered + kCrcBytes;
}

FpduResult parse_fpdu(Input input, bool check_crc) noexcept {
    FpduResult result;
    if (input.size() < kFpduLengthBytes) return result;
    const std::size_t ulpdu_length = decode_fpdu_length(input.first<kFpduLengthBytes>());
    result.needed = fpdu_bytes(ulpdu_length);
    if (input.size() < result.needed) return result;
    const std::size_t covered = result.needed - kCrcBytes;
    if (check_crc &&
        !crc_matches(input.first(covered), input.subspan(covered).first<kCrcBytes>())) {
        result.status = Parse::malformed;
        return result;
    }
    result.status = Parse::complete;
    result.consumed = result.needed;
    result.ulpdu = input.subspan(kFpduLengthBytes, ulpdu_length);
    return result;
}

}  // namespace compat::core::soft::wire
