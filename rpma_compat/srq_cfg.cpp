// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/srq_cfg.hpp"

#include "rpma_compat/cfg_field.hpp"

using namespace compat::rpma;

namespace {
constinit const rpma_srq_cfg kDefaults;
}  // namespace

const rpma_srq_cfg& compat::rpma::srq_cfg_or_default(const rpma_srq_cfg* cfg) noexcept {
    return cfg != nullptr ? *cfg : kDefaults;
}

int rpma_srq_cfg_new(rpma_srq_cfg** cfg_ptr) {
    return c_boundary([&] {
        if (cfg_ptr == nullptr) return RPMA_E_INVAL;
        *cfg_ptr = new rpma_srq_cfg;
        return kSuccess;
    });
}

int rpma_srq_cfg_delete(rpma_srq_cfg** cfg_ptr) {
    return delete_object(cfg_ptr);
}

int rpma_srq_cfg_set_rq_size(rpma_srq_cfg* cfg, uint32_t rq_size) {
    return set_field<&rpma_srq_cfg::rq_size>(cfg, rq_size);
}
int rpma_srq_cfg_get_rq_size(const rpma_srq_cfg* cfg, uint32_t* rq_size) {
    return get_field<&rpma_srq_cfg::rq_size>(cfg, rq_size);
}

int rpma_srq_cfg_set_rcq_size(rpma_srq_cfg* cfg, uint32_t rcq_size) {
    return set_field<&rpma_srq_cfg::rcq_size>(cfg, rcq_size);
}
int rpma_srq_cfg_get_rcq_size(const rpma_srq_cfg* cfg, uint32_t* rcq_size) {
    return get_field<&rpma_srq_cfg::rcq_size>(cfg, rcq_size);
}
