// SPDX-License-Identifier: BSD-3-Clause
// Posts as statistics and traces know them. A connection has no lock here, so that adding is
// atomic.
#pragma once

#include "core/core.hpp"

namespace compat::rpma {

inline void count_post(const core::Statistics& statistics, core::Stat kind, std::uint64_t bytes,
                       const core::Status& posted) noexcept {
    if (posted) [[likely]]
        statistics->post_shared(kind, bytes);
    else if (posted.error().code == core::Errc::would_block)
        statistics->add_shared(core::Stat::queue_full, 1);
}

/// What attempt() posts is described by request.
template <class Attempt>
[[gnu::noinline]] core::Status traced_send(core::RequestTrace& trace,
                                           const core::WorkRequest& request, std::uint64_t bytes,
                                           const Attempt& attempt) {
    const core::FlagText flags(request.flags);
    core::TracedPost post{.operation = core::name_of(request.opcode),
                          .bytes = bytes,
                          .has_remote = request.opcode != core::Opcode::send &&
                                        request.opcode != core::Opcode::send_imm,
                          .remote_address = request.remote_address,
                          .rkey = request.rkey,
                          .flags = flags.c_str(),
                          .context = reinterpret_cast<const void*>(request.wr_id)};
    core::describe_local(post, request.sges);
    const bool signaled = request.flags.has(core::SendFlag::signaled);
    return trace.send(request.wr_id, signaled, post, attempt);
}

/// Posts by attempt(), counts it, and traces it where that is wanted.
template <class Attempt>
core::Status counted_send(const core::Statistics& statistics, core::RequestTrace* trace,
                          const core::WorkRequest& request, std::uint64_t bytes,
                          const Attempt& attempt) {
    core::Status posted =
        trace == nullptr ? attempt() : traced_send(*trace, request, bytes, attempt);
    count_post(statistics, core::stat_of(request.opcode), bytes, posted);
    return posted;
}

template <class Attempt>
[[gnu::noinline]] core::Status traced_receive(core::RequestTrace& trace,
                                              const core::ReceiveRequest& request,
                                              std::uint64_t bytes, const Attempt& attempt) {
    core::TracedPost post{.operation = "receive",
                          .bytes = bytes,
                          .context = reinterpret_cast<const void*>(request.wr_id)};
    core::describe_local(post, request.sges);
    return trace.receive(request.wr_id, post, attempt);
}

/// The same for a receive; queue is the QP's or a shared one.
template <class Queue>
core::Status counted_receive(const core::Statistics& statistics, core::RequestTrace* trace,
                             Queue& queue, const core::ReceiveRequest& request,
                             std::uint64_t bytes) {
    const auto attempt = [&] { return queue.post_receive(request); };
    core::Status posted =
        trace == nullptr ? attempt() : traced_receive(*trace, request, bytes, attempt);
    count_post(statistics, core::Stat::receives, bytes, posted);
    return posted;
}

}  // namespace compat::rpma
