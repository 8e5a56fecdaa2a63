// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/fabric.hpp"

#include "fi_compat/boundary.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/unsupported.hpp"
#include "fi_compat/wait.hpp"

namespace compat::fi {
namespace {

int fabric_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    return c_boundary([&] { return open_domain(Fabric::of(fabric), info, 0, domain, context); });
}

int fabric_domain2(fid_fabric* fabric, fi_info* info, fid_domain** domain, std::uint64_t flags,
                   void* context) {
    return c_boundary(
        [&] { return open_domain(Fabric::of(fabric), info, flags, domain, context); });
}

int fabric_passive_ep(fid_fabric* fabric, fi_info* info, fid_pep** pep, void* context) {
    return c_boundary([&] { return open_passive_ep(Fabric::of(fabric), info, pep, context); });
}

int fabric_eq_open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context) {
    return c_boundary([&] {
        fi_eq_attr defaults{};
        defaults.wait_obj = FI_WAIT_UNSPEC;
        const auto queue = EventQueue::open(Fabric::of(fabric), attr ? *attr : defaults, context);
        if (!queue) return to_fi(queue.error());
        *eq = (*queue)->face();
        return 0;
    });
}

int fabric_wait_open(fid_fabric* fabric, fi_wait_attr* attr, fid_wait** wait) {
    return c_boundary([&] {
        if (attr == nullptr) return -FI_EINVAL;
        const auto set = WaitSet::open(Fabric::of(fabric), *attr);
        if (!set) return to_fi(set.error());
        *wait = (*set)->face();
        return 0;
    });
}

int fabric_trywait(fid_fabric*, struct ::fid** fids, int count) {
    for (int i = 0; i < count; ++i) {
        const int answer = fids[i]->ops->control(fids[i], kControlTryWait, nullptr);
        if (answer != 0) return answer == -FI_ENOSYS ? -FI_EINVAL : answer;
    }
    return 0;
}

constinit fi_ops kFabricFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Fabric>,
    .bind = kUnsupported,
    .control = kUnsupported,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_fabric kFabricOps = {
    .size = sizeof(fi_ops_fabric),
    .domain = fabric_domain,
    .passive_ep = fabric_passive_ep,
    .eq_open = fabric_eq_open,
    .wait_open = fabric_wait_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

}  // namespace

Fabric::Fabric(const Provider& provider, const char* fabric_name, std::uint32_t api_word,
               void* user_context)
    : Object(FI_CLASS_FABRIC, user_context, kFabricFiOps), provider_(provider), name_(fabric_name) {
    ops = &kFabricOps;
    fid_fabric::api_version = api_word;
}

int open_fabric(const fi_fabric_attr& attr, std::uint32_t api_word, fid_fabric** fabric,
                void* user_context) {
    if (attr.name == nullptr || attr.prov_name == nullptr) return -FI_EINVAL;
    const Provider* provider = find_provider(attr.prov_name);
    if (provider == nullptr || find_device(*provider, nullptr) == nullptr) return -FI_ENODEV;
    *fabric = (new Fabric(*provider, attr.name, api_word, user_context))->face();
    return 0;
}

}  // namespace compat::fi
