// SPDX-License-Identifier: BSD-3-Clause
// What an endpoint type can do on a device, and an info cut out of it for a program's hints.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <span>

#include "core/core.hpp"
#include "fi_compat/info.hpp"
#include "fi_compat/provider.hpp"

namespace compat::fi {

/// Capability bits by what they are for: fi_getinfo(3), CAPABILITIES.
inline constexpr std::uint64_t kSendCaps = FI_SEND | FI_READ | FI_WRITE;
inline constexpr std::uint64_t kReceiveCaps = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
inline constexpr std::uint64_t kMessageCaps = FI_MSG | FI_TAGGED;
inline constexpr std::uint64_t kMemoryCaps = FI_RMA | FI_ATOMIC;
inline constexpr std::uint64_t kRemoteCaps = FI_REMOTE_READ | FI_REMOTE_WRITE;
inline constexpr std::uint64_t kSecondaryCaps =
    FI_MULTI_RECV | FI_TAGGED_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT | FI_SHARED_AV |
    FI_TRIGGER | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_RMA_PMEM;

/// What FI_MR_BASIC stands for; the bits that concern the target of RMA.
inline constexpr int kMrBasicMap = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// Everything that is true of an endpoint type on a device. Its attribute structures belong to it,
/// so that info can be read like any other.
struct Offer {
    Offer(const Provider& provider, const core::Device& device, fi_ep_type type,
          std::uint32_t api_version, const fi_info* hints);
    Offer(const Offer&) = delete;
    Offer& operator=(const Offer&) = delete;

    const Provider& provider;
    const core::Device& device;
    int mr_needed = 0;   ///< mr_mode bits the program must live with
    int mr_helpful = 0;  ///< and those that spare work where it offers them
    fi_info info{};      ///< at most; domain_attr->mr_mode: all it can make use of
    fi_tx_attr tx{};
    fi_rx_attr rx{};
    fi_ep_attr ep{};
    fi_domain_attr domain{};
    fi_fabric_attr fabric{};
};

/// The endpoint types there are, under a provider name.
std::span<const fi_ep_type> offered_types() noexcept;
bool provider_offers(const Provider& provider, fi_ep_type type) noexcept;

/// Capabilities with the modifiers that fi_getinfo(3) adds to what was asked.
std::uint64_t with_modifiers(std::uint64_t caps) noexcept;

/// The info for hints that the offer satisfies: what was asked, and defaults for the rest. Without
/// names and addresses.
InfoPtr cut_info(const Offer& offer, const fi_info* hints, std::uint32_t api_version);

}  // namespace compat::fi
