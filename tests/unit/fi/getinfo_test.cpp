// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/getinfo.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <strings.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fi_compat/getinfo_hints.hpp"
#include "fi_compat/getinfo_offer.hpp"
#include "fi_compat/names.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/stderr.hpp"

namespace {

using namespace compat;

constexpr std::uint32_t kApi = FI_VERSION(1, 20);

/// Hints, and what came back for them.
struct Rig {
    fi_info* hints = fi_allocinfo();
    fi_info* info = nullptr;

    Rig() = default;
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;
    ~Rig() {
        fi_freeinfo(info);
        fi_freeinfo(hints);
    }
    int get(std::uint32_t api = kApi, const char* node = nullptr, const char* service = nullptr,
            std::uint64_t flags = 0) {
        fi_freeinfo(info);
        info = nullptr;
        return fi_getinfo(api, node, service, flags, hints, &info);
    }
    void name(const char* prov_name) {
        std::free(hints->fabric_attr->prov_name);
        hints->fabric_attr->prov_name = strdup(prov_name);
    }
};

int setup(void** state) {
    unsetenv("FI_PROVIDER");
    unsetenv("FI_LOG_LEVEL");
    unsetenv("FI_TCP_IFACE");
    *state = new Rig;
    return 0;
}
int teardown(void** state) {
    unsetenv("FI_PROVIDER");
    unsetenv("FI_TCP_IFACE");
    delete static_cast<Rig*>(*state);
    return 0;
}
Rig& rig_of(void** state) {
    return *static_cast<Rig*>(*state);
}

const sockaddr_in& source_of(const fi_info& info) {
    return *static_cast<const sockaddr_in*>(info.src_addr);
}
const sockaddr_in& destination_of(const fi_info& info) {
    return *static_cast<const sockaddr_in*>(info.dest_addr);
}

// --- names --------------------------------------------------------------------------------------

void names_match_by_component(void**) {
    assert_true(fi::same_components("tcp;ofi_rxm", "OFI_RXM;tcp"));
    assert_false(fi::same_components("tcp;ofi_rxm", "tcp"));
    assert_true(fi::hint_selects(nullptr, "tcp"));
    assert_true(fi::hint_selects("", "tcp"));
    assert_true(fi::hint_selects("tcp", "tcp;ofi_rxm"));
    assert_false(fi::hint_selects("tcp;ofi_rxm", "tcp"));
    assert_true(fi::hint_selects("ofi_rxm", "tcp;ofi_rxm"));
    assert_false(fi::hint_selects("tcp;^ofi_rxm", "tcp;ofi_rxm"));
    assert_false(fi::hint_selects("tc", "tcp"));
}

void filters_select_or_exclude(void**) {
    assert_true(fi::filter_selects(nullptr, "tcp"));
    assert_true(fi::filter_selects("shm,tcp", "tcp"));
    assert_true(fi::filter_selects("tcp", "tcp;ofi_rxm"));
    assert_false(fi::filter_selects("tcp;ofi_rxm", "tcp"));
    assert_false(fi::filter_selects("shm", "tcp"));
    assert_false(fi::filter_selects("^shm,tcp", "tcp"));
    assert_true(fi::filter_selects("^shm", "tcp"));
}

void without_a_name_the_software_device_is_compat(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(), 0);
    for (const fi_info* info = rig.info; info != nullptr; info = info->next)
        assert_string_equal(info->fabric_attr->prov_name, "compat");
}

void aliases_answer_when_they_are_called(void** state) {
    Rig& rig = rig_of(state);
    rig.name("TCP");
    assert_int_equal(rig.get(), 0);
    assert_string_equal(rig.info->fabric_attr->prov_name, "tcp");
    assert_int_equal(rig.info->ep_attr->protocol, FI_PROTO_SOCK_TCP);
    rig.name("sockets");
    assert_int_equal(rig.get(), 0);
    assert_string_equal(rig.info->fabric_attr->prov_name, "sockets");
    rig.name("psm3");
    assert_int_equal(rig.get(), -FI_ENODATA);
    assert_null(rig.info);
}

void the_environment_calls_aliases_too(void** state) {
    Rig& rig = rig_of(state);
    setenv("FI_PROVIDER", "tcp", 1);
    assert_int_equal(rig.get(), 0);
    assert_string_equal(rig.info->fabric_attr->prov_name, "tcp");
    rig.name("compat");
    assert_int_equal(rig.get(), -FI_ENODATA);
    setenv("FI_PROVIDER", "^tcp", 1);
    assert_int_equal(rig.get(), 0);
    assert_string_equal(rig.info->fabric_attr->prov_name, "compat");
    setenv("FI_PROVIDER", "^compat", 1);
    assert_int_equal(rig.get(), -FI_ENODATA);
}

void the_environment_may_forbid_a_kind_of_device(void** state) {
    Rig& rig = rig_of(state);
    setenv("FABRIC_COMPAT_DEVICE", "verbs", 1);
    const int only_verbs = rig.get();
    const int only_names = rig.get(kApi, nullptr, nullptr, FI_PROV_ATTR_ONLY);
    setenv("FABRIC_COMPAT_DEVICE", "soft", 1);
    const int only_soft = rig.get();
    unsetenv("FABRIC_COMPAT_DEVICE");
    assert_int_equal(only_verbs, -FI_ENODATA);
    assert_int_equal(only_names, -FI_ENODATA);
    assert_int_equal(only_soft, 0);
}

void provider_attributes_alone_list_names(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(kApi, nullptr, nullptr, FI_PROV_ATTR_ONLY), 0);
    assert_string_equal(rig.info->fabric_attr->prov_name, "compat");
    assert_int_equal(rig.info->fabric_attr->prov_version, FI_VERSION(205, 10));
    assert_null(rig.info->next);
}

