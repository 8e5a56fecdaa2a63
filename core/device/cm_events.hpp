// SPDX-License-Identifier: BSD-3-Clause
// Queues of connection events for devices whose events come from a thread of their own.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <new>

#include "core/base/event_fd.hpp"
#include "core/base/origin.hpp"
#include "core/device/device.hpp"

namespace compat::core {

/// A list, so that an event goes from one place to the next without memory: whoever raises it has
/// made its node beforehand, and none is lost when memory runs out.
using CmEvents = std::list<CmEvent>;

class CmEventQueue : public CmChannel {
public:
    [[nodiscard]] int fd() const noexcept final { return ready_.fd(); }
    Result<CmEvent> get_event() noexcept override;

    void raise(CmEvents& events) noexcept;  ///< takes them all
    /// Takes out what waits for that id.
    CmEvents withdraw(const CmId* id) noexcept;

    explicit CmEventQueue(EventFd ready) : ready_(std::move(ready)) {}

private:
    EventFd ready_;  ///< semaphore: as many as events wait
    const Origin origin_;
    std::mutex lock_;
    CmEvents events_;
};

/// Channel is a CmEventQueue.
template <class Channel>
Result<std::unique_ptr<CmChannel>> create_cm_channel() noexcept {
    auto ready = EventFd::create();
    if (!ready) return failure(ready.error());
    std::unique_ptr<CmChannel> channel(new (std::nothrow) Channel(std::move(*ready)));
    if (!channel) return failure(Errc::no_memory);
    return channel;
}

/// Where the events of one identifier go. Shared by the identifier and the sources that raise
/// them, because those run on another thread and may outlive the identifier.
class EventPort {
public:
    EventPort(CmId* id, CmEventQueue* channel) : id_(id), channel_(channel) {}

    /// False when the identifier is gone: the event stays the caller's.
    bool raise(CmEvents& event) noexcept;
    void migrate(CmEventQueue* channel) noexcept;
    /// The identifier goes: its waiting events are taken out for the caller to destroy.
    CmEvents close() noexcept;

private:
    const Origin origin_;
    std::mutex lock_;
    CmId* id_;
    CmEventQueue* channel_;
    CmEvents waiting_;  ///< while there is no channel
};

}  // namespace compat::core
