// SPDX-License-Identifier: BSD-3-Clause
// The trace of a queue pair, or of a shared receive queue, whose work requests a facade posts by
// itself: finds for each completion the request that it ends.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "core/base/trace.hpp"
#include "core/device/device.hpp"

namespace compat::core {

class RequestTrace {
public:
    /// Null unless a trace is wanted. qp_num: 0 for a shared receive queue.
    static std::unique_ptr<RequestTrace> create(std::uint32_t qp_num, const SocketAddress& peer);
    RequestTrace(std::unique_ptr<Trace> trace, std::uint32_t qp_num) noexcept
        : trace_(std::move(trace)), qp_num_(qp_num) {}
    /// What has not completed by now was dropped.
    ~RequestTrace();
    RequestTrace(const RequestTrace&) = delete;
    RequestTrace& operator=(const RequestTrace&) = delete;

    /// Calls attempt(), which posts, and writes down what it has posted. Without a signal, a
    /// request ends with the next one that has it.
    template <class Attempt>
    Status send(std::uint64_t wr_id, bool signaled, const TracedPost& post,
                const Attempt& attempt) {
        const std::lock_guard guard(mutex_);
        return record(sends_, {++number_, wr_id, post.operation, signaled}, post, attempt);
    }
    template <class Attempt>
    Status receive(std::uint64_t wr_id, const TracedPost& post, const Attempt& attempt) {
        const std::lock_guard guard(mutex_);
        return record(receives_, {++number_, wr_id, post.operation, true}, post, attempt);
    }

    /// False when the completion is of another queue.
    bool complete(const WorkCompletion& wc) noexcept;

private:
    struct Row {
        std::uint64_t number;
        std::uint64_t wr_id;
        const char* operation;
        bool signaled;
    };

    template <class Attempt>
    Status record(std::deque<Row>& rows, const Row& row, const TracedPost& post,
                  const Attempt& attempt) {
        const std::uint64_t at = Trace::now();
        rows.push_back(row);  // a failure to do so is the post's: nothing has happened yet
        Status posted = attempt();
        if (posted)
            trace_->post(row.number, at, row.operation, post);
        else
            rows.pop_back();
        return posted;
    }
    void end(const Row& row, const WorkCompletion& wc) noexcept;
    bool complete_send(const WorkCompletion& wc) noexcept;
    bool complete_receive(const WorkCompletion& wc) noexcept;

    std::mutex mutex_;
    std::unique_ptr<Trace> trace_;
    const std::uint32_t qp_num_;
    std::uint64_t number_ = 0;
    std::deque<Row> sends_;
    std::deque<Row> receives_;
};

}  // namespace compat::core
