// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/cm_events.hpp"

#include <utility>

namespace compat::core {

// --- CmEventQueue

Result<CmEvent> CmEventQueue::get_event() noexcept {
    for (;;) {
        if (const Status waited = ready_.wait(); !waited) return failure(waited.error());
        const std::lock_guard guard(lock_);
        if (events_.empty()) continue;  // withdrawn after the wake-up
        CmEvent event = std::move(events_.front());
        events_.pop_front();
        return event;
    }
}

void CmEventQueue::raise(CmEvents& events) noexcept {
    std::size_t count = events.size();
    {
        const std::lock_guard guard(lock_);
        events_.splice(events_.end(), events);
    }
    for (; count != 0; --count) ready_.post();
}

CmEvents CmEventQueue::withdraw(const CmId* id) noexcept {
    CmEvents taken;
    const std::lock_guard guard(lock_);
    for (auto event = events_.begin(); event != events_.end();) {
        const auto own = event++;
        if (own->id != id) continue;
        taken.splice(taken.end(), events_, own);
        if (!origin_.is_parent()) ready_.try_wait();
    }
    return taken;
}

// --- EventPort

bool EventPort::raise(CmEvents& event) noexcept {
    const std::lock_guard guard(lock_);
    if (id_ == nullptr) return false;
    event.front().id = id_;
    if (channel_ != nullptr)
        channel_->raise(event);
    else
        waiting_.splice(waiting_.end(), event);
    return true;
}

void EventPort::migrate(CmEventQueue* channel) noexcept {
    const std::lock_guard guard(lock_);
    if (channel_ != nullptr) waiting_ = channel_->withdraw(id_);
    channel_ = channel;
    channel_->raise(waiting_);
}

CmEvents EventPort::close() noexcept {
    if (origin_.is_parent()) return {};
    const std::lock_guard guard(lock_);
    CmEvents waiting = std::move(waiting_);
    if (channel_ != nullptr) waiting = channel_->withdraw(id_);
    id_ = nullptr;
    channel_ = nullptr;
    return waiting;
}

}  // namespace compat::core
