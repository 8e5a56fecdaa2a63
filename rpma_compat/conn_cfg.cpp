// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/conn_cfg.hpp"

#include "rpma_compat/cfg_field.hpp"

using namespace compat::rpma;

namespace {

constinit const rpma_conn_cfg kDefaults;

}  // namespace

const rpma_conn_cfg& compat::rpma::conn_cfg_or_default(const rpma_conn_cfg* cfg) noexcept {
    return cfg != nullptr ? *cfg : kDefaults;
}

int rpma_conn_cfg_new(rpma_conn_cfg** cfg_ptr) {
    if (cfg_ptr == nullptr) return RPMA_E_INVAL;
    *cfg_ptr = nullptr;  // upstream writes it on failure, too
    return c_boundary([&] {
        *cfg_ptr = new rpma_conn_cfg;
        return kSuccess;
    });
}

int rpma_conn_cfg_delete(rpma_conn_cfg** cfg_ptr) {
    return delete_object(cfg_ptr);
}

int rpma_conn_cfg_set_timeout(rpma_conn_cfg* cfg, int timeout_ms) {
    if (timeout_ms < 0) return RPMA_E_INVAL;
    return set_field<&rpma_conn_cfg::timeout_ms>(cfg, timeout_ms);
}
int rpma_conn_cfg_get_timeout(const rpma_conn_cfg* cfg, int* timeout_ms) {
    return get_field<&rpma_conn_cfg::timeout_ms>(cfg, timeout_ms);
}

int rpma_conn_cfg_set_cq_size(rpma_conn_cfg* cfg, uint32_t cq_size) {
    return set_field<&rpma_conn_cfg::cq_size>(cfg, cq_size);
}
int rpma_conn_cfg_get_cq_size(const rpma_conn_cfg* cfg, uint32_t* cq_size) {
    return get_field<&rpma_conn_cfg::cq_size>(cfg, cq_size);
}

int rpma_conn_cfg_set_rcq_size(rpma_conn_cfg* cfg, uint32_t rcq_size) {
    return set_field<&rpma_conn_cfg::rcq_size>(cfg, rcq_size);
}
int rpma_conn_cfg_get_rcq_size(const rpma_conn_cfg* cfg, uint32_t* rcq_size) {
    return get_field<&rpma_conn_cfg::rcq_size>(cfg, rcq_size);
}

int rpma_conn_cfg_set_sq_size(rpma_conn_cfg* cfg, uint32_t sq_size) {
    return set_field<&rpma_conn_cfg::sq_size>(cfg, sq_size);
}
int rpma_conn_cfg_get_sq_size(const rpma_conn_cfg* cfg, uint32_t* sq_size) {
    return get_field<&rpma_conn_cfg::sq_size>(cfg, sq_size);
}

int rpma_conn_cfg_set_rq_size(rpma_conn_cfg* cfg, uint32_t rq_size) {
    return set_field<&rpma_conn_cfg::rq_size>(cfg, rq_size);
}
int rpma_conn_cfg_get_rq_size(const rpma_conn_cfg* cfg, uint32_t* rq_size) {
    return get_field<&rpma_conn_cfg::rq_size>(cfg, rq_size);
}

int rpma_conn_cfg_set_compl_channel(rpma_conn_cfg* cfg, bool shared) {
    return set_field<&rpma_conn_cfg::shared_channel>(cfg, shared);
}
int rpma_conn_cfg_get_compl_channel(const rpma_conn_cfg* cfg, bool* shared) {
    return get_field<&rpma_conn_cfg::shared_channel>(cfg, shared);
}

int rpma_conn_cfg_set_srq(rpma_conn_cfg* cfg, rpma_srq* srq) {
    if (srq == nullptr) return RPMA_E_INVAL;  // a shared receive queue cannot be unset
    return set_field<&rpma_conn_cfg::srq>(cfg, srq);
}
int rpma_conn_cfg_get_srq(const rpma_conn_cfg* cfg, rpma_srq** srq_ptr) {
    return get_field<&rpma_conn_cfg::srq>(cfg, srq_ptr);
}
