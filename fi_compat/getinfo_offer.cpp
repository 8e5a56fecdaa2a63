// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/getinfo_offer.hpp"

#include <algorithm>
#include <array>

#include "fi_compat/flag_map.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {
namespace {

constexpr std::size_t kInjectSize = 512;
constexpr std::size_t kIovLimit = 8;
constexpr std::size_t kQueueDefault = 256;
constexpr std::size_t kObjects = 8192;  // the domain's queues, endpoints, counters
constexpr std::size_t kRegions = 1U << 20;
constexpr std::size_t kEndless = SIZE_MAX / 2;  // what an operation that is cut up may carry
constexpr std::size_t kAnySize = SIZE_MAX;
/// fi_endpoint(3), mem_tag_format: all 64 bits are matched, each a field of its own.
constexpr std::uint64_t kTagBits = 0xaaaa'aaaa'aaaa'aaaa;

/// What reliable connected queue pairs order; no write waits for an earlier read.
constexpr std::uint64_t kRcOrder = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW |
                                   FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |
                                   FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;

constexpr std::uint64_t kModifiers = kSendCaps | kReceiveCaps;

/// An endpoint type on every device; what a device lacks is taken off by kDeviceRows.
struct TypeRow {
    fi_ep_type type;
    std::uint64_t caps;
    std::uint64_t tx_op_flags;
    std::uint64_t rx_op_flags;
    std::uint64_t msg_order;
};
constexpr std::array kTypes{
    TypeRow{
        .type = FI_EP_MSG,
        .caps = FI_MSG | FI_RMA | kModifiers | FI_MULTI_RECV | FI_FENCE | FI_RMA_EVENT |
                FI_RMA_PMEM | FI_LOCAL_COMM | FI_REMOTE_COMM,
        .tx_op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                       FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE,
        .rx_op_flags = FI_COMPLETION | FI_MULTI_RECV,
        .msg_order = kRcOrder,
    },
    TypeRow{
        .type = FI_EP_RDM,
        .caps = FI_MSG | FI_TAGGED | FI_RMA | kModifiers | FI_MULTI_RECV | FI_DIRECTED_RECV |
                FI_SOURCE | FI_FENCE | FI_RMA_EVENT | FI_RMA_PMEM | FI_LOCAL_COMM | FI_REMOTE_COMM,
        .tx_op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                       FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE,
        .rx_op_flags = FI_COMPLETION | FI_MULTI_RECV,
        .msg_order = kRcOrder,  // one queue pair a peer
    },
};
constexpr std::array kTypeList{kTypes[0].type, kTypes[1].type};
static_assert(kTypeList.size() == kTypes.size());

/// What depends on a device's abilities.
struct DeviceRow {
    bool core::Limits::*ability;
    std::uint64_t caps;
    std::uint64_t tx_op_flags;
};
constexpr std::array kDeviceRows{
    // hardware tells nobody; what upstream's providers have there lacks it as well
    DeviceRow{&core::Limits::remote_access_events, FI_RMA_EVENT, 0},
    DeviceRow{&core::Limits::flush, FI_RMA_PMEM, FI_COMMIT_COMPLETE},
};

const TypeRow& row_of(fi_ep_type type) {
    return *std::ranges::find(kTypes, type, &TypeRow::type);
}

bool asks_messages(const fi_info* hints) {
    return hints == nullptr || hints->caps == 0 || (hints->caps & kMessageCaps) != 0;
}

bool takes_receives_for_data(const core::Limits& limits) {
    return !limits.imm_without_receive;
}

std::size_t cq_data_size(const core::Limits& limits, fi_ep_type type, const fi_info* hints) {
    if (type == FI_EP_RDM) return sizeof(core::Message::imm);
    // A program that did not offer FI_RX_CQ_DATA must not be made to post receives for data.
    const bool may_consume = hints != nullptr && (hints->mode & FI_RX_CQ_DATA) != 0;
    return takes_receives_for_data(limits) && !may_consume ? 0 : limits.imm_bytes;
}

std::uint32_t protocol_of(const Provider& provider, const core::Limits& limits, fi_ep_type type) {
    if (type != FI_EP_MSG) return provider.protocol_rdm;
    const bool is_iwarp_nic =
        provider.kind == DeviceKind::rdma && limits.transport == core::Transport::iwarp;
    return is_iwarp_nic ? static_cast<std::uint32_t>(FI_PROTO_IWARP) : provider.protocol_msg;
}

/// The longest message, and the longest operation of a program that sends none.
std::size_t max_message(const core::Limits& limits, fi_ep_type type, const fi_info* hints) {
    if (!asks_messages(hints)) return kEndless;  // RMA is cut into as many requests as it takes
    return type == FI_EP_MSG ? limits.max_message : core::RdmEndpoint::kMaxMessage;
}

std::uint64_t side_caps(std::uint64_t caps, std::uint64_t side, std::uint64_t extra) {
    return caps & (kMessageCaps | kMemoryCaps | side | extra);
}
std::uint64_t tx_caps(std::uint64_t caps) {
    return side_caps(caps, kSendCaps, FI_FENCE | FI_RMA_PMEM);
}
std::uint64_t rx_caps(std::uint64_t caps) {
    return side_caps(caps, kReceiveCaps,
                     FI_MULTI_RECV | FI_RMA_EVENT | FI_RMA_PMEM | FI_SOURCE | FI_DIRECTED_RECV);
}
constexpr std::uint64_t kDomainCaps = FI_LOCAL_COMM | FI_REMOTE_COMM;

/// Secondary capabilities that mean nothing without RMA.
constexpr std::uint64_t kNeedRma = FI_RMA_EVENT | FI_RMA_PMEM;

std::uint64_t granted_caps(const Offer& offer, const fi_info* hints) {
    const std::uint64_t asked = hints != nullptr ? hints->caps : 0;
    const std::uint64_t primary = with_modifiers(
        asked & ~kSecondaryCaps ? asked & ~kSecondaryCaps : offer.info.caps & ~kSecondaryCaps);
    std::uint64_t secondary = offer.info.caps & kSecondaryCaps;
    if ((primary & FI_RMA) == 0) secondary &= ~kNeedRma;
    if ((primary & FI_RECV) == 0) secondary &= ~FI_MULTI_RECV;
    if ((asked & FI_SOURCE) == 0) secondary &= ~FI_SOURCE;  // it may cost: only who asks gets it
    return primary | secondary;
}

/// fi_mr(3), mr_mode: every bit that is left is one the program has to honour, so what is of no use
/// to the device is cleared.
int granted_mr_mode(const Offer& offer, const fi_info* hints, std::uint32_t api_version) {
    if (hints == nullptr || hints->domain_attr == nullptr) {
        if (api_at_least(api_version, 1, 5)) return offer.mr_needed;
        return FI_MR_BASIC;
    }
    const int asked = hints->domain_attr->mr_mode;
    if (asked == FI_MR_BASIC || asked == FI_MR_SCALABLE) return asked;
    if (!api_at_least(api_version, 1, 5)) return FI_MR_BASIC;
    return asked & (offer.mr_needed | offer.mr_helpful);
}

/// Targets of RMA on a device that chooses keys and addresses must be told of them; who offers no
/// mr_mode bit at all is no target.
bool strips_remote(const Offer& offer, const fi_info* hints, int mr_mode) {
    return hints != nullptr && mr_mode == 0 && (offer.mr_needed & kMrBasicMap) != 0;
}

template <class Value>
Value or_default(Value asked, Value fallback) {
    return asked != Value{} ? asked : fallback;
}

void cut_tx(fi_tx_attr& tx, const fi_tx_attr* asked) {
    tx.op_flags = 0;
    tx.size = std::min(kQueueDefault, tx.size);
    if (asked == nullptr) return;
    tx.op_flags = asked->op_flags;
    tx.msg_order = or_default(asked->msg_order, tx.msg_order);
    tx.size = or_default(asked->size, tx.size);
    if (asked->caps != 0) tx.caps &= with_modifiers(asked->caps);
}

void cut_rx(fi_rx_attr& rx, const fi_rx_attr* asked) {
    rx.op_flags = 0;
    rx.size = std::min(kQueueDefault, rx.size);
    if (asked == nullptr) return;
    rx.op_flags = asked->op_flags;
    rx.msg_order = or_default(asked->msg_order, rx.msg_order);
    rx.size = or_default(asked->size, rx.size);
    if (asked->caps != 0) rx.caps &= with_modifiers(asked->caps);
}

void cut_domain(fi_domain_attr& domain, const fi_domain_attr* asked) {
    if (asked == nullptr) return;
    domain.domain = asked->domain;
    domain.threading = or_default(asked->threading, domain.threading);
    domain.progress = or_default(asked->progress, domain.progress);
    // Programs of 1.x look for what they asked for; anything else asks for nothing.
    if (number_in(asked->control_progress) == FI_PROGRESS_MANUAL)
        domain.control_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = or_default(asked->resource_mgmt, domain.resource_mgmt);
    domain.av_type = or_default(asked->av_type, domain.av_type);
}

void cut_ep(fi_ep_attr& ep, const fi_ep_attr* asked) {
    if (asked == nullptr) return;
    // however the program divides the tag: every bit of it counts
    if (ep.mem_tag_format != 0)
        ep.mem_tag_format = or_default(asked->mem_tag_format, ep.mem_tag_format);
    ep.tx_ctx_cnt = or_default(asked->tx_ctx_cnt, ep.tx_ctx_cnt);
    ep.rx_ctx_cnt = or_default(asked->rx_ctx_cnt, ep.rx_ctx_cnt);
}

}  // namespace

