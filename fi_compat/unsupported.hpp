// SPDX-License-Identifier: BSD-3-Clause
// What is not offered says so. libfabric's inline functions call slots without looking, so every
// slot of every table holds a function, and no table pointer of an endpoint is null.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <type_traits>

namespace compat::fi {

/// Fits any slot: the stub of that slot's own signature, which answers -FI_ENOSYS.
struct Unsupported {
    template <class Return, class... Parameters>
    using Function = Return (*)(Parameters...);

    template <class Return, class... Parameters>
    static Return answer(Parameters...) noexcept {
        if constexpr (std::is_void_v<Return>) {
            return;
        } else if constexpr (std::is_pointer_v<Return>) {
            return nullptr;
        } else if constexpr (std::is_unsigned_v<Return>) {
            return 0;  // counters have no way to say no
        } else {
            return -FI_ENOSYS;
        }
    }

    template <class Return, class... Parameters>
    constexpr operator Function<Return, Parameters...>() const {
        return &answer<Return, Parameters...>;
    }
};
inline constexpr Unsupported kUnsupported;

inline constinit fi_ops_ep kNoEpOps = {
    .size = sizeof(fi_ops_ep),
    .cancel = kUnsupported,
    .getopt = kUnsupported,
    .setopt = kUnsupported,
    .tx_ctx = kUnsupported,
    .rx_ctx = kUnsupported,
    .rx_size_left = kUnsupported,
    .tx_size_left = kUnsupported,
};

inline constinit fi_ops_cm kNoCmOps = {
    .size = sizeof(fi_ops_cm),
    .setname = kUnsupported,
    .getname = kUnsupported,
    .getpeer = kUnsupported,
    .connect = kUnsupported,
    .listen = kUnsupported,
    .accept = kUnsupported,
    .reject = kUnsupported,
    .shutdown = kUnsupported,
    .join = kUnsupported,
};

inline constinit fi_ops_msg kNoMsgOps = {
    .size = sizeof(fi_ops_msg),
    .recv = kUnsupported,
    .recvv = kUnsupported,
    .recvmsg = kUnsupported,
    .send = kUnsupported,
    .sendv = kUnsupported,
    .sendmsg = kUnsupported,
    .inject = kUnsupported,
    .senddata = kUnsupported,
    .injectdata = kUnsupported,
};

inline constinit fi_ops_rma kNoRmaOps = {
    .size = sizeof(fi_ops_rma),
    .read = kUnsupported,
    .readv = kUnsupported,
    .readmsg = kUnsupported,
    .write = kUnsupported,
    .writev = kUnsupported,
    .writemsg = kUnsupported,
    .inject = kUnsupported,
    .writedata = kUnsupported,
    .injectdata = kUnsupported,
};

inline constinit fi_ops_tagged kNoTaggedOps = {
    .size = sizeof(fi_ops_tagged),
    .recv = kUnsupported,
    .recvv = kUnsupported,
    .recvmsg = kUnsupported,
    .send = kUnsupported,
    .sendv = kUnsupported,
    .sendmsg = kUnsupported,
    .inject = kUnsupported,
    .senddata = kUnsupported,
    .injectdata = kUnsupported,
};

inline constinit fi_ops_atomic kNoAtomicOps = {
    .size = sizeof(fi_ops_atomic),
    .write = kUnsupported,
    .writev = kUnsupported,
    .writemsg = kUnsupported,
    .inject = kUnsupported,
    .readwrite = kUnsupported,
    .readwritev = kUnsupported,
    .readwritemsg = kUnsupported,
    .compwrite = kUnsupported,
    .compwritev = kUnsupported,
    .compwritemsg = kUnsupported,
    .writevalid = kUnsupported,
    .readwritevalid = kUnsupported,
    .compwritevalid = kUnsupported,
};

inline constinit fi_ops_collective kNoCollectiveOps = {
    .size = sizeof(fi_ops_collective),
    .barrier = kUnsupported,
    .broadcast = kUnsupported,
    .alltoall = kUnsupported,
    .allreduce = kUnsupported,
    .allgather = kUnsupported,
    .reduce_scatter = kUnsupported,
    .reduce = kUnsupported,
    .scatter = kUnsupported,
    .gather = kUnsupported,
    .msg = kUnsupported,
    .barrier2 = kUnsupported,
};

}  // namespace compat::fi
