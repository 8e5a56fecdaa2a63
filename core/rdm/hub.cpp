// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/hub.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "core/base/nonblocking.hpp"

namespace compat::core::rdm {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBatch = 16;
constexpr std::size_t kMostEntries = 2 * kBatch;  // that one batch can give
constexpr std::uint32_t kMaxSlots = 8192;
constexpr std::uint32_t kUnbounded = 1U << 30;  // places are reserved in the program's queues
constexpr std::uint32_t kFirstDepth = 64;       // the device makes room for each QP
// Where no such queue can be made longer: of 190 peers, at a queue size of 256 for the program.
constexpr std::uint32_t kIwarpDepth = 1U << 16;
constexpr int kRounds = 8;
constexpr int kArmRounds = 16;
// Between looks at the connection manager's channel, a system call each.
constexpr std::uint32_t kPollsPerLook = 64;
constexpr std::uint32_t kPollsPerLookAlone = 16;  // nobody else looks
constexpr auto kLinger = 1s;                      // for acknowledgements that could not go out yet

}  // namespace

Endpoint::Endpoint(const RdmAttr& attr) noexcept
    : attr_(attr),
      limits_(attr.device->limits()),
      automatic_(attr.progress == RdmProgress::automatic) {}

Result<std::unique_ptr<Endpoint>> Endpoint::open(const RdmAttr& attr) noexcept {
    std::unique_ptr<Endpoint> endpoint(new (std::nothrow) Endpoint(attr));
    if (!endpoint) return failure(Errc::no_memory);
    if (const Status started = endpoint->start(); !started) return failure(started.error());
    return endpoint;
}

Status Endpoint::start() noexcept {
    if (::getrandom(&instance_, sizeof instance_, 0) != sizeof instance_)
        return failure(Errc::device, errno);
    if (attr_.receives == nullptr) {
        auto receives = MessageQueue::create(attr_.receive_depth);
        if (!receives) return failure(receives.error());
        own_receives_ = std::move(*receives);
    }
    MessageQueue* const receives = own_receives_ ? own_receives_.get() : attr_.receives;
    matcher_ = static_cast<Matcher*>(receives);
    slots_.prepare(limits_.unregistered_local ? nullptr : attr_.pd, kMaxSlots);
    if (!limits_.placed_when_complete)
        if (Status prepared = delivery_.prepare(*attr_.pd, limits_); !prepared) return prepared;
    const std::uint32_t depth =
        is_iwarp_nic() ? std::min(kIwarpDepth, limits_.max_cqe) : kFirstDepth;
    auto cq = TrackedCq::create(
        *attr_.device, {.size = kUnbounded, .device_depth = depth, .scope = StatScope::internal});
    if (!cq) return failure(cq.error());
    cq_ = std::move(*cq);
    if (Status listening = listen(); !listening) return listening;
    if (Status added = attr_.transmit_cq->add_source(*this); !added) return added;
    is_source_ = true;
    if (attr_.receive_cq != attr_.transmit_cq)
        if (Status added = attr_.receive_cq->add_source(*this); !added) return added;
    if (!automatic_) return {};
    if (Status watched = watch(); !watched) return watched;
    hand_over();
    return {};
}

bool Endpoint::is_iwarp_nic() const noexcept {
    return attr_.device->native_context() != nullptr && limits_.transport == Transport::iwarp;
}

Status Endpoint::listen() noexcept {
    auto channel = attr_.device->create_cm_channel();
    if (!channel) return failure(channel.error());
    cm_channel_ = std::move(*channel);
    if (Status set = set_nonblocking(cm_channel_->fd()); !set) return set;
    auto id = attr_.device->create_cm_id(cm_channel_.get());
    if (!id) return failure(id.error());
    listener_ = std::move(*id);
    if (Status bound = listener_->bind(attr_.address); !bound) return bound;
    if (Status listens = listener_->listen(0); !listens) return listens;
    name_ = listener_->local_address();
    return {};
}

/// By the progress thread, from now on.
Status Endpoint::watch() noexcept {
    if (has_thread_.load(std::memory_order_acquire) || has_thread_.exchange(true)) return {};
    Status added = watch_progress(*this);
    if (!added) has_thread_.store(false);
    return added;
}

Endpoint::~Endpoint() {
    if (is_source_) {
        attr_.transmit_cq->remove_source(*this);
        attr_.receive_cq->remove_source(*this);
    }
    // Nobody hands it over to the thread any more.
    if (has_thread_.load(std::memory_order_acquire)) unwatch_progress(*this);
    if (matcher_ == nullptr) return;
    const std::lock_guard guard(*matcher_);
    const auto end = Clock::now() + kLinger;
    while (waiting_count_ != 0 && Clock::now() < end) {
        take_cm_events();
        if (run(1) == 0) ::poll(nullptr, 0, 1);
    }
    close_all();
}

// --- progress

