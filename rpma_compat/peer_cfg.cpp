// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/peer_cfg.hpp"

#include <cstdint>
#include <memory>

#include "rpma_compat/cfg_field.hpp"
#include "rpma_compat/log.hpp"

using namespace compat::rpma;

namespace {
constexpr std::size_t kDescriptorSize = sizeof(std::uint8_t);
}  // namespace

int rpma_peer_cfg_new(rpma_peer_cfg** pcfg_ptr) {
    return c_boundary([&] {
        if (pcfg_ptr == nullptr) return RPMA_E_INVAL;
        *pcfg_ptr = new rpma_peer_cfg;
        return kSuccess;
    });
}

int rpma_peer_cfg_delete(rpma_peer_cfg** pcfg_ptr) {
    return delete_object(pcfg_ptr);
}

int rpma_peer_cfg_set_direct_write_to_pmem(rpma_peer_cfg* pcfg, bool supported) {
    return set_field<&rpma_peer_cfg::direct_write_to_pmem>(pcfg, supported);
}
int rpma_peer_cfg_get_direct_write_to_pmem(const rpma_peer_cfg* pcfg, bool* supported) {
    return get_field<&rpma_peer_cfg::direct_write_to_pmem>(pcfg, supported);
}

int rpma_peer_cfg_get_descriptor(const rpma_peer_cfg* pcfg, void* desc) {
    if (pcfg == nullptr || desc == nullptr) return RPMA_E_INVAL;
    *static_cast<std::uint8_t*>(desc) =
        pcfg->direct_write_to_pmem.load(std::memory_order_relaxed) ? 1 : 0;
    return kSuccess;
}

int rpma_peer_cfg_get_descriptor_size(const rpma_peer_cfg* pcfg, size_t* desc_size) {
    if (pcfg == nullptr || desc_size == nullptr) return RPMA_E_INVAL;
    *desc_size = kDescriptorSize;
    return kSuccess;
}

int rpma_peer_cfg_from_descriptor(const void* desc, size_t desc_size, rpma_peer_cfg** pcfg_ptr) {
    return c_boundary([&] {
        if (desc == nullptr || pcfg_ptr == nullptr) return RPMA_E_INVAL;
        if (desc_size < kDescriptorSize) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "peer descriptor of %zu bytes, need %zu",
                            desc_size, kDescriptorSize);
            return RPMA_E_INVAL;
        }
        auto pcfg = std::make_unique<rpma_peer_cfg>();
        const bool direct_write = *static_cast<const std::uint8_t*>(desc) != 0;
        pcfg->direct_write_to_pmem.store(direct_write, std::memory_order_relaxed);
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_INFO, "peer configuration: direct write to pmem %s",
                        direct_write ? "supported" : "not supported");
        *pcfg_ptr = pcfg.release();
        return kSuccess;
    });
}
