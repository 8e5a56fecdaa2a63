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
    return static_cast<ssize_t>(Srx::of(face).free_slots());
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
      directed_(to_caps(attr.caps).directed_receive),
      iov_limit_(std::min<std::size_t>({attr.iov_limit != 0 ? attr.iov_limit : SIZE_MAX,
                                        domain.limits().max_sge, core::kMaxSegments})),
      rx_flags_(attr.op_flags) {
    ops = &kSrxEpOps;
    cm = &kNoCmOps;
    msg = domain.connectionless() ? &kRdmSrxMsgOps : &kSrxMsgOps;
    rma = &kNoRmaOps;
    tagged = domain.connectionless() ? &kRdmSrxTaggedOps : &kNoTaggedOps;
    atomic = &kNoAtomicOps;
    collective = &kNoCollectiveOps;
}

int Srx::open(Domain& domain, const fi_rx_attr& attr, fid_ep** out, void* user_context) {
    std::unique_ptr<Srx> srx(new Srx(domain, attr, user_context));
    const core::Status created = srx->create_queues(attr.size != 0 ? attr.size : kDefaultSize);
    if (!created) return to_fi(created.error());
    *out = srx.release()->face();
    return 0;
}

core::Status Srx::create_queues(std::size_t wanted) {
    const auto depth =
        static_cast<std::uint32_t>(std::min<std::size_t>(wanted, domain_->limits().max_srq_wr));
    if (domain_->connectionless()) {
        auto messages = core::MessageQueue::create(depth);
        if (!messages) return core::failure(messages.error());
        messages_ = std::move(*messages);
        return {};
    }
    const auto sges = static_cast<std::uint32_t>(iov_limit_);
    auto srq = domain_->pd().create_srq(depth, sges);
    if (!srq) return core::failure(srq.error());
    auto queue = core::ReceiveQueue::create(depth, sges);
    if (!queue) return core::failure(queue.error());
    srq_ = std::move(*srq);
    queue_ = std::move(*queue);
    return queue_->open(*srq_);
}

ssize_t Srx::receive(const core::MessageReceive& receive) noexcept {
    return to_return(messages_->post(receive));
}

std::size_t Srx::free_slots() noexcept {
    return messages_ ? messages_->free_slots() : queue_->free_slots();
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
    const std::lock_guard lock(mutex_);
    // It was meant for any of the endpoints; without one there is nobody to tell.
    Cq* const told = cqs_.empty() ? nullptr : cqs_.front();
    if (told != nullptr && !told->queue().prepare(1)) return -FI_EAGAIN;  // it piles entries up
    const auto cancelled =
        messages_ ? messages_->cancel(receive_context) : queue_->cancel(receive_context);
    if (!cancelled) return cancel_errno(cancelled.error());
    return told == nullptr ? 0 : to_return(told->queue().push(*cancelled));
}

int Srx::getopt(int level, int name, void* value, std::size_t* length) {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    return get_size_option(min_multiple_, value, length);
}

int Srx::setopt(int level, int name, const void* value, std::size_t length) {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    std::size_t size = 0;
    if (const int taken = take_size_option(value, length, size); taken != 0) return taken;
    if (messages_)
        messages_->set_min_multiple(size);
    else
        queue_->set_min_multiple(size);
    min_multiple_ = size;
    return 0;
}

int open_shared_receive(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
    return Srx::open(domain, attr != nullptr ? *attr : fi_rx_attr{}, srx, context);
}

}  // namespace compat::fi