// --- what comes back ----------------------------------------------------------------------------

void every_structure_is_complete(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(), 0);
    const fi_info& info = *rig.info;
    assert_true(info.tx_attr && info.rx_attr && info.ep_attr && info.domain_attr);
    assert_non_null(info.domain_attr->name);
    assert_non_null(info.fabric_attr->name);
    assert_int_equal(info.fabric_attr->api_version, kApi);
    assert_int_equal(info.ep_attr->type, FI_EP_MSG);
    assert_true((info.caps & (FI_MSG | FI_RMA | FI_SEND | FI_REMOTE_WRITE)) ==
                (FI_MSG | FI_RMA | FI_SEND | FI_REMOTE_WRITE));
    assert_int_equal(info.tx_attr->op_flags, 0);
    assert_int_equal(info.mode, 0);
    assert_int_equal(info.tx_attr->comp_order, 0x1ff);  // a program of before 2.0
    assert_int_equal(info.ep_attr->tx_ctx_cnt, 1);
    assert_int_equal(info.domain_attr->max_cntr_value, UINT64_MAX);
}

void no_hints_ask_for_nothing(void**) {
    fi_info* info = nullptr;
    assert_int_equal(fi_getinfo(kApi, nullptr, nullptr, 0, nullptr, &info), 0);
    assert_int_equal(info->domain_attr->mr_mode, 0);
    fi_freeinfo(info);
}

void what_was_asked_is_given_back(void** state) {
    Rig& rig = rig_of(state);
    fi_info& hints = *rig.hints;
    hints.caps = FI_RMA | FI_WRITE;
    hints.mode = ~0ULL;
    hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
    hints.tx_attr->size = 17;
    hints.tx_attr->msg_order = FI_ORDER_SAS;
    hints.rx_attr->size = 19;
    hints.domain_attr->threading = FI_THREAD_DOMAIN;
    hints.domain_attr->progress = FI_PROGRESS_MANUAL;
    hints.domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints.domain_attr->resource_mgmt = FI_RM_DISABLED;
    hints.domain_attr->av_type = FI_AV_TABLE;
    assert_int_equal(rig.get(), 0);
    const fi_info& info = *rig.info;
    assert_int_equal(info.caps & ~fi::kSecondaryCaps, FI_RMA | FI_WRITE);
    assert_int_equal(info.tx_attr->op_flags, FI_DELIVERY_COMPLETE | FI_COMPLETION);
    assert_int_equal(info.tx_attr->size, 17);
    assert_int_equal(info.tx_attr->msg_order, FI_ORDER_SAS);
    assert_int_equal(info.rx_attr->size, 19);
    assert_int_equal(info.domain_attr->threading, FI_THREAD_DOMAIN);
    assert_int_equal(info.domain_attr->progress, FI_PROGRESS_MANUAL);
    assert_int_equal(info.domain_attr->control_progress, FI_PROGRESS_MANUAL);
    assert_int_equal(info.domain_attr->resource_mgmt, FI_RM_DISABLED);
    assert_int_equal(info.domain_attr->av_type, FI_AV_TABLE);
    assert_int_equal(info.mode, 0);
}

