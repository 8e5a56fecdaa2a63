// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/domain.hpp"

#include <cstring>

#include "fi_compat/boundary.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr std::size_t kKeyLength = sizeof(std::uint32_t);  // the device's keys

/// fi_mr_attr has no symbol version: only what the program's release had is read.
std::size_t mr_attr_length(const Fabric& fabric) {
    if (!fabric.api_at_least(1, 5)) return 48;
    if (!fabric.api_at_least(1, 9)) return 64;
    if (!fabric.api_at_least(1, 19)) return 80;
    if (!fabric.api_at_least(1, 22)) return 88;
    if (!fabric.api_at_least(2, 0)) return 96;
    return sizeof(fi_mr_attr);
}

int domain_bind(struct ::fid* face, struct ::fid* object, std::uint64_t flags) {
    return c_boundary([&] { return Domain::of(face).bind(object, flags); });
}

int domain_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return Domain::of(face).control(command, argument); });
}

int domain_av_open(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context) {
    return c_boundary([&] {
        return attr != nullptr ? open_av(Domain::of(domain), *attr, av, context) : -FI_EINVAL;
    });
}

int domain_cq_open(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context) {
    return c_boundary(
        [&] { return open_cq(Domain::of(domain), attr ? *attr : fi_cq_attr{}, cq, context); });
}

int domain_endpoint(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) {
    return c_boundary([&] { return open_endpoint(Domain::of(domain), info, ep, context); });
}

int domain_endpoint2(fid_domain* domain, fi_info* info, fid_ep** ep, std::uint64_t flags,
                     void* context) {
    return c_boundary([&] {
        if (flags != 0) return -FI_EBADFLAGS;
        return open_endpoint(Domain::of(domain), info, ep, context);
    });
}

int domain_cntr_open(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
    return c_boundary([&] {
        fi_cntr_attr defaults{};
        defaults.wait_obj = FI_WAIT_UNSPEC;
        return open_counter(Domain::of(domain), attr ? *attr : defaults, cntr, context);
    });
}

int domain_poll_open(fid_domain* domain, fi_poll_attr* attr, fid_poll** poll_set) {
    return c_boundary(
        [&] { return open_poll_set(Domain::of(domain), attr ? *attr : fi_poll_attr{}, poll_set); });
}

int domain_stx_ctx(fid_domain* domain, fi_tx_attr* attr, fid_stx** stx, void* context) {
    return c_boundary([&] { return open_shared_transmit(Domain::of(domain), attr, stx, context); });
}

int domain_srx_ctx(fid_domain* domain, fi_rx_attr* attr, fid_ep** srx, void* context) {
    return c_boundary([&] { return open_shared_receive(Domain::of(domain), attr, srx, context); });
}

constinit fi_ops kDomainFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Domain>,
    .bind = domain_bind,
    .control = domain_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_domain kDomainOps = {
    .size = sizeof(fi_ops_domain),
    .av_open = domain_av_open,
    .cq_open = domain_cq_open,
    .endpoint = domain_endpoint,
    .scalable_ep = kUnsupported,
    .cntr_open = domain_cntr_open,
    .poll_open = domain_poll_open,
    .stx_ctx = domain_stx_ctx,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = kUnsupported,
    .query_collective = kUnsupported,
    .endpoint2 = domain_endpoint2,
};

int mr_regattr(struct ::fid* face, const fi_mr_attr* given, std::uint64_t flags, fid_mr** mr) {
    return c_boundary([&] {
        if (face->fclass != FI_CLASS_DOMAIN || given == nullptr) return -FI_EINVAL;
        Domain& domain = Domain::of(face);
        fi_mr_attr attr{};
        std::memcpy(&attr, given, mr_attr_length(domain.fabric()));
        return register_region(domain, attr, flags, mr);
    });
}

