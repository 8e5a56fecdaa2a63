// SPDX-License-Identifier: BSD-3-Clause
// libfabric's bits in our terms. Every FI_* bit that decides something about an object or an
// operation is looked at in this file and nowhere else.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <cstdint>
#include <optional>

#include "core/core.hpp"

namespace compat::fi {

constexpr bool any_bit(std::uint64_t word, std::uint64_t bits) {
    return (word & bits) != 0;
}
constexpr bool all_bits(std::uint64_t word, std::uint64_t bits) {
    return (word & bits) == bits;
}
constexpr bool only_bits(std::uint64_t word, std::uint64_t bits) {
    return (word & ~bits) == 0;
}

// --- operation flags: fi_rma(3), fi_msg(3) ------------------------------------------------------

/// Whether a write of such an endpoint can complete when its bytes are in place. Connectionless
/// ones look behind their writes, since both ends are ours.
inline bool delivers(fi_ep_type type, const core::Limits& device) {
    return device.placed_when_complete || type == FI_EP_RDM;
}

/// What an endpoint can do beyond what all can.
struct OpGrants {
    bool fence = false;
    bool delivery = false;
    bool commit = false;
    bool data = false;
};

/// What a flag of a send, write or read makes of it. An endpoint grants all rows but those whose
/// condition it does not meet; a bit that is not granted is refused.
struct OpFlagRow {
    std::uint64_t fi;
    core::OpFlags core;
    bool OpGrants::*condition = nullptr;  ///< null: always granted
    core::MessageFlags message{};         ///< the same for messages of connectionless endpoints
};
inline constexpr std::array kOpFlags{
    OpFlagRow{FI_COMPLETION, core::OpFlag::entry, nullptr, core::MessageFlag::entry},
    OpFlagRow{FI_INJECT, core::OpFlag::inject, nullptr, core::MessageFlag::inject},
    OpFlagRow{FI_MORE, core::OpFlag::more},
    OpFlagRow{FI_FENCE, core::OpFlag::fence, &OpGrants::fence, core::MessageFlag::fence},
    // The device's completions say all that these ask for, or more.
    OpFlagRow{FI_INJECT_COMPLETE, {}}, OpFlagRow{FI_TRANSMIT_COMPLETE, {}},
    OpFlagRow{FI_DELIVERY_COMPLETE, core::OpFlag::deliver, &OpGrants::delivery,
              core::MessageFlag::delivered},
    OpFlagRow{FI_MATCH_COMPLETE, {}, nullptr, core::MessageFlag::delivered},
    OpFlagRow{FI_COMMIT_COMPLETE, core::OpFlag::commit, &OpGrants::commit,
              core::MessageFlag::delivered},
    OpFlagRow{FI_REMOTE_CQ_DATA, {}, &OpGrants::data, core::MessageFlag::data},
    OpFlagRow{FI_AFFINITY, {}},  // a hint
    OpFlagRow{FI_TRANSMIT, {}},  // says which side it is about
};

/// Every bit that an endpoint takes, from the rows whose condition holds.
constexpr std::uint64_t granted_op_flags(const OpGrants& grants) {
    std::uint64_t granted = 0;
    for (const OpFlagRow& row : kOpFlags)
        if (row.condition == nullptr || grants.*row.condition) granted |= row.fi;
    return granted;
}

/// Flags that can be an endpoint's default; the others are about one call.
inline constexpr std::uint64_t kDefaultableFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                                                   FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |
                                                   FI_MATCH_COMPLETE | FI_COMMIT_COMPLETE;

/// For bits that were granted.
constexpr core::OpFlags to_op_flags(std::uint64_t fi_flags) {
    core::OpFlags flags;
    for (const OpFlagRow& row : kOpFlags)
        if (any_bit(fi_flags, row.fi)) flags |= row.core;
    return flags;
}

constexpr core::MessageFlags to_message_flags(std::uint64_t fi_flags) {
    core::MessageFlags flags;
    for (const OpFlagRow& row : kOpFlags)
        if (any_bit(fi_flags, row.fi)) flags |= row.message;
    return flags;
}

/// A read's buffer is filled later and nobody is told at the target.
inline constexpr std::uint64_t kOnlyOfWrites = FI_INJECT | FI_REMOTE_CQ_DATA;

constexpr bool carries_data(std::uint64_t fi_flags) {
    return any_bit(fi_flags, FI_REMOTE_CQ_DATA);
}

/// Flags of receives: fi_msg(3).
inline constexpr std::uint64_t kReceiveFlags = FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_RECV;
constexpr bool is_multi_receive(std::uint64_t fi_flags) {
    return any_bit(fi_flags, FI_MULTI_RECV);
}
/// Tagged receives: fi_tagged(3).
inline constexpr std::uint64_t kTaggedReceiveFlags =
    FI_COMPLETION | FI_MORE | FI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD;
constexpr bool peeks(std::uint64_t fi_flags) {
    return any_bit(fi_flags, FI_PEEK);
}
constexpr bool claims(std::uint64_t fi_flags) {
    return any_bit(fi_flags, FI_CLAIM);
}
constexpr bool discards(std::uint64_t fi_flags) {
    return any_bit(fi_flags, FI_DISCARD);
}
constexpr bool wants_completion(std::uint64_t fi_flags) {
    return any_bit(fi_flags, FI_COMPLETION);
}

/// FI_SETOPSFLAG, FI_GETOPSFLAG and FI_ALIAS: exactly one side must be named.
enum class OpsSide : std::uint8_t { transmit, receive };
constexpr std::optional<OpsSide> ops_side(std::uint64_t fi_flags) {
    const bool transmit = any_bit(fi_flags, FI_TRANSMIT);
    const bool receive = any_bit(fi_flags, FI_RECV);
    if (transmit == receive) return std::nullopt;
    return transmit ? OpsSide::transmit : OpsSide::receive;
}
constexpr std::uint64_t without_side(std::uint64_t fi_flags) {
    return fi_flags & ~std::uint64_t{FI_TRANSMIT | FI_RECV};
}

// --- completion entries: fi_cq(3) ---------------------------------------------------------------

inline constexpr std::uint64_t kSendEntry = FI_MSG | FI_SEND;
inline constexpr std::uint64_t kReceiveEntry = FI_MSG | FI_RECV;
inline constexpr std::uint64_t kTaggedSendEntry = FI_TAGGED | FI_SEND;
inline constexpr std::uint64_t kTaggedReceiveEntry = FI_TAGGED | FI_RECV;
inline constexpr std::uint64_t kWriteEntry = FI_RMA | FI_WRITE;
inline constexpr std::uint64_t kReadEntry = FI_RMA | FI_READ;
inline constexpr std::uint64_t kRemoteWriteEntry = FI_RMA | FI_REMOTE_WRITE;

constexpr std::uint64_t entry_flags(const core::Completion& completion) {
    return completion.flags | (completion.has_imm ? FI_REMOTE_CQ_DATA : 0) |
           (completion.buffer_released ? FI_MULTI_RECV : 0);
}

// --- capabilities: fi_getinfo(3) ----------------------------------------------------------------

struct EndpointCaps {
    bool messages = false;
    bool tagged = false;
    bool directed_receive = false;  ///< receives may name the sender
    bool rma = false;
    bool send = false;
    bool receive = false;
    bool read = false;
    bool write = false;
    bool fence = false;
    bool rma_event = false;
    bool remote_write = false;  ///< peers may write here
    bool remote_read = false;

