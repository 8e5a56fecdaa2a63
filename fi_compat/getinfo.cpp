// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/getinfo.hpp"

#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/core.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/fabric.hpp"
#include "fi_compat/fi_log.hpp"
#include "fi_compat/getinfo_hints.hpp"
#include "fi_compat/getinfo_offer.hpp"
#include "fi_compat/getinfo_route.hpp"
#include "fi_compat/names.hpp"
#include "fi_compat/provider.hpp"

namespace compat::fi {
namespace {

constexpr std::uint64_t kFlags = FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_RESCAN;

const char* text_hint(const fi_info* hints, char* fi_fabric_attr::*member) {
    return hints != nullptr && hints->fabric_attr != nullptr ? hints->fabric_attr->*member
                                                             : nullptr;
}

const char* domain_hint(const fi_info* hints) {
    return hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->name : nullptr;
}

/// Why nothing, or not everything, matched: the question asked most about libfabric.
class Explanation {
public:
    void add(const std::string& line) {
        if (lines_.empty() || lines_.back() != line) lines_.push_back(line);
    }
    void add(const char* provider, fi_ep_type type, const Mismatch& mismatch) {
        add(std::string(provider) + (type == FI_EP_MSG ? " FI_EP_MSG" : " FI_EP_RDM") +
            ": hints->" + mismatch.hint + " asks " + mismatch.asked +
            "; offered: " + mismatch.offered);
    }

    /// With FABRIC_COMPAT_EXPLAIN always; else as the log level says, and as a warning when the
    /// program got nothing.
    void write(bool found_any) const {
        const fi_log_level level = found_any ? FI_LOG_INFO : FI_LOG_WARN;
        if (!explains(level, FI_LOG_CORE)) return;
        for (const std::string& line : lines_)
            write_log(level, FI_LOG_CORE, "fi_getinfo", __LINE__, line.c_str());
    }

private:
    std::vector<std::string> lines_;
};

class Discovery {
public:
    Discovery(std::uint32_t api_version, const RouteRequest& request)
        : api_version_(api_version),
          request_(request),
          hints_(request.hints),
          filter_(std::getenv("FI_PROVIDER")) {}

    InfoPtr run() {
        if (request_.flags == FI_PROV_ATTR_ONLY) {
            for (const Provider& provider : providers())
                if (selects(provider)) add_name(provider);
        } else {
            std::string why_none;
            routes_ = find_routes(request_, why_none);
            if (routes_.empty()) explanation_.add(why_none);
            for (const Provider& provider : providers())
                if (selects(provider)) try_provider(provider);
        }
        if (!selects_any_) explain_names();
        explanation_.write(first_ != nullptr);
        return std::move(first_);
    }

private:
    bool selects(const Provider& provider) {
        const char* hint = text_hint(hints_, &fi_fabric_attr::prov_name);
        const bool chosen =
            hint_selects(hint, provider.name) && filter_selects(filter_, provider.name);
        const bool named = names_something(hint) || names_something(filter_);
        if (!chosen && named && !provider.only_when_named)
            explanation_.add(std::string(provider.name) + ": not selected by " +
                             (names_something(hint)
                                  ? std::string("hints->fabric_attr->prov_name ") + hint
                                  : std::string("FI_PROVIDER ") + filter_));
        const bool selected = chosen && (named || !provider.only_when_named);
        selects_any_ = selects_any_ || selected;
        return selected;
    }

    void explain_names() {
        std::string line = "there are the names";
        for (const Provider& provider : providers()) line += std::string(" ") + provider.name;
        explanation_.add(line + "; or ask for none");
    }