int mr_regv(struct ::fid* face, const iovec* iov, std::size_t count, std::uint64_t access,
            std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr** mr,
            void* context) {
    return c_boundary([&] {
        if (face->fclass != FI_CLASS_DOMAIN) return -FI_EINVAL;
        fi_mr_attr attr{};
        attr.mr_iov = iov;
        attr.iov_count = count;
        attr.access = access;
        attr.offset = offset;
        attr.requested_key = requested_key;
        attr.context = context;
        return register_region(Domain::of(face), attr, flags, mr);
    });
}

int mr_reg(struct ::fid* face, const void* buffer, std::size_t length, std::uint64_t access,
           std::uint64_t offset, std::uint64_t requested_key, std::uint64_t flags, fid_mr** mr,
           void* context) {
    const iovec iov{const_cast<void*>(buffer), length};
    return mr_regv(face, &iov, 1, access, offset, requested_key, flags, mr, context);
}

constinit fi_ops_mr kMrRegistrationOps = {
    .size = sizeof(fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};

/// The program promises to call in: fi_domain(3), progress.
bool lets_us_wait(const fi_progress& progress) {
    const int number = number_in(progress);
    return number == FI_PROGRESS_MANUAL || number == FI_PROGRESS_CONTROL_UNIFIED;
}

std::uint64_t largest_key(std::size_t key_size) {
    const std::size_t bytes = key_size == 0 || key_size > kKeyLength ? kKeyLength : key_size;
    return (std::uint64_t{1} << (8 * bytes)) - 1;
}

/// fi_mr_map_raw(3): the keys of this provider are what fi_mr_key(3) tells.
int map_raw_key(const struct fi_mr_map_raw& map) noexcept {
    if (map.flags != 0) return -FI_EBADFLAGS;
    if (map.raw_key == nullptr || map.key == nullptr || map.key_size != sizeof(std::uint64_t))
        return -FI_EINVAL;
    std::memcpy(map.key, map.raw_key, sizeof(std::uint64_t));
    return 0;
}

}  // namespace

Domain::Domain(Fabric& fabric, core::Device& device, std::unique_ptr<core::ProtectionDomain> pd,
               const fi_info& info, void* user_context)
    : Object(FI_CLASS_DOMAIN, user_context, kDomainFiOps),
      fabric_(fabric),
      device_(device),
      pd_(std::move(pd)),
      mr_mode_(to_mr_mode(info.domain_attr->mr_mode, info.mode, fabric.api_at_least(1, 5))),
      address_format_(info.addr_format),
      max_key_(largest_key(info.domain_attr->mr_key_size)),
      rma_event_(to_caps(info.caps).rma_event && device.limits().remote_access_events),
      connectionless_(info.ep_attr != nullptr && number_in(info.ep_attr->type) == FI_EP_RDM),
      manual_progress_(lets_us_wait(info.domain_attr->progress)) {
    ops = &kDomainOps;
    mr = &kMrRegistrationOps;
}

int Domain::bind(struct ::fid* object, std::uint64_t flags) noexcept {
    if (object->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    EventQueue& eq = EventQueue::of(object);
    if (&eq.fabric() != &fabric()) return -FI_EINVAL;
    // Registration and address insertion are never asynchronous here.
    if (flags != 0) return -FI_EBADFLAGS;
    if (eq_) return -FI_EINVAL;
    eq_ = Ref<EventQueue>(eq);
    return 0;
}

int Domain::control(int command, void* argument) noexcept {
    switch (command) {
        case FI_MAP_RAW_MR:
            if (argument == nullptr) return -FI_EINVAL;
            return map_raw_key(*static_cast<const struct fi_mr_map_raw*>(argument));
        case FI_UNMAP_KEY: return 0;  // nothing was mapped
        default: return -FI_ENOSYS;
    }
}

int open_domain(Fabric& fabric, fi_info* info, std::uint64_t flags, fid_domain** domain,
                void* context) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (info == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
    core::Device* device = find_device(fabric.provider(), info->domain_attr->name);
    if (device == nullptr) return -FI_ENODEV;
    auto pd = device->allocate_pd();
    if (!pd) return to_fi(pd.error());
    *domain = (new Domain(fabric, *device, std::move(*pd), *info, context))->face();
    return 0;
}

}  // namespace compat::fi
