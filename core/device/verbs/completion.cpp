// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/completion.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/nonblocking.hpp"
#include "core/base/opaque.hpp"
#include "core/base/statistics.hpp"
#include "core/device/verbs/qp.hpp"
#include "core/device/verbs/srq.hpp"
#include "core/device/verbs/work_request.hpp"

namespace compat::core::verbs {
namespace {

constexpr std::size_t kBatch = 16;  // completions taken from the device at a time

// iWARP drivers cannot make a queue longer, and programs attach more connections later.
constexpr std::uint32_t kFixedDepth = 1024;

bool watch(int epoll, int fd) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

Slot& slot_of(const ibv_wc& wc) noexcept {
    return *reinterpret_cast<Slot*>(wc.wr_id);
}

}  // namespace

// --- VerbsChannel

Result<std::unique_ptr<VerbsChannel>> VerbsChannel::create(ibv_context& context) noexcept {
    CompChannelHandle channel(api().ibv_create_comp_channel(&context));
    if (!channel) return failure(creation_error(errno));
    auto ours = EventFd::create();
    if (!ours) return failure(ours.error());
    UniqueFd both(epoll_create1(EPOLL_CLOEXEC));
    if (!both) return failure(Errc::device, errno);
    if (!set_nonblocking(channel->fd) || !watch(both.get(), channel->fd) ||
        !watch(both.get(), ours->fd()))
        return failure(Errc::device, errno);
    std::unique_ptr<VerbsChannel> made(
        new (std::nothrow) VerbsChannel(std::move(channel), std::move(*ours), std::move(both)));
    if (!made) return failure(Errc::no_memory);
    return made;
}

Result<CompletionQueue*> VerbsChannel::get_event() noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    for (;;) {
        const auto taken = take();
        if (!taken) return failure(taken.error());
        if (*taken != nullptr) return *taken;
        if (!blocks()) return failure(Errc::would_block);
        pollfd ready{both_.get(), POLLIN, 0};
        if (::poll(&ready, 1, -1) < 0)
            return failure(errno == EINTR ? Errc::interrupted : Errc::device, errno);
    }
}

/// Null when there is none.
Result<VerbsCq*> VerbsChannel::take() noexcept {
    const std::lock_guard guard(lock_);
    ibv_cq* of_device = nullptr;
    void* context = nullptr;
    if (api().ibv_get_cq_event(channel_.get(), &of_device, &context) == 0) {
        auto* const cq = static_cast<VerbsCq*>(context);
        ++cq->unacknowledged_;  // all at once, when the queue goes
        return cq;
    }
    if (errno != EAGAIN && errno != EINTR) return failure(Errc::device, errno);
    VerbsCq* const cq = first_with_event_;
    if (cq != nullptr) unlink(*cq);
    return cq;
}

void VerbsChannel::raise(VerbsCq& cq) noexcept {
    const std::lock_guard guard(lock_);
    if (cq.has_event_) return;
    cq.has_event_ = true;
    cq.next_with_event_ = first_with_event_;
    first_with_event_ = &cq;
    ours_.post();
}

void VerbsChannel::forget(VerbsCq& cq) noexcept {
    const std::lock_guard guard(lock_);
    if (cq.has_event_) unlink(cq);
}

void VerbsChannel::unlink(VerbsCq& cq) noexcept {
    VerbsCq** at = &first_with_event_;
    while (*at != &cq) at = &(*at)->next_with_event_;
    *at = cq.next_with_event_;
    cq.has_event_ = false;
    ours_.try_wait();
}

bool VerbsChannel::blocks() const noexcept {
    return (fcntl(both_.get(), F_GETFL) & O_NONBLOCK) == 0;
}

// --- VerbsCq

