// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues of RDMA devices.
#pragma once

#include <vector>

#include "core/base/lock.hpp"
#include "core/device/device.hpp"
#include "core/device/verbs/handles.hpp"
#include "core/device/verbs/memory.hpp"
#include "core/device/verbs/slots.hpp"

namespace compat::core::verbs {

class VerbsSrq final : public SharedReceiveQueue {
public:
    static Result<std::unique_ptr<VerbsSrq>> create(VerbsPd& pd, const Limits& limits,
                                                    std::uint32_t depth,
                                                    std::uint32_t max_sge) noexcept;

    Status post_receive(const ReceiveRequest& request) noexcept override;

    [[nodiscard]] ibv_srq* get() const noexcept { return srq_.get(); }
    [[nodiscard]] std::uint32_t depth() const noexcept {
        return static_cast<std::uint32_t>(slots_.size());
    }
    /// Its completion has been polled, or dropped.
    void retire(Slot& slot) noexcept;

private:
    VerbsSrq(SrqHandle srq, const Limits& limits, std::uint32_t depth, std::uint32_t max_sge,
             Children children);

    const Child child_;
    SrqHandle srq_;
    const bool is_iwarp_;
    const std::uint32_t max_sge_;
    Lock lock_;
    std::vector<Slot> slots_;
    std::vector<Slot*> free_;  ///< room for all of them
};

}  // namespace compat::core::verbs
