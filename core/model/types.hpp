// SPDX-License-Identifier: BSD-3-Clause
// The vocabulary of RDMA verbs as plain values: what is posted and what comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/flags.hpp"
#include "core/base/statistics.hpp"

namespace compat::core {

/// What a send work request does: those of ibv_wr_opcode by its numbers, so that nobody has to look
/// them up, then the flush and atomic write of IBTA A19.4.
enum class Opcode : std::uint8_t {
    write,
    write_imm,
    send,
    send_imm,
    read,
    atomic_cas,    ///< 8 bytes, aligned; the old value goes to the local SGE
    atomic_fadd,   ///< 8 bytes, aligned; the old value goes to the local SGE
    atomic_write,  ///< 8 bytes, aligned, never torn at the target
    flush,
    count_
};

/// What a completion was (ibv_wc_opcode). Undefined on an error completion.
enum class WcOpcode : std::uint8_t {
    send,
    write,
    read,
    compare_swap,
    fetch_add,
    atomic_write,
    flush,
    receive,
    receive_write_imm,  ///< IBV_WC_RECV_RDMA_WITH_IMM
    count_
};

/// ibv_wc_status; one row a status in both facades' tables.
enum class WcStatus : std::uint8_t {
    success,
    local_length_error,
    local_qp_operation_error,
    local_protection_error,
    flushed,
    remote_invalid_request,
    remote_access_error,
    remote_operation_error,
    retry_exceeded,      ///< the peer is gone
    rnr_retry_exceeded,  ///< the peer posted no receive in time
    fatal,
    general_error,
    no_message,  ///< of the engine, never of a device: a look found none
    count_
};

/// The ibv_wc_status_str(3) of ours: a static English text.
const char* wc_status_text(WcStatus status) noexcept;

/// ibv_send_flags, by its numbers.
enum class SendFlag : std::uint8_t {
    fence = 1,      ///< wait for the earlier reads and atomics of this QP
    signaled = 2,   ///< a success completion is wanted (errors always complete)
    solicited = 4,  ///< raises a solicited event at the target
    inlined = 8,    ///< the bytes are copied during the post; lkeys are not looked at
};
using SendFlags = Flags<SendFlag>;
constexpr SendFlags operator|(SendFlag left, SendFlag right) {
    return SendFlags(left) | right;
}

enum class Access : std::uint8_t {
    local_write = 1,
    remote_write = 2,
    remote_read = 4,
    remote_atomic = 8,
    flush_visible = 16,     ///< IBV_ACCESS_FLUSH_GLOBAL
    flush_persistent = 32,  ///< IBV_ACCESS_FLUSH_PERSISTENT
    on_demand = 64,         ///< IBV_ACCESS_ON_DEMAND
    /// Of a region that peers may read, and of a QP: together they allow reads that remote_read
    /// alone would have to allow at the QP, too. For what the engine itself lets peers read.
    read_source = 128,
};
using AccessFlags = Flags<Access>;
constexpr AccessFlags operator|(Access left, Access right) {
    return AccessFlags(left) | right;
}

/// What a QP can forbid its peer.
constexpr AccessFlags kRemoteAccess =
    Access::remote_write | Access::remote_read | Access::remote_atomic;

/// Whether a peer may use a region that has the right through a QP.
constexpr bool qp_allows(AccessFlags qp, AccessFlags region, Access right) noexcept {
    if (!kRemoteAccess.has(right) || qp.has(right)) return true;
    return right == Access::remote_read && qp.has(Access::read_source) &&
           region.has(Access::read_source);
}

enum class FlushType : std::uint8_t { visibility, persistent };

/// An lkey for memory that is not registered. Only for devices with Limits::unregistered_local.
constexpr std::uint32_t kUnregisteredLkey = 0;

/// Local memory; length in bytes.
struct Sge {
    void* address = nullptr;
    std::uint32_t length = 0;
    std::uint32_t lkey = kUnregisteredLkey;
};

constexpr std::uint64_t total_length(std::span<const Sge> sges) noexcept {
    std::uint64_t total = 0;
    for (const Sge& sge : sges) total += sge.length;
    return total;
}

/// A send work request. The object is copied by the post; the buffers stay the device's until the
/// completion is reaped (but for SendFlag::inlined).
struct WorkRequest {
    std::uint64_t wr_id = 0;
    Opcode opcode = Opcode::send;
    SendFlags flags{};
    FlushType flush_type = FlushType::visibility;  ///< flush
    std::uint32_t rkey = 0;                        ///< all but sends
    std::uint64_t remote_address = 0;              ///< all but sends
    std::span<const Sge> sges{};                   ///< may be empty: nothing moves
    std::uint64_t imm = 0;           ///< send_imm, write_imm: host order, Limits::imm_bytes wide
    std::uint64_t flush_length = 0;  ///< flush: bytes from remote_address
    std::uint64_t operand = 0;       ///< atomic_fadd: addend; atomic_cas: new value
    std::uint64_t compare = 0;       ///< atomic_cas: expected value
};

/// What almost all send requests are: a write, read or send of one element, not inline. It is an
/// ibv_send_wr with its ibv_sge, so that it is filled in once and a device can hand it on as it is;
/// a post uses it up. What no such request needs is left unset.
struct PlainRequest {
    explicit PlainRequest(Opcode of) noexcept : opcode(static_cast<std::uint32_t>(of)) {}
    PlainRequest(const PlainRequest&) = delete;
    PlainRequest& operator=(const PlainRequest&) = delete;

    std::uint64_t wr_id;
    const void* next = nullptr;
    const Sge* sges = &sge;
    std::uint32_t sge_count = 1;
    const std::uint32_t opcode;  ///< Opcode
    std::uint32_t flags;         ///< SendFlags::bits()
    std::uint32_t imm;
    std::uint64_t remote_address;
    std::uint32_t rkey;
    std::byte others[76];  ///< of other requests
    Sge sge;
};

struct ReceiveRequest {
    std::uint64_t wr_id = 0;
    std::span<const Sge> sges{};
};

/// A work completion (ibv_wc). On error only wr_id, status, qp_num and vendor_error count.
struct WorkCompletion {
    std::uint64_t wr_id = 0;
    WcStatus status = WcStatus::success;
    WcOpcode opcode = WcOpcode::send;
    bool has_imm = false;
    bool receive_side = false;  ///< true for completions of receives, on errors as well
    std::uint32_t vendor_error = 0;
    std::uint32_t qp_num = 0;
    std::uint64_t byte_length = 0;  ///< receives and reads
    std::uint64_t imm = 0;          ///< host order
    std::uint64_t done_at = 0;      ///< Trace::now() when the device was done; 0: not known
};

/// How statistics name it.
constexpr Stat stat_of(Opcode opcode) noexcept {
    switch (opcode) {
        case Opcode::write:
        case Opcode::write_imm:
        case Opcode::atomic_write: return Stat::writes;
        case Opcode::read: return Stat::reads;
        case Opcode::atomic_cas:
        case Opcode::atomic_fadd: return Stat::atomics;
        case Opcode::flush: return Stat::flushes;
        default: return Stat::sends;
    }
}

constexpr Stat stat_of(WcStatus status) noexcept {
    if (status == WcStatus::success) return Stat::completions;
    return status == WcStatus::flushed ? Stat::flushed : Stat::errors;
}

}  // namespace compat::core
