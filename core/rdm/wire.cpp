// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/wire.hpp"

#include <cstring>

namespace compat::core::rdm {
namespace {

constexpr std::uint32_t kMagic = 0x66637264;  // "fcrd"
constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kHostLength = 16;
constexpr std::uint8_t kIpv4 = 4;
constexpr std::uint8_t kIpv6 = 6;
constexpr std::byte kExtra{0x80};  // in the byte of the family

// At least what a connection needs to get on, at most what fits the arithmetic of permissions.
constexpr std::uint32_t kMinBuffers = 1;
constexpr std::uint32_t kMaxBuffers = 1U << 16;

template <class Number>
void put(std::byte* out, Number number) noexcept {
    for (std::size_t at = sizeof number; at-- != 0; number = static_cast<Number>(number >> 4 >> 4))
        out[at] = static_cast<std::byte>(number);
}

template <class Number>
Number get(const std::byte* in) noexcept {
    Number number = 0;
    for (std::size_t at = 0; at < sizeof number; ++at)
        number = static_cast<Number>(number << 4 << 4 | static_cast<Number>(in[at]));
    return number;
}

void put_name(const SocketAddress& name, std::byte* out) noexcept {
    put<std::uint16_t>(out + 2, name.port());
    if (name.family() == AF_INET6) {
        out[1] = std::byte{kIpv6};
        std::memcpy(out + 4, &reinterpret_cast<const sockaddr_in6*>(name.get())->sin6_addr,
                    sizeof(in6_addr));
    } else {
        out[1] = std::byte{kIpv4};
        std::memcpy(out + 4, &reinterpret_cast<const sockaddr_in*>(name.get())->sin_addr,
                    sizeof(in_addr));
    }
}

std::optional<SocketAddress> get_name(const std::byte* in) noexcept {
    sockaddr_storage storage{};
    socklen_t length = 0;
    const auto port = htons(get<std::uint16_t>(in + 2));
    const std::byte family = in[1] & ~kExtra;
    if (family == std::byte{kIpv6}) {
        auto& in6 = reinterpret_cast<sockaddr_in6&>(storage);
        in6.sin6_family = AF_INET6;
        in6.sin6_port = port;
        std::memcpy(&in6.sin6_addr, in + 4, sizeof in6.sin6_addr);
        length = sizeof in6;
    } else if (family == std::byte{kIpv4}) {
        auto& in4 = reinterpret_cast<sockaddr_in&>(storage);
        in4.sin_family = AF_INET;
        in4.sin_port = port;
        std::memcpy(&in4.sin_addr, in + 4, sizeof in4.sin_addr);
        length = sizeof in4;
    } else {
        return std::nullopt;
    }
    if (port == 0) return std::nullopt;
    const auto name = SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), length);
    return name ? std::optional(*name) : std::nullopt;
}

bool is_ours(std::span<const std::byte> bytes) noexcept {
    return get<std::uint32_t>(bytes.data()) == kMagic && bytes[4] == std::byte{kVersion};
}

bool is_buffer_count(std::uint32_t count) noexcept {
    return count >= kMinBuffers && count <= kMaxBuffers;
}

}  // namespace

// magic 4, version 1, family 1, port 2, host 16, instance 8, data 4, control 4, length 4,
// probe rkey 4, probe address 8
std::array<std::byte, kHelloLength> encode(const Hello& hello) noexcept {
    std::array<std::byte, kHelloLength> bytes{};
    std::byte* const out = bytes.data();
    put(out, kMagic);
    out[4] = std::byte{kVersion};
    put_name(hello.name, out + 4);
    if (hello.extra) out[5] |= kExtra;
    put(out + 8 + kHostLength, hello.instance);
    put(out + 32, hello.data_buffers);
    put(out + 36, hello.control_buffers);
    put(out + 40, hello.buffer_length);
    put(out + 44, hello.probe_rkey);
    put(out + 48, hello.probe_address);
    return bytes;
}

