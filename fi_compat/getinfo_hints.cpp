// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/getinfo_hints.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "fi_compat/names.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/tostr.hpp"
#include "fi_compat/tostr_names.hpp"

namespace compat::fi {
namespace {

using Number = std::uint64_t;

/// A member of an attribute structure, 0 where the hints leave the structure out.
template <auto attribute, auto member>
Number field(const fi_info& info) {
    const auto* structure = info.*attribute;
    if (structure == nullptr) return 0;
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(structure->*member)>>)
        return static_cast<unsigned>(number_in(structure->*member));
    else
        return static_cast<Number>(structure->*member);
}
template <auto member>
constexpr auto tx = &field<&fi_info::tx_attr, member>;
template <auto member>
constexpr auto rx = &field<&fi_info::rx_attr, member>;
template <auto member>
constexpr auto ep = &field<&fi_info::ep_attr, member>;
template <auto member>
constexpr auto domain = &field<&fi_info::domain_attr, member>;
template <auto member>
constexpr auto fabric = &field<&fi_info::fabric_attr, member>;
template <auto member>
Number top(const fi_info& info) {
    return info.*member;
}

/// How a hint relates to what is offered. In every rule but mode and nothing, 0 asks for nothing.
enum class Rule : std::uint8_t {
    subset,   ///< bits that must all be offered
    mode,     ///< bits required of the program must all be in the hint
    at_most,  ///< a limit
    equal,
    known,    ///< any that has a name
    ranked,   ///< an enumeration, ordered by what it asks of us: names_of() is not its order
    nothing,  ///< nobody may ask for it
};

constexpr std::uint32_t kAlways = 0;

struct Row {
    const char* hint;
    Rule rule;
    Number (*value)(const fi_info&);
    int print_as = -1;  ///< an enum fi_type; -1: a number
    std::uint32_t since = kAlways;
    Number (*rank)(Number) = nullptr;
};

/// Stricter first: a hint is met when it is at least as lax as the offer.
template <Number... strict_to_lax>
Number rank_among(Number value) {
    constexpr std::array kOrder{strict_to_lax...};
    for (std::size_t i = 0; i < kOrder.size(); ++i)
        if (kOrder[i] == value) return i + 1;
    return 0;  // unknown: never met
}
// FI_THREAD_FID and _ENDPOINT ask less than SAFE, which is what we are; upstream refuses them since
// 2.0, old programs count on them.
constexpr auto thread_rank = rank_among<FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT,
                                        FI_THREAD_COMPLETION, FI_THREAD_DOMAIN, FI_THREAD_UNSPEC>;
constexpr auto progress_rank = rank_among<FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL,
                                          FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_UNSPEC>;
constexpr auto management_rank = rank_among<FI_RM_ENABLED, FI_RM_DISABLED, FI_RM_UNSPEC>;

constexpr std::uint32_t k15 = FI_VERSION(1, 5);
constexpr std::uint32_t k25 = FI_VERSION(2, 5);

// In the order in which they are explained: what the program is about before its limits.
constexpr std::array kRows{
    Row{"caps", Rule::subset, top<&fi_info::caps>, FI_TYPE_CAPS},
    Row{"mode", Rule::mode, top<&fi_info::mode>, FI_TYPE_MODE},
    Row{"ep_attr->type", Rule::equal, ep<&fi_ep_attr::type>, FI_TYPE_EP_TYPE},
    Row{"ep_attr->protocol", Rule::equal, ep<&fi_ep_attr::protocol>, FI_TYPE_PROTOCOL},
    Row{"ep_attr->protocol_version", Rule::at_most, ep<&fi_ep_attr::protocol_version>},
    Row{"ep_attr->max_msg_size", Rule::at_most, ep<&fi_ep_attr::max_msg_size>},
    Row{"ep_attr->auth_key_size", Rule::nothing, ep<&fi_ep_attr::auth_key_size>, -1, k15},
    Row{"domain_attr->threading", Rule::ranked, domain<&fi_domain_attr::threading>,
        FI_TYPE_THREADING, kAlways, thread_rank},
    Row{"domain_attr->data_progress", Rule::ranked, domain<&fi_domain_attr::progress>,
        FI_TYPE_PROGRESS, kAlways, progress_rank},
    Row{"domain_attr->resource_mgmt", Rule::ranked, domain<&fi_domain_attr::resource_mgmt>, -1,
        kAlways, management_rank},
    Row{"domain_attr->av_type", Rule::known, domain<&fi_domain_attr::av_type>, FI_TYPE_AV_TYPE},
    Row{"domain_attr->cq_data_size", Rule::at_most, domain<&fi_domain_attr::cq_data_size>},
    Row{"domain_attr->cntr_cnt", Rule::at_most, domain<&fi_domain_attr::cntr_cnt>, -1, k15},
    Row{"domain_attr->mr_iov_limit", Rule::at_most, domain<&fi_domain_attr::mr_iov_limit>, -1, k15},
    Row{"domain_attr->max_err_data", Rule::at_most, domain<&fi_domain_attr::max_err_data>, -1, k15},
    Row{"domain_attr->mr_cnt", Rule::at_most, domain<&fi_domain_attr::mr_cnt>, -1, k15},
    Row{"domain_attr->caps", Rule::subset, domain<&fi_domain_attr::caps>, FI_TYPE_CAPS, k15},
    Row{"domain_attr->auth_key_size", Rule::nothing, domain<&fi_domain_attr::auth_key_size>, -1,
        k15},
    Row{"domain_attr->max_cntr_value", Rule::at_most, domain<&fi_domain_attr::max_cntr_value>, -1,
        k25},
    Row{"domain_attr->max_err_cntr_value", Rule::at_most,
        domain<&fi_domain_attr::max_err_cntr_value>, -1, k25},
    Row{"tx_attr->op_flags", Rule::subset, tx<&fi_tx_attr::op_flags>, FI_TYPE_OP_FLAGS},
    Row{"tx_attr->msg_order", Rule::subset, tx<&fi_tx_attr::msg_order>, FI_TYPE_MSG_ORDER},
    Row{"tx_attr->comp_order", Rule::subset, tx<&fi_tx_attr::comp_order>, FI_TYPE_MSG_ORDER},
    Row{"tx_attr->inject_size", Rule::at_most, tx<&fi_tx_attr::inject_size>},
    Row{"tx_attr->size", Rule::at_most, tx<&fi_tx_attr::size>},
    Row{"tx_attr->iov_limit", Rule::at_most, tx<&fi_tx_attr::iov_limit>},
    Row{"tx_attr->rma_iov_limit", Rule::at_most, tx<&fi_tx_attr::rma_iov_limit>},
    Row{"rx_attr->op_flags", Rule::subset, rx<&fi_rx_attr::op_flags>, FI_TYPE_OP_FLAGS},
    Row{"rx_attr->msg_order", Rule::subset, rx<&fi_rx_attr::msg_order>, FI_TYPE_MSG_ORDER},
    Row{"rx_attr->comp_order", Rule::subset, rx<&fi_rx_attr::comp_order>, FI_TYPE_MSG_ORDER},
    Row{"rx_attr->total_buffered_recv", Rule::nothing, rx<&fi_rx_attr::total_buffered_recv>},
    Row{"rx_attr->size", Rule::at_most, rx<&fi_rx_attr::size>},
    Row{"rx_attr->iov_limit", Rule::at_most, rx<&fi_rx_attr::iov_limit>},
};

// Looked at only by programs that move memory.
constexpr std::array kMemoryRows{
    Row{"ep_attr->max_order_raw_size", Rule::at_most, ep<&fi_ep_attr::max_order_raw_size>},
    Row{"ep_attr->max_order_war_size", Rule::at_most, ep<&fi_ep_attr::max_order_war_size>},
    Row{"ep_attr->max_order_waw_size", Rule::at_most, ep<&fi_ep_attr::max_order_waw_size>},
};

bool has_name(fi_type type, Number value) {
    const auto names = names_of(type);
    return std::ranges::find(names, value, &NameRow::value) != names.end();
}

bool fits(const Row& row, Number asked, Number offered) {
    switch (row.rule) {
        case Rule::mode: return (offered & ~asked) == 0;
        case Rule::nothing: return asked == 0;
        default: break;
    }
    if (asked == 0) return true;
    switch (row.rule) {
        case Rule::subset: return (asked & ~offered) == 0;
        case Rule::at_most: return asked <= offered;
        case Rule::equal: return asked == offered;
        case Rule::known: return has_name(static_cast<fi_type>(row.print_as), asked);
        case Rule::ranked: return row.rank(asked) >= row.rank(offered);
        default: return false;
    }
}

/// Of bits only those that are in the way are worth a line.
Number worth_saying(const Row& row, Number asked, Number offered) {
    return row.rule == Rule::subset ? asked & ~offered : asked;
}

std::string value_text(const Row& row, Number value) {
    std::string text;
    if (row.rank == management_rank)
        append_name(text, value, names_of_resource_mgmt());
    else if (row.print_as < 0)
        text = std::to_string(value);
    else if (row.rule == Rule::subset || row.rule == Rule::mode)
        append_flags(text, value, static_cast<fi_type>(row.print_as));
    else
        append_enum(text, value, static_cast<fi_type>(row.print_as));
    return text.empty() ? "nothing" : text;
}

template <std::size_t count>
std::optional<Mismatch> check(const std::array<Row, count>& rows, const Offer& offer,
                              const fi_info& hints, std::uint32_t api_version) {
    for (const Row& row : rows) {
        if (api_version < row.since) continue;
        const Number asked = row.value(hints);
        const Number offered = row.value(offer.info);
        if (fits(row, asked, offered)) continue;
        return Mismatch{row.hint, value_text(row, worth_saying(row, asked, offered)),
                        value_text(row, offered)};
    }
    return std::nullopt;
}

std::string mr_text(int bits) {
    std::string text;
    append_flags(text, static_cast<unsigned>(bits), FI_TYPE_MR_MODE);
    return text.empty() ? "nothing" : text;
}

bool offers_local(const fi_info& hints, int mr_mode) {
    return (mr_mode & FI_MR_LOCAL) != 0 || (hints.mode & FI_LOCAL_MR) != 0;
}

/// fi_mr(3): what the program must be ready for.
std::optional<Mismatch> check_mr_mode(const Offer& offer, const fi_info& hints,
                                      std::uint32_t api_version) {
    const int asked = hints.domain_attr != nullptr ? hints.domain_attr->mr_mode : 0;
    const auto refuse = [&](int needed) {
        return Mismatch{"domain_attr->mr_mode", mr_text(asked), mr_text(needed)};
    };
    const bool checks_memory = hints.caps == 0 || (hints.caps & kMemoryCaps) != 0;
    if ((offer.mr_needed & FI_MR_LOCAL) != 0 && api_at_least(api_version, 1, 5) &&
        !offers_local(hints, asked))
        return refuse(offer.mr_needed);
    const bool has_basic = (asked & FI_MR_BASIC) != 0;
    const bool has_scalable = (asked & FI_MR_SCALABLE) != 0;
    if (has_basic || has_scalable) {
        if (std::has_single_bit(static_cast<unsigned>(asked)))
            return (offer.domain.mr_mode & asked) != 0 ? std::nullopt
                                                       : std::optional(refuse(offer.mr_needed));
        return refuse(has_basic ? FI_MR_BASIC : FI_MR_SCALABLE);  // each stands alone
    }
    if (!api_at_least(api_version, 1, 5) || !checks_memory || (asked & kMrBasicMap) == 0) {
        // Without any bit the program is no target of RMA, unless it says that it is.
        const bool is_target = (hints.caps & kRemoteCaps) != 0;
        const bool unheard = (offer.mr_needed & kMrBasicMap) != 0 && is_target && checks_memory &&
                             api_at_least(api_version, 1, 5);
        return unheard ? std::optional(refuse(offer.mr_needed)) : std::nullopt;
    }
    const int needed = offer.mr_needed & kMrBasicMap;
    return (needed & ~asked) == 0 ? std::nullopt : std::optional(refuse(offer.mr_needed));
}

/// FI_SHARED_CONTEXT, or a number of contexts of a scalable endpoint.
std::optional<Mismatch> check_contexts(const Offer& offer, const fi_info& hints) {
    if (hints.ep_attr == nullptr) return std::nullopt;
    struct Side {
        const char* hint;
        std::size_t asked;
        std::size_t shared;
        std::size_t most;
    };
    const Side sides[] = {
        {"ep_attr->tx_ctx_cnt", hints.ep_attr->tx_ctx_cnt, offer.domain.max_ep_stx_ctx,
         offer.domain.max_ep_tx_ctx},
        {"ep_attr->rx_ctx_cnt", hints.ep_attr->rx_ctx_cnt, offer.domain.max_ep_srx_ctx,
         offer.domain.max_ep_rx_ctx},
    };
    for (const Side& side : sides) {
        const bool shared = side.asked == FI_SHARED_CONTEXT;
        if (shared ? side.shared > 0 : side.asked <= side.most) continue;
        return Mismatch{side.hint, shared ? "FI_SHARED_CONTEXT" : std::to_string(side.asked),
                        std::to_string(side.most)};
    }
    return std::nullopt;
}

std::optional<Mismatch> check_sides(const Offer& offer, const fi_info& hints) {
    // Bits of the other side are no harm in an attribute structure.
    for (const auto& [hint, caps] : {std::pair{"tx_attr->caps", tx<&fi_tx_attr::caps>(hints)},
                                     std::pair{"rx_attr->caps", rx<&fi_rx_attr::caps>(hints)}}) {
        const Number missing = caps & ~offer.info.caps;
        if (missing == 0) continue;
        Mismatch mismatch{hint, {}, {}};
        append_flags(mismatch.asked, missing, FI_TYPE_CAPS);
        append_flags(mismatch.offered, offer.info.caps, FI_TYPE_CAPS);
        return mismatch;
    }
    return std::nullopt;
}

std::optional<Mismatch> check_version(const fi_info& hints) {
    const Number asked = fabric<&fi_fabric_attr::prov_version>(hints);
    if (asked <= kProviderVersion) return std::nullopt;
    const auto text = [](Number version) {
        return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
    };
    return Mismatch{"fabric_attr->prov_version", text(asked), text(kProviderVersion)};
}

}  // namespace

bool format_fits(std::uint32_t addr_format, int family) noexcept {
    switch (addr_format) {
        case FI_FORMAT_UNSPEC:
        case FI_SOCKADDR:
        case FI_SOCKADDR_IP:
        case FI_ADDR_STR: return family == AF_INET || family == AF_INET6;
        case FI_SOCKADDR_IN: return family == AF_INET;
        case FI_SOCKADDR_IN6: return family == AF_INET6;
        default: return false;
    }
}

std::optional<Mismatch> find_mismatch(const Offer& offer, const fi_info& hints,
                                      std::uint32_t api_version) {
    if (auto version = check_version(hints)) return version;
    if (auto mismatch = check(kRows, offer, hints, api_version)) return mismatch;
    if ((hints.caps & kMemoryCaps) != 0)
        if (auto mismatch = check(kMemoryRows, offer, hints, api_version)) return mismatch;
    if (auto mismatch = check_mr_mode(offer, hints, api_version)) return mismatch;
    if (auto mismatch = check_sides(offer, hints)) return mismatch;
    return check_contexts(offer, hints);
}

}  // namespace compat::fi
