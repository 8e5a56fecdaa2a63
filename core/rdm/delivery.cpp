// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/delivery.hpp"

namespace compat::core::rdm {

Status Delivery::prepare(ProtectionDomain& pd, const Limits& limits) noexcept {
    auto region = pd.register_memory({.address = &read_by_peers_,
                                      .length = sizeof read_by_peers_,
                                      .access = Access::remote_read | Access::read_source});
    if (!region) return failure(region.error());
    region_ = std::move(*region);
    AccessFlags access = Access::local_write;
    if (limits.read_sink_needs_remote_write) access |= Access::remote_write;
    auto sink = pd.register_memory({.address = &sink_, .length = sizeof sink_, .access = access});
    if (!sink) return failure(sink.error());
    sink_region_ = std::move(*sink);
    return {};
}

void Delivery::describe(Hello& hello) const noexcept {
    if (!region_) return;
    hello.probe_rkey = region_->rkey();
    hello.probe_address = reinterpret_cast<std::uintptr_t>(&read_by_peers_);
}

DeliveryProbe Delivery::at(const Hello& peer) noexcept {
    if (!sink_region_) return {};
    return {.remote_address = peer.probe_address,
            .rkey = peer.probe_rkey,
            .sink = {.address = &sink_, .length = sizeof sink_, .lkey = sink_region_->lkey()}};
}

}  // namespace compat::core::rdm
