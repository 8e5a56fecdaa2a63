// SPDX-License-Identifier: BSD-3-Clause
// Work requests as libibverbs takes them, and work completions as it gives them.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/model/types.hpp"

namespace compat::core::verbs {

/// An Sge is an ibv_sge: lists of them are handed over as they are.
static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, address) == offsetof(ibv_sge, addr) &&
              offsetof(Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
inline ibv_sge* to_verbs(std::span<const Sge> sges) noexcept {
    return reinterpret_cast<ibv_sge*>(const_cast<Sge*>(sges.data()));
}

/// A PlainRequest is an ibv_send_wr with the ibv_sge behind it.
static_assert(offsetof(PlainRequest, sge) >= sizeof(ibv_send_wr) &&
              offsetof(PlainRequest, next) == offsetof(ibv_send_wr, next) &&
              offsetof(PlainRequest, sges) == offsetof(ibv_send_wr, sg_list) &&
              offsetof(PlainRequest, sge_count) == offsetof(ibv_send_wr, num_sge) &&
              offsetof(PlainRequest, opcode) == offsetof(ibv_send_wr, opcode) &&
              offsetof(PlainRequest, flags) == offsetof(ibv_send_wr, send_flags) &&
              offsetof(PlainRequest, imm) == offsetof(ibv_send_wr, imm_data) &&
              offsetof(PlainRequest, remote_address) ==
                  offsetof(ibv_send_wr, wr.rdma.remote_addr) &&
              offsetof(PlainRequest, rkey) == offsetof(ibv_send_wr, wr.rdma.rkey));

/// siw's library refuses receives without elements, which messages of no bytes are for: there they
/// get one that nothing is ever written to.
inline void set_elements(ibv_recv_wr& wr, std::span<const Sge> sges, bool needs_one,
                         ibv_sge& spare) noexcept {
    spare = {};
    const bool fills_in = needs_one && sges.empty();
    wr.sg_list = fills_in ? &spare : to_verbs(sges);
    wr.num_sge = fills_in ? 1 : static_cast<int>(sges.size());
}

struct OpcodeRow {
    Opcode core;
    int verbs;  ///< ibv_wr_opcode; -1: by ibv_wr_*() only
};
constexpr std::array kOpcodes{
    OpcodeRow{Opcode::write, IBV_WR_RDMA_WRITE},
    OpcodeRow{Opcode::write_imm, IBV_WR_RDMA_WRITE_WITH_IMM},
    OpcodeRow{Opcode::send, IBV_WR_SEND},
    OpcodeRow{Opcode::send_imm, IBV_WR_SEND_WITH_IMM},
    OpcodeRow{Opcode::read, IBV_WR_RDMA_READ},
    OpcodeRow{Opcode::atomic_cas, IBV_WR_ATOMIC_CMP_AND_SWP},
    OpcodeRow{Opcode::atomic_fadd, IBV_WR_ATOMIC_FETCH_AND_ADD},
    OpcodeRow{Opcode::atomic_write, -1},
    OpcodeRow{Opcode::flush, -1},
};

static_assert(std::ranges::all_of(kOpcodes, [](const OpcodeRow& row) {
    return row.verbs < 0 || row.verbs == static_cast<int>(row.core);
}));

static_assert(SendFlags(SendFlag::fence).bits() == IBV_SEND_FENCE &&
              SendFlags(SendFlag::signaled).bits() == IBV_SEND_SIGNALED &&
              SendFlags(SendFlag::solicited).bits() == IBV_SEND_SOLICITED &&
              SendFlags(SendFlag::inlined).bits() == IBV_SEND_INLINE);
inline unsigned to_verbs(SendFlags flags) noexcept {
    return flags.bits();
}

struct StatusRow {
    ibv_wc_status verbs;
    WcStatus core;
};
// In the order of ibv_wc_status: a look-up is an index. Statuses of features that nobody here uses
// are general errors.
constexpr std::array kStatuses{
    StatusRow{IBV_WC_SUCCESS, WcStatus::success},
    StatusRow{IBV_WC_LOC_LEN_ERR, WcStatus::local_length_error},
    StatusRow{IBV_WC_LOC_QP_OP_ERR, WcStatus::local_qp_operation_error},
    StatusRow{IBV_WC_LOC_EEC_OP_ERR, WcStatus::general_error},
    StatusRow{IBV_WC_LOC_PROT_ERR, WcStatus::local_protection_error},
    StatusRow{IBV_WC_WR_FLUSH_ERR, WcStatus::flushed},
    StatusRow{IBV_WC_MW_BIND_ERR, WcStatus::general_error},
    StatusRow{IBV_WC_BAD_RESP_ERR, WcStatus::remote_operation_error},
    StatusRow{IBV_WC_LOC_ACCESS_ERR, WcStatus::local_protection_error},
    StatusRow{IBV_WC_REM_INV_REQ_ERR, WcStatus::remote_invalid_request},
    StatusRow{IBV_WC_REM_ACCESS_ERR, WcStatus::remote_access_error},
    StatusRow{IBV_WC_REM_OP_ERR, WcStatus::remote_operation_error},
    StatusRow{IBV_WC_RETRY_EXC_ERR, WcStatus::retry_exceeded},
    StatusRow{IBV_WC_RNR_RETRY_EXC_ERR, WcStatus::rnr_retry_exceeded},
    StatusRow{IBV_WC_LOC_RDD_VIOL_ERR, WcStatus::general_error},
    StatusRow{IBV_WC_REM_INV_RD_REQ_ERR, WcStatus::general_error},
    StatusRow{IBV_WC_REM_ABORT_ERR, WcStatus::remote_operation_error},
    StatusRow{IBV_WC_INV_EECN_ERR, WcStatus::general_error},
    StatusRow{IBV_WC_INV_EEC_STATE_ERR, WcStatus::general_error},
    StatusRow{IBV_WC_FATAL_ERR, WcStatus::fatal},
    StatusRow{IBV_WC_RESP_TIMEOUT_ERR, WcStatus::retry_exceeded},
    StatusRow{IBV_WC_GENERAL_ERR, WcStatus::general_error},
};

struct WcOpcodeRow {
    int verbs;
    WcOpcode core;
};
constexpr std::array kWcOpcodes{
    WcOpcodeRow{IBV_WC_SEND, WcOpcode::send},
    WcOpcodeRow{IBV_WC_RDMA_WRITE, WcOpcode::write},
    WcOpcodeRow{IBV_WC_RDMA_READ, WcOpcode::read},
    WcOpcodeRow{IBV_WC_COMP_SWAP, WcOpcode::compare_swap},
    WcOpcodeRow{IBV_WC_FETCH_ADD, WcOpcode::fetch_add},
    // newer than the oldest headers we build with
    WcOpcodeRow{8, WcOpcode::flush},
    WcOpcodeRow{9, WcOpcode::atomic_write},
};
constexpr std::array kSendOpcodes = [] {
    std::array<WcOpcode, 16> by_number{};
    for (const WcOpcodeRow& row : kWcOpcodes)
        by_number[static_cast<std::size_t>(row.verbs)] = row.core;
    return by_number;
}();

template <class Rows>
constexpr bool in_order(const Rows& rows, auto key) {
    for (std::size_t index = 0; index < rows.size(); ++index)
        if (static_cast<std::size_t>(rows[index].*key) != index) return false;
    return true;
}
static_assert(in_order(kOpcodes, &OpcodeRow::core) &&
              kOpcodes.size() == static_cast<std::size_t>(Opcode::count_));
static_assert(in_order(kStatuses, &StatusRow::verbs));

inline WcStatus to_core_status(ibv_wc_status status) noexcept {
    const auto index = static_cast<std::size_t>(status);
    return index < kStatuses.size() ? kStatuses[index].core : WcStatus::general_error;
}

inline WcOpcode to_core_opcode(ibv_wc_opcode opcode) noexcept {
    const auto number = static_cast<std::size_t>(opcode);
    if (number < kSendOpcodes.size()) return kSendOpcodes[number];
    return opcode == IBV_WC_RECV_RDMA_WITH_IMM ? WcOpcode::receive_write_imm : WcOpcode::receive;
}

}  // namespace compat::core::verbs