std::span<const fi_ep_type> offered_types() noexcept {
    return kTypeList;
}

bool provider_offers(const Provider& provider, fi_ep_type type) noexcept {
    return type == FI_EP_MSG ? provider.offers_msg : type == FI_EP_RDM && provider.offers_rdm;
}

std::uint64_t with_modifiers(std::uint64_t caps) noexcept {
    constexpr std::uint64_t kOfMessages = FI_SEND | FI_RECV;
    constexpr std::uint64_t kOfMemory = kModifiers & ~kOfMessages;
    if ((caps & kMessageCaps) != 0 && (caps & kOfMessages) == 0) caps |= kOfMessages;
    if ((caps & kMemoryCaps) != 0 && (caps & kOfMemory) == 0) caps |= kOfMemory;
    return caps;
}

Offer::Offer(const Provider& row, const core::Device& of, fi_ep_type type,
             std::uint32_t api_version, const fi_info* hints)
    : provider(row), device(of) {
    const core::Limits& limits = device.limits();
    const TypeRow& can = row_of(type);
    std::uint64_t missing_caps = 0;
    std::uint64_t missing_flags = 0;
    for (const DeviceRow& needs : kDeviceRows) {
        if (limits.*needs.ability) continue;
        missing_caps |= needs.caps;
        missing_flags |= needs.tx_op_flags;
    }
    if (!delivers(type, limits)) missing_flags |= FI_DELIVERY_COMPLETE;
    // Connectionless endpoints register what comes without a descriptor.
    if (!limits.unregistered_local) (type == FI_EP_RDM ? mr_helpful : mr_needed) |= FI_MR_LOCAL;
    if (!limits.requested_keys) mr_needed |= kMrBasicMap;
    const bool old_api = !api_at_least(api_version, 1, 5);
    // comp_order is obsolete since 2.0; queue pairs complete in posting order all the same
    const std::uint64_t comp_order = api_at_least(api_version, 2, 0) ? 0 : FI_ORDER_STRICT;

    if (row.same_host) missing_caps |= FI_REMOTE_COMM;

    info.caps = can.caps & ~missing_caps;
    info.mode = old_api && (mr_needed & FI_MR_LOCAL) ? FI_LOCAL_MR : 0;
    const std::size_t data_size = cq_data_size(limits, type, hints);
    if (type == FI_EP_MSG && data_size != 0 && takes_receives_for_data(limits))
        info.mode |= FI_RX_CQ_DATA;
    info.tx_attr = &tx;
    info.rx_attr = &rx;
    info.ep_attr = &ep;
    info.domain_attr = &domain;
    info.fabric_attr = &fabric;

    tx.caps = tx_caps(info.caps);
    tx.mode = info.mode;
    tx.op_flags = can.tx_op_flags & ~missing_flags;
    tx.msg_order = can.msg_order;
    tx.comp_order = comp_order;
    tx.inject_size = kInjectSize;
    tx.size = limits.max_qp_wr;
    tx.iov_limit = std::min<std::size_t>(kIovLimit, limits.max_sge);
    tx.rma_iov_limit = kIovLimit;

    rx.caps = rx_caps(info.caps);
    rx.mode = info.mode;
    rx.op_flags = can.rx_op_flags;
    rx.msg_order = can.msg_order;
    rx.comp_order = comp_order;
    rx.size = limits.max_qp_wr;
    rx.iov_limit = tx.iov_limit;

    ep.type = type;
    ep.protocol = protocol_of(provider, limits, type);
    ep.protocol_version = 1;
    ep.max_msg_size = max_message(limits, type, hints);
    ep.max_order_raw_size = kAnySize;
    ep.max_order_waw_size = kAnySize;
    ep.mem_tag_format = (can.caps & FI_TAGGED) != 0 ? kTagBits : 0;
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;

    domain.threading = FI_THREAD_SAFE;
    domain.control_progress = FI_PROGRESS_AUTO;
    domain.progress = FI_PROGRESS_AUTO;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.mr_mode = FI_MR_BASIC | FI_MR_SCALABLE | kMrBasicMap | FI_MR_LOCAL;
    if ((mr_needed & kMrBasicMap) != 0) domain.mr_mode &= ~FI_MR_SCALABLE;
    domain.mr_key_size = sizeof(std::uint32_t);
    domain.cq_data_size = data_size;
    domain.cq_cnt = kObjects;
    domain.ep_cnt = kObjects;
    domain.tx_ctx_cnt = kObjects;
    domain.rx_ctx_cnt = kObjects;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.max_ep_stx_ctx = kObjects;
    domain.max_ep_srx_ctx = kObjects;
    domain.cntr_cnt = kObjects;
    domain.mr_iov_limit = 1;
    domain.caps = info.caps & kDomainCaps;
    domain.max_err_data = limits.max_reject_data;
    domain.mr_cnt = kRegions;
    domain.max_cntr_value = UINT64_MAX;
    domain.max_err_cntr_value = UINT64_MAX;

    fabric.prov_version = kProviderVersion;
    fabric.api_version = api_version;
}

