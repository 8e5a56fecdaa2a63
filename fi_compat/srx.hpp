// SPDX-License-Identifier: BSD-3-Clause
// Shared receive contexts: fi_srx_context(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>
#include <mutex>
#include <vector>

#include "core/core.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class Cq;

class Srx final : public Object<Srx, fid_ep> {
public:
    static int open(Domain& domain, const fi_rx_attr& attr, fid_ep** srx, void* context);

    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }
    [[nodiscard]] core::SharedReceiveQueue& device_queue() noexcept { return *srq_; }
    [[nodiscard]] core::ReceiveQueue& queue() noexcept { return *queue_; }
    [[nodiscard]] bool desc_required() const noexcept { return desc_required_; }
    [[nodiscard]] std::size_t iov_limit() const noexcept { return iov_limit_; }
    [[nodiscard]] std::uint64_t rx_flags() const noexcept { return rx_flags_; }
    [[nodiscard]] bool receive_entry(std::uint64_t flags) noexcept;

    /// An endpoint receives from here and reports to that CQ.
    void join(Cq* cq, bool selective);
    void leave(Cq* cq) noexcept;

    int cancel(void* context);
    int getopt(int level, int name, void* value, std::size_t* length);
    int setopt(int level, int name, const void* value, std::size_t length);

private:
    Srx(Domain& domain, const fi_rx_attr& attr, void* context);

    Ref<Domain> domain_;
    bool desc_required_;
    std::size_t iov_limit_;
    std::uint64_t rx_flags_;
    std::unique_ptr<core::SharedReceiveQueue> srq_;
    std::unique_ptr<core::ReceiveQueue> queue_;
    std::mutex mutex_;
    std::vector<Cq*> cqs_;  ///< of the endpoints, in their order
    std::atomic<bool> selective_{false};
};

extern fi_ops_msg kSrxMsgOps;  // msg.cpp

}  // namespace compat::fi
