// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/wire/terminate.hpp"

#include <algorithm>

#include "core/device/soft/wire/bytes.hpp"
#include "core/device/soft/wire/ddp.hpp"

namespace compat::core::soft::wire {
namespace {

using Input = std::span<const std::byte>;

struct CodeRow {
    TerminateCode code;
    const char* text;
};
constexpr CodeRow kCodes[] = {
#define COMPAT_CODE_ROW(name, layer, type, code, text) {{layer, type, code}, text},
    COMPAT_TERMINATE_CODES(COMPAT_CODE_ROW)
#undef COMPAT_CODE_ROW
};

const CodeRow* find_row(TerminateCode code) noexcept {
    const auto* row = std::find_if(std::begin(kCodes), std::end(kCodes),
                                   [&](const CodeRow& each) { return each.code == code; });
    return row == std::end(kCodes) ? nullptr : row;
}

// Third byte of the control word: what follows it.
struct Parts {
    bool length;
    bool ddp_header;
    bool rdmap_header;
};
constexpr unsigned kLengthBit = 0x80;  // M
constexpr unsigned kDdpBit = 0x40;     // D
constexpr unsigned kRdmapBit = 0x20;   // R
// Linux siw declares the control word as C bit fields without regard to byte order.
constexpr unsigned kSwappedLengthBit = 0x01;
constexpr unsigned kSwappedDdpBit = 0x02;
constexpr unsigned kSwappedRdmapBit = 0x04;
constexpr unsigned kSwappedBits = kSwappedLengthBit | kSwappedDdpBit | kSwappedRdmapBit;

constexpr unsigned kStandardBits = kLengthBit | kDdpBit | kRdmapBit;

// The bits of the parts tell the forms apart. Without parts the code does, by whether the table
// knows it; one value is ambiguous and read as standard: siw's "unexpected opcode" looks like
// "inbound read depth too small".
bool is_swapped(TerminateCode as_sent, TerminateCode swapped, unsigned parts) noexcept {
    if ((parts & kStandardBits) != 0) return false;
    if ((parts & kSwappedBits) != 0) return true;
    return find_row(as_sent) == nullptr && find_row(swapped) != nullptr;
}

Parts read_control(Input control, TerminateCode& code) noexcept {
    const auto first = std::to_integer<unsigned>(control[0]);
    const auto high = static_cast<std::uint8_t>(first >> 4);
    const auto low = static_cast<std::uint8_t>(first & 0x0F);
    const auto last = std::to_integer<std::uint8_t>(control[1]);
    const auto parts = std::to_integer<unsigned>(control[2]);
    const TerminateCode as_sent{high, low, last};
    const TerminateCode swapped{low, high, last};
    if (is_swapped(as_sent, swapped, parts)) {
        code = swapped;
        return {(parts & kSwappedLengthBit) != 0, (parts & kSwappedDdpBit) != 0,
                (parts & kSwappedRdmapBit) != 0};
    }
    code = as_sent;
    return {(parts & kLengthBit) != 0, (parts & kDdpBit) != 0, (parts & kRdmapBit) != 0};
}

// Takes the front of the input when it is long enough.
bool take(Input& input, std::span<std::byte> out) noexcept {
    if (input.size() < out.size()) return false;
    std::copy_n(input.begin(), out.size(), out.begin());
    input = input.subspan(out.size());
    return true;
}

// Appends and moves on; the caller has checked the space.
void put(std::span<std::byte>& out, Input bytes) noexcept {
    std::copy(bytes.begin(), bytes.end(), out.begin());
    out = out.subspan(bytes.size());
}

template <class Integer>
void put_be(std::span<std::byte>& out, Integer value) noexcept {
    store_be(out.data(), value);
    out = out.subspan(sizeof(value));
}

}  // namespace

const char* terminate_text(TerminateCode code) noexcept {
    const CodeRow* row = find_row(code);
    return row != nullptr ? row->text : "unknown terminate code";
}

std::size_t Terminate::ddp_header_bytes() const noexcept {
    return header_bytes(ddp_header[0]);
}

std::size_t encode_terminate(const Terminate& message, std::span<std::byte> out) noexcept {
    const bool with_rdmap_header = message.has_ddp_header && message.has_rdmap_header;
    const std::size_t size = kTerminateControlBytes + (message.has_length ? 2U : 0U) +
                             (message.has_ddp_header ? message.ddp_header_bytes() : 0U) +
                             (with_rdmap_header ? message.rdmap_header.size() : 0U) +
                             (message.has_message_count ? 4U : 0U);
    if (out.size() < size) return 0;
    const auto layer_and_type =
        static_cast<std::uint8_t>(message.code.layer << 4 | (message.code.type & 0x0F));
    put_be(out, layer_and_type);
    put_be(out, message.code.code);
    const unsigned parts = (message.has_length ? kLengthBit : 0U) |
                           (message.has_ddp_header ? kDdpBit : 0U) |
                           (with_rdmap_header ? kRdmapBit : 0U);
    put_be(out, static_cast<std::uint16_t>(parts << 8));
    if (message.has_length) put_be(out, message.ddp_length);
    if (message.has_ddp_header)
        put(out, Input(message.ddp_header).first(message.ddp_header_bytes()));
    if (with_rdmap_header) put(out, message.rdmap_header);
    if (message.has_message_count) put_be(out, message.message_count);
    return size;
}

std::optional<Terminate> parse_terminate(Input content, bool own_peer) noexcept {
    if (content.size() < kTerminateControlBytes) return std::nullopt;
    Terminate message;
    const Parts parts = read_control(content, message.code);
    Input rest = content.subspan(kTerminateControlBytes);

    std::array<std::byte, 2> length{};
    message.has_length = parts.length && take(rest, length);
    message.ddp_length = load_be<std::uint16_t>(length.data());
    if (parts.length && !message.has_length) return message;

    if (parts.ddp_header) {
        if (rest.empty()) return message;
        const std::span header = message.ddp_header;
        message.has_ddp_header = take(rest, header.first(header_bytes(rest.front())));
        if (!message.has_ddp_header) return message;
        message.has_rdmap_header = parts.rdmap_header && take(rest, message.rdmap_header);
        if (parts.rdmap_header && !message.has_rdmap_header) return message;
    }
    std::array<std::byte, 4> count{};
    message.has_message_count = own_peer && take(rest, count);
    message.message_count = load_be<std::uint32_t>(count.data());
    return message;
}

}  // namespace compat::core::soft::wire