void Endpoint::progress() noexcept {
    if (is_parents()) return;
    // Whoever holds the lock, or is to get it, may wait for the CPU of this very poller.
    if (!matcher_->try_lock()) return static_cast<void>(sched_yield());
    note_program();
    const std::uint32_t interval =
        has_thread_.load(std::memory_order_relaxed) ? kPollsPerLook : kPollsPerLookAlone;
    if (polls_.load(std::memory_order_relaxed) % interval == 0) take_cm_events();
    run(kRounds);
    matcher_->unlock();
}

/// The number of completions taken in the last round; 0: there is nothing more, or the program has
/// to read its queues first.
long Endpoint::run(int max_rounds) noexcept {
    long count = 0;
    for (int round = 0; round < max_rounds; ++round) {
        const bool room =
            attr_.receive_cq->prepare(kMostEntries) && attr_.transmit_cq->prepare(kMostEntries);
        if (!room) return 0;
        std::array<Completion, kBatch> batch;
        count = cq_->read(kBatch, [&batch](std::size_t at, const Completion& completion) {
            batch[at] = completion;
        });
        for (long at = 0; at < count; ++at) take(batch[static_cast<std::size_t>(at)]);
        if (count == TrackedCq::kErrorFirst) {
            Completion failed;
            if (cq_->read_error(failed)) take_error(failed);
        }
        if (count == TrackedCq::kEmpty || count == TrackedCq::kDeviceFailed) break;
    }
    if (count == TrackedCq::kEmpty) ++sweeps_;
    if (leaving_count_ != 0 && count == TrackedCq::kEmpty) reap();
    retry_waiting();
    return count == TrackedCq::kDeviceFailed ? 0 : count;
}

/// What arrives may overtake the event that the connection stands.
void Endpoint::note_arrival(Connection& connection) noexcept {
    if (connection.state == Connection::State::accepting)
        connection.state = Connection::State::open;
    if (!connection.proven && connection.state == Connection::State::open) prove(connection);
}

void Endpoint::take(const Completion& completion) noexcept {
    switch (completion.kind) {
        case CompletionKind::receive:
            note_arrival(*static_cast<Buffer*>(completion.context)->connection);
            return on_buffer(*static_cast<Buffer*>(completion.context), completion.length);
        case CompletionKind::remote_write:
            note_arrival(*reinterpret_cast<Connection*>(completion.peer));
            return on_remote_write(*reinterpret_cast<Connection*>(completion.peer), completion);
        default:
            if (completion.flags == kInternal)
                on_posted(*static_cast<Transfer*>(completion.context), WcStatus::success, 0);
    }
}

void Endpoint::take_error(const Completion& completion) noexcept {
    if (completion.kind == CompletionKind::receive ||
        completion.kind == CompletionKind::remote_write) {
        Connection& connection = *static_cast<Buffer*>(completion.context)->connection;
        --connection.posted;
        return drain(connection);
    }
    if (completion.flags == kControl) return drain(*static_cast<Connection*>(completion.context));
    if (completion.flags == kInternal) {
        auto& transfer = *static_cast<Transfer*>(completion.context);
        Connection& connection = *transfer.connection;
        on_posted(transfer, completion.status, completion.vendor_error);
        return drain(connection);
    }
    // An operation of the program that asked for no entry, and is not counted.
    Completion failed = completion;
    failed.reserved = false;
    push(*attr_.transmit_cq, failed);
}

/// True when nothing is left to do until a channel becomes readable.
bool Endpoint::arm() noexcept {
    for (int round = 0; round < kArmRounds; ++round) {
        const bool done = run(kRounds) == 0;
        if (done && cq_->arm()) return true;
        if (done && !attr_.receive_cq->prepare(kMostEntries)) return true;
        if (done && !attr_.transmit_cq->prepare(kMostEntries)) return true;
    }
    return false;
}

void Endpoint::hand_over() noexcept {
    if (is_parents() || !watch()) return;
    bool more = false;
    {
        const std::lock_guard guard(*matcher_);
        take_cm_events();
        polls_seen_ = polls_.load(std::memory_order_relaxed);
        handed_over_.store(true, std::memory_order_relaxed);
        more = !arm();
    }
    if (more) kick_progress();
}

/// With the lock held, and handed over.
DriveNext Endpoint::go_on() noexcept {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
    if (polls == polls_seen_) return arm() ? DriveNext::sleep : DriveNext::again;
    // The program polls again.
    polls_seen_ = polls;
    handed_over_.store(false, std::memory_order_relaxed);
    return leave_to_program();
}

DriveNext Endpoint::drive() noexcept {
    const std::lock_guard guard(*matcher_);
    take_cm_events();
    return handed_over_.load(std::memory_order_relaxed) ? go_on() : leave_to_program();
}

DriveNext Endpoint::look() noexcept {
    const std::lock_guard guard(*matcher_);
    if (handed_over_.load(std::memory_order_relaxed)) return go_on();
    if (!automatic_) return DriveNext::sleep;
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
    if (polls != polls_seen_) {
        polls_seen_ = polls;
        return DriveNext::look_later;
    }
    handed_over_.store(true, std::memory_order_relaxed);
    return arm() ? DriveNext::sleep : DriveNext::again;
}

}  // namespace compat::core::rdm