void modifiers_are_filled_in(void**) {
    assert_int_equal(fi::with_modifiers(FI_MSG), FI_MSG | FI_SEND | FI_RECV);
    assert_int_equal(fi::with_modifiers(FI_MSG | FI_RECV), FI_MSG | FI_RECV);
    assert_int_equal(fi::with_modifiers(FI_RMA),
                     FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
    assert_int_equal(fi::with_modifiers(FI_RMA | FI_READ), FI_RMA | FI_READ);
    assert_int_equal(fi::with_modifiers(0), 0);
}

void a_program_without_memory_gets_no_memory_caps(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->caps = FI_MSG;
    assert_int_equal(rig.get(), 0);
    assert_int_equal(rig.info->caps & (FI_RMA | FI_RMA_EVENT | FI_RMA_PMEM | FI_REMOTE_READ), 0);
    assert_true((rig.info->caps & FI_MULTI_RECV) != 0);
}

void long_transfers_are_for_memory_alone(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->ep_attr->type = FI_EP_MSG;
    rig.hints->caps = FI_RMA;
    rig.hints->ep_attr->max_msg_size = std::size_t{1} << 40;
    assert_int_equal(rig.get(), 0);
    rig.hints->caps = FI_RMA | FI_MSG;  // a message is never cut up
    assert_int_equal(rig.get(), -FI_ENODATA);
    rig.hints->ep_attr->type = FI_EP_RDM;  // but fetched in as many reads as it takes
    assert_int_equal(rig.get(), 0);
}

// --- mr_mode ------------------------------------------------------------------------------------

void memory_modes_that_nobody_needs_are_cleared(void** state) {
    Rig& rig = rig_of(state);
    struct Row {
        std::uint32_t api;
        int asked;
        int granted;
    };
    constexpr int kMap = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    const Row rows[] = {
        {kApi, 0, 0},
        {kApi, FI_MR_BASIC, FI_MR_BASIC},
        {kApi, FI_MR_SCALABLE, FI_MR_SCALABLE},
        // the software device has no need of any: programs written for upstream's software
        // providers count on offsets and on keys of their own then
        {kApi, kMap, 0},
        {kApi, kMap | FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_RAW | FI_MR_HMEM, 0},
        {kApi, FI_MR_LOCAL, 0},
        {kApi, FI_MR_VIRT_ADDR, 0},
        {FI_VERSION(1, 4), FI_MR_UNSPEC, FI_MR_BASIC},
        {FI_VERSION(1, 4), FI_MR_BASIC, FI_MR_BASIC},
        {FI_VERSION(1, 4), FI_MR_SCALABLE, FI_MR_SCALABLE},
    };
    for (const Row& row : rows) {
        rig.hints->domain_attr->mr_mode = row.asked;
        assert_int_equal(rig.get(row.api), 0);
        assert_int_equal(rig.info->domain_attr->mr_mode, row.granted);
    }
    rig.hints->domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL;  // BASIC stands alone
    assert_int_equal(rig.get(), -FI_ENODATA);
}

/// A NIC's limits: keys and addresses are its own, local buffers must be registered.
core::Limits nic_limits() {
    core::Limits limits;
    limits.name = "mlx5_0";
    limits.max_qp_wr = 128;
    limits.max_sge = 4;
    limits.max_message = 1U << 30;
    limits.imm_bytes = 4;
    limits.max_reject_data = 148;
    return limits;
}

struct NicRig {
    test::FakeDevice device;
    fi_info* hints = fi_allocinfo();
    const fi::Provider& verbs = *fi::find_provider("verbs");

    NicRig() { device.current_limits = nic_limits(); }
    ~NicRig() { fi_freeinfo(hints); }
    std::string refused(std::uint32_t api = kApi, fi_ep_type type = FI_EP_MSG) {
        const fi::Offer offer(verbs, device, type, api, hints);
        const auto mismatch = fi::find_mismatch(offer, *hints, api);
        return mismatch ? mismatch->hint : "";
    }
    fi::InfoPtr cut(std::uint32_t api = kApi) {
        const fi::Offer offer(verbs, device, FI_EP_MSG, api, hints);
        return fi::cut_info(offer, hints, api);
    }
};

int setup_nic(void** state) {
    *state = new NicRig;
    return 0;
}
int teardown_nic(void** state) {
    delete static_cast<NicRig*>(*state);
    return 0;
}

constexpr int kNicMap = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

void a_nic_needs_registered_buffers_and_its_own_keys(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    int& mr_mode = rig.hints->domain_attr->mr_mode;
    assert_string_equal(rig.refused().c_str(), "domain_attr->mr_mode");
    mr_mode = fi::kMrBasicMap;
    assert_string_equal(rig.refused().c_str(), "domain_attr->mr_mode");
    mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR;
    assert_string_equal(rig.refused().c_str(), "domain_attr->mr_mode");
    mr_mode = FI_MR_SCALABLE;
    assert_string_equal(rig.refused().c_str(), "domain_attr->mr_mode");
    mr_mode = kNicMap | FI_MR_ENDPOINT;
    assert_string_equal(rig.refused().c_str(), "");
    assert_int_equal(rig.cut()->domain_attr->mr_mode, kNicMap);
}

void connectionless_endpoints_of_a_nic_take_buffers_without_descriptors(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    const fi::Provider& rxm = *fi::find_provider("verbs;ofi_rxm");
    struct Row {
        int asked;
        int granted;
    };
    for (const Row& row : {Row{fi::kMrBasicMap, fi::kMrBasicMap}, Row{kNicMap, kNicMap},
                           Row{FI_MR_BASIC, FI_MR_BASIC}}) {
        rig.hints->domain_attr->mr_mode = row.asked;
        const fi::Offer offer(rxm, rig.device, FI_EP_RDM, kApi, rig.hints);
        assert_false(fi::find_mismatch(offer, *rig.hints, kApi).has_value());
        const fi::InfoPtr info = fi::cut_info(offer, rig.hints, kApi);
        assert_int_equal(info->domain_attr->mr_mode, row.granted);
        assert_int_equal(info->mode & FI_LOCAL_MR, 0);
        assert_int_equal(info->domain_attr->cq_data_size, 8);
    }
}

void a_nic_takes_the_old_names_too(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    rig.hints->domain_attr->mr_mode = FI_MR_BASIC;
    assert_string_equal(rig.refused().c_str(), "domain_attr->mr_mode");
    rig.hints->mode = FI_LOCAL_MR;
    assert_string_equal(rig.refused().c_str(), "");
    assert_int_equal(rig.cut()->mode, FI_LOCAL_MR);
    assert_int_equal(rig.cut()->tx_attr->mode, FI_LOCAL_MR);
    const std::uint32_t old = FI_VERSION(1, 4);
    assert_string_equal(rig.refused(old).c_str(), "");
    assert_int_equal(rig.cut(old)->mode, FI_LOCAL_MR);
    rig.hints->mode = 0;
    assert_string_equal(rig.refused(old).c_str(), "mode");
}

void who_offers_no_memory_mode_is_no_target(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    rig.hints->domain_attr->mr_mode = FI_MR_LOCAL;
    rig.hints->caps = FI_RMA | FI_MSG;
    assert_string_equal(rig.refused().c_str(), "");
    rig.hints->caps = FI_RMA | FI_REMOTE_WRITE;
    assert_string_equal(rig.refused().c_str(), "domain_attr->mr_mode");
    rig.hints->mode = FI_LOCAL_MR;
    rig.hints->domain_attr->mr_mode = 0;
    rig.hints->caps = FI_RMA | FI_MSG;
    assert_string_equal(rig.refused().c_str(), "");
    assert_int_equal(rig.cut()->caps & fi::kRemoteCaps, 0);
}

void a_nic_offers_data_only_to_who_posts_receives_for_it(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    rig.hints->domain_attr->mr_mode = kNicMap;
    assert_int_equal(rig.cut()->domain_attr->cq_data_size, 0);
    rig.hints->domain_attr->cq_data_size = 4;
    assert_string_equal(rig.refused().c_str(), "domain_attr->cq_data_size");
    rig.hints->mode = FI_RX_CQ_DATA | FI_CONTEXT;
    assert_string_equal(rig.refused().c_str(), "");
    assert_int_equal(rig.cut()->domain_attr->cq_data_size, 4);
    assert_int_equal(rig.cut()->mode, FI_RX_CQ_DATA);
    rig.hints->domain_attr->cq_data_size = 8;
    assert_string_equal(rig.refused().c_str(), "domain_attr->cq_data_size");
}

void a_device_without_flush_promises_no_visible_bytes(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    rig.hints->domain_attr->mr_mode = kNicMap;
    rig.hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    assert_string_equal(rig.refused().c_str(), "tx_attr->op_flags");
    // Connectionless endpoints find out by themselves.
    assert_string_equal(rig.refused(kApi, FI_EP_RDM).c_str(), "");
    rig.hints->tx_attr->op_flags = FI_COMMIT_COMPLETE;
    assert_string_equal(rig.refused(kApi, FI_EP_RDM).c_str(), "tx_attr->op_flags");
    rig.hints->tx_attr->op_flags = FI_TRANSMIT_COMPLETE;
    assert_string_equal(rig.refused().c_str(), "");
    rig.hints->caps = FI_RMA | FI_RMA_PMEM;
    assert_string_equal(rig.refused().c_str(), "caps");
}

void limits_of_the_device_are_the_limits_offered(void** state) {
    NicRig& rig = *static_cast<NicRig*>(*state);
    rig.hints->domain_attr->mr_mode = kNicMap;
    const fi::InfoPtr info = rig.cut();
    assert_int_equal(info->tx_attr->size, 128);
    assert_int_equal(info->tx_attr->iov_limit, 4);
    assert_int_equal(info->ep_attr->max_msg_size, 1U << 30);
    assert_int_equal(info->ep_attr->protocol, FI_PROTO_RDMA_CM_IB_RC);
    rig.device.current_limits.transport = core::Transport::iwarp;
    assert_int_equal(rig.cut()->ep_attr->protocol, FI_PROTO_IWARP);
}

// --- hints that are refused ---------------------------------------------------------------------

struct RefusedRow {
    const char* hint;
    std::uint32_t api;
    void (*ask)(fi_info& hints);
};

#define ASK(member, value) \
    [](fi_info& hints) { hints.member = static_cast<decltype(hints.member)>(value); }

const RefusedRow kRefused[] = {
    {"caps", kApi, ASK(caps, FI_TAGGED)},
    {"caps", kApi, ASK(caps, FI_RMA | FI_ATOMIC)},
    {"caps", kApi, ASK(caps, FI_MSG | FI_DIRECTED_RECV)},
    {"ep_attr->type", kApi, ASK(ep_attr->type, FI_EP_DGRAM)},
    {"ep_attr->protocol", kApi, ASK(ep_attr->protocol, FI_PROTO_PSMX3)},
    {"ep_attr->protocol_version", kApi, ASK(ep_attr->protocol_version, 99)},
    {"ep_attr->max_msg_size", kApi, ASK(ep_attr->max_msg_size, SIZE_MAX)},
    {"ep_attr->auth_key_size", kApi, ASK(ep_attr->auth_key_size, 4)},
    {"ep_attr->tx_ctx_cnt", kApi, ASK(ep_attr->tx_ctx_cnt, 2)},
    {"ep_attr->rx_ctx_cnt", kApi, ASK(ep_attr->rx_ctx_cnt, 2)},
    {"domain_attr->threading", kApi, ASK(domain_attr->threading, 7)},
    {"domain_attr->resource_mgmt", kApi, ASK(domain_attr->resource_mgmt, 3)},
    {"domain_attr->av_type", kApi, ASK(domain_attr->av_type, 3)},
    {"domain_attr->cq_data_size", kApi, ASK(domain_attr->cq_data_size, 9)},
    {"domain_attr->cntr_cnt", kApi, ASK(domain_attr->cntr_cnt, SIZE_MAX)},
    {"domain_attr->mr_iov_limit", kApi, ASK(domain_attr->mr_iov_limit, 2)},
    {"domain_attr->max_err_data", kApi, ASK(domain_attr->max_err_data, 4096)},
    {"domain_attr->mr_cnt", kApi, ASK(domain_attr->mr_cnt, SIZE_MAX)},
    {"domain_attr->caps", kApi, ASK(domain_attr->caps, FI_SHARED_AV)},
    {"domain_attr->auth_key_size", kApi, ASK(domain_attr->auth_key_size, 1)},
    {"tx_attr->op_flags", kApi, ASK(tx_attr->op_flags, FI_MULTICAST)},
    {"tx_attr->msg_order", kApi, ASK(tx_attr->msg_order, FI_ORDER_WAR)},
    {"tx_attr->comp_order", FI_VERSION(2, 0), ASK(tx_attr->comp_order, FI_ORDER_STRICT)},
    {"tx_attr->inject_size", kApi, ASK(tx_attr->inject_size, 1U << 20)},
    {"tx_attr->size", kApi, ASK(tx_attr->size, 1U << 30)},
    {"tx_attr->iov_limit", kApi, ASK(tx_attr->iov_limit, 1000)},
    {"tx_attr->rma_iov_limit", kApi, ASK(tx_attr->rma_iov_limit, 1000)},
    {"tx_attr->caps", kApi, ASK(tx_attr->caps, FI_TAGGED)},
    {"rx_attr->op_flags", kApi, ASK(rx_attr->op_flags, FI_INJECT)},
    {"rx_attr->msg_order", kApi, ASK(rx_attr->msg_order, FI_ORDER_SAR)},
    {"rx_attr->comp_order", FI_VERSION(2, 5), ASK(rx_attr->comp_order, 1)},
    {"rx_attr->total_buffered_recv", kApi, ASK(rx_attr->total_buffered_recv, 1)},
    {"rx_attr->size", kApi, ASK(rx_attr->size, 1U << 30)},
    {"rx_attr->iov_limit", kApi, ASK(rx_attr->iov_limit, 1000)},
    {"rx_attr->caps", kApi, ASK(rx_attr->caps, FI_ATOMIC)},
    {"fabric_attr->prov_version", kApi, ASK(fabric_attr->prov_version, FI_VERSION(999, 0))},
};

void one_hint_too_much_is_found_by_name(void** state) {
    Rig& rig = rig_of(state);
    test::FakeDevice device;
    device.current_limits.unregistered_local = true;
    device.current_limits.requested_keys = true;
    device.current_limits.imm_without_receive = true;
    for (const RefusedRow& row : kRefused) {
        fi_info* hints = fi_allocinfo();
        hints->ep_attr->type = FI_EP_MSG;
        row.ask(*hints);
        const fi::Offer offer(*fi::find_provider("compat"), device, FI_EP_MSG, row.api, hints);
        const auto mismatch = fi::find_mismatch(offer, *hints, row.api);
        const bool found = mismatch && std::strcmp(mismatch->hint, row.hint) == 0;
        if (!found) print_error("%s: got %s\n", row.hint, mismatch ? mismatch->hint : "nothing");
        std::swap(rig.hints, hints);
        const int real = rig.get(row.api);
        std::swap(rig.hints, hints);
        fi_freeinfo(hints);
        assert_true(found);
        assert_false(mismatch->asked.empty());
        assert_false(mismatch->offered.empty());
        assert_int_equal(real, -FI_ENODATA);
    }
}

const RefusedRow kAccepted[] = {
    {"caps of nothing", kApi, ASK(caps, 0)},
    {"secondary caps alone", kApi, ASK(caps, FI_FENCE)},
    {"a lax thread level", kApi, ASK(domain_attr->threading, FI_THREAD_DOMAIN)},
    {"FI_THREAD_FID of old", FI_VERSION(1, 5), ASK(domain_attr->threading, FI_THREAD_FID)},
    {"FI_THREAD_ENDPOINT", kApi, ASK(domain_attr->threading, FI_THREAD_ENDPOINT)},
    {"unified progress", kApi, ASK(domain_attr->progress, FI_PROGRESS_CONTROL_UNIFIED)},
    {"control progress", kApi, ASK(domain_attr->control_progress, FI_PROGRESS_MANUAL)},
    {"one counter", kApi, ASK(domain_attr->cntr_cnt, 1)},
    {"shared receives", kApi, ASK(ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT)},
    {"completion order of old", kApi, ASK(tx_attr->comp_order, FI_ORDER_STRICT)},
    {"a limit nobody had", FI_VERSION(1, 4), ASK(domain_attr->mr_cnt, SIZE_MAX)},
    {"a counter limit nobody had", kApi, ASK(domain_attr->max_cntr_value, 1)},
    {"a long key", kApi, ASK(domain_attr->mr_key_size, 8)},
    {"the other side's bits", kApi, ASK(tx_attr->caps, FI_MSG | FI_RECV)},
    {"orders of RMA", kApi, ASK(tx_attr->msg_order, FI_ORDER_RMA_WAW | FI_ORDER_RAW)},
};

void everything_within_the_offer_is_accepted(void** state) {
    Rig& rig = rig_of(state);
    for (const RefusedRow& row : kAccepted) {
        fi_freeinfo(rig.hints);
        rig.hints = fi_allocinfo();
        row.ask(*rig.hints);
        const int status = rig.get(row.api);
        if (status != 0) print_error("%s\n", row.hint);
        assert_int_equal(status, 0);
    }
}

/// What C code may write into an enumeration.
template <class Enum>
void scribble(Enum& value) {
    const int garbage = 0x55555555;
    std::memcpy(&value, &garbage, sizeof value);
}

void numbers_that_are_no_enumerators_do_no_harm(void** state) {
    Rig& rig = rig_of(state);
    scribble(rig.hints->domain_attr->control_progress);  // nobody looks at it any more
    assert_int_equal(rig.get(), 0);
    scribble(rig.hints->domain_attr->av_type);
    assert_int_equal(rig.get(), -FI_ENODATA);
    scribble(rig.hints->domain_attr->threading);
    scribble(rig.hints->domain_attr->progress);
    scribble(rig.hints->domain_attr->resource_mgmt);
    scribble(rig.hints->ep_attr->type);
    assert_int_equal(rig.get(), -FI_ENODATA);
    assert_non_null(fi_tostr(rig.hints, FI_TYPE_INFO));
}

void order_sizes_matter_with_memory_only(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->ep_attr->max_order_war_size = 8;
    rig.hints->caps = FI_MSG;
    assert_int_equal(rig.get(), 0);
    rig.hints->caps = FI_RMA;
    assert_int_equal(rig.get(), -FI_ENODATA);
}

// --- addresses ----------------------------------------------------------------------------------

void without_an_address_every_interface_is_offered_and_loopback_last(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->addr_format = FI_SOCKADDR_IN;
    rig.hints->ep_attr->type = FI_EP_MSG;
    assert_int_equal(rig.get(), 0);
    bool seen_loopback = false;
    for (const fi_info* info = rig.info; info != nullptr; info = info->next) {
        assert_int_equal(info->addr_format, FI_SOCKADDR_IN);
        assert_int_equal(info->src_addrlen, sizeof(sockaddr_in));
        assert_null(info->dest_addr);
        const bool is_loopback = std::strcmp(info->domain_attr->name, "lo") == 0;
        assert_true(is_loopback || !seen_loopback);
        seen_loopback = seen_loopback || is_loopback;
        if (is_loopback) assert_string_equal(info->fabric_attr->name, "127.0.0.0/8");
    }
    assert_true(seen_loopback);
}

void a_peer_is_reached_from_the_right_interface(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->ep_attr->type = FI_EP_MSG;
    assert_int_equal(rig.get(kApi, "127.0.0.1", "7471"), 0);
    assert_int_equal(destination_of(*rig.info).sin_port, htons(7471));
    assert_int_equal(destination_of(*rig.info).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(source_of(*rig.info).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(source_of(*rig.info).sin_port, 0);
    assert_string_equal(rig.info->domain_attr->name, "lo");
    assert_null(rig.info->next);
}

void a_source_is_where_to_listen(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(kApi, "127.0.0.1", "7471", FI_SOURCE), 0);
    assert_int_equal(source_of(*rig.info).sin_port, htons(7471));
    assert_null(rig.info->dest_addr);
    // all of 127.0.0.0/8 is ours
    assert_int_equal(rig.get(kApi, "127.0.0.9", "7471", FI_SOURCE), 0);
    // documentation addresses are nobody's
    assert_int_equal(rig.get(kApi, "203.0.113.77", "7471", FI_SOURCE), -FI_ENODATA);
}

void a_service_alone_listens_everywhere(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->addr_format = FI_SOCKADDR_IN;
    assert_int_equal(rig.get(kApi, nullptr, "7471", FI_SOURCE), 0);
    for (const fi_info* info = rig.info; info != nullptr; info = info->next) {
        assert_int_equal(source_of(*info).sin_addr.s_addr, htonl(INADDR_ANY));
        assert_int_equal(source_of(*info).sin_port, htons(7471));
    }
    assert_int_equal(rig.get(kApi, nullptr, nullptr, FI_SOURCE), -FI_EINVAL);
}

void what_is_no_port_is_no_service(void** state) {
    Rig& rig = rig_of(state);
    for (const char* service : {"65536", "99999", "no-such-service"})
        for (const std::uint64_t flags : {FI_SOURCE, 0ULL})
            assert_int_equal(rig.get(kApi, "127.0.0.1", service, flags), -FI_ENODATA);
    assert_int_equal(rig.get(kApi, "127.0.0.1", "65535", FI_SOURCE), 0);
    assert_int_equal(source_of(*rig.info).sin_port, htons(65535));
}

void the_hints_addresses_count_when_no_node_is_given(void** state) {
    Rig& rig = rig_of(state);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(9999);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rig.hints->dest_addr = std::malloc(sizeof address);
    std::memcpy(rig.hints->dest_addr, &address, sizeof address);
    rig.hints->dest_addrlen = sizeof address;
    assert_int_equal(rig.get(), 0);
    assert_int_equal(destination_of(*rig.info).sin_port, htons(9999));
    assert_string_equal(rig.info->domain_attr->name, "lo");
    // with FI_SOURCE node and service are ours, the hint is the peer
    assert_int_equal(rig.get(kApi, "127.0.0.1", "1234", FI_SOURCE), 0);
    assert_int_equal(source_of(*rig.info).sin_port, htons(1234));
    assert_int_equal(destination_of(*rig.info).sin_port, htons(9999));
}

void numeric_hosts_are_not_looked_up(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(kApi, "localhost", "1", FI_NUMERICHOST), -FI_ENODATA);
    assert_int_equal(rig.get(kApi, "127.0.0.1", "1", FI_NUMERICHOST), 0);
}

void address_strings_are_read_too(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(kApi, "fi_sockaddr_in://127.0.0.1:4711"), 0);
    assert_int_equal(destination_of(*rig.info).sin_port, htons(4711));
}

