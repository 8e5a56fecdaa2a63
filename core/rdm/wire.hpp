// SPDX-License-Identifier: BSD-3-Clause
// What connectionless endpoints say to each other: the private data of connection requests and the
// headers of messages. Big-endian. Whatever a peer sends is checked here and nowhere else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/flags.hpp"
#include "core/base/socket_address.hpp"
#include "core/engine/operation.hpp"

namespace compat::core::rdm {

/// Of requests and of answers to them.
struct Hello {
    SocketAddress name;          ///< what the endpoint that sends it calls itself
    std::uint64_t instance = 0;  ///< drawn when that endpoint was opened
    bool extra = false;  ///< a request: come what may, the sender has no connection that stands
    std::uint32_t data_buffers = 0;     ///< posted for messages of the other side
    std::uint32_t control_buffers = 0;  ///< likewise, for acknowledgements
    std::uint32_t buffer_length = 0;    ///< bytes of each
    /// What may be read to see that earlier writes are in place; on devices whose completions say
    /// so it is of no use.
    std::uint32_t probe_rkey = 0;
    std::uint64_t probe_address = 0;
};
constexpr std::size_t kHelloLength = 56;  // a request's private data on InfiniBand

std::array<std::byte, kHelloLength> encode(const Hello& hello) noexcept;
std::optional<Hello> parse_hello(std::span<const std::byte> bytes) noexcept;

enum class Refusal : std::uint8_t {
    bad_request,  ///< another protocol, or another version of this one
    crossing,     ///< the receiver's own request survives
    connected,    ///< a connection to that endpoint stands
    unable,       ///< no memory or the like
    busy,         ///< too many connections that nothing has come over yet
    count_
};
constexpr std::size_t kRefusalLength = 8;
std::array<std::byte, kRefusalLength> encode(Refusal refusal) noexcept;
/// None: nobody of ours has answered.
std::optional<Refusal> parse_refusal(std::span<const std::byte> bytes) noexcept;

enum class MessageKind : std::uint8_t {
    eager,        ///< the bytes follow
    rendezvous,   ///< where to read the bytes follows
    acknowledge,  ///< of the message `id` of the receiver
    permit,       ///< only the permissions count
    written,      ///< a write before it has brought `length` bytes, and `imm` goes with them
    count_
};

enum class HeaderFlag : std::uint8_t {
    tagged = 1,
    data = 2,         ///< imm is valid
    acknowledge = 4,  ///< eager: wants an acknowledgement when it is received
    failed = 8,       ///< acknowledge: the bytes could not be read
};
using HeaderFlags = Flags<HeaderFlag>;

struct Header {
    MessageKind kind = MessageKind::permit;
    HeaderFlags flags{};
    std::uint8_t source_count = 0;     ///< rendezvous
    std::uint32_t data_permit = 0;     ///< how many messages the receiver may have sent in all
    std::uint32_t control_permit = 0;  ///< and acknowledgements; both wrap around
    std::uint32_t id = 0;
    std::uint64_t tag = 0;
    std::uint64_t imm = 0;
    std::uint64_t length = 0;  ///< bytes of the message
};
constexpr std::size_t kHeaderLength = 40;
constexpr std::size_t kSourceLength = 20;
constexpr std::size_t kEagerLength = 4096;  ///< the most bytes that follow a header
constexpr std::size_t kBufferLength = kHeaderLength + kEagerLength;
static_assert(kMaxSegments * kSourceLength <= kEagerLength);

void encode(const Header& header, std::span<std::byte, kHeaderLength> out) noexcept;
/// None unless the message is complete and makes sense: eager bytes as many as length says, sources
/// that add up to it.
std::optional<Header> parse_header(std::span<const std::byte> message) noexcept;

void encode_source(const RemoteRange& source, std::byte* out) noexcept;
/// Of a message that parse_header() has accepted, with the header.
RemoteRange source_at(std::span<const std::byte> message, std::size_t index) noexcept;

}  // namespace compat::core::rdm
