// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/memory.hpp"

#include <array>
#include <new>

#include "core/device/verbs/srq.hpp"

namespace compat::core::verbs {
namespace {

struct AccessRow {
    Access core;
    unsigned verbs;
};
constexpr std::array kAccess{
    AccessRow{Access::local_write, IBV_ACCESS_LOCAL_WRITE},
    AccessRow{Access::remote_write, IBV_ACCESS_REMOTE_WRITE},
    AccessRow{Access::remote_read, IBV_ACCESS_REMOTE_READ},
    AccessRow{Access::remote_atomic, IBV_ACCESS_REMOTE_ATOMIC},
    AccessRow{Access::on_demand, IBV_ACCESS_ON_DEMAND},
#ifdef COMPAT_HAVE_IBV_FLUSH
    AccessRow{Access::flush_visible, IBV_ACCESS_FLUSH_GLOBAL},
    AccessRow{Access::flush_persistent, IBV_ACCESS_FLUSH_PERSISTENT},
#endif
};
constexpr AccessFlags kFlushRights = Access::flush_visible | Access::flush_persistent;
constexpr AccessFlags kRemoteChanges = Access::remote_write | Access::remote_atomic;

unsigned to_verbs(AccessFlags access) noexcept {
    unsigned flags = 0;
    for (const AccessRow& row : kAccess)
        if (access.has(row.core)) flags |= row.verbs;
    // verbs demands it: who may change the memory from afar may do so here
    if (access.has_any(kRemoteChanges)) flags |= IBV_ACCESS_LOCAL_WRITE;
    return flags;
}

Error registration_error(int error) noexcept {
    switch (error) {
        case EFAULT:
        case EACCES: return {Errc::access_denied, error};
        // What the kernel says of memory that was never mapped, and of a persistent flush of
        // memory that is not persistent.
        case EINVAL: return {Errc::access_denied, error};
        case EOPNOTSUPP:
        case ENOSYS: return {Errc::not_supported, error};
        case ENOMEM: return {Errc::no_memory, error};
        case EAGAIN: return {Errc::no_memory, error};  // locked-memory limit
        default: break;
    }
    return {Errc::device, error};
}

int to_verbs_advice(int advice) noexcept {
    constexpr std::array kAdvice{IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                 IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT};
    for (const int known : kAdvice)
        if (advice == known) return known;
    return -1;
}

class VerbsMr final : public MemoryRegion {
public:
    VerbsMr(MrHandle mr, const MrAttr& attr, Children children) noexcept
        : child_(std::move(children)), mr_(std::move(mr)), attr_(attr) {}

    [[nodiscard]] std::uint32_t lkey() const noexcept override { return mr_->lkey; }
    [[nodiscard]] std::uint32_t rkey() const noexcept override { return mr_->rkey; }
    Status set_observer(RemoteAccessObserver*) noexcept override {
        return failure(Errc::not_supported);
    }
    Status advise(std::uint64_t offset, std::size_t length, int advice,
                  std::uint32_t flags) noexcept override;

private:
    const Child child_;
    MrHandle mr_;
    const MrAttr attr_;
};

Status VerbsMr::advise(std::uint64_t offset, std::size_t length, int advice,
                       std::uint32_t flags) noexcept {
    const int known = to_verbs_advice(advice);
    if (known < 0 || offset > attr_.length || length > attr_.length - offset || length > UINT32_MAX)
        return failure(Errc::invalid_argument);
    ibv_sge range{reinterpret_cast<std::uintptr_t>(attr_.address) + offset,
                  static_cast<std::uint32_t>(length), mr_->lkey};
    const int rc =
        ibv_advise_mr(mr_->pd, static_cast<ibv_advise_mr_advice>(known), flags, &range, 1);
    if (rc == 0) return {};
    const int error = errno_of(rc);
    if (error == EFAULT) return failure(Errc::invalid_argument, error);
    return failure(creation_error(error));
}

// What a region of no bytes names instead: it has a key, but no access to it passes.
constinit std::byte g_nothing{};

}  // namespace

Result<std::unique_ptr<VerbsPd>> VerbsPd::create(ibv_context& context,
                                                 const Limits& limits) noexcept try {
    PdHandle pd(api().ibv_alloc_pd(&context));
    if (!pd) return failure(creation_error(errno));
    return std::unique_ptr<VerbsPd>(new VerbsPd(std::move(pd), limits));
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Result<std::unique_ptr<MemoryRegion>> VerbsPd::register_memory(const MrAttr& attr) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    if (attr.requested_rkey) return failure(Errc::not_supported);
    if (attr.access.has(Access::on_demand) && !limits_.on_demand_paging)
        return failure(Errc::not_supported);
    if (attr.access.has_any(kFlushRights) && !limits_.flush) return failure(Errc::not_supported);
    const bool empty = attr.length == 0;
    void* const address = empty ? &g_nothing : attr.address;
    const std::size_t length = empty ? sizeof g_nothing : attr.length;
    const std::uint64_t iova =
        empty || !attr.iova ? reinterpret_cast<std::uintptr_t>(address) : *attr.iova;
    // siw takes an address of the program's choice and does not find it again.
    const bool is_iwarp = limits_.transport == Transport::iwarp;
    if (is_iwarp && iova != reinterpret_cast<std::uintptr_t>(address))
        return failure(Errc::not_supported);
    errno = 0;
    MrHandle mr(api().ibv_reg_mr_iova2(pd_.get(), address, length, iova,
                                       empty ? 0 : to_verbs(attr.access)));
    if (!mr) return failure(registration_error(errno));
    std::unique_ptr<MemoryRegion> region(new (std::nothrow)
                                             VerbsMr(std::move(mr), attr, children_));
    if (!region) return failure(Errc::no_memory);
    return region;
}

Result<std::unique_ptr<SharedReceiveQueue>> VerbsPd::create_srq(std::uint32_t depth,
                                                                std::uint32_t max_sge) noexcept {
    auto srq = VerbsSrq::create(*this, limits_, depth, max_sge);
    if (!srq) return failure(srq.error());
    return std::unique_ptr<SharedReceiveQueue>(std::move(*srq));
}

}  // namespace compat::core::verbs
