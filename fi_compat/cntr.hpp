// SPDX-License-Identifier: BSD-3-Clause
// Counters: fi_cntr(3).
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <memory>

#include "core/core.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/wait.hpp"
#include "fi_compat/wait_waker.hpp"

namespace compat::fi {

class Cntr final : public Object<Cntr, fid_cntr> {
public:
    static core::Result<Cntr*> open(Domain& domain, const fi_cntr_attr& attr, void* context);

    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }
    [[nodiscard]] core::Counter& counter() noexcept { return counter_; }

    /// The counter moves when the queue is polled. Errors: no_memory, device.
    core::Status attach(core::TrackedCq& queue);
    void detach(core::TrackedCq& queue) noexcept;

    std::uint64_t read() noexcept;
    std::uint64_t read_errors() noexcept;
    int wait(std::uint64_t threshold, int timeout_ms);
    int control(int command, void* argument);
    /// Whether it changed since it was read; makes progress.
    bool poll() noexcept;

private:
    Cntr(Domain& domain, std::unique_ptr<WaitObject> wait, core::CounterUnit unit, void* context);
    int try_wait();
    void remember() noexcept;
    [[nodiscard]] bool changed() const noexcept;
    [[nodiscard]] bool has_descriptor() const noexcept;

    Ref<Domain> domain_;
    std::unique_ptr<WaitObject> wait_;
    WaitWaker waker_;
    core::Counter counter_;
    std::atomic<std::uint64_t> seen_value_{0};
    std::atomic<std::uint64_t> seen_errors_{0};
    WaitSetPlace wait_set_;  ///< left before anything else goes
};

}  // namespace compat::fi
