// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/srx.hpp"

#include <algorithm>
#include <cstring>

#include "fi_compat/boundary.hpp"
#include "fi_compat/cq.hpp"
#include "fi_compat/options.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr std::size_t kDefaultSize = 256;

int srx_bind(struct ::fid*, struct ::fid* object, std::uint64_t flags) {
    // Endpoints bring the CQs; a program that binds one here as well does no harm.
    if (object->fclass != FI_CLASS_CQ && object->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
    return only_bits(flags, FI_RECV | FI_SELECTIVE_COMPLETION) ? 0 : -FI_EBADFLAGS;
}

int srx_control(struct ::fid*, int command, void*) {
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

ssize_t srx_cancel(struct ::fid* face, void* context) {
    return c_boundary([&] { return Srx::of(face).cancel(context); });
}
int srx_getopt(struct ::fid* face, int level, int name, void* value, std::size_t* length) {
    return c_boundary([&] { return Srx::of(face).getopt(level, name, value, length); });
}
int srx_setopt(struct ::fid* face, int level, int name, const void* value, std::size_t length) {
    return c_boundary([&] { return Srx::of(face).setopt(level, name, value, length); });
}
ssize_t srx_rx_size_left(fid_ep* face) {
    return static_cast<ssize_t>(Srx::of(face).queue().free_slots());
}

constinit fi_ops kSrxFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Srx>,
    .bind = srx_bind,
    .control = srx_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_ep kSrxEpOps = {
    .size = sizeof(fi_ops_ep),
    .cancel = srx_cancel,
    .getopt = srx_getopt,
    .setopt = srx_setopt,
    .tx_ctx = kUnsupported,
    .rx_ctx = kUnsupported,
    .rx_size_left = srx_rx_size_left,
    .tx_size_left = kUnsupported,
};

}  // namespace

Srx::Srx(Domain& domain, const fi_rx_attr& attr, void* user_context)
    : Object(FI_CLASS_SRX_CTX, user_context, kSrxFiOps),
      domain_(domain),
      desc_required_(domain.mr_mode().local_keys),
      iov_limit_(std::min<std::size_t>({attr.iov_limit != 0 ? attr.iov_limit : SIZE_MAX,
                                        domain.limits().max_sge, core::kMaxSegments})),
      rx_flags_(attr.op_flags) {
    ops = &kSrxEpOps;
    cm = &kNoCmOps;
    msg = &kSrxMsgOps;
    rma = &kNoRmaOps;
    tagged = &kNoTaggedOps;
    atomic = &kNoAtomicOps;
    collective = &kNoCollectiveOps;
}

int Srx::open(Domain& domain, const fi_rx_attr& attr, fid_ep** out, void* user_context) {
    std::unique_ptr<Srx> srx(new Srx(domain, attr, user_context));
    const std::size_t wanted = attr.size != 0 ? attr.size : kDefaultSize;
    const auto depth =
        static_cast<std::uint32_t>(std::min<std::size_t>(wanted, domain.limits().max_srq_wr));
    const auto sges = static_cast<std::uint32_t>(srx->iov_limit_);
    auto srq = domain.pd().create_srq(depth, sges);
    if (!srq) return to_fi(srq.error());
    auto queue = core::ReceiveQueue::create(depth, sges);
    if (!queue) return to_fi(queue.error());
    srx->srq_ = std::move(*srq);
    srx->queue_ = std::move(*queue);
    if (const core::Status opened = srx->queue_->open(*srx->srq_); !opened)
        return to_fi(opened.error());
    *out = srx.release()->face();
    return 0;
}

void Srx::join(Cq* cq, bool selective) {
    const std::lock_guard lock(mutex_);
    cqs_.push_back(cq);
    selective_.store(selective, std::memory_order_relaxed);
}

void Srx::leave(Cq* cq) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(cqs_, cq);
    if (found != cqs_.end()) cqs_.erase(found);
}

bool Srx::receive_entry(std::uint64_t flags) noexcept {
    return !selective_.load(std::memory_order_relaxed) || wants_completion(flags);
}

int Srx::cancel(void* receive_context) {
    const auto cancelled = queue_->cancel(receive_context);
    if (!cancelled) return cancel_errno(cancelled.error());
    const std::lock_guard lock(mutex_);
    // It was meant for any of the endpoints; without one there is nobody to tell.
    if (cqs_.empty() || cqs_.front() == nullptr) return 0;
    return to_return(cqs_.front()->queue().push(*cancelled));
}

int Srx::getopt(int level, int name, void* value, std::size_t* length) {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    return get_size_option(queue_->min_multiple(), value, length);
}

int Srx::setopt(int level, int name, const void* value, std::size_t length) {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    std::size_t size = 0;
    if (const int taken = take_size_option(value, length, size); taken != 0) return taken;
    queue_->set_min_multiple(size);
    return 0;
}

int open_shared_receive(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
    return Srx::open(domain, attr != nullptr ? *attr : fi_rx_attr{}, srx, context);
}

}  // namespace compat::fi
