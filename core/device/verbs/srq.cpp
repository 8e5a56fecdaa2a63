// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/srq.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include "core/device/verbs/work_request.hpp"

namespace compat::core::verbs {

Result<std::unique_ptr<VerbsSrq>> VerbsSrq::create(VerbsPd& pd, const Limits& limits,
                                                   std::uint32_t depth,
                                                   std::uint32_t max_sge) noexcept try {
    if (inherited()) return failure(Errc::device, EPERM);
    if (depth == 0 || depth > limits.max_srq_wr || max_sge > limits.max_sge)
        return failure(Errc::invalid_argument);
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = depth;
    attr.attr.max_sge = std::max(max_sge, 1U);
    SrqHandle srq(api().ibv_create_srq(pd.get(), &attr));
    if (!srq) return failure(creation_error(errno));
    return std::unique_ptr<VerbsSrq>(
        new VerbsSrq(std::move(srq), limits, depth, max_sge, pd.children()));
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

VerbsSrq::VerbsSrq(SrqHandle srq, const Limits& limits, std::uint32_t depth, std::uint32_t max_sge,
                   Children children)
    : child_(std::move(children)),
      srq_(std::move(srq)),
      is_iwarp_(limits.transport == Transport::iwarp),
      max_sge_(max_sge),
      slots_(depth) {
    free_.reserve(depth);
    for (std::uint32_t index = depth; index-- > 0;) {
        slots_[index] = {.owner = this, .kind = SlotKind::shared_receive};
        free_.push_back(&slots_[index]);
    }
}

Status VerbsSrq::post_receive(const ReceiveRequest& request) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    if (request.sges.size() > max_sge_) return failure(Errc::invalid_argument);
    const std::lock_guard guard(lock_);
    if (free_.empty()) return failure(Errc::would_block);
    Slot& slot = *free_.back();
    slot.wr_id = request.wr_id;
    ibv_recv_wr wr{};
    wr.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
    ibv_sge spare;
    set_elements(wr, request.sges, is_iwarp_, spare);
    ibv_recv_wr* bad = nullptr;
    if (const int rc = ibv_post_srq_recv(srq_.get(), &wr, &bad); rc != 0)
        return failure(posting_error(errno_of(rc)));
    free_.pop_back();
    return {};
}

void VerbsSrq::retire(Slot& slot) noexcept {
    const std::lock_guard guard(lock_);
    free_.push_back(&slot);
}

}  // namespace compat::core::verbs