void address_formats_select_families(void** state) {
    Rig& rig = rig_of(state);
    struct Row {
        std::uint32_t format;
        bool in;
        bool in6;
    };
    const Row rows[] = {
        {FI_FORMAT_UNSPEC, true, true}, {FI_SOCKADDR, true, true},
        {FI_SOCKADDR_IP, true, true},   {FI_SOCKADDR_IN, true, false},
        {FI_SOCKADDR_IN6, false, true}, {FI_SOCKADDR_IB, false, false},
        {FI_ADDR_STR, true, true},      {FI_ADDR_PSMX3, false, false},
    };
    for (const Row& row : rows) {
        assert_int_equal(fi::format_fits(row.format, AF_INET), row.in);
        assert_int_equal(fi::format_fits(row.format, AF_INET6), row.in6);
        rig.hints->addr_format = row.format;
        assert_int_equal(rig.get(kApi, "127.0.0.1", "1") == 0, row.in);
    }
}

void domain_and_fabric_names_select_an_interface(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->ep_attr->type = FI_EP_MSG;
    rig.hints->domain_attr->name = strdup("LO");
    assert_int_equal(rig.get(), 0);
    for (const fi_info* info = rig.info; info != nullptr; info = info->next)
        assert_string_equal(info->domain_attr->name, "lo");
    rig.hints->fabric_attr->name = strdup("127.0.0.0/8");
    assert_int_equal(rig.get(), 0);
    assert_null(rig.info->next);
    std::strcpy(rig.hints->fabric_attr->name, "10.0.0.0/8");
    assert_int_equal(rig.get(), -FI_ENODATA);
}