Result<std::unique_ptr<VerbsCq>> VerbsCq::create(ibv_context& context, const Limits& limits,
                                                 std::uint32_t depth,
                                                 VerbsChannel* channel) noexcept try {
    if (inherited()) return failure(Errc::device, EPERM);
    if (depth == 0 || depth > limits.max_cqe) return failure(Errc::invalid_argument);
    if (limits.transport == Transport::iwarp)
        depth = std::max(depth, std::min(kFixedDepth, limits.max_cqe));
    std::unique_ptr<VerbsCq> cq(new VerbsCq(context, limits, channel));
    auto made = cq->make(depth);
    if (!made) return failure(made.error());
    cq->cq_ = std::move(*made);
    cq->allow_native(kOfDevice);
    return cq;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Result<CqHandle> VerbsCq::make(std::uint32_t depth) noexcept {
    CqHandle cq(api().ibv_create_cq(&context_, static_cast<int>(depth), this,
                                    channel_ != nullptr ? channel_->get() : nullptr, 0));
    if (!cq) return failure(creation_error(errno));
    return cq;
}

VerbsCq::~VerbsCq() {
    if (channel_ == nullptr || inherited()) return;
    channel_->forget(*this);
    acknowledge();
}

/// Without it the queue's destruction would wait for ever.
void VerbsCq::acknowledge() noexcept {
    const std::lock_guard guard(channel_->lock());
    if (unacknowledged_ != 0) api().ibv_ack_cq_events(cq_.get(), unacknowledged_);
    unacknowledged_ = 0;
}

Result<std::size_t> VerbsCq::poll(std::span<WorkCompletion> wcs) noexcept {
    if (inherited()) [[unlikely]]
        return failure(Errc::device, EPERM);
    const std::lock_guard guard(lock_);
    return wcs.size() == 1 && kept_size_ == 0 ? poll_one(wcs.front()) : poll_many(wcs);
}

inline Result<std::size_t> VerbsCq::poll_one(WorkCompletion& out) noexcept {
    ibv_wc wc;
    do {
        const int got = ibv_poll_cq(cq_.get(), 1, &wc);
        if (got == 0) return 0;
        if (got < 0) [[unlikely]]
            return failure(Errc::device, errno_of(got));
    } while (!seen(wc));
    deliver(wc, out);
    return 1;
}

[[gnu::noinline]] Result<std::size_t> VerbsCq::poll_many(std::span<WorkCompletion> wcs) noexcept {
    std::size_t count = 0;
    for (; kept_size_ != 0 && count != wcs.size(); take_kept())
        deliver(kept_[kept_head_], wcs[count++]);
    while (count != wcs.size()) {
        std::array<ibv_wc, kBatch> batch;
        const int room = static_cast<int>(std::min(wcs.size() - count, kBatch));
        const int got = ibv_poll_cq(cq_.get(), room, batch.data());
        if (got < 0) [[unlikely]] {
            if (count != 0) break;  // it will be told of next time
            return failure(Errc::device, errno_of(got));
        }
        for (int i = 0; i < got; ++i)
            if (seen(batch[i])) deliver(batch[i], wcs[count++]);
        if (got != room) break;
    }
    return count;
}

// Native polls: one completion, a success, is what almost all find; all that is rare is elsewhere.

int VerbsCq::poll_native(int most, ibv_wc* wcs) noexcept {
    if (!lock_.try_lock()) [[unlikely]]
        return poll_native_waiting(most, wcs);
    return poll_native_locked(most, wcs);
}

[[gnu::noinline]] int VerbsCq::poll_native_waiting(int most, ibv_wc* wcs) noexcept {
    lock_.lock();
    return poll_native_locked(most, wcs);
}

[[gnu::always_inline]] inline int VerbsCq::poll_native_locked(int most, ibv_wc* wcs) noexcept {
    if (not_plain_ != 0) [[unlikely]]
        return poll_native_slowly(most, wcs);
    filled_ = wcs;
    const int got = ibv_poll_cq(cq_.get(), most, wcs);
    VerbsCq* const self = opaque(this);
    ibv_wc& wc = *self->filled_;
    if (got != 1 || wc.status != IBV_WC_SUCCESS) [[unlikely]]
        return self->finish_native(got, &wc);
    const Slot& slot = slot_of(wc);
    wc.wr_id = slot.wr_id;
    static_cast<SlotRing*>(slot.owner)->retire(slot);
    self->native_polls_->add(Stat::completions, 1);
    if (!self->lock_.release()) [[unlikely]]
        opaque(self)->lock_.wake();
    return 1;
}

/// Whatever the device gave, all of it of SlotRings. Gives the lock back.
[[gnu::noinline]] int VerbsCq::finish_native(int got, ibv_wc* wcs) noexcept {
    for (int at = 0; at < got; ++at)
        if (COMPAT_ASSERT(seen(wcs[at]))) give_native(wcs[at], wcs[at]);
    lock_.unlock();
    return got < 0 ? -errno_of(got) : got;
}

/// Those kept come first. Gives the lock back.
[[gnu::noinline]] int VerbsCq::poll_native_slowly(int most, ibv_wc* wcs) noexcept {
    int given = 0;
    for (; kept_size_ != 0 && given != most; take_kept())
        give_native(kept_[kept_head_], wcs[given++]);
    int got = 1;
    while (given != most) {
        ibv_wc wc;  // it may be none of the program's
        got = ibv_poll_cq(cq_.get(), 1, &wc);
        if (got != 1) break;
        if (seen(wc)) give_native(wc, wcs[given++]);
    }
    lock_.unlock();
    return got < 0 && given == 0 ? -errno_of(got) : given;
}

/// As deliver(), counted.
void VerbsCq::give_native(const ibv_wc& wc, ibv_wc& out) noexcept {
    const std::uint64_t wr_id = slot_of(wc).wr_id;
    retire(wc);
    out = wc;
    out.wr_id = wr_id;
    native_polls_->add(stat_of(to_core_status(out.status)), 1);
}

Status VerbsCq::request_notify(bool solicited_only) noexcept {
    if (inherited()) return failure(Errc::device, EPERM);
    const std::lock_guard guard(lock_);
    armed_ = true;
    // Some devices forget the wider wish for a narrower one that follows. And siw finds no message
    // solicited: an event too many is better than none.
    armed_for_any_ |= !solicited_only || is_iwarp_;
    const int rc = ibv_req_notify_cq(cq_.get(), armed_for_any_ ? 0 : 1);
    if (rc != 0) return failure(Errc::device, errno_of(rc));
    return {};
}

bool VerbsCq::has_completions() const noexcept {
    if (inherited()) return false;
    const std::lock_guard guard(lock_);
    // What the device has can be known by taking it only.
    if (kept_size_ == 0) const_cast<VerbsCq*>(this)->pull();
    return kept_size_ != 0;
}

Status VerbsCq::attach(VerbsQp& qp, std::uint32_t entries) noexcept try {
    const std::lock_guard guard(lock_);
    if (const Status room = reserve(entries); !room) return room;
    qps_.push_back(&qp);
    reserved_ += entries;
    return {};
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void VerbsCq::detach(const VerbsQp& qp, std::uint32_t qp_num, std::uint32_t entries) noexcept {
    pull();
    std::size_t stays = 0;
    const auto at = [this](std::size_t position) -> ibv_wc& {
        return kept_[(kept_head_ + position) % kept_.size()];
    };
    for (std::size_t i = 0; i < kept_size_; ++i) {
        if (at(i).qp_num == qp_num)
            drop(at(i));
        else
            at(stays++) = at(i);
    }
    not_plain_ -= kept_size_ - stays;
    kept_size_ = stays;
    reserved_ -= entries;
    qps_.erase(std::ranges::find(qps_, &qp));
}

Status VerbsCq::reserve(std::uint32_t entries) noexcept {
    const std::size_t needed = reserved_ + entries;
    if (needed > max_cqe_) return failure(Errc::invalid_argument);
    if (needed > kept_.size()) {
        std::vector<ibv_wc> larger(needed);
        for (std::size_t i = 0; i < kept_size_; ++i)
            larger[i] = kept_[(kept_head_ + i) % kept_.size()];
        kept_.swap(larger);
        kept_head_ = 0;
    }
    if (needed <= static_cast<std::size_t>(cq_->cqe)) return {};
    return grow(static_cast<std::uint32_t>(needed));
}

/// A queue that no QP uses yet can be replaced where it cannot be made longer.
Status VerbsCq::grow(std::uint32_t needed) noexcept {
    const int rc = api().ibv_resize_cq(cq_.get(), static_cast<int>(needed));
    if (rc == 0) return {};
    if (!qps_.empty()) {
        COMPAT_LOG_ERROR(
            "a completion queue of %d entries is too short for one more QP and cannot "
            "be resized, errno %d",
            cq_->cqe, errno_of(rc));
        const Error error = creation_error(errno_of(rc));
        if (error.code == Errc::not_supported)
            return failure(Errc::invalid_argument, error.device_errno);
        return failure(error);
    }
    auto longer = make(needed);
    if (!longer) return failure(longer.error());
    if (armed_ && ibv_req_notify_cq(longer->get(), armed_for_any_ ? 0 : 1) != 0)
        return failure(Errc::device, errno);
    if (channel_ != nullptr) acknowledge();
    cq_ = std::move(*longer);
    return {};
}

void VerbsCq::pull() noexcept {
    std::array<ibv_wc, kBatch> batch;
    int got = 0;
    do {
        got = ibv_poll_cq(cq_.get(), kBatch, batch.data());
        for (int i = 0; i < got; ++i)
            if (seen(batch[i])) keep(batch[i]);
    } while (got == kBatch);
}

void VerbsCq::push(const ibv_wc& wc) noexcept {
    keep(wc);
    if (!armed_ || channel_ == nullptr) return;
    armed_ = armed_for_any_ = false;
    channel_->raise(*this);
}

void VerbsCq::keep(const ibv_wc& wc) noexcept {
    if (!COMPAT_ASSERT(kept_size_ < kept_.size())) return;
    kept_[(kept_head_ + kept_size_++) % kept_.size()] = wc;
    ++not_plain_;
}

Slot* VerbsCq::last_kept_of(const SlotRing& ring) const noexcept {
    for (std::size_t i = kept_size_; i-- > 0;) {
        Slot& slot = slot_of(kept_[(kept_head_ + i) % kept_.size()]);
        if (slot.owner == &ring) return &slot;
    }
    return nullptr;
}

/// The device is through with the request. Its slot is still in use. False when there is nothing to
/// tell of: the request is ours alone, or siw completes what we have flushed in its place.
bool VerbsCq::seen(const ibv_wc& wc) noexcept {
    Slot& slot = slot_of(wc);
    if (slot.kind == SlotKind::drained) [[unlikely]] {
        static_cast<VerbsQp*>(slot.owner)->drained();
        return false;
    }
    if (slot.kind != SlotKind::shared_receive) {
        auto& ring = *static_cast<SlotRing*>(slot.owner);
        if (ring.is_settled()) [[unlikely]]
            return false;
        ring.completed(slot);
    }
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]]
        if (VerbsQp* const qp = owner_of(wc)) qp->failed_at_device();
    return true;
}

