// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/provider.hpp"

#include <array>
#include <string_view>

#include "fi_compat/names.hpp"

namespace compat::fi {
namespace {

// In the order in which fi_getinfo() lists them.
constexpr std::array kProviders{
    Provider{.name = "verbs",
             .kind = DeviceKind::rdma,
             .only_when_named = false,
             .protocol_msg = FI_PROTO_RDMA_CM_IB_RC,
             .protocol_rdm = 0,
             .offers_msg = true,
             .offers_rdm = false},
    Provider{.name = "verbs;ofi_rxm",
             .kind = DeviceKind::rdma,
             .only_when_named = false,
             .protocol_msg = 0,
             .protocol_rdm = FI_PROTO_RXM,
             .offers_msg = false,
             .offers_rdm = true},
    Provider{.name = "compat",
             .kind = DeviceKind::soft,
             .only_when_named = false,
             .protocol_msg = FI_PROTO_IWARP,
             .protocol_rdm = FI_PROTO_IWARP_RDM,
             .offers_msg = true,
             .offers_rdm = true},
    Provider{.name = "tcp",
             .kind = DeviceKind::soft,
             .only_when_named = true,
             .protocol_msg = FI_PROTO_SOCK_TCP,
             .protocol_rdm = FI_PROTO_XNET,
             .offers_msg = true,
             .offers_rdm = true},
    Provider{.name = "tcp;ofi_rxm",
             .kind = DeviceKind::soft,
             .only_when_named = true,
             .protocol_msg = 0,
             .protocol_rdm = FI_PROTO_RXM,
             .offers_msg = false,
             .offers_rdm = true},
    Provider{.name = "sockets",
             .kind = DeviceKind::soft,
             .only_when_named = true,
             .protocol_msg = FI_PROTO_SOCK_TCP,
             .protocol_rdm = FI_PROTO_SOCK_TCP,
             .offers_msg = true,
             .offers_rdm = true},
    Provider{.name = "shm",
             .kind = DeviceKind::soft,
             .only_when_named = true,
             .protocol_msg = 0,
             .protocol_rdm = FI_PROTO_SHM,
             .offers_msg = false,
             .offers_rdm = true,
             .same_host = true},
};

}  // namespace

std::span<const Provider> providers() noexcept {
    return kProviders;
}

const Provider* find_provider(const char* prov_name) noexcept {
    for (const Provider& provider : kProviders)
        if (same_components(provider.name, prov_name)) return &provider;
    return nullptr;
}

DeviceKind kind_of(const core::Device& device) noexcept {
    return device.native_context() != nullptr ? DeviceKind::rdma : DeviceKind::soft;
}

bool is_allowed(DeviceKind kind) noexcept {
    const std::string_view only = core::setting_text(core::Setting::device);
    return kind == DeviceKind::soft ? only != "verbs" : only != "soft";
}

core::Device* find_device(const Provider& provider, const char* domain_name) noexcept {
    if (!is_allowed(provider.kind)) return nullptr;
    for (core::Device* device : core::all_devices()) {
        if (kind_of(*device) != provider.kind) continue;
        // The software device is one, whatever interface the domain is named after.
        if (domain_name == nullptr || provider.kind == DeviceKind::soft) return device;
        if (device->limits().name == domain_name) return device;
    }
    return nullptr;
}

}  // namespace compat::fi
