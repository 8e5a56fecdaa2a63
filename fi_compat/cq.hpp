// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: fi_cq(3).
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

class Cq final : public Object<Cq, fid_cq> {
public:
    static core::Result<Cq*> open(Domain& domain, const fi_cq_attr& attr, void* context);
    ~Cq();

    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }
    [[nodiscard]] core::TrackedCq& queue() noexcept { return *queue_; }

    ssize_t read(void* buffer, std::size_t count, fi_addr_t* sources) noexcept;
    ssize_t sread(void* buffer, std::size_t count, fi_addr_t* sources, int timeout_ms) noexcept;
    ssize_t read_error(fi_cq_err_entry* entry) noexcept;
    int signal() noexcept;
    int control(int command, void* argument) noexcept;
    /// Whether something can be read; makes progress.
    bool poll() noexcept;

private:
    Cq(Domain& domain, std::unique_ptr<core::TrackedCq> queue, std::unique_ptr<WaitObject> wait,
       fi_cq_format format, void* context);
    int try_wait() noexcept;

    Ref<Domain> domain_;
    std::unique_ptr<WaitObject> wait_;
    WaitWaker waker_;
    std::unique_ptr<core::TrackedCq> queue_;
    std::atomic<bool> signaled_{false};  ///< fi_cq_signal() was called; one sread() takes it
    std::atomic<int> sleepers_{0};       ///< threads in sread()
    WaitSetPlace wait_set_;              ///< left before anything else goes
};

}  // namespace compat::fi