void the_environment_selects_an_interface(void** state) {
    Rig& rig = rig_of(state);
    setenv("FI_TCP_IFACE", "lo", 1);
    assert_int_equal(rig.get(), 0);
    for (const fi_info* info = rig.info; info != nullptr; info = info->next)
        assert_string_equal(info->domain_attr->name, "lo");
    setenv("FI_TCP_IFACE", "none9", 1);
    assert_int_equal(rig.get(), -FI_ENODATA);
}

void open_objects_in_the_hints_must_match(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(kApi, "127.0.0.1", "1"), 0);
    fid_fabric* fabric = nullptr;
    assert_int_equal(fi_fabric(rig.info->fabric_attr, &fabric, nullptr), 0);
    rig.hints->fabric_attr->fabric = fabric;
    const int same = rig.get(kApi, "127.0.0.1", "1");
    const bool echoed = same == 0 && rig.info->fabric_attr->fabric == fabric;
    rig.name("tcp");
    const int other = rig.get(kApi, "127.0.0.1", "1");
    rig.hints->fabric_attr->fabric = nullptr;
    fi_close(&fabric->fid);
    assert_true(echoed);
    assert_int_equal(other, -FI_ENODATA);
}

// --- the call -----------------------------------------------------------------------------------

void a_handle_is_passed_through(void** state) {
    Rig& rig = rig_of(state);
    struct fid connection_request {
        FI_CLASS_CONNREQ, nullptr, nullptr
    };
    rig.hints->handle = &connection_request;
    assert_int_equal(rig.get(), 0);
    assert_ptr_equal(rig.info->handle, &connection_request);
}

