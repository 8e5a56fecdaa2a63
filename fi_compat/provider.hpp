// SPDX-License-Identifier: BSD-3-Clause
// The provider names we answer to, and the devices behind them.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <span>

#include "core/core.hpp"

namespace compat::fi {

enum class DeviceKind : std::uint8_t { rdma, soft };

/// A name under which the devices of one kind are offered. Programs choose by name, some from a
/// fixed table, and then expect what upstream's provider of that name reports.
struct Provider {
    const char* name;
    DeviceKind kind;
    bool only_when_named;        ///< an alias: offered when the hints or FI_PROVIDER ask for it
    std::uint32_t protocol_msg;  ///< ep_attr.protocol of FI_EP_MSG; 0: as the device is
    std::uint32_t protocol_rdm;  ///< the same of FI_EP_RDM
    bool offers_msg;
    bool offers_rdm;
    bool same_host = false;  ///< reaches this host only, by addresses in text
};

std::span<const Provider> providers() noexcept;

/// The row of a prov_name, whose last component decides; null when it is not ours.
const Provider* find_provider(const char* prov_name) noexcept;

DeviceKind kind_of(const core::Device& device) noexcept;

/// Whether FABRIC_COMPAT_DEVICE lets devices of that kind be used.
bool is_allowed(DeviceKind kind) noexcept;

/// The device that an info (or an opened domain) names; null when there is none. name null: the
/// first one of the provider's kind.
core::Device* find_device(const Provider& provider, const char* domain_name) noexcept;

/// prov_version: the release whose behaviour we follow, in upstream's notation.
inline constexpr std::uint32_t kProviderVersion =
    FI_VERSION(FI_MAJOR_VERSION * 100 + FI_MINOR_VERSION, FI_REVISION_VERSION * 10);

}  // namespace compat::fi
