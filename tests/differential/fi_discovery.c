// SPDX-License-Identifier: BSD-3-Clause
// What fi_getinfo() finds, and for which hints it finds nothing.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fi_transcript.h"

static void say_found(const char* what, const struct fi_info* info, const char* asked) {
    say(what,
        "provider %s, type %d, format %u, protocol %u, api %u.%u, mode %" PRIx64
        ", mr_mode %x, caps asked %s",
        info->fabric_attr->prov_name, (int)info->ep_attr->type, info->addr_format,
        info->ep_attr->protocol, FI_MAJOR(info->fabric_attr->api_version),
        FI_MINOR(info->fabric_attr->api_version), info->mode, (unsigned)info->domain_attr->mr_mode,
        asked);
    say(what, "source %s, destination %s, handle %s, nic %s",
        info->src_addr != NULL ? "known" : "none", info->dest_addr != NULL ? "known" : "none",
        info->handle != NULL ? "set" : "none", info->nic != NULL ? "set" : "none");
    say(what, "op_flags %" PRIx64 " %" PRIx64 ", contexts %zu %zu, prefix %zu, auth key %zu",
        info->tx_attr->op_flags, info->rx_attr->op_flags, info->ep_attr->tx_ctx_cnt,
        info->ep_attr->rx_ctx_cnt, info->ep_attr->msg_prefix_size, info->ep_attr->auth_key_size);
}

/// One call; the hints are changed by the caller and given back unchanged.
static int find(const char* what, uint32_t api, const char* node, const char* service,
                uint64_t flags, struct fi_info* hints) {
    struct fi_info* info = (struct fi_info*)(uintptr_t)1;
    const int rc = fi_getinfo(api, node, service, flags, hints, &info);
    if (rc != 0) {
        say(what, "%d, %s", rc, info == NULL ? "cleared" : "left");
        return rc;
    }
    say_found(what, info, (info->caps & hints->caps) == hints->caps ? "granted" : "taken away");
    fi_freeinfo(info);
    return 0;
}

struct hint {
    const char* what;
    void (*set)(struct fi_info* hints);
};
static void ask_atomic_collective(struct fi_info* h) {
    h->caps |= FI_MULTICAST;
}
static void ask_send_only(struct fi_info* h) {
    h->caps = FI_MSG | FI_SEND;
}
static void ask_target_only(struct fi_info* h) {
    h->caps = FI_RMA | FI_REMOTE_WRITE;
}
static void ask_nothing(struct fi_info* h) {
    h->caps = 0;
}
static void ask_dgram(struct fi_info* h) {
    h->ep_attr->type = FI_EP_DGRAM;
}
static void ask_protocol(struct fi_info* h) {
    h->ep_attr->protocol = FI_PROTO_GNI;
}
static void ask_huge_inject(struct fi_info* h) {
    h->tx_attr->inject_size = 1 << 30;
}
static void ask_many_iov(struct fi_info* h) {
    h->tx_attr->iov_limit = 1 << 20;
}
static void ask_many_rma_iov(struct fi_info* h) {
    h->tx_attr->rma_iov_limit = 1 << 20;
}
static void ask_many_rx_iov(struct fi_info* h) {
    h->rx_attr->iov_limit = 1 << 20;
}
static void ask_wide_data(struct fi_info* h) {
    h->domain_attr->cq_data_size = 16;
}
static void ask_data(struct fi_info* h) {
    h->domain_attr->cq_data_size = 8;
}
static void ask_manual(struct fi_info* h) {
    h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
}
static void ask_auto(struct fi_info* h) {
    h->domain_attr->data_progress = FI_PROGRESS_AUTO;
}
static void ask_thread_domain(struct fi_info* h) {
    h->domain_attr->threading = FI_THREAD_DOMAIN;
}
static void ask_no_management(struct fi_info* h) {
    h->domain_attr->resource_mgmt = FI_RM_DISABLED;
}
static void ask_delivery(struct fi_info* h) {
    h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
}
static void ask_unknown_flag(struct fi_info* h) {
    h->tx_attr->op_flags = FI_MULTICAST;
}
static void ask_order(struct fi_info* h) {
    h->tx_attr->msg_order = FI_ORDER_SAS;
}
static void ask_basic(struct fi_info* h) {
    h->domain_attr->mr_mode = FI_MR_BASIC;
}
static void ask_bits(struct fi_info* h) {
    h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
}
static void ask_in6(struct fi_info* h) {
    h->addr_format = FI_SOCKADDR_IN6;
}
static void ask_any_format(struct fi_info* h) {
    h->addr_format = FI_SOCKADDR;
}
static void ask_ib(struct fi_info* h) {
    h->addr_format = FI_SOCKADDR_IB;
}
static void ask_domain_name(struct fi_info* h) {
    h->domain_attr->name = strdup("lo");
}
static void ask_no_domain(struct fi_info* h) {
    h->domain_attr->name = strdup("none-such");
}
static void ask_no_fabric(struct fi_info* h) {
    h->fabric_attr->name = strdup("none-such");
}
static void ask_no_provider(struct fi_info* h) {
    free(h->fabric_attr->prov_name);
    h->fabric_attr->prov_name = strdup("none-such");
}
static void ask_upper_case(struct fi_info* h) {
    for (char* c = h->fabric_attr->prov_name; *c != '\0'; ++c)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
}
static void ask_context(struct fi_info* h) {
    h->mode = FI_CONTEXT | FI_CONTEXT2;
}
static void ask_two_contexts(struct fi_info* h) {
    h->ep_attr->tx_ctx_cnt = 1000;
}
static void ask_key(struct fi_info* h) {
    h->ep_attr->auth_key_size = 8;
}