void bad_calls_are_refused(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.get(FI_VERSION(2, 6)), -FI_ENOSYS);
    assert_int_equal(rig.get(FI_VERSION(3, 0)), -FI_ENOSYS);
    assert_int_equal(rig.get(kApi, nullptr, nullptr, FI_MORE), -FI_EBADFLAGS);
    assert_int_equal(fi_getinfo(kApi, nullptr, nullptr, 0, nullptr, nullptr), -FI_EINVAL);
}

void every_version_since_the_first_is_served(void** state) {
    Rig& rig = rig_of(state);
    for (unsigned minor = 0; minor <= 22; ++minor) {
        assert_int_equal(rig.get(FI_VERSION(1, minor)), 0);
        assert_int_equal(rig.info->fabric_attr->api_version, FI_VERSION(1, minor));
    }
    for (unsigned minor = 0; minor <= 5; ++minor)
        assert_int_equal(rig.get(FI_VERSION(2, minor)), 0);
}

// --- connectionless endpoints -------------------------------------------------------------------

void connectionless_endpoints_answer_to_each_name(void** state) {
    Rig& rig = rig_of(state);
    const struct {
        const char* name;
        std::uint32_t protocol;
        std::uint32_t format;
    } rows[] = {
        {"compat", FI_PROTO_IWARP_RDM, FI_SOCKADDR_IN},
        {"tcp", FI_PROTO_XNET, FI_SOCKADDR_IN},
        {"tcp;ofi_rxm", FI_PROTO_RXM, FI_SOCKADDR_IN},
        {"sockets", FI_PROTO_SOCK_TCP, FI_SOCKADDR_IN},
        {"shm", FI_PROTO_SHM, FI_ADDR_STR},
    };
    rig.hints->ep_attr->type = FI_EP_RDM;
    for (const auto& row : rows) {
        rig.name(row.name);
        assert_int_equal(rig.get(kApi, "127.0.0.1", "7471"), 0);
        assert_int_equal(rig.info->ep_attr->type, FI_EP_RDM);
        assert_int_equal(rig.info->ep_attr->protocol, row.protocol);
        assert_int_equal(rig.info->addr_format, row.format);
        assert_string_equal(rig.info->fabric_attr->prov_name, row.name);
        assert_int_equal(rig.info->domain_attr->cq_data_size, 8);
    }
}

