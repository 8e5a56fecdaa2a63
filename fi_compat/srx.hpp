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
    /// Of connected endpoints.
    [[nodiscard]] core::SharedReceiveQueue* device_queue() noexcept { return srq_.get(); }
    [[nodiscard]] core::ReceiveQueue* queue() noexcept { return queue_.get(); }
    /// Of connectionless ones.
    [[nodiscard]] core::MessageQueue* messages() noexcept { return messages_.get(); }
    ssize_t receive(const core::MessageReceive& receive) noexcept;
    [[nodiscard]] bool directed() const noexcept { return directed_; }
    [[nodiscard]] bool desc_required() const noexcept { return desc_required_; }
    [[nodiscard]] std::size_t iov_limit() const noexcept { return iov_limit_; }
    [[nodiscard]] std::uint64_t rx_flags() const noexcept { return rx_flags_; }
    [[nodiscard]] bool receive_entry(std::uint64_t flags) noexcept;

    /// An endpoint receives from here and reports to that CQ.
    void join(Cq* cq, bool selective);
    void leave(Cq* cq) noexcept;

    int cancel(void* context);
    [[nodiscard]] std::size_t free_slots() noexcept;
    int getopt(int level, int name, void* value, std::size_t* length);
    int setopt(int level, int name, const void* value, std::size_t length);

private:
    Srx(Domain& domain, const fi_rx_attr& attr, void* context);
    core::Status create_queues(std::size_t wanted);

    Ref<Domain> domain_;
    bool desc_required_;
    bool directed_;
    std::size_t iov_limit_;
    std::uint64_t rx_flags_;
    std::unique_ptr<core::SharedReceiveQueue> srq_;
    std::unique_ptr<core::ReceiveQueue> queue_;
    std::unique_ptr<core::MessageQueue> messages_;
    std::atomic<std::size_t> min_multiple_{64};  ///< as upstream's sockets provider
    std::mutex mutex_;
    std::vector<Cq*> cqs_;  ///< of the endpoints, in their order
    std::atomic<bool> selective_{false};
};

extern fi_ops_msg kSrxMsgOps;           // msg.cpp
extern fi_ops_msg kRdmSrxMsgOps;        // rdm_msg.cpp
extern fi_ops_tagged kRdmSrxTaggedOps;  // rdm_msg.cpp

}  // namespace compat::fi
