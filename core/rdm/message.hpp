// SPDX-License-Identifier: BSD-3-Clause
// Messages of connectionless endpoints, as a facade hands them to the engine.
#pragma once

#include <cstdint>
#include <span>

#include "core/engine/operation.hpp"
#include "core/rdm/address_book.hpp"

namespace compat::core {

enum class MessageFlag : std::uint8_t {
    entry = 1,       ///< a success completion is wanted (errors always complete)
    inject = 2,      ///< the local buffers are the caller's again when the post returns
    tagged = 4,      ///< for a tagged receive
    data = 8,        ///< Message::imm goes along
    delivered = 16,  ///< complete when a receive of the peer has the bytes
    fence = 32,      ///< starts when all earlier operations to the peer have completed
};
using MessageFlags = Flags<MessageFlag>;
constexpr MessageFlags operator|(MessageFlag left, MessageFlag right) {
    return MessageFlags(left) | right;
}

struct Message {
    MessageFlags flags{};
    std::span<const LocalBuffer> local{};  ///< none of zero bytes; copied by the post
    std::uint64_t length = 0;              ///< bytes in all
    std::uint64_t tag = 0;
    std::uint64_t imm = 0;          ///< 8 bytes on every device
    void* context = nullptr;        ///< comes back in the completion
    std::uint64_t entry_flags = 0;  ///< likewise; not UINT64_MAX
};

/// What a receive, or a look, accepts.
struct MessageMatch {
    bool tagged = false;
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;        ///< bits of the tag that do not count
    AddressIndex from = kNoAddress;  ///< kNoAddress: anybody
};

struct MessageReceive {
    MessageMatch match{};
    std::span<const LocalBuffer> local{};  ///< none of zero bytes; copied by the post
    void* context = nullptr;
    std::uint64_t entry_flags = 0;
    bool entry = true;      ///< a success completion is wanted
    bool multiple = false;  ///< one buffer for several messages
};

/// A look at the messages that came before a receive. Its completion has the length, the tag, the
/// data and the peer of the message, or WcStatus::no_message.
struct MessagePeek {
    MessageMatch match{};
    void* context = nullptr;
    std::uint64_t entry_flags = 0;
    bool claim = false;    ///< the message is kept for take_claimed() with that context
    bool discard = false;  ///< the message is dropped
};

}  // namespace compat::core
