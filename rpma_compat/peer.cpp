// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/peer.hpp"

#include "rpma_compat/context.hpp"
#include "rpma_compat/err_map.hpp"
#include "rpma_compat/log.hpp"

using namespace compat;
using namespace compat::rpma;

namespace {

int new_peer(ibv_context* context, rpma_peer** out) {
    connect_core_log();
    core::Device* const device = device_of(context);
    if (device == nullptr) {
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "the context belongs to no device of this library");
        return RPMA_E_PROVIDER;
    }
    if (!device->limits().atomic_write)
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_INFO,
                        "%s has no native atomic write; an inline write will do",
                        device->limits().name.c_str());
    if (!device->limits().flush)
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_INFO, "%s has no native flush; a read will do",
                        device->limits().name.c_str());
    auto peer = std::make_unique<rpma_peer>();
    auto pd = device->allocate_pd();
    if (!pd) {
        const int code = COMPAT_RPMA_FAILED(pd, "ibv_alloc_pd", pd.error());
        const bool no_reason =
            pd.error().code == core::Errc::device && pd.error().device_errno == 0;
        return no_reason ? RPMA_E_UNKNOWN : code;
    }
    peer->device = device;
    peer->pd = std::move(*pd);
    *out = peer.release();
    return kSuccess;
}

}  // namespace

int rpma_peer_new(ibv_context* ibv_ctx, rpma_peer** peer_ptr) {
    return c_boundary([&] {
        if (ibv_ctx == nullptr || peer_ptr == nullptr) return RPMA_E_INVAL;
        return new_peer(ibv_ctx, peer_ptr);
    });
}

int rpma_peer_delete(rpma_peer** peer_ptr) {
    return c_boundary([&] {
        if (peer_ptr == nullptr) return RPMA_E_INVAL;
        const std::unique_ptr<rpma_peer> peer(*peer_ptr);
        *peer_ptr = nullptr;
        if (peer == nullptr || !peer->pd->in_use()) return kSuccess;
        // What was made from it still points to the PD, so the PD stays.
        static_cast<void>(peer->pd.release());
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                        "ibv_dealloc_pd failed: something made from it exists");
        return RPMA_E_PROVIDER;
    });
}
