// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions of RDMA devices.
#pragma once

#include <atomic>
#include <memory>

#include "core/device/device.hpp"
#include "core/device/verbs/handles.hpp"

namespace compat::core::verbs {

/// How many objects made from a PD live. Shared with them: it may go before its owner is asked.
using Children = std::shared_ptr<std::atomic<int>>;

/// One more of them, for as long as this lives.
class Child {
public:
    explicit Child(Children children) noexcept : children_(std::move(children)) {
        children_->fetch_add(1, std::memory_order_relaxed);
    }
    ~Child() { children_->fetch_sub(1, std::memory_order_release); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

private:
    Children children_;
};

class VerbsPd final : public ProtectionDomain {
public:
    static Result<std::unique_ptr<VerbsPd>> create(ibv_context& context,
                                                   const Limits& limits) noexcept;

    Result<std::unique_ptr<MemoryRegion>> register_memory(const MrAttr& attr) noexcept override;
    Result<std::unique_ptr<SharedReceiveQueue>> create_srq(std::uint32_t depth,
                                                           std::uint32_t max_sge) noexcept override;
    [[nodiscard]] bool in_use() const noexcept override {
        return children_->load(std::memory_order_acquire) != 0;
    }

    [[nodiscard]] ibv_pd* get() const noexcept { return pd_.get(); }
    [[nodiscard]] const Children& children() const noexcept { return children_; }

private:
    VerbsPd(PdHandle pd, const Limits& limits)
        : pd_(std::move(pd)), limits_(limits), children_(std::make_shared<std::atomic<int>>(0)) {}

    PdHandle pd_;
    const Limits& limits_;
    Children children_;
};

}  // namespace compat::core::verbs
