// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/context.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace compat::rpma {
namespace {

/// Looks like a device of libibverbs to a program that only looks. What verbs offers as inline
/// functions fails with EOPNOTSUPP instead of crashing.
struct SoftwareContext {
    ibv_context context{};
    ibv_device device{};
    core::Device* owner = nullptr;
};

int no_poll_cq(ibv_cq*, int, ibv_wc*) {
    return -EOPNOTSUPP;
}
int no_req_notify_cq(ibv_cq*, int) {
    return EOPNOTSUPP;
}
int no_post_srq_recv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) {
    return EOPNOTSUPP;
}
int no_post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr**) {
    return EOPNOTSUPP;
}
int no_post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) {
    return EOPNOTSUPP;
}
int no_bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*) {
    return EOPNOTSUPP;
}
int no_dealloc_mw(ibv_mw*) {
    return EOPNOTSUPP;
}
ibv_mw* no_alloc_mw(ibv_pd*, ibv_mw_type) {
    errno = EOPNOTSUPP;
    return nullptr;
}

template <std::size_t size>
void copy_name(char (&target)[size], const char* name) {
    std::strncpy(target, name, size - 1);
}

void fill(SoftwareContext& software, core::Device& owner) {
    const core::Limits& limits = owner.limits();
    const bool iwarp = limits.transport == core::Transport::iwarp;
    software.owner = &owner;
    software.device.node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    software.device.transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    copy_name(software.device.name, limits.name.c_str());
    copy_name(software.device.dev_name, limits.name.c_str());

    ibv_context& context = software.context;
    context.device = &software.device;
    context.ops.alloc_mw = no_alloc_mw;
    context.ops.bind_mw = no_bind_mw;
    context.ops.dealloc_mw = no_dealloc_mw;
    context.ops.poll_cq = no_poll_cq;
    context.ops.req_notify_cq = no_req_notify_cq;
    context.ops.post_srq_recv = no_post_srq_recv;
    context.ops.post_send = no_post_send;
    context.ops.post_recv = no_post_recv;
    context.cmd_fd = -1;
    context.async_fd = -1;
    context.num_comp_vectors = 1;
    context.mutex = PTHREAD_MUTEX_INITIALIZER;
}

struct Contexts {
    std::mutex mutex;
    std::vector<std::unique_ptr<SoftwareContext>> all;
};

Contexts& contexts() {
    static auto* const leaked = new Contexts;  // a program may call from its own atexit handlers
    return *leaked;
}

}  // namespace

ibv_context* context_of(core::Device& device) {
    if (ibv_context* native = device.native_context()) return native;
    Contexts& known = contexts();
    const std::lock_guard lock(known.mutex);
    for (const auto& software : known.all)
        if (software->owner == &device) return &software->context;
    auto software = std::make_unique<SoftwareContext>();
    fill(*software, device);
    known.all.push_back(std::move(software));
    return &known.all.back()->context;
}

core::Device* device_of(const ibv_context* context) {
    {
        Contexts& known = contexts();
        const std::lock_guard lock(known.mutex);
        for (const auto& software : known.all)
            if (&software->context == context) return software->owner;
    }
    for (core::Device* device : core::all_devices())
        if (device->native_context() == context) return device;
    return nullptr;
}

}  // namespace compat::rpma