static const struct hint kHints[] = {
    {"hints for multicast", ask_atomic_collective},
    {"hints for sends alone", ask_send_only},
    {"hints for a target alone", ask_target_only},
    {"hints for no capability", ask_nothing},
    {"hints for datagrams", ask_dgram},
    {"hints for another protocol", ask_protocol},
    {"hints for a huge inject_size", ask_huge_inject},
    {"hints for many iov", ask_many_iov},
    {"hints for many rma_iov", ask_many_rma_iov},
    {"hints for many rx iov", ask_many_rx_iov},
    {"hints for 16 bytes of data", ask_wide_data},
    {"hints for 8 bytes of data", ask_data},
    {"hints for manual progress", ask_manual},
    {"hints for progress", ask_auto},
    {"hints for threads by domain", ask_thread_domain},
    {"hints for no resource management", ask_no_management},
    {"hints for delivery", ask_delivery},
    {"hints for an unknown op flag", ask_unknown_flag},
    {"hints for order", ask_order},
    {"hints for FI_MR_BASIC", ask_basic},
    {"hints for mr_mode bits", ask_bits},
    {"hints for IPv6", ask_in6},
    {"hints for any address", ask_any_format},
    {"hints for InfiniBand addresses", ask_ib},
    {"hints for a domain", ask_domain_name},
    {"hints for a domain that is not", ask_no_domain},
    {"hints for a fabric that is not", ask_no_fabric},
    {"hints for a provider that is not", ask_no_provider},
    {"hints in upper case", ask_upper_case},
    {"hints with contexts", ask_context},
    {"hints for 1000 contexts", ask_two_contexts},
    {"hints with a key", ask_key},
};

static void try_hints(const char* provider, enum fi_ep_type type) {
    for (size_t i = 0; i < sizeof kHints / sizeof kHints[0]; ++i) {
        struct fi_info* const hints = make_hints(provider, type, FI_MSG | FI_RMA);
        kHints[i].set(hints);
        find(kHints[i].what, TRANSCRIPT_API, "127.0.0.1", NULL, 0, hints);
        fi_freeinfo(hints);
    }
}

static void try_addresses(const char* provider, enum fi_ep_type type) {
    struct fi_info* const hints = make_hints(provider, type, FI_MSG | FI_RMA);
    find("node and service", TRANSCRIPT_API, "127.0.0.1", "7471", 0, hints);
    find("a source", TRANSCRIPT_API, "127.0.0.1", "7471", FI_SOURCE, hints);
    find("a source without service", TRANSCRIPT_API, "127.0.0.1", NULL, FI_SOURCE, hints);
    find("a service alone", TRANSCRIPT_API, NULL, "7471", 0, hints);
    find("a service to listen at", TRANSCRIPT_API, NULL, "7471", FI_SOURCE, hints);
    find("no address", TRANSCRIPT_API, NULL, NULL, 0, hints);
    find("a number and no look-up", TRANSCRIPT_API, "127.0.0.1", "1", FI_NUMERICHOST, hints);
    find("a name and no look-up", TRANSCRIPT_API, "localhost", "1", FI_NUMERICHOST, hints);
    find("a name that is not", TRANSCRIPT_API, "none-such.invalid", "1", 0, hints);
    find("an address of somebody else's", TRANSCRIPT_API, "203.0.113.77", "1", FI_SOURCE, hints);
    fi_freeinfo(hints);
}

static void try_versions(const char* provider, enum fi_ep_type type) {
    struct fi_info* const hints = make_hints(provider, type, FI_MSG);
    static const uint32_t versions[] = {FI_VERSION(1, 0), FI_VERSION(1, 4), FI_VERSION(1, 5),
                                        FI_VERSION(1, 9), FI_VERSION(1, 17)};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; ++i)
        find("a version", versions[i], "127.0.0.1", NULL, 0, hints);
    find("a version to come", FI_VERSION(9, 0), "127.0.0.1", NULL, 0, hints);
    fi_freeinfo(hints);
}

/// A copy has all that the original has, in memory of its own.
static void try_copies(const char* provider, enum fi_ep_type type) {
    struct fi_info* const hints = make_hints(provider, type, FI_MSG | FI_RMA);
    struct fi_info* const copy = fi_dupinfo(hints);
    say("a copy", "%s %s %s",
        copy != NULL && copy->fabric_attr != hints->fabric_attr ? "apart" : "shared",
        copy != NULL ? copy->fabric_attr->prov_name : "", copy->next == NULL ? "alone" : "more");
    fi_freeinfo(copy);
    fi_freeinfo(hints);
    fi_freeinfo(NULL);
}

void discover(const char* provider, enum fi_ep_type type) {
    try_versions(provider, type);
    try_addresses(provider, type);
    try_hints(provider, type);
    try_copies(provider, type);
}
