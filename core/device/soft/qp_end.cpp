// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/qp_end.hpp"

#include <algorithm>
#include <new>

#include "core/device/soft/soft_device.hpp"

namespace compat::core::soft {
namespace {

constinit std::atomic<std::uint32_t> g_next_number{0x11};
constexpr std::uint32_t kNumberMask = 0xffffff;  // a QPN has 24 bits

std::uint32_t receives_at_once(const QpAttr& attr) {
    const auto* srq = static_cast<SoftSrq*>(attr.srq);
    const std::uint32_t receives = srq ? srq->queue_depth() : attr.receive_depth;
    return receives + (attr.imm_without_receive ? std::max<std::uint32_t>(receives, 1) : 0);
}

bool valid(const QpAttr& attr) {
    const Limits& limits = device().limits();
    return dynamic_cast<SoftPd*>(attr.pd) != nullptr &&
           dynamic_cast<SoftCq*>(attr.send_cq) != nullptr &&
           dynamic_cast<SoftCq*>(attr.receive_cq) != nullptr &&
           (attr.srq == nullptr || dynamic_cast<SoftSrq*>(attr.srq) != nullptr) &&
           attr.send_depth <= limits.max_qp_wr && attr.receive_depth <= limits.max_qp_wr &&
           attr.max_send_sge <= limits.max_sge && attr.max_receive_sge <= limits.max_sge &&
           attr.max_inline <= limits.max_inline;
}

}  // namespace

Result<std::unique_ptr<QpEnd>> QpEnd::create(const QpAttr& attr) noexcept {
    if (!valid(attr)) return failure(Errc::invalid_argument);
    auto* send_cq = static_cast<SoftCq*>(attr.send_cq);
    auto* receive_cq = static_cast<SoftCq*>(attr.receive_cq);
    if (const auto made = send_cq->reserve(attr.send_depth); !made) return failure(made.error());
    if (const auto made = receive_cq->reserve(receives_at_once(attr)); !made) {
        send_cq->unreserve(attr.send_depth);
        return failure(made.error());
    }
    try {
        const auto number = g_next_number.fetch_add(1, std::memory_order_relaxed) & kNumberMask;
        return std::unique_ptr<QpEnd>(new QpEnd(attr, number));
    } catch (const std::bad_alloc&) {
        send_cq->unreserve(attr.send_depth);
        receive_cq->unreserve(receives_at_once(attr));
        return failure(Errc::no_memory);
    }
}

QpEnd::QpEnd(const QpAttr& attr, std::uint32_t number)
    : sends(attr, static_cast<SoftCq&>(*attr.send_cq), number),
      number_(number),
      keys_(static_cast<SoftPd*>(attr.pd)->keys()),
      access_(attr.access),
      pd_children_(static_cast<SoftPd*>(attr.pd)->children()),
      send_cq_(static_cast<SoftCq&>(*attr.send_cq)),
      receive_cq_(static_cast<SoftCq&>(*attr.receive_cq)),
      send_reserved_(attr.send_depth),
      receive_reserved_(receives_at_once(attr)),
      own_receives_(attr.srq != nullptr
                        ? nullptr
                        : std::make_unique<ReceiveQueue>(attr.receive_depth, attr.max_receive_sge)),
      srq_(static_cast<SoftSrq*>(attr.srq)),
      imm_without_receive_(attr.imm_without_receive),
      imm_limit_(std::max<std::uint32_t>(srq_ ? srq_->queue_depth() : attr.receive_depth, 1)) {
    pd_children_->fetch_add(1, std::memory_order_relaxed);
}

QpEnd::~QpEnd() {
    receive_cq_.purge(this);
    send_cq_.purge(sends.owner());
    send_cq_.unreserve(send_reserved_);
    receive_cq_.unreserve(receive_reserved_);
    pd_children_->fetch_sub(1, std::memory_order_release);
}

Fault QpEnd::pin_remote(std::uint32_t rkey, std::uint64_t iova, std::uint64_t length, Access right,
                        Pin& pin) const noexcept {
    if (length == 0 || !kRemoteAccess.has(right) || access_.has(right))
        return keys_->pin_remote(rkey, iova, length, right, pin);
    const bool found = keys_->pin_remote(rkey, iova, length, right, pin) == Fault::none;
    if (found && qp_allows(access_, pin.region()->access(), right)) return Fault::none;
    pin.release();
    return Fault::no_right;
}

Status QpEnd::post_receive(const ReceiveRequest& request) noexcept {
    if (srq_ != nullptr) return failure(Errc::invalid_argument);
    return own_receives_->post(request);
}

Status QpEnd::cancel_receive(std::uint64_t wr_id) noexcept {
    if (srq_ != nullptr) return failure(Errc::invalid_argument);
    return own_receives_->cancel(wr_id);
}

bool QpEnd::take_receive(TakenReceive& receive) noexcept {
    return srq_ != nullptr ? srq_->take(receive) : own_receives_->take(receive);
}

void QpEnd::complete_receive(const TakenReceive& receive, WorkCompletion wc,
                             bool solicited) noexcept {
    wc.wr_id = receive.wr_id;
    wc.receive_side = true;
    wc.qp_num = number_;
    ++received_;
    receive_cq_.push(wc, this, {receive.slots_in_use, 1},
                     solicited || wc.status != WcStatus::success);
}

bool QpEnd::complete_imm(WorkCompletion wc, bool solicited) noexcept {
    if (imm_waiting_.load(std::memory_order_acquire) >= imm_limit_) return false;
    imm_waiting_.fetch_add(1, std::memory_order_relaxed);
    wc.receive_side = true;
    wc.qp_num = number_;
    ++received_;
    receive_cq_.push(wc, this, {&imm_waiting_, 1}, solicited);
    return true;
}

void QpEnd::flush_receives() noexcept {
    if (own_receives_ == nullptr) return;  // those of an SRQ serve other QPs
    TakenReceive receive;
    while (own_receives_->take(receive))
        complete_receive(receive, {.status = WcStatus::flushed, .opcode = WcOpcode::receive}, true);
}

}  // namespace compat::core::soft