InfoPtr cut_info(const Offer& offer, const fi_info* hints, std::uint32_t api_version) {
    InfoPtr cut = duplicate_info(offer.info);
    cut->domain_attr->mr_mode = granted_mr_mode(offer, hints, api_version);
    // Who did not offer the new bit, say with FI_MR_BASIC, has offered the old one.
    if ((offer.mr_needed & ~cut->domain_attr->mr_mode & FI_MR_LOCAL) != 0) cut->mode |= FI_LOCAL_MR;
    cut->tx_attr->mode = cut->rx_attr->mode = cut->mode;
    cut->caps = granted_caps(offer, hints);
    if (strips_remote(offer, hints, cut->domain_attr->mr_mode)) cut->caps &= ~kRemoteCaps;
    cut->tx_attr->caps = tx_caps(cut->caps);
    cut->rx_attr->caps = rx_caps(cut->caps);
    cut->domain_attr->caps = cut->caps & kDomainCaps;
    cut_tx(*cut->tx_attr, hints != nullptr ? hints->tx_attr : nullptr);
    cut_rx(*cut->rx_attr, hints != nullptr ? hints->rx_attr : nullptr);
    cut_ep(*cut->ep_attr, hints != nullptr ? hints->ep_attr : nullptr);
    cut_domain(*cut->domain_attr, hints != nullptr ? hints->domain_attr : nullptr);
    if (hints != nullptr) cut->handle = hints->handle;
    return cut;
}

}  // namespace compat::fi
