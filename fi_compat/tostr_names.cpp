// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/tostr_names.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

// A row whose name is the constant itself.
#define COMPAT_NAME(constant)                           \
    NameRow {                                           \
        static_cast<std::uint64_t>(constant), #constant \
    }

namespace compat::fi {
namespace {

constexpr NameRow kCaps[] = {
    COMPAT_NAME(FI_MSG),
    COMPAT_NAME(FI_RMA),
    COMPAT_NAME(FI_TAGGED),
    COMPAT_NAME(FI_ATOMIC),
    COMPAT_NAME(FI_MULTICAST),
    COMPAT_NAME(FI_COLLECTIVE),
    COMPAT_NAME(FI_READ),
    COMPAT_NAME(FI_WRITE),
    COMPAT_NAME(FI_RECV),
    COMPAT_NAME(FI_SEND),
    COMPAT_NAME(FI_REMOTE_READ),
    COMPAT_NAME(FI_REMOTE_WRITE),
    COMPAT_NAME(FI_MULTI_RECV),
    COMPAT_NAME(FI_TRIGGER),
    COMPAT_NAME(FI_FENCE),
    COMPAT_NAME(FI_AV_USER_ID),
    COMPAT_NAME(FI_PEER),
    COMPAT_NAME(FI_TAGGED_DIRECTED_RECV),
    COMPAT_NAME(FI_TAGGED_MULTI_RECV),
    COMPAT_NAME(FI_HMEM),
    COMPAT_NAME(FI_EXACT_DIRECTED_RECV),
    COMPAT_NAME(FI_RMA_PMEM),
    COMPAT_NAME(FI_SOURCE_ERR),
    COMPAT_NAME(FI_LOCAL_COMM),
    COMPAT_NAME(FI_REMOTE_COMM),
    COMPAT_NAME(FI_SHARED_AV),
    COMPAT_NAME(FI_RMA_EVENT),
    COMPAT_NAME(FI_SOURCE),
    COMPAT_NAME(FI_NAMED_RX_CTX),
    COMPAT_NAME(FI_DIRECTED_RECV),
};
constexpr NameRow kOpFlags[] = {
    COMPAT_NAME(FI_READ),
    COMPAT_NAME(FI_WRITE),
    COMPAT_NAME(FI_RECV),
    COMPAT_NAME(FI_SEND),
    COMPAT_NAME(FI_REMOTE_READ),
    COMPAT_NAME(FI_REMOTE_WRITE),
    COMPAT_NAME(FI_MULTI_RECV),
    COMPAT_NAME(FI_REMOTE_CQ_DATA),
    COMPAT_NAME(FI_MORE),
    COMPAT_NAME(FI_PEEK),
    COMPAT_NAME(FI_TRIGGER),
    COMPAT_NAME(FI_FENCE),
    COMPAT_NAME(FI_COMPLETION),
    COMPAT_NAME(FI_INJECT),
    COMPAT_NAME(FI_INJECT_COMPLETE),
    COMPAT_NAME(FI_TRANSMIT_COMPLETE),
    COMPAT_NAME(FI_DELIVERY_COMPLETE),
    COMPAT_NAME(FI_AFFINITY),
    COMPAT_NAME(FI_COMMIT_COMPLETE),
    COMPAT_NAME(FI_MATCH_COMPLETE),
    COMPAT_NAME(FI_PEER_TRANSFER),
    COMPAT_NAME(FI_DISCARD),
    COMPAT_NAME(FI_CLAIM),
};
constexpr NameRow kCqFlags[] = {
    COMPAT_NAME(FI_MSG),         COMPAT_NAME(FI_RMA),
    COMPAT_NAME(FI_TAGGED),      COMPAT_NAME(FI_ATOMIC),
    COMPAT_NAME(FI_MULTICAST),   COMPAT_NAME(FI_COLLECTIVE),
    COMPAT_NAME(FI_READ),        COMPAT_NAME(FI_WRITE),
    COMPAT_NAME(FI_RECV),        COMPAT_NAME(FI_SEND),
    COMPAT_NAME(FI_REMOTE_READ), COMPAT_NAME(FI_REMOTE_WRITE),
    COMPAT_NAME(FI_MULTI_RECV),  COMPAT_NAME(FI_REMOTE_CQ_DATA),
    COMPAT_NAME(FI_MORE),        COMPAT_NAME(FI_CLAIM),
};
constexpr NameRow kMode[] = {
    COMPAT_NAME(FI_CONTEXT2),  COMPAT_NAME(FI_LOCAL_MR),   COMPAT_NAME(FI_RX_CQ_DATA),
    COMPAT_NAME(FI_ASYNC_IOV), COMPAT_NAME(FI_MSG_PREFIX), COMPAT_NAME(FI_CONTEXT),
};
constexpr std::array kMrMode{
    COMPAT_NAME(FI_MR_BASIC),    COMPAT_NAME(FI_MR_SCALABLE),   COMPAT_NAME(FI_MR_LOCAL),
    COMPAT_NAME(FI_MR_RAW),      COMPAT_NAME(FI_MR_VIRT_ADDR),  COMPAT_NAME(FI_MR_ALLOCATED),
    COMPAT_NAME(FI_MR_PROV_KEY), COMPAT_NAME(FI_MR_MMU_NOTIFY), COMPAT_NAME(FI_MR_RMA_EVENT),
    COMPAT_NAME(FI_MR_ENDPOINT), COMPAT_NAME(FI_MR_HMEM),       COMPAT_NAME(FI_MR_COLLECTIVE)};
constexpr NameRow kMsgOrder[] = {
    COMPAT_NAME(FI_ORDER_RAR),        COMPAT_NAME(FI_ORDER_RAW),
    COMPAT_NAME(FI_ORDER_RAS),        COMPAT_NAME(FI_ORDER_WAR),
    COMPAT_NAME(FI_ORDER_WAW),        COMPAT_NAME(FI_ORDER_WAS),
    COMPAT_NAME(FI_ORDER_SAR),        COMPAT_NAME(FI_ORDER_SAW),
    COMPAT_NAME(FI_ORDER_SAS),        COMPAT_NAME(FI_ORDER_RMA_RAR),
    COMPAT_NAME(FI_ORDER_RMA_RAW),    COMPAT_NAME(FI_ORDER_RMA_WAR),
    COMPAT_NAME(FI_ORDER_RMA_WAW),    COMPAT_NAME(FI_ORDER_ATOMIC_RAR),
    COMPAT_NAME(FI_ORDER_ATOMIC_RAW), COMPAT_NAME(FI_ORDER_ATOMIC_WAR),
    COMPAT_NAME(FI_ORDER_ATOMIC_WAW),
};
constexpr std::array kAddressFormats{
    COMPAT_NAME(FI_FORMAT_UNSPEC), COMPAT_NAME(FI_SOCKADDR),    COMPAT_NAME(FI_SOCKADDR_IN),
    COMPAT_NAME(FI_SOCKADDR_IN6),  COMPAT_NAME(FI_SOCKADDR_IB), COMPAT_NAME(FI_ADDR_PSMX),
    COMPAT_NAME(FI_ADDR_GNI),      COMPAT_NAME(FI_ADDR_BGQ),    COMPAT_NAME(FI_ADDR_MLX),
    COMPAT_NAME(FI_ADDR_STR),      COMPAT_NAME(FI_ADDR_PSMX2),  COMPAT_NAME(FI_ADDR_IB_UD),
    COMPAT_NAME(FI_ADDR_EFA),      COMPAT_NAME(FI_ADDR_PSMX3),  COMPAT_NAME(FI_ADDR_OPX),
    COMPAT_NAME(FI_ADDR_CXI),      COMPAT_NAME(FI_ADDR_UCX),    COMPAT_NAME(FI_SOCKADDR_IP)};
constexpr std::array kProtocols{
    COMPAT_NAME(FI_PROTO_UNSPEC),        COMPAT_NAME(FI_PROTO_RDMA_CM_IB_RC),
    COMPAT_NAME(FI_PROTO_IWARP),         COMPAT_NAME(FI_PROTO_IB_UD),
    COMPAT_NAME(FI_PROTO_PSMX),          COMPAT_NAME(FI_PROTO_UDP),
    COMPAT_NAME(FI_PROTO_SOCK_TCP),      COMPAT_NAME(FI_PROTO_MXM),
    COMPAT_NAME(FI_PROTO_IWARP_RDM),     COMPAT_NAME(FI_PROTO_IB_RDM),
    COMPAT_NAME(FI_PROTO_GNI),           COMPAT_NAME(FI_PROTO_RXM),
    COMPAT_NAME(FI_PROTO_RXD),           COMPAT_NAME(FI_PROTO_MLX),
    COMPAT_NAME(FI_PROTO_NETWORKDIRECT), COMPAT_NAME(FI_PROTO_PSMX2),
    COMPAT_NAME(FI_PROTO_SHM),           COMPAT_NAME(FI_PROTO_MRAIL),
    COMPAT_NAME(FI_PROTO_RSTREAM),       COMPAT_NAME(FI_PROTO_RDMA_CM_IB_XRC),
    COMPAT_NAME(FI_PROTO_EFA),           COMPAT_NAME(FI_PROTO_PSMX3),
    COMPAT_NAME(FI_PROTO_RXM_TCP),       COMPAT_NAME(FI_PROTO_OPX),
    COMPAT_NAME(FI_PROTO_CXI),           COMPAT_NAME(FI_PROTO_XNET),
    COMPAT_NAME(FI_PROTO_COLL),          COMPAT_NAME(FI_PROTO_UCX),
    COMPAT_NAME(FI_PROTO_SM2),           COMPAT_NAME(FI_PROTO_CXI_RNR),
    COMPAT_NAME(FI_PROTO_LPP),           COMPAT_NAME(FI_PROTO_LNX)};
constexpr NameRow kEqEvents[] = {
    COMPAT_NAME(FI_NOTIFY),        COMPAT_NAME(FI_CONNREQ),     COMPAT_NAME(FI_CONNECTED),
    COMPAT_NAME(FI_SHUTDOWN),      COMPAT_NAME(FI_MR_COMPLETE), COMPAT_NAME(FI_AV_COMPLETE),
    COMPAT_NAME(FI_JOIN_COMPLETE),
};
constexpr NameRow kEpTypes[] = {
    COMPAT_NAME(FI_EP_UNSPEC),
    COMPAT_NAME(FI_EP_MSG),
    COMPAT_NAME(FI_EP_DGRAM),
    COMPAT_NAME(FI_EP_RDM),
};
constexpr NameRow kThreading[] = {
    COMPAT_NAME(FI_THREAD_UNSPEC),     COMPAT_NAME(FI_THREAD_SAFE),
    COMPAT_NAME(FI_THREAD_FID),        COMPAT_NAME(FI_THREAD_DOMAIN),
    COMPAT_NAME(FI_THREAD_COMPLETION), COMPAT_NAME(FI_THREAD_ENDPOINT),
};
constexpr NameRow kProgress[] = {
    COMPAT_NAME(FI_PROGRESS_UNSPEC),
    COMPAT_NAME(FI_PROGRESS_AUTO),
    COMPAT_NAME(FI_PROGRESS_MANUAL),
    COMPAT_NAME(FI_PROGRESS_CONTROL_UNIFIED),
};
constexpr NameRow kResourceMgmt[] = {
    COMPAT_NAME(FI_RM_UNSPEC),
    COMPAT_NAME(FI_RM_DISABLED),
    COMPAT_NAME(FI_RM_ENABLED),
};
constexpr NameRow kAvTypes[] = {
    COMPAT_NAME(FI_AV_UNSPEC),
    COMPAT_NAME(FI_AV_MAP),
    COMPAT_NAME(FI_AV_TABLE),
};
constexpr NameRow kDatatypes[] = {
    COMPAT_NAME(FI_INT8),          COMPAT_NAME(FI_UINT8),
    COMPAT_NAME(FI_INT16),         COMPAT_NAME(FI_UINT16),
    COMPAT_NAME(FI_INT32),         COMPAT_NAME(FI_UINT32),
    COMPAT_NAME(FI_INT64),         COMPAT_NAME(FI_UINT64),
    COMPAT_NAME(FI_FLOAT),         COMPAT_NAME(FI_DOUBLE),
    COMPAT_NAME(FI_FLOAT_COMPLEX), COMPAT_NAME(FI_DOUBLE_COMPLEX),
    COMPAT_NAME(FI_LONG_DOUBLE),   COMPAT_NAME(FI_LONG_DOUBLE_COMPLEX),
    COMPAT_NAME(FI_INT128),        COMPAT_NAME(FI_UINT128),
    COMPAT_NAME(FI_FLOAT16),       COMPAT_NAME(FI_BFLOAT16),
    COMPAT_NAME(FI_FLOAT8_E4M3),   COMPAT_NAME(FI_FLOAT8_E5M2),
    COMPAT_NAME(FI_VOID),
};
constexpr std::array kOps{
    COMPAT_NAME(FI_MIN),      COMPAT_NAME(FI_MAX),         COMPAT_NAME(FI_SUM),
    COMPAT_NAME(FI_PROD),     COMPAT_NAME(FI_LOR),         COMPAT_NAME(FI_LAND),
    COMPAT_NAME(FI_BOR),      COMPAT_NAME(FI_BAND),        COMPAT_NAME(FI_LXOR),
    COMPAT_NAME(FI_BXOR),     COMPAT_NAME(FI_ATOMIC_READ), COMPAT_NAME(FI_ATOMIC_WRITE),
    COMPAT_NAME(FI_CSWAP),    COMPAT_NAME(FI_CSWAP_NE),    COMPAT_NAME(FI_CSWAP_LE),
    COMPAT_NAME(FI_CSWAP_LT), COMPAT_NAME(FI_CSWAP_GE),    COMPAT_NAME(FI_CSWAP_GT),
    COMPAT_NAME(FI_MSWAP),    COMPAT_NAME(FI_DIFF),        COMPAT_NAME(FI_NOOP)};
constexpr std::array kOpTypes{
    COMPAT_NAME(FI_OP_RECV),     COMPAT_NAME(FI_OP_SEND),         COMPAT_NAME(FI_OP_TRECV),
    COMPAT_NAME(FI_OP_TSEND),    COMPAT_NAME(FI_OP_READ),         COMPAT_NAME(FI_OP_WRITE),
    COMPAT_NAME(FI_OP_ATOMIC),   COMPAT_NAME(FI_OP_FETCH_ATOMIC), COMPAT_NAME(FI_OP_COMPARE_ATOMIC),
    COMPAT_NAME(FI_OP_CNTR_SET), COMPAT_NAME(FI_OP_CNTR_ADD)};
constexpr std::array kCollectiveOps{
    COMPAT_NAME(FI_BARRIER),   COMPAT_NAME(FI_BROADCAST), COMPAT_NAME(FI_ALLTOALL),
    COMPAT_NAME(FI_ALLREDUCE), COMPAT_NAME(FI_ALLGATHER), COMPAT_NAME(FI_REDUCE_SCATTER),
    COMPAT_NAME(FI_REDUCE),    COMPAT_NAME(FI_SCATTER),   COMPAT_NAME(FI_GATHER)};
constexpr NameRow kHmemIfaces[] = {
    COMPAT_NAME(FI_HMEM_SYSTEM), COMPAT_NAME(FI_HMEM_CUDA),   COMPAT_NAME(FI_HMEM_ROCR),
    COMPAT_NAME(FI_HMEM_ZE),     COMPAT_NAME(FI_HMEM_NEURON), COMPAT_NAME(FI_HMEM_SYNAPSEAI),
};
constexpr NameRow kCqFormats[] = {
    COMPAT_NAME(FI_CQ_FORMAT_UNSPEC), COMPAT_NAME(FI_CQ_FORMAT_CONTEXT),
    COMPAT_NAME(FI_CQ_FORMAT_MSG),    COMPAT_NAME(FI_CQ_FORMAT_DATA),
    COMPAT_NAME(FI_CQ_FORMAT_TAGGED),
};
// As FI_LOG_LEVEL and FI_LOG_SUBSYS spell them.
constexpr NameRow kLogLevels[] = {
    {FI_LOG_WARN, "warn"},
    {FI_LOG_TRACE, "trace"},
    {FI_LOG_INFO, "info"},
    {FI_LOG_DEBUG, "debug"},
};
constexpr NameRow kLogSubsystems[] = {
    {FI_LOG_CORE, "core"},       {FI_LOG_FABRIC, "fabric"},   {FI_LOG_DOMAIN, "domain"},
    {FI_LOG_EP_CTRL, "ep_ctrl"}, {FI_LOG_EP_DATA, "ep_data"}, {FI_LOG_AV, "av"},
    {FI_LOG_CQ, "cq"},           {FI_LOG_EQ, "eq"},           {FI_LOG_MR, "mr"},
    {FI_LOG_CNTR, "cntr"},
};
constexpr NameRow kCqWaitConditions[] = {
    COMPAT_NAME(FI_CQ_COND_NONE),
    COMPAT_NAME(FI_CQ_COND_THRESHOLD),
};
constexpr NameRow kWaitObjects[] = {
    COMPAT_NAME(FI_WAIT_NONE),   COMPAT_NAME(FI_WAIT_UNSPEC),     COMPAT_NAME(FI_WAIT_SET),
    COMPAT_NAME(FI_WAIT_FD),     COMPAT_NAME(FI_WAIT_MUTEX_COND), COMPAT_NAME(FI_WAIT_YIELD),
    COMPAT_NAME(FI_WAIT_POLLFD),
};

struct Table {
    fi_type type;
    std::span<const NameRow> names;
};

constexpr std::array kTables{Table{FI_TYPE_EP_TYPE, kEpTypes},
                             Table{FI_TYPE_CAPS, kCaps},
                             Table{FI_TYPE_OP_FLAGS, kOpFlags},
                             Table{FI_TYPE_ADDR_FORMAT, kAddressFormats},
                             Table{FI_TYPE_THREADING, kThreading},
                             Table{FI_TYPE_PROGRESS, kProgress},
                             Table{FI_TYPE_PROTOCOL, kProtocols},
                             Table{FI_TYPE_MSG_ORDER, kMsgOrder},
                             Table{FI_TYPE_MODE, kMode},
                             Table{FI_TYPE_AV_TYPE, kAvTypes},
                             Table{FI_TYPE_ATOMIC_TYPE, kDatatypes},
                             Table{FI_TYPE_ATOMIC_OP, kOps},
                             Table{FI_TYPE_EQ_EVENT, kEqEvents},
                             Table{FI_TYPE_CQ_EVENT_FLAGS, kCqFlags},
                             Table{FI_TYPE_MR_MODE, kMrMode},
                             Table{FI_TYPE_OP_TYPE, kOpTypes},
                             Table{FI_TYPE_COLLECTIVE_OP, kCollectiveOps},
                             Table{FI_TYPE_HMEM_IFACE, kHmemIfaces},
                             Table{FI_TYPE_CQ_FORMAT, kCqFormats},
                             Table{FI_TYPE_LOG_LEVEL, kLogLevels},
                             Table{FI_TYPE_LOG_SUBSYS, kLogSubsystems},
                             Table{FI_TYPE_CQ_WAIT_COND, kCqWaitConditions},
                             Table{FI_TYPE_WAIT_OBJ, kWaitObjects}};

void append_hex(std::string& text, std::uint64_t value) {
    char digits[16];
    const auto end = std::to_chars(digits, std::end(digits), value, 16).ptr;
    text.append("0x").append(digits, end);
}

void append_separated(std::string& text, bool& first) {
    if (!std::exchange(first, false)) text.append(", ");
}

}  // namespace

std::span<const NameRow> names_of(fi_type type) noexcept {
    const auto table = std::ranges::find(kTables, type, &Table::type);
    return table != kTables.end() ? table->names : std::span<const NameRow>();
}

std::span<const NameRow> names_of_resource_mgmt() noexcept {
    return kResourceMgmt;
}

void append_flags(std::string& text, std::uint64_t value, fi_type type) {
    bool first = true;
    for (const NameRow& row : names_of(type)) {
        if ((value & row.value) == 0) continue;
        append_separated(text, first);
        text.append(row.name);
        value &= ~row.value;
    }
    if (value == 0) return;
    append_separated(text, first);
    append_hex(text, value);
}

void append_enum(std::string& text, std::uint64_t value, fi_type type) {
    append_name(text, value, names_of(type));
}

void append_name(std::string& text, std::uint64_t value, std::span<const NameRow> names) {
    const auto row = std::ranges::find(names, value, &NameRow::value);
    text.append(row != names.end() ? row->name : "Unknown");
}

}  // namespace compat::fi