std::optional<Hello> parse_hello(std::span<const std::byte> bytes) noexcept {
    // InfiniBand pads private data with zeros.
    if (bytes.size() < kHelloLength || !is_ours(bytes)) return std::nullopt;
    const std::byte* const in = bytes.data();
    const auto name = get_name(in + 4);
    if (!name) return std::nullopt;
    const Hello hello{.name = *name,
                      .instance = get<std::uint64_t>(in + 8 + kHostLength),
                      .extra = (in[5] & kExtra) != std::byte{0},
                      .data_buffers = get<std::uint32_t>(in + 32),
                      .control_buffers = get<std::uint32_t>(in + 36),
                      .buffer_length = get<std::uint32_t>(in + 40),
                      .probe_rkey = get<std::uint32_t>(in + 44),
                      .probe_address = get<std::uint64_t>(in + 48)};
    const bool sane = is_buffer_count(hello.data_buffers) &&
                      is_buffer_count(hello.control_buffers) &&
                      hello.buffer_length >= kBufferLength;
    return sane ? std::optional(hello) : std::nullopt;
}

std::array<std::byte, kRefusalLength> encode(Refusal refusal) noexcept {
    std::array<std::byte, kRefusalLength> bytes{};
    put(bytes.data(), kMagic);
    bytes[4] = std::byte{kVersion};
    bytes[5] = static_cast<std::byte>(refusal);
    return bytes;
}

std::optional<Refusal> parse_refusal(std::span<const std::byte> bytes) noexcept {
    if (bytes.size() < kRefusalLength || !is_ours(bytes)) return std::nullopt;
    const auto refusal = static_cast<Refusal>(bytes[5]);
    return refusal < Refusal::count_ ? std::optional(refusal) : std::nullopt;
}

// kind 1, flags 1, sources 1, zero 1, data permit 4, control permit 4, id 4, tag 8, imm 8, length 8
void encode(const Header& header, std::span<std::byte, kHeaderLength> bytes) noexcept {
    std::byte* const out = bytes.data();
    out[0] = static_cast<std::byte>(header.kind);
    out[1] = static_cast<std::byte>(header.flags.bits());
    out[2] = static_cast<std::byte>(header.source_count);
    out[3] = std::byte{0};
    put(out + 4, header.data_permit);
    put(out + 8, header.control_permit);
    put(out + 12, header.id);
    put(out + 16, header.tag);
    put(out + 24, header.imm);
    put(out + 32, header.length);
}

std::optional<Header> parse_header(std::span<const std::byte> message) noexcept {
    if (message.size() < kHeaderLength || message.size() > kBufferLength) return std::nullopt;
    const std::byte* const in = message.data();
    const Header header{.kind = static_cast<MessageKind>(in[0]),
                        .flags = HeaderFlags(static_cast<std::uint8_t>(in[1])),
                        .source_count = static_cast<std::uint8_t>(in[2]),
                        .data_permit = get<std::uint32_t>(in + 4),
                        .control_permit = get<std::uint32_t>(in + 8),
                        .id = get<std::uint32_t>(in + 12),
                        .tag = get<std::uint64_t>(in + 16),
                        .imm = get<std::uint64_t>(in + 24),
                        .length = get<std::uint64_t>(in + 32)};
    const std::size_t rest = message.size() - kHeaderLength;
    switch (header.kind) {
        case MessageKind::eager:
            return header.length == rest ? std::optional(header) : std::nullopt;
        case MessageKind::rendezvous: break;
        case MessageKind::acknowledge:
        case MessageKind::permit:
        case MessageKind::written: return rest == 0 ? std::optional(header) : std::nullopt;
        default: return std::nullopt;
    }
    const std::size_t count = header.source_count;
    if (count == 0 || count > kMaxSegments || rest != count * kSourceLength) return std::nullopt;
    std::uint64_t left = header.length;
    for (std::size_t at = 0; at < count; ++at) {
        const std::uint64_t length = source_at(message, at).length;
        if (length == 0 || length > left) return std::nullopt;
        left -= length;
    }
    return left == 0 ? std::optional(header) : std::nullopt;
}

void encode_source(const RemoteRange& source, std::byte* out) noexcept {
    put(out, source.address);
    put(out + 8, source.length);
    put(out + 16, source.rkey);
}

RemoteRange source_at(std::span<const std::byte> message, std::size_t index) noexcept {
    const std::byte* const in = message.data() + kHeaderLength + index * kSourceLength;
    return {.address = get<std::uint64_t>(in),
            .length = get<std::uint64_t>(in + 8),
            .rkey = get<std::uint32_t>(in + 16)};
}

}  // namespace compat::core::rdm
