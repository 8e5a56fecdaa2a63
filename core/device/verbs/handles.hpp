// SPDX-License-Identifier: BSD-3-Clause
// Owners of the objects of libibverbs and librdmacm, and what their errors mean.
#pragma once

#include <cerrno>
#include <memory>

#include "core/base/log.hpp"
#include "core/base/result.hpp"
#include "core/device/verbs/api.hpp"

namespace compat::core::verbs {

/// What a call of libibverbs failed with. Most return a positive errno, some a negative one, some
/// -1 and set errno.
inline int errno_of(int rc) noexcept {
    if (rc == -1) return errno;
    return rc < 0 ? -rc : rc;
}

/// The usual meaning of an errno when something is made.
inline Error creation_error(int error) noexcept {
    switch (error) {
        case EINVAL: return {Errc::invalid_argument, error};
        case ENOMEM: return {Errc::no_memory, error};
        case ENOSYS:
        case EOPNOTSUPP: return {Errc::not_supported, error};
        default: return {Errc::device, error};
    }
}

/// And when something is posted.
inline Error posting_error(int error) noexcept {
    if (error == ENOMEM) return {Errc::would_block, error};
    return creation_error(error);
}

template <auto destroy>
struct VerbsDeleter {
    template <class Object>
    void operator()(Object* object) const noexcept {
        if (inherited()) return;  // it is the parent's
        if constexpr (std::is_void_v<decltype((api().*destroy)(object))>) {
            (api().*destroy)(object);
        } else if (const int rc = (api().*destroy)(object); rc != 0) {
            COMPAT_LOG_WARNING("an RDMA object could not be destroyed, errno %d", errno_of(rc));
        }
    }
};

using PdHandle = std::unique_ptr<ibv_pd, VerbsDeleter<&Api::ibv_dealloc_pd>>;
using MrHandle = std::unique_ptr<ibv_mr, VerbsDeleter<&Api::ibv_dereg_mr>>;
using CqHandle = std::unique_ptr<ibv_cq, VerbsDeleter<&Api::ibv_destroy_cq>>;
using SrqHandle = std::unique_ptr<ibv_srq, VerbsDeleter<&Api::ibv_destroy_srq>>;
using QpHandle = std::unique_ptr<ibv_qp, VerbsDeleter<&Api::ibv_destroy_qp>>;
using CompChannelHandle =
    std::unique_ptr<ibv_comp_channel, VerbsDeleter<&Api::ibv_destroy_comp_channel>>;
using EventChannelHandle =
    std::unique_ptr<rdma_event_channel, VerbsDeleter<&Api::rdma_destroy_event_channel>>;
using IdHandle = std::unique_ptr<rdma_cm_id, VerbsDeleter<&Api::rdma_destroy_id>>;

}  // namespace compat::core::verbs
