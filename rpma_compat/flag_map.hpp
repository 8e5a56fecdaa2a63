// SPDX-License-Identifier: BSD-3-Clause
// RPMA_F_*, RPMA_MR_USAGE_*, events and ibv_wc values to and from the core's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/core.hpp"
#include "rpma_compat/boundary.hpp"

namespace compat::rpma {

// --- RPMA_F_* ---------------------------------------------------------------------------------

// ON_ERROR is what every work request does anyway; ALWAYS is ON_ERROR and this bit, which has the
// same place in the core.
constexpr int kSignaled = RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR;
static_assert(kSignaled == core::SendFlags(core::SendFlag::signaled).bits());

constexpr core::SendFlags to_send_flags(int flags) {
    return core::SendFlags(static_cast<core::SendFlags::Bits>(flags & kSignaled));
}

// --- RPMA_MR_USAGE_* --------------------------------------------------------------------------

struct UsageRow {
    int usage;
    core::AccessFlags access;
    core::AccessFlags read_sink;     ///< more, where a read's target needs remote write
    core::AccessFlags native_flush;  ///< more, where the device flushes natively
};
constexpr core::AccessFlags kNoAccess;
// The flush usages grant remote read with native flush, too (upstream's newest does not): a peer
// without native flush flushes by reading 8 bytes, and it must not matter which of the two it is.
constexpr std::array kUsages{
    UsageRow{RPMA_MR_USAGE_READ_SRC, core::Access::remote_read, kNoAccess, kNoAccess},
    UsageRow{RPMA_MR_USAGE_READ_DST, core::Access::local_write, core::Access::remote_write,
             kNoAccess},
    UsageRow{RPMA_MR_USAGE_WRITE_SRC, core::Access::local_write, kNoAccess, kNoAccess},
    UsageRow{RPMA_MR_USAGE_WRITE_DST, core::Access::local_write | core::Access::remote_write,
             kNoAccess, kNoAccess},
    UsageRow{RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, core::Access::remote_read, kNoAccess,
             core::Access::flush_visible},
    UsageRow{RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, core::Access::remote_read, kNoAccess,
             core::Access::flush_persistent},
    UsageRow{RPMA_MR_USAGE_SEND, kNoAccess, kNoAccess, kNoAccess},
    UsageRow{RPMA_MR_USAGE_RECV, core::Access::local_write, kNoAccess, kNoAccess},
};

constexpr int all_usages() {
    int usages = 0;
    for (const UsageRow& row : kUsages) usages |= row.usage;
    return usages;
}

constexpr core::AccessFlags to_access(int usage, bool read_sink_needs_remote_write,
                                      bool native_flush) {
    core::AccessFlags access;
    for (const UsageRow& row : kUsages) {
        if ((usage & row.usage) == 0) continue;
        access |= row.access;
        if (read_sink_needs_remote_write) access |= row.read_sink;
        if (native_flush) access |= row.native_flush;
    }
    return access;
}

// --- RPMA_FLUSH_TYPE_* ------------------------------------------------------------------------

struct FlushRow {
    int type;
    int usage;  ///< the region must have it
    core::FlushType core;
    bool needs_direct_write;  ///< the connection's peer must have declared direct write to PMem
};
constexpr std::array kFlushTypes{
    FlushRow{RPMA_FLUSH_TYPE_PERSISTENT, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
             core::FlushType::persistent, true},
    FlushRow{RPMA_FLUSH_TYPE_VISIBILITY, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
             core::FlushType::visibility, false},
};
// Upstream lets an unknown type pass, whatever its manual says.
constexpr FlushRow kUnknownFlush{-1, 0, core::FlushType::visibility, false};

constexpr const FlushRow& flush_row(int type) {
    for (const FlushRow& row : kFlushTypes)
        if (row.type == type) return row;
    return kUnknownFlush;
}

constexpr int kFlushUsages =
    RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

// --- connection events ------------------------------------------------------------------------

struct EventRow {
    core::CmEventType core;
    rpma_conn_event rpma;  ///< RPMA_CONN_UNDEFINED: not an event of a connection
};
constexpr std::array kEvents{
    EventRow{core::CmEventType::connect_request, RPMA_CONN_UNDEFINED},
    EventRow{core::CmEventType::established, RPMA_CONN_ESTABLISHED},
    EventRow{core::CmEventType::rejected, RPMA_CONN_REJECTED},
    EventRow{core::CmEventType::unreachable, RPMA_CONN_UNREACHABLE},
    EventRow{core::CmEventType::connect_error, RPMA_CONN_LOST},
    EventRow{core::CmEventType::disconnected, RPMA_CONN_CLOSED},
    EventRow{core::CmEventType::device_removed, RPMA_CONN_LOST},
};

// --- struct ibv_wc ----------------------------------------------------------------------------

struct WcStatusRow {
    core::WcStatus core;
    ibv_wc_status verbs;
};
constexpr std::array kWcStatuses{
    WcStatusRow{core::WcStatus::success, IBV_WC_SUCCESS},
    WcStatusRow{core::WcStatus::local_length_error, IBV_WC_LOC_LEN_ERR},
    WcStatusRow{core::WcStatus::local_qp_operation_error, IBV_WC_LOC_QP_OP_ERR},
    WcStatusRow{core::WcStatus::local_protection_error, IBV_WC_LOC_PROT_ERR},
    WcStatusRow{core::WcStatus::flushed, IBV_WC_WR_FLUSH_ERR},
    WcStatusRow{core::WcStatus::remote_invalid_request, IBV_WC_REM_INV_REQ_ERR},
    WcStatusRow{core::WcStatus::remote_access_error, IBV_WC_REM_ACCESS_ERR},
    WcStatusRow{core::WcStatus::remote_operation_error, IBV_WC_REM_OP_ERR},
    WcStatusRow{core::WcStatus::retry_exceeded, IBV_WC_RETRY_EXC_ERR},
    WcStatusRow{core::WcStatus::rnr_retry_exceeded, IBV_WC_RNR_RETRY_EXC_ERR},
    WcStatusRow{core::WcStatus::fatal, IBV_WC_FATAL_ERR},
    WcStatusRow{core::WcStatus::general_error, IBV_WC_GENERAL_ERR},
    WcStatusRow{core::WcStatus::no_message, IBV_WC_GENERAL_ERR},  // no device says it
};

// Newer than the oldest libibverbs we build with.
constexpr int kIbvWcFlush = 8;
constexpr int kIbvWcAtomicWrite = 9;

struct WcOpcodeRow {
    core::WcOpcode core;
    int verbs;
};
constexpr std::array kWcOpcodes{
    WcOpcodeRow{core::WcOpcode::send, IBV_WC_SEND},
    WcOpcodeRow{core::WcOpcode::write, IBV_WC_RDMA_WRITE},
    WcOpcodeRow{core::WcOpcode::read, IBV_WC_RDMA_READ},
    WcOpcodeRow{core::WcOpcode::compare_swap, IBV_WC_COMP_SWAP},
    WcOpcodeRow{core::WcOpcode::fetch_add, IBV_WC_FETCH_ADD},
    WcOpcodeRow{core::WcOpcode::atomic_write, kIbvWcAtomicWrite},
    WcOpcodeRow{core::WcOpcode::flush, kIbvWcFlush},
    WcOpcodeRow{core::WcOpcode::receive, IBV_WC_RECV},
    WcOpcodeRow{core::WcOpcode::receive_write_imm, IBV_WC_RECV_RDMA_WITH_IMM},
};

/// Each table has one row per enumerator, in the order of the enum: a look-up is an index.
template <class Rows, class Enum>
constexpr bool complete(const Rows& rows, Enum count) {
    if (rows.size() != static_cast<std::size_t>(count)) return false;
    for (std::size_t index = 0; index < rows.size(); ++index)
        if (rows[index].core != static_cast<Enum>(index)) return false;
    return true;
}
static_assert(complete(kEvents, core::CmEventType::count_));
static_assert(complete(kWcStatuses, core::WcStatus::count_));
static_assert(complete(kWcOpcodes, core::WcOpcode::count_));

template <class Rows, class Enum>
constexpr const auto& row_of(const Rows& rows, Enum value) {
    return rows[static_cast<std::size_t>(value)];
}

}  // namespace compat::rpma
