// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/request_trace.hpp"

#include <algorithm>

namespace compat::core {

std::unique_ptr<RequestTrace> RequestTrace::create(std::uint32_t qp_num,
                                                   const SocketAddress& peer) {
    auto trace = Trace::create();
    if (!trace) return nullptr;
    if (!peer.empty()) trace->set_peer(peer);
    return std::make_unique<RequestTrace>(std::move(trace), qp_num);
}

RequestTrace::~RequestTrace() {
    for (const std::deque<Row>* rows : {&sends_, &receives_})
        for (const Row& row : *rows) trace_->end(row.number, row.operation, Trace::kDropped, 0);
}

void RequestTrace::end(const Row& row, const WorkCompletion& wc) noexcept {
    const bool received = wc.receive_side && wc.status == WcStatus::success;
    trace_->end(row.number, row.operation, wc_status_text(wc.status),
                received ? wc.byte_length : 0);
}

bool RequestTrace::complete(const WorkCompletion& wc) noexcept {
    if (qp_num_ != 0 && qp_num_ != wc.qp_num) return false;
    const std::lock_guard guard(mutex_);
    return wc.receive_side ? complete_receive(wc) : complete_send(wc);
}

/// Completions come in the order of the posts, and programs may give many requests one wr_id.
bool RequestTrace::complete_send(const WorkCompletion& wc) noexcept {
    const bool failed = wc.status != WcStatus::success;
    const auto at = std::find_if(sends_.begin(), sends_.end(), [&](const Row& row) {
        return row.wr_id == wc.wr_id && (row.signaled || failed);
    });
    if (at == sends_.end()) return false;
    for (; sends_.front().number != at->number; sends_.pop_front())
        end(sends_.front(), {.status = WcStatus::success});
    trace_->acknowledge(at->number, wc.done_at != 0 ? wc.done_at : Trace::now());
    end(*at, wc);
    sends_.pop_front();
    return true;
}

/// Those of a shared queue may be told of in another order.
bool RequestTrace::complete_receive(const WorkCompletion& wc) noexcept {
    const auto at = std::find_if(receives_.begin(), receives_.end(),
                                 [&](const Row& row) { return row.wr_id == wc.wr_id; });
    if (at == receives_.end()) return false;
    end(*at, wc);
    receives_.erase(at);
    return true;
}

}  // namespace compat::core
