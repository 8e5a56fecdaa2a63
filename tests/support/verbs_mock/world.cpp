// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/support/verbs_mock/objects.hpp"

namespace compat::mock {

std::atomic<void (*)()> g_on_removal{nullptr};

Counted::Counted() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
Counted::~Counted() {
    close(fd_);
}
void Counted::post() const noexcept {
    (void)eventfd_write(fd_, 1);
}
bool Counted::take() const noexcept {
    eventfd_t one = 0;
    return eventfd_read(fd_, &one) == 0;
}
void Counted::withdraw() const noexcept {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, 0) == 1) (void)take();
}

World::World() {
    std::strcpy(device.name, "mock0");
    std::strcpy(device.dev_name, "uverbs0");
    regions.resize(1);
}
World& world() noexcept {
    static World& the = *new World;
    return the;
}

void Guard::wait() noexcept {
    sched_yield();
}

int failure_of(Call call) noexcept {
    World& all = world();
    all.calls[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
    if (all.failing.load(std::memory_order_relaxed) != static_cast<int>(call)) return 0;
    if (all.fails_in.fetch_sub(1, std::memory_order_relaxed) != 1) return 0;
    all.failed.store(true, std::memory_order_release);
    return all.failing_errno.load(std::memory_order_relaxed);
}
bool fails(Call call) noexcept {
    const int error = failure_of(call);
    if (error != 0) errno = error;
    return error != 0;
}
void count(Kind kind, int change) noexcept {
    world().live[static_cast<std::size_t>(kind)].fetch_add(change, std::memory_order_relaxed);
}
void violation(const char* text) noexcept {
    std::fprintf(stderr, "mock RDMA device: %s\n", text);
    world().violations.fetch_add(1, std::memory_order_relaxed);
}

// --- mock.hpp

const char* name_of(Call call) noexcept {
    static constexpr const char* kNames[] = {
#define COMPAT_MOCK_NAME(name) #name,
        COMPAT_MOCK_CALLS(COMPAT_MOCK_NAME)
#undef COMPAT_MOCK_NAME
    };
    return kNames[static_cast<std::size_t>(call)];
}
void fail(Call call, int nth, int error) noexcept {
    World& all = world();
    all.failing.store(-1);
    all.failed.store(false);
    all.fails_in.store(nth);
    all.failing_errno.store(error);
    all.failing.store(static_cast<int>(call));
}
void fail_nothing() noexcept {
    world().failing.store(-1);
}
bool has_failed() noexcept {
    return world().failed.load(std::memory_order_acquire);
}
std::uint64_t calls_of(Call call) noexcept {
    return world().calls[static_cast<std::size_t>(call)].load();
}
long live(Kind kind) noexcept {
    return world().live[static_cast<std::size_t>(kind)].load();
}
long violations() noexcept {
    return world().violations.load();
}
Config& config() noexcept {
    return world().config;
}
unsigned last_access() noexcept {
    const Guard guard;
    return world().last_access;
}
void pause(bool paused) noexcept {
    const Guard guard;
    world().paused = paused;
    if (!paused)
        for (Qp* const qp : world().qps) run(*qp);
}
void fail_next_request(ibv_wc_status status, std::uint32_t vendor_error) noexcept {
    const Guard guard;
    world().next_status = status;
    world().next_vendor_error = vendor_error;
}
void flush() noexcept {
    const Guard guard;
    for (Qp* const qp : world().qps)
        if (qp->state == IBV_QPS_ERR) flush(*qp);
}
PostedRequest last_request() noexcept {
    const Guard guard;
    return world().last_request;
}

void die(bool dead) noexcept {
    world().dead.store(dead);
}

void raise(ibv_event_type type) noexcept {
    const Guard guard;
    ibv_async_event event{};
    event.event_type = type;
    switch (type) {
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_PORT_ACTIVE: event.element.port_num = 1; break;
        case IBV_EVENT_CQ_ERR: event.element.cq = world().qps.back()->send_cq; break;
        case IBV_EVENT_SRQ_ERR: event.element.srq = world().qps.back()->srq; break;
        case IBV_EVENT_DEVICE_FATAL: break;
        default: event.element.qp = world().qps.back(); break;
    }
    raise_async(event);
}
void raise_async(const ibv_async_event& event) noexcept {
    world().async_events.push_back(event);
    world().async_ready.post();
}
void remove_device() noexcept {
    if (const auto tell = g_on_removal.load()) tell();
}

}  // namespace compat::mock