    void try_provider(const Provider& provider) {
        if (!is_allowed(provider.kind)) {
            explanation_.add(provider.name +
                             (": FABRIC_COMPAT_DEVICE is " +
                              std::string(core::setting_text(core::Setting::device))));
            return;
        }
        bool has_device = false;
        bool has_type = false;
        for (core::Device* device : core::all_devices()) {
            if (kind_of(*device) != provider.kind) continue;
            has_device = true;
            for (const fi_ep_type type : offered_types()) {
                if (!provider_offers(provider, type)) continue;
                has_type = true;
                try_offer(provider, *device, type);
            }
        }
        if (!has_device)
            explanation_.add(std::string(provider.name) + ": no " +
                             (provider.kind == DeviceKind::rdma ? "RDMA" : "software") + " device");
        else if (!has_type)
            explanation_.add(std::string(provider.name) + ": no endpoint type of this name yet");
    }

    void try_offer(const Provider& provider, core::Device& device, fi_ep_type type) {
        const Offer offer(provider, device, type, api_version_, hints_);
        if (hints_ != nullptr) {
            if (const auto mismatch = find_mismatch(offer, *hints_, api_version_)) {
                explanation_.add(provider.name, type, *mismatch);
                return;
            }
        }
        for (const Route& route : routes_)
            if (owns(offer, route) && reaches(offer, route) && has_names(offer, route) &&
                has_objects(offer, route))
                add(offer, route);
    }

    /// Whether the address is the device's. The software device has every address, but leaves
    /// those of RDMA devices to them unless it is named.
    bool owns(const Offer& offer, const Route& route) const {
        const char* interface = std::getenv(
            offer.provider.kind == DeviceKind::rdma ? "FI_VERBS_IFACE" : "FI_TCP_IFACE");
        if (interface != nullptr && *interface != '\0' && route.interface != interface)
            return false;
        const bool is_soft = offer.provider.kind == DeviceKind::soft;
        const bool named = names_something(text_hint(hints_, &fi_fabric_attr::prov_name)) ||
                           names_something(filter_);
        if (is_soft && (named || core::all_devices().size() == 1)) return true;
        const auto owner = core::device_for_address(route.local, core::Direction::local);
        return owner && *owner == &offer.device;
    }

    /// Providers of one host have its loopback, or an address that the program named as a peer's.
    bool reaches(const Offer& offer, const Route& route) {
        if (!offer.provider.same_host) return true;
        const std::uint32_t format = hints_ != nullptr ? hints_->addr_format : 0;
        if (format != FI_FORMAT_UNSPEC && format != FI_ADDR_STR) {
            explanation_.add(offer.provider.name, offer.ep.type,
                             {"addr_format", "a socket address", "FI_ADDR_STR"});
            return false;
        }
        if (!route.same_host)
            explanation_.add(std::string(offer.provider.name) + ": " +
                             route.destination.text().c_str() + " is not an address of this host");
        return route.same_host && (!route.destination.empty() || route.local.is_loopback());
    }

    static std::string domain_name(const Offer& offer, const Route& route) {
        if (offer.provider.same_host) return offer.provider.name;
        return offer.provider.kind == DeviceKind::rdma ? offer.device.limits().name
                                                       : route.interface;
    }

    static std::string fabric_name(const Offer& offer, const Route& route) {
        if (offer.provider.same_host) return offer.provider.name;
        if (offer.provider.kind == DeviceKind::soft) return route.network;
        // the default subnet prefix; the device interface knows no other
        return offer.device.limits().transport == core::Transport::iwarp ? "Ethernet-iWARP"
                                                                         : "IB-0xfe80000000000000";
    }

    bool has_names(const Offer& offer, const Route& route) {
        return has_name(offer, "domain_attr->name", domain_hint(hints_),
                        domain_name(offer, route)) &&
               has_name(offer, "fabric_attr->name", text_hint(hints_, &fi_fabric_attr::name),
                        fabric_name(offer, route));
    }

