// SPDX-License-Identifier: BSD-3-Clause
// The helper thread of the RDMA devices and the lock of everything that manages connections. One
// rdma_cm channel serves the whole process: its events move queue pairs on (librdmacm does that
// while it takes them), so they are taken at once and not when the program looks.
#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/base/event_fd.hpp"
#include "core/device/cm_events.hpp"
#include "core/device/verbs/handles.hpp"

namespace compat::core::verbs {

class VerbsCmId;

using HubLock = std::unique_lock<std::mutex>;
using Clock = std::chrono::steady_clock;

class Hub {
public:
    /// Starts it, once. Errors: device, no_memory.
    static Result<Hub*> start() noexcept;

    /// Held by whoever calls librdmacm or creates or destroys a queue pair. An event is taken,
    /// worked on and acknowledged in one hold: nobody who has the lock ever waits for one.
    [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
    /// Notified when an identifier changed its state.
    [[nodiscard]] std::condition_variable& changed() noexcept { return changed_; }
    [[nodiscard]] rdma_event_channel* channel() noexcept { return channel_.get(); }

    // With the lock held.
    void add(VerbsCmId& id);  ///< throws std::bad_alloc
    void remove(VerbsCmId& id) noexcept;
    /// Takes the device's asynchronous events from now on. Errors: device, no_memory.
    Status watch(ibv_context& context) noexcept;

    /// Looks after the identifiers soon. Without the lock.
    void wake() noexcept { wake_.post(); }

private:
    Hub(EventChannelHandle channel, EventFd wake) noexcept
        : channel_(std::move(channel)), wake_(std::move(wake)) {}
    static void* thread_main(void* self) noexcept;
    [[noreturn]] void run() noexcept;
    void wait(int timeout_ms) noexcept;
    void take_events(CmEvents& left_over) noexcept;
    bool take_async_events(ibv_context& context) noexcept;
    void handle(const ibv_context& context, const ibv_async_event& event) noexcept;
    template <class Condition>
    void end_where(const Condition& condition) noexcept;
    bool look_after_ids() noexcept;

    EventChannelHandle channel_;
    EventFd wake_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<VerbsCmId*> ids_;
    std::vector<ibv_context*> contexts_;
    std::vector<pollfd> waiting_;  ///< the thread's own
};

/// After Hub::start() has succeeded.
Hub& hub() noexcept;

}  // namespace compat::core::verbs
