// SPDX-License-Identifier: BSD-3-Clause
// The process's one helper thread and the descriptors and timers it serves. It sleeps in epoll;
// a program that polls its completion queues takes over for it (steal_progress).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/base/result.hpp"

namespace compat::core::soft {

using Clock = std::chrono::steady_clock;

/// Something with a descriptor and deadlines. Called by the helper thread or by a program's
/// thread that polls, never by two at once, and never with a lock of the reactor held.
class Source {
public:
    virtual ~Source() = default;
    virtual void on_ready(std::uint32_t epoll_events) noexcept = 0;
    virtual void on_deadline() noexcept {}
    /// What flush_later() asked for.
    virtual void on_flush() noexcept {}

    struct FlushLink {
        std::shared_ptr<Source> next;
        bool asked = false;
    };
    FlushLink flush_link;  ///< the reactor's
};

/// Registers (level-triggered). The reactor keeps the source alive until unwatch(). Starts the
/// helper thread at first need. Errors: no_memory, device.
Status watch(int fd, std::shared_ptr<Source> source, std::uint32_t epoll_events) noexcept;
void rewatch(int fd, std::uint32_t epoll_events) noexcept;
/// Before the descriptor is closed. A call of on_ready that runs right now may still end after it.
void unwatch(int fd) noexcept;

/// One call of on_deadline at that time; a new one replaces the old. The reactor does not keep the
/// source alive for it.
void set_deadline(const std::shared_ptr<Source>& source, Clock::time_point when) noexcept;
void cancel_deadline(const Source* source) noexcept;

/// A thread of the program polls, and is believed to poll again soon.
[[nodiscard]] bool program_polls() noexcept;
/// One call of on_flush() with the program's next poll, or when it stops polling: at the latest
/// after a few milliseconds.
void flush_later(const std::shared_ptr<Source>& source) noexcept;

/// Does, without waiting, what the helper thread would do; returns at once if another thread is at
/// it. While called often, the helper thread stays asleep.
void steal_progress() noexcept;
/// The caller is about to sleep: the helper thread takes over again.
void stop_stealing() noexcept;

}  // namespace compat::core::soft