    /// Objects that the hints name as open already must be those that the info would open.
    bool has_objects(const Offer& offer, const Route& route) {
        if (hints_ == nullptr) return true;
        const fid_fabric* fabric =
            hints_->fabric_attr != nullptr ? hints_->fabric_attr->fabric : nullptr;
        const fid_domain* domain =
            hints_->domain_attr != nullptr ? hints_->domain_attr->domain : nullptr;
        return (fabric == nullptr || is_fabric(offer, route, "fabric_attr->fabric",
                                               Fabric::of(hints_->fabric_attr->fabric))) &&
               (domain == nullptr || is_fabric(offer, route, "domain_attr->domain",
                                               Domain::of(hints_->domain_attr->domain).fabric()));
    }

    bool is_fabric(const Offer& offer, const Route& route, const char* hint, const Fabric& fabric) {
        const std::string name = fabric_name(offer, route);
        if (&fabric.provider() == &offer.provider && fabric.name() == name) return true;
        explanation_.add(offer.provider.name, offer.ep.type,
                         {hint, fabric.provider().name + (" " + fabric.name()), name});
        return false;
    }

    bool has_name(const Offer& offer, const char* hint, const char* asked,
                  const std::string& name) {
        if (asked == nullptr || same_text(asked, name.c_str())) return true;
        explanation_.add(offer.provider.name, offer.ep.type, {hint, asked, name});
        return false;
    }

    std::uint32_t format_of(const Offer& offer, const Route& route) const {
        const bool text = hints_ != nullptr && hints_->addr_format == FI_ADDR_STR;
        if (offer.provider.same_host || text) return FI_ADDR_STR;
        return route.source.family() == AF_INET6 ? static_cast<std::uint32_t>(FI_SOCKADDR_IN6)
                                                 : static_cast<std::uint32_t>(FI_SOCKADDR_IN);
    }

    static core::SocketAddress local_source(const Route& route) {
        core::SocketAddress source = route.local;
        source.set_port(route.source.port());
        return source;
    }

    void add(const Offer& offer, const Route& route) {
        InfoPtr info = cut_info(offer, hints_, api_version_);
        info->addr_format = format_of(offer, route);
        set_source(*info, offer.provider.same_host ? local_source(route) : route.source);
        set_destination(*info, route.destination);
        set_text(info->domain_attr->name, domain_name(offer, route).c_str());
        set_text(info->fabric_attr->name, fabric_name(offer, route).c_str());
        set_text(info->fabric_attr->prov_name, offer.provider.name);
        if (hints_ != nullptr && hints_->fabric_attr != nullptr)
            info->fabric_attr->fabric = hints_->fabric_attr->fabric;
        append(std::move(info));
    }

    void add_name(const Provider& provider) {
        if (find_device(provider, nullptr) == nullptr) return;
        InfoPtr info = make_info();
        set_text(info->fabric_attr->prov_name, provider.name);
        info->fabric_attr->prov_version = kProviderVersion;
        info->fabric_attr->api_version = api_version_;
        append(std::move(info));
    }

    void append(InfoPtr info) {
        fi_info* added = info.release();
        if (last_ == nullptr)
            first_.reset(added);
        else
            last_->next = added;
        last_ = added;
    }

    std::uint32_t api_version_;
    const RouteRequest& request_;
    const fi_info* hints_;
    const char* filter_;
    std::vector<Route> routes_;
    Explanation explanation_;
    bool selects_any_ = false;
    InfoPtr first_;
    fi_info* last_ = nullptr;
};

}  // namespace

int get_info(std::uint32_t api_version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) {
    if (info == nullptr) return -FI_EINVAL;
    *info = nullptr;
    if (api_version > FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)) return -FI_ENOSYS;
    if ((flags & ~kFlags) != 0) return -FI_EBADFLAGS;
    if ((flags & FI_SOURCE) != 0 && node == nullptr && service == nullptr) return -FI_EINVAL;
    const RouteRequest request{node, service, flags & ~FI_RESCAN, hints};
    InfoPtr found = Discovery(api_version, request).run();
    if (found == nullptr) return -FI_ENODATA;
    *info = found.release();
    return 0;
}

}  // namespace compat::fi