VerbsQp* VerbsCq::owner_of(const ibv_wc& wc) const noexcept {
    for (VerbsQp* const qp : qps_)
        if (qp->number() == wc.qp_num) return qp;
    return nullptr;
}

void VerbsCq::take_kept() noexcept {
    kept_head_ = kept_head_ + 1 == kept_.size() ? 0 : kept_head_ + 1;
    --kept_size_;
    --not_plain_;
}

/// The slot is free again.
void VerbsCq::retire(const ibv_wc& wc) noexcept {
    Slot& slot = slot_of(wc);
    switch (slot.kind) {
        case SlotKind::send:
        case SlotKind::receive: static_cast<SlotRing*>(slot.owner)->retire(slot); break;
        case SlotKind::shared_receive: static_cast<VerbsSrq*>(slot.owner)->retire(slot); break;
        case SlotKind::drained: break;  // is never told of
    }
}

void VerbsCq::deliver(const ibv_wc& wc, WorkCompletion& out) noexcept {
    const Slot& slot = slot_of(wc);
    out.wr_id = slot.wr_id;
    out.status = to_core_status(wc.status);
    out.opcode = to_core_opcode(wc.opcode);
    out.has_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    out.receive_side = slot.kind != SlotKind::send;
    out.vendor_error = wc.vendor_err;
    out.qp_num = wc.qp_num;
    out.byte_length = wc.byte_len;
    out.imm = out.has_imm ? ntohl(wc.imm_data) : 0;
    out.done_at = 0;
    retire(wc);
}

void VerbsCq::drop(const ibv_wc& wc) noexcept {
    Slot& slot = slot_of(wc);
    if (slot.kind == SlotKind::shared_receive) static_cast<VerbsSrq*>(slot.owner)->retire(slot);
}

}  // namespace compat::core::verbs