void connectionless_endpoints_have_what_programs_ask_for(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->ep_attr->type = FI_EP_RDM;
    rig.hints->mode = FI_CONTEXT;
    rig.hints->domain_attr->progress = FI_PROGRESS_MANUAL;
    rig.hints->domain_attr->threading = FI_THREAD_DOMAIN;
    const struct {
        std::uint64_t caps;
        int mr_mode;
        int granted;
    } rows[] = {
        {FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE,
         FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, 0},
        {FI_RMA, 0, 0},
        {FI_RMA | FI_RMA_EVENT, FI_MR_LOCAL, 0},
        {FI_MSG | FI_RMA, FI_MR_BASIC, FI_MR_BASIC},
        {FI_MSG | FI_RMA, FI_MR_SCALABLE, FI_MR_SCALABLE},
    };
    for (const auto& row : rows) {
        rig.hints->caps = row.caps;
        rig.hints->domain_attr->mr_mode = row.mr_mode;
        assert_int_equal(rig.get(), 0);
        assert_true((rig.info->caps & row.caps) == row.caps);
        assert_int_equal(rig.info->domain_attr->mr_mode, row.granted);
        assert_int_equal(rig.info->caps & FI_SOURCE, row.caps & FI_SOURCE);
    }
    rig.hints->caps = FI_MSG | FI_ATOMIC;
    assert_int_equal(rig.get(), -FI_ENODATA);
}

void all_bits_of_a_tag_count_however_it_is_divided(void** state) {
    constexpr std::uint64_t kEachBitAField = 0xaaaa'aaaa'aaaa'aaaa;
    constexpr std::uint64_t kTwoFields = 0x0000'ffff'0000'0000;
    Rig& rig = rig_of(state);
    rig.hints->caps = FI_TAGGED;
    for (const std::uint64_t asked : {0UL, kTwoFields, kEachBitAField, UINT64_MAX}) {
        rig.hints->ep_attr->mem_tag_format = asked;
        assert_int_equal(rig.get(), 0);
        assert_int_equal(rig.info->ep_attr->mem_tag_format, asked != 0 ? asked : kEachBitAField);
    }
    rig.hints->caps = 0;
    rig.hints->ep_attr->type = FI_EP_MSG;  // has no tags
    assert_int_equal(rig.get(), 0);
    assert_int_equal(rig.info->ep_attr->mem_tag_format, 0);
}

