// SPDX-License-Identifier: BSD-3-Clause
// One operation of a program, as a facade hands it to the engine; it becomes one or more work
// requests with one completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/model/types.hpp"

namespace compat::core {

/// The most local buffers, and the most remote ranges, that one operation may name.
constexpr std::size_t kMaxSegments = 16;

struct LocalBuffer {
    void* address = nullptr;
    std::uint64_t length = 0;
    std::uint32_t lkey = kUnregisteredLkey;
};

struct RemoteRange {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t rkey = 0;
};

enum class OpFlag : std::uint8_t {
    entry = 1,       ///< a success completion is wanted (errors always complete)
    inject = 2,      ///< the local buffers are the caller's again when the post returns
    more = 4,        ///< another post follows at once: the doorbell may wait for it
    fence = 8,       ///< starts when all earlier operations have completed
    commit = 16,     ///< writes: complete when the bytes are durable at the target
    solicited = 32,  ///< raises a solicited event at the target
    deliver = 64,    ///< writes: complete when the bytes are in place at the target
};
using OpFlags = Flags<OpFlag>;
constexpr OpFlags operator|(OpFlag left, OpFlag right) {
    return OpFlags(left) | right;
}

/// What a counter distinguishes.
enum class OpKind : std::uint8_t { send, write, read, count_ };

constexpr OpKind kind_of(Opcode opcode) noexcept {
    switch (opcode) {
        case Opcode::write:
        case Opcode::write_imm:
        case Opcode::atomic_write: return OpKind::write;
        case Opcode::read:
        case Opcode::atomic_cas:
        case Opcode::atomic_fadd: return OpKind::read;
        default: return OpKind::send;
    }
}

struct Operation {
    Opcode opcode = Opcode::send;
    OpFlags flags{};
    std::span<const LocalBuffer> local{};   ///< none of zero bytes; copied by the post
    std::span<const RemoteRange> remote{};  ///< as many bytes as local; one of zero bytes may stand
    std::uint64_t length = 0;               ///< bytes in all
    std::uint64_t imm = 0;
    std::uint64_t operand = 0;  ///< atomics, as in WorkRequest
    std::uint64_t compare = 0;
    void* context = nullptr;        ///< comes back in the completion
    std::uint64_t entry_flags = 0;  ///< likewise
};

/// An operation of one buffer and one range at most. Small enough to be handed on by value, and so
/// to stay in registers on its way to the device.
struct SingleOperation {
    Opcode opcode = Opcode::send;
    OpFlags flags{};
    bool has_remote = false;
    std::uint32_t rkey = 0;
    std::uint64_t remote_address = 0;
    LocalBuffer local{};  ///< of zero bytes: none
    std::uint64_t imm = 0;
    void* context = nullptr;
    std::uint64_t entry_flags = 0;
};

}  // namespace compat::core
