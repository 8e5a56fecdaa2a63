// SPDX-License-Identifier: BSD-3-Clause
// libibverbs.so.1 and librdmacm.so.1 of our own, for tests without a device: one device whose queue
// pairs are connected within the process. What is posted is done by the thread that posts it.
//
// A program that is linked to them has them in place of the real ones, also where it opens them by
// name: core/device/verbs/api.cpp finds what is loaded already.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace compat::mock {

/// Calls that can fail.
#define COMPAT_MOCK_CALLS(row)                                                                   \
    row(get_devices) row(query_device) row(query_port) row(alloc_pd) row(reg_mr) row(advise_mr)  \
        row(create_channel) row(create_cq) row(resize_cq) row(get_cq_event) row(req_notify)      \
            row(poll_cq) row(create_srq) row(post_srq_recv) row(create_qp) row(modify_qp)        \
                row(post_send) row(post_recv) row(create_event_channel) row(create_id)           \
                    row(bind_addr) row(listen) row(resolve_addr) row(resolve_route)              \
                        row(rdma_create_qp) row(connect) row(accept) row(reject) row(disconnect) \
                            row(get_cm_event)
enum class Call : std::uint8_t {
#define COMPAT_MOCK_CALL(name) name,
    COMPAT_MOCK_CALLS(COMPAT_MOCK_CALL)
#undef COMPAT_MOCK_CALL
        count_
};
constexpr std::size_t kCalls = static_cast<std::size_t>(Call::count_);
const char* name_of(Call call) noexcept;

/// The nth call from now on (1: the next one) fails with that errno, once.
void fail(Call call, int nth, int error) noexcept;
void fail_nothing() noexcept;
/// Whether the last fail() came true.
bool has_failed() noexcept;
/// How often it has been called.
std::uint64_t calls_of(Call call) noexcept;

enum class Kind : std::uint8_t {
    pd,
    mr,
    completion_channel,
    cq,
    srq,
    qp,
    event_channel,
    id,
    event,  ///< of rdma_cm, taken and not acknowledged
    count_
};
/// Objects made and not destroyed.
long live(Kind kind) noexcept;
/// What the real libraries would have hung in, refused with EBUSY, or lost. Told on stderr.
long violations() noexcept;

/// What the device is. To be set before the program's first call.
struct Config {
    bool iwarp = false;
    int max_qp_wr = 1024;
    int max_sge = 16;
    int max_sge_rd = 16;
    int max_cqe = 65536;
    int max_srq_wr = 1024;
    int max_rd_atomic = 16;
    std::uint32_t max_inline = 256;
    std::uint32_t max_message = 1U << 30;
    bool on_demand_paging = false;
    bool resizes_cq = true;
    bool cleans_cq = true;        ///< destroying a queue pair takes its completions out of the CQs
    bool flushes_at_once = true;  ///< in the error state; else when flush() is called
};
Config& config() noexcept;

/// Access flags of the newest registration, and of every registration since the start.
unsigned last_access() noexcept;

/// Requests that are posted wait until it is told to go on.
void pause(bool paused) noexcept;
/// The next request that is carried out fails so.
void fail_next_request(ibv_wc_status status, std::uint32_t vendor_error) noexcept;
/// Completes what waits at queue pairs in the error state.
void flush() noexcept;
/// The newest request, as it was posted.
struct PostedRequest {
    ibv_wr_opcode opcode;
    unsigned flags;
    int elements;
    std::uint64_t length;
};
PostedRequest last_request() noexcept;

/// An asynchronous event of the device, about the newest queue pair, its CQ or SRQ, or port 1.
void raise(ibv_event_type type) noexcept;
/// Pulled out or not: a dead device answers with EIO, carries out nothing and completes nothing.
void die(bool dead) noexcept;
/// The device goes away: every identifier gets RDMA_CM_EVENT_DEVICE_REMOVAL.
void remove_device() noexcept;

}  // namespace compat::mock
