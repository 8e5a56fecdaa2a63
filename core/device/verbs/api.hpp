// SPDX-License-Identifier: BSD-3-Clause
// The functions of libibverbs and librdmacm that are called, and the one place that loads them.
// What the headers define inline goes through the context and needs no symbol; ibv_query_port() and
// ibv_query_device_ex() fall back to symbols, so limits.cpp calls the context's functions itself.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>

namespace compat::core::verbs {

#define COMPAT_VERBS_FUNCTIONS(row)                                                                \
    row(ibv_get_device_name) row(ibv_alloc_pd) row(ibv_dealloc_pd) row(ibv_reg_mr_iova2)           \
        row(ibv_dereg_mr) row(ibv_create_comp_channel) row(ibv_destroy_comp_channel)               \
            row(ibv_create_cq) row(ibv_resize_cq) row(ibv_destroy_cq) row(ibv_get_cq_event)        \
                row(ibv_ack_cq_events) row(ibv_create_srq) row(ibv_destroy_srq) row(ibv_create_qp) \
                    row(ibv_modify_qp) row(ibv_destroy_qp) row(ibv_qp_to_qp_ex)                    \
                        row(ibv_get_async_event) row(ibv_ack_async_event)
#define COMPAT_RDMACM_FUNCTIONS(row)                                                         \
    row(rdma_get_devices) row(rdma_free_devices) row(rdma_create_event_channel)              \
        row(rdma_destroy_event_channel) row(rdma_get_cm_event) row(rdma_ack_cm_event)        \
            row(rdma_create_id) row(rdma_destroy_id) row(rdma_bind_addr) row(rdma_listen)    \
                row(rdma_resolve_addr) row(rdma_resolve_route) row(rdma_create_qp_ex)        \
                    row(rdma_destroy_qp) row(rdma_connect) row(rdma_accept) row(rdma_reject) \
                        row(rdma_notify) row(rdma_disconnect)

struct Api {
#define COMPAT_API_MEMBER(function) decltype(&::function) function = nullptr;
    COMPAT_VERBS_FUNCTIONS(COMPAT_API_MEMBER)
    COMPAT_RDMACM_FUNCTIONS(COMPAT_API_MEMBER)
#undef COMPAT_API_MEMBER
};

extern Api g_api;
extern std::atomic<bool> g_inherited;

/// Loads both libraries, once. False where they, or RDMA devices, are missing: then nothing else of
/// this folder may be called.
bool load_api() noexcept;

inline const Api& api() noexcept {
    return g_api;
}

/// True in a child process of the one that loaded the libraries. Neither they nor the kernel let
/// a child use what it inherited, and what it did would be done to its parent's objects.
inline bool inherited() noexcept {
    return g_inherited.load(std::memory_order_relaxed);
}

}  // namespace compat::core::verbs
