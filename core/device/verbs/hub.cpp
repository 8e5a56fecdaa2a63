// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/hub.hpp"

#include <algorithm>
#include <new>

#include "core/base/deferred_log.hpp"
#include "core/base/helper_thread.hpp"
#include "core/base/nonblocking.hpp"
#include "core/device/verbs/cm.hpp"

namespace compat::core::verbs {
namespace {

constexpr int kDrainTickMs = 1;  // between looks at queues that have to become empty

constinit std::mutex g_start_lock;
constinit std::atomic<Hub*> g_hub{nullptr};

}  // namespace

Hub& hub() noexcept {
    return *g_hub.load(std::memory_order_acquire);
}

Result<Hub*> Hub::start() noexcept {
    const std::lock_guard guard(g_start_lock);
    if (Hub* const running = g_hub.load(std::memory_order_acquire)) return running;
    EventChannelHandle channel(api().rdma_create_event_channel());
    if (!channel || !set_nonblocking(channel->fd)) return failure(creation_error(errno));
    auto wake = EventFd::create();
    if (!wake) return failure(wake.error());
    std::unique_ptr<Hub> made(new (std::nothrow) Hub(std::move(channel), std::move(*wake)));
    if (!made) return failure(Errc::no_memory);
    if (const int error = start_helper_thread("fabric-compat", thread_main, made.get());
        error != 0) {
        COMPAT_LOG_ERROR("cannot start the helper thread, errno %d", error);
        return failure(Errc::no_memory, EAGAIN);
    }
    Hub* const started = made.release();  // lives as long as the process
    g_hub.store(started, std::memory_order_release);
    return started;
}

void Hub::add(VerbsCmId& id) {
    ids_.push_back(&id);
}

void Hub::remove(VerbsCmId& id) noexcept {
    std::erase(ids_, &id);
}

Status Hub::watch(ibv_context& context) noexcept try {
    if (std::ranges::find(contexts_, &context) != contexts_.end()) return {};
    if (!set_nonblocking(context.async_fd)) return failure(Errc::device, errno);
    contexts_.push_back(&context);
    wake();
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void* Hub::thread_main(void* self) noexcept {
    static_cast<Hub*>(self)->run();
}

void Hub::run() noexcept {
    int timeout_ms = -1;
    for (;;) {
        deliver_log();
        wait(timeout_ms);
        CmEvents left_over;  // destroyed without the lock
        const HubLock lock(mutex_);
        take_events(left_over);
        // One that is gone would be readable for ever.
        std::erase_if(contexts_,
                      [this](ibv_context* context) { return !take_async_events(*context); });
        timeout_ms = look_after_ids() ? kDrainTickMs : -1;
    }
}

void Hub::wait(int timeout_ms) noexcept {
    try {
        const HubLock lock(mutex_);
        waiting_.assign({{channel_->fd, POLLIN, 0}, {wake_.fd(), POLLIN, 0}});
        for (const ibv_context* const context : contexts_)
            waiting_.push_back({context->async_fd, POLLIN, 0});
    } catch (const std::bad_alloc&) {
        // without those that did not fit, this time
    }
    ::poll(waiting_.data(), waiting_.size(), timeout_ms);
    while (wake_.try_wait()) {
    }
}

void Hub::take_events(CmEvents& left_over) noexcept {
    rdma_cm_event* event = nullptr;
    while (api().rdma_get_cm_event(channel_.get(), &event) == 0) {
        auto* const id = static_cast<VerbsCmId*>(
            (event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id)
                ->context);
        IdHandle refused = id->handle(*event, left_over);
        api().rdma_ack_cm_event(event);
        if (refused) api().rdma_reject(refused.get(), nullptr, 0);
    }
}

/// False when the device gives no more of them.
bool Hub::take_async_events(ibv_context& context) noexcept {
    ibv_async_event event{};
    while (api().ibv_get_async_event(&context, &event) == 0) {
        handle(context, event);
        api().ibv_ack_async_event(&event);
    }
    return errno == EAGAIN || errno == EINTR;
}

template <class Condition>
void Hub::end_where(const Condition& condition) noexcept {
    for (VerbsCmId* const id : ids_)
        if (condition(*id->native())) id->end();
}

/// What nobody will tell of in another way ends the connections that it concerns.
void Hub::handle(const ibv_context& context, const ibv_async_event& event) noexcept {
    const auto uses_qp = [&](const rdma_cm_id& id) { return id.qp == event.element.qp; };
    switch (event.event_type) {
        case IBV_EVENT_COMM_EST:
            for (VerbsCmId* const id : ids_)
                if (uses_qp(*id->native())) api().rdma_notify(id->native(), event.event_type);
            return;
        case IBV_EVENT_QP_FATAL: end_where(uses_qp); break;
        case IBV_EVENT_CQ_ERR:
            end_where([&](const rdma_cm_id& id) {
                return id.qp != nullptr &&
                       (id.qp->send_cq == event.element.cq || id.qp->recv_cq == event.element.cq);
            });
            break;
        case IBV_EVENT_SRQ_ERR:
            end_where([&](const rdma_cm_id& id) {
                return id.qp != nullptr && id.qp->srq == event.element.srq;
            });
            break;
        case IBV_EVENT_PORT_ERR:
            end_where([&](const rdma_cm_id& id) {
                return id.verbs == &context && id.port_num == event.element.port_num;
            });
            break;
        case IBV_EVENT_DEVICE_FATAL:
            end_where([&](const rdma_cm_id& id) { return id.verbs == &context; });
            break;
        default: return;  // told of by a completion or by rdma_cm as well, or no failure
    }
    COMPAT_LOG_WARNING("%s: asynchronous event %d", api().ibv_get_device_name(context.device),
                       static_cast<int>(event.event_type));
}

/// True when some want to be looked after again soon.
bool Hub::look_after_ids() noexcept {
    bool again = false;
    const auto now = Clock::now();
    for (VerbsCmId* const id : ids_) again |= id->look_after(now);
    return again;
}

}  // namespace compat::core::verbs