void shared_memory_is_for_one_host(void** state) {
    Rig& rig = rig_of(state);
    rig.name("shm");
    assert_int_equal(rig.get(), 0);
    assert_string_equal(rig.info->domain_attr->name, "shm");
    assert_string_equal(rig.info->fabric_attr->name, "shm");
    assert_int_equal(rig.info->caps & FI_REMOTE_COMM, 0);
    assert_int_equal(rig.get(kApi, nullptr, "7471", FI_SOURCE), 0);
    assert_string_equal(static_cast<const char*>(rig.info->src_addr),
                        "fi_sockaddr_in://127.0.0.1:7471");
    assert_int_equal(rig.info->src_addrlen,
                     std::strlen(static_cast<const char*>(rig.info->src_addr)) + 1);
    assert_int_equal(rig.get(kApi, "fi_sockaddr_in://127.0.0.1:7", nullptr), 0);
    assert_string_equal(static_cast<const char*>(rig.info->dest_addr),
                        "fi_sockaddr_in://127.0.0.1:7");
    assert_int_equal(rig.get(kApi, "203.0.113.77", "7471"), -FI_ENODATA);
    rig.hints->addr_format = FI_SOCKADDR_IN;
    assert_int_equal(rig.get(), -FI_ENODATA);
}

void who_asks_is_told_why(void** state) {
    Rig& rig = rig_of(state);
    rig.hints->ep_attr->type = FI_EP_MSG;
    rig.hints->caps = FI_MSG | FI_TAGGED;
    assert_string_equal(stderr_of([&] { rig.get(); }).c_str(), "");
    setenv("FABRIC_COMPAT_EXPLAIN", "1", 1);
    const std::string text = stderr_of([&] { rig.get(); });
    unsetenv("FABRIC_COMPAT_EXPLAIN");
    assert_true(
        text.find("compat FI_EP_MSG: hints->caps asks FI_TAGGED; offered: FI_MSG, FI_RMA") !=
        text.npos);
}

void a_name_or_an_address_that_is_wrong_is_named_with_those_that_are_right(void** state) {
    Rig& rig = rig_of(state);
    setenv("FABRIC_COMPAT_EXPLAIN", "1", 1);
    const std::string source = stderr_of([&] { rig.get(kApi, "203.0.113.77", "7471", FI_SOURCE); });
    const std::string node = stderr_of([&] { rig.get(kApi, "no-such.invalid", "7471"); });
    rig.hints->fabric_attr->prov_name = strdup("nosuch");
    const std::string provider = stderr_of([&] { rig.get(); });
    unsetenv("FABRIC_COMPAT_EXPLAIN");
    const auto has = [](const std::string& text, const char* part) {
        return text.find(part) != text.npos;
    };
    assert_true(has(source, "203.0.113.77:7471 is not an address of this host"));
    assert_true(has(source, "127.0.0.1"));
    assert_true(has(node, "cannot resolve no-such.invalid:7471"));
    assert_true(has(provider, "prov_name nosuch"));
    assert_true(has(provider, "tcp;ofi_rxm"));
}

#define INFO_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define NIC_TEST(name) cmocka_unit_test_setup_teardown(name, setup_nic, teardown_nic)

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(names_match_by_component),
        cmocka_unit_test(filters_select_or_exclude),
        INFO_TEST(without_a_name_the_software_device_is_compat),
        INFO_TEST(aliases_answer_when_they_are_called),
        INFO_TEST(the_environment_calls_aliases_too),
        INFO_TEST(the_environment_may_forbid_a_kind_of_device),
        INFO_TEST(provider_attributes_alone_list_names),
        INFO_TEST(every_structure_is_complete),
        cmocka_unit_test(no_hints_ask_for_nothing),
        INFO_TEST(what_was_asked_is_given_back),
        cmocka_unit_test(modifiers_are_filled_in),
        INFO_TEST(a_program_without_memory_gets_no_memory_caps),
        INFO_TEST(long_transfers_are_for_memory_alone),
        INFO_TEST(memory_modes_that_nobody_needs_are_cleared),
        NIC_TEST(a_nic_needs_registered_buffers_and_its_own_keys),
        NIC_TEST(connectionless_endpoints_of_a_nic_take_buffers_without_descriptors),
        NIC_TEST(a_nic_takes_the_old_names_too),
        NIC_TEST(who_offers_no_memory_mode_is_no_target),
        NIC_TEST(a_nic_offers_data_only_to_who_posts_receives_for_it),
        NIC_TEST(a_device_without_flush_promises_no_visible_bytes),
        NIC_TEST(limits_of_the_device_are_the_limits_offered),
        INFO_TEST(one_hint_too_much_is_found_by_name),
        INFO_TEST(everything_within_the_offer_is_accepted),
        INFO_TEST(numbers_that_are_no_enumerators_do_no_harm),
        INFO_TEST(order_sizes_matter_with_memory_only),
        INFO_TEST(without_an_address_every_interface_is_offered_and_loopback_last),
        INFO_TEST(a_peer_is_reached_from_the_right_interface),
        INFO_TEST(a_source_is_where_to_listen),
        INFO_TEST(a_service_alone_listens_everywhere),
        INFO_TEST(what_is_no_port_is_no_service),
        INFO_TEST(the_hints_addresses_count_when_no_node_is_given),
        INFO_TEST(numeric_hosts_are_not_looked_up),
        INFO_TEST(address_strings_are_read_too),
        INFO_TEST(address_formats_select_families),
        INFO_TEST(domain_and_fabric_names_select_an_interface),
        INFO_TEST(the_environment_selects_an_interface),
        INFO_TEST(open_objects_in_the_hints_must_match),
        INFO_TEST(a_handle_is_passed_through),
        INFO_TEST(bad_calls_are_refused),
        INFO_TEST(every_version_since_the_first_is_served),
        INFO_TEST(connectionless_endpoints_answer_to_each_name),
        INFO_TEST(connectionless_endpoints_have_what_programs_ask_for),
        INFO_TEST(all_bits_of_a_tag_count_however_it_is_divided),
        INFO_TEST(shared_memory_is_for_one_host),
        INFO_TEST(who_asks_is_told_why),
        INFO_TEST(a_name_or_an_address_that_is_wrong_is_named_with_those_that_are_right),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