    [[nodiscard]] bool transmits() const { return send || read || write; }
};

/// caps of an info; its modifiers default as fi_getinfo(3) says.
constexpr EndpointCaps to_caps(std::uint64_t fi_caps) {
    constexpr std::uint64_t kMessageSides = FI_SEND | FI_RECV;
    constexpr std::uint64_t kRmaSides = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    EndpointCaps caps;
    caps.messages = any_bit(fi_caps, FI_MSG);
    caps.rma = any_bit(fi_caps, FI_RMA);
    const bool both = !any_bit(fi_caps, kMessageSides);
    const bool all = !any_bit(fi_caps, kRmaSides);
    caps.tagged = any_bit(fi_caps, FI_TAGGED);
    caps.directed_receive = any_bit(fi_caps, FI_DIRECTED_RECV);
    const bool talks = caps.messages || caps.tagged;
    caps.send = talks && (both || any_bit(fi_caps, FI_SEND));
    caps.receive = talks && (both || any_bit(fi_caps, FI_RECV));
    caps.read = caps.rma && (all || any_bit(fi_caps, FI_READ));
    caps.write = caps.rma && (all || any_bit(fi_caps, FI_WRITE));
    caps.remote_write = caps.rma && (all || any_bit(fi_caps, FI_REMOTE_WRITE));
    caps.remote_read = caps.rma && (all || any_bit(fi_caps, FI_REMOTE_READ));
    caps.fence = any_bit(fi_caps, FI_FENCE);
    caps.rma_event = any_bit(fi_caps, FI_RMA_EVENT);
    return caps;
}

/// What a peer may do through an endpoint.
constexpr core::AccessFlags remote_access(const EndpointCaps& caps) {
    core::AccessFlags access;
    if (caps.remote_write) access |= core::Access::remote_write | core::Access::remote_atomic;
    if (caps.remote_read) access |= core::Access::remote_read;
    return access;
}

/// A program that posts receives for the immediate data of writes.
constexpr bool posts_receives_for_data(std::uint64_t mode) {
    return any_bit(mode, FI_RX_CQ_DATA);
}

// --- memory registration: fi_mr(3) --------------------------------------------------------------

struct MrMode {
    bool local_keys = false;       ///< FI_MR_LOCAL: local buffers come with a desc
    bool virtual_address = false;  ///< targets are addressed by virtual address, not offset
    bool provider_keys = false;
};

/// mr_mode and mode of an opened domain's info. api_at_least_1_5: the bits exist since then.
inline MrMode to_mr_mode(int mr_mode, std::uint64_t mode, bool api_at_least_1_5) {
    const auto bits = static_cast<std::uint64_t>(mr_mode);
    const bool basic = bits == std::uint64_t{FI_MR_BASIC};
    const bool scalable = bits == std::uint64_t{FI_MR_SCALABLE};
    MrMode result;
    result.local_keys = any_bit(mode, FI_LOCAL_MR);
    if (api_at_least_1_5 && !basic && !scalable) {
        result.local_keys = result.local_keys || any_bit(bits, FI_MR_LOCAL);
        result.virtual_address = any_bit(bits, FI_MR_VIRT_ADDR);
        result.provider_keys = any_bit(bits, FI_MR_PROV_KEY);
    } else {
        result.virtual_address = basic;
        result.provider_keys = basic;
    }
    return result;
}

inline constexpr std::uint64_t kMrAccess =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;

struct AccessRow {
    std::uint64_t fi;
    core::AccessFlags core;
};
/// Sending and writing from a region needs no right (ibv_reg_mr(3)).
inline constexpr std::array kAccessRows{
    AccessRow{FI_RECV, core::Access::local_write},
    AccessRow{FI_READ, core::Access::local_write},
    AccessRow{FI_REMOTE_READ, core::Access::remote_read},
    AccessRow{FI_REMOTE_WRITE,
              core::Access::local_write | core::Access::remote_write | core::Access::remote_atomic},
};

constexpr core::AccessFlags to_access(std::uint64_t fi_access) {
    core::AccessFlags access;
    for (const AccessRow& row : kAccessRows)
        if (any_bit(fi_access, row.fi)) access |= row.core;
    return access;
}
constexpr bool reads_into(std::uint64_t fi_access) {
    return any_bit(fi_access, FI_READ);
}
constexpr bool has_remote_access(std::uint64_t fi_access) {
    return any_bit(fi_access, FI_REMOTE_READ | FI_REMOTE_WRITE);
}

/// The flags of fi_mr_regattr(3) that we take; the others would change what is registered.
inline constexpr std::uint64_t kMrFlags = FI_RMA_EVENT | FI_RMA_PMEM | FI_MR_SINGLE_USE;
constexpr bool is_persistent(std::uint64_t mr_flags) {
    return any_bit(mr_flags, FI_RMA_PMEM);
}

// --- binding: fi_endpoint(3) --------------------------------------------------------------------

struct CqBinding {
    bool transmit = false;
    bool receive = false;
    bool selective = false;
};
/// Empty: -FI_EBADFLAGS.
constexpr std::optional<CqBinding> to_cq_binding(std::uint64_t flags) {
    if (!only_bits(flags, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) return std::nullopt;
    const CqBinding binding{any_bit(flags, FI_TRANSMIT), any_bit(flags, FI_RECV),
                            any_bit(flags, FI_SELECTIVE_COMPLETION)};
    if (!binding.transmit && !binding.receive) return std::nullopt;
    return binding;
}

/// What a counter bound to an endpoint counts.
enum class Counted : std::uint8_t { send, write, read, receive, remote_write, remote_read, count_ };
struct CounterRow {
    std::uint64_t fi;
    Counted counted;
};
inline constexpr std::array kCounterRows{
    CounterRow{FI_SEND, Counted::send},
    CounterRow{FI_WRITE, Counted::write},
    CounterRow{FI_READ, Counted::read},
    CounterRow{FI_RECV, Counted::receive},
    CounterRow{FI_REMOTE_WRITE, Counted::remote_write},
    CounterRow{FI_REMOTE_READ, Counted::remote_read},
};
inline constexpr std::uint64_t kCounterFlags =
    FI_SEND | FI_WRITE | FI_READ | FI_RECV | FI_REMOTE_WRITE | FI_REMOTE_READ;
constexpr bool counts_remote(std::uint64_t flags) {
    return any_bit(flags, FI_REMOTE_WRITE | FI_REMOTE_READ);
}

inline constexpr std::uint64_t kCqFlags = FI_AFFINITY;  ///< fi_cq_open(3)

// --- address vectors: fi_av(3) ------------------------------------------------------------------

inline constexpr std::uint64_t kAvFlags = FI_EVENT | FI_SYMMETRIC;
constexpr bool is_asynchronous(std::uint64_t av_flags) {
    return any_bit(av_flags, FI_EVENT);
}
inline constexpr std::uint64_t kInsertFlags = FI_MORE | FI_SYNC_ERR;
constexpr bool tells_each_error(std::uint64_t insert_flags) {
    return any_bit(insert_flags, FI_SYNC_ERR);
}

}  // namespace compat::fi
