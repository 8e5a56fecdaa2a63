// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/cq.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <climits>

#include "rpma_compat/err_map.hpp"
#include "rpma_compat/flag_map.hpp"
#include "rpma_compat/log.hpp"

namespace compat::rpma {
namespace {

constexpr std::size_t kBatch = 16;  ///< completions taken from the core at a time

/// Uninitialised: to clear it at every poll costs more than the poll.
struct Batch {
    Batch() noexcept {}
    union {
        core::WorkCompletion at[kBatch];
    };
};

ibv_wc to_verbs(const core::WorkCompletion& completion) {
    ibv_wc wc{};
    wc.wr_id = completion.wr_id;
    wc.status = row_of(kWcStatuses, completion.status).verbs;
    wc.opcode = static_cast<ibv_wc_opcode>(row_of(kWcOpcodes, completion.opcode).verbs);
    wc.vendor_err = completion.vendor_error;
    wc.byte_len = static_cast<std::uint32_t>(completion.byte_length);
    wc.qp_num = completion.qp_num;
    if (completion.has_imm) {
        wc.imm_data = htonl(static_cast<std::uint32_t>(completion.imm));
        wc.wc_flags = IBV_WC_WITH_IMM;
    }
    return wc;
}

/// Up to wanted completions; the number, or an RPMA_E_ code if there is none.
int poll(core::WaitedCq& queue, int wanted, ibv_wc* wc) {
    Batch batch;
    int got = 0;
    while (got < wanted) {
        const auto room = std::min(static_cast<std::size_t>(wanted - got), kBatch);
        const auto polled = queue.poll(std::span(batch.at, room));
        if (!polled) {
            if (got != 0) break;  // it will be told of next time
            return COMPAT_RPMA_FAILED(provider, "ibv_poll_cq", polled.error());
        }
        if (*polled > room) return RPMA_E_UNKNOWN;
        for (std::size_t index = 0; index < *polled; ++index) wc[got++] = to_verbs(batch.at[index]);
        if (*polled < room) break;
    }
    return got != 0 ? got : RPMA_E_NO_COMPLETION;
}

}  // namespace

int new_cq(core::Device& device, std::uint32_t size, core::CqWaiter* shared,
           std::unique_ptr<rpma_cq>& out) {
    auto cq = std::make_unique<rpma_cq>();
    cq->waiter = shared;
    if (shared == nullptr) {
        auto waiter = core::CqWaiter::create(device);
        if (!waiter) return COMPAT_RPMA_FAILED(provider, "ibv_create_comp_channel", waiter.error());
        cq->own_waiter = std::move(*waiter);
        cq->waiter = cq->own_waiter.get();
    }
    auto queue = cq->waiter->create_cq(device, std::min<std::uint32_t>(size, INT_MAX));
    if (!queue) return COMPAT_RPMA_FAILED(provider, "ibv_create_cq", queue.error());
    cq->queue = std::move(*queue);
    cq->native = &cq->queue->native();
    out = std::move(cq);
    return kSuccess;
}

}  // namespace compat::rpma

using namespace compat;
using namespace compat::rpma;

int rpma_cq_get_fd(const rpma_cq* cq, int* fd) {
    if (cq == nullptr || fd == nullptr) return RPMA_E_INVAL;
    *fd = cq->waiter->fd();
    return kSuccess;
}

int rpma_cq_wait(rpma_cq* cq) {
    return c_boundary([&] {
        if (cq == nullptr) return RPMA_E_INVAL;
        if (cq->own_waiter == nullptr) return RPMA_E_SHARED_CHANNEL;
        const auto ready = cq->waiter->wait();
        return ready ? kSuccess : err_row(ready.error().code).wait;
    });
}

namespace {

// In these a native poll keeps nothing across its call that it does not need.

[[gnu::noinline]] int get_wc_slowly(rpma_cq* cq, int num_entries, ibv_wc* wc,
                                    int* num_entries_got) {
    return c_boundary([&] {
        const int got = poll(*cq->queue, num_entries, wc);
        if (got < 0) return got;
        if (num_entries_got != nullptr) *num_entries_got = got;
        return kSuccess;
    });
}

[[gnu::noinline]] int poll_failed(int result) {
    if (result == 0) return RPMA_E_NO_COMPLETION;
    return c_boundary([&] {
        return COMPAT_RPMA_FAILED(provider, "ibv_poll_cq",
                                  (core::Error{core::Errc::device, -result}));
    });
}

}  // namespace

int rpma_cq_get_wc(rpma_cq* cq, int num_entries, ibv_wc* wc, int* num_entries_got) {
    const bool valid = cq != nullptr && wc != nullptr &&
                       (num_entries == 1 || (num_entries > 1 && num_entries_got != nullptr));
    if (!valid) [[unlikely]]
        return RPMA_E_INVAL;
    core::CompletionQueue& native = *cq->native;
    if (native.is_hindered()) return get_wc_slowly(cq, num_entries, wc, num_entries_got);
    const int got = native.poll_native(num_entries, wc);
    if (got <= 0) [[unlikely]]
        return poll_failed(got);
    if (num_entries_got != nullptr) *num_entries_got = got;
    return kSuccess;
}
