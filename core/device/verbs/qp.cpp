// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/qp.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>

#include "core/base/opaque.hpp"
#include "core/device/verbs/cm.hpp"
#include "core/device/verbs/completion.hpp"
#include "core/device/verbs/hub.hpp"
#include "core/device/verbs/limits.hpp"
#include "core/device/verbs/srq.hpp"
#include "core/device/verbs/work_request.hpp"
#include "core/model/plain.hpp"

namespace compat::core::verbs {
namespace {

constexpr std::size_t kChain = 16;  // requests handed over with one doorbell
constexpr std::uint32_t kDrainSlots = 1;
constexpr std::uint8_t kRnrTimer = 12;  // 0.64 ms; rdma_cm's own choice is 655 ms
constexpr std::uint32_t kAtomicLength = 8;
constexpr std::size_t kMaxIwarpSge = 32;  // Limits::max_sge is no more

/// siw stumbles, in the kernel, over elements of no bytes. But how long a read is it takes from the
/// first element, even where there is none.
bool fits_iwarp(const WorkRequest& request) noexcept {
    if (request.opcode == Opcode::read && request.sges.size() <= 1) return !request.sges.empty();
    return std::ranges::none_of(request.sges, [](const Sge& sge) { return sge.length == 0; });
}

/// Its elements take a result: there is nothing to copy from them.
bool writes_here(Opcode opcode) noexcept {
    return opcode == Opcode::read || opcode == Opcode::atomic_cas || opcode == Opcode::atomic_fadd;
}

bool by_extended_call(Opcode opcode) noexcept {
    return kOpcodes[static_cast<std::size_t>(opcode)].verbs < 0;
}

bool valid(const QpAttr& attr, const Limits& limits, const ibv_context* context) noexcept {
    const auto* pd = dynamic_cast<VerbsPd*>(attr.pd);
    return pd != nullptr && pd->get()->context == context &&
           dynamic_cast<VerbsCq*>(attr.send_cq) != nullptr &&
           dynamic_cast<VerbsCq*>(attr.receive_cq) != nullptr &&
           (attr.srq == nullptr || dynamic_cast<VerbsSrq*>(attr.srq) != nullptr) &&
           attr.send_depth <= limits.max_qp_wr && attr.receive_depth <= limits.max_qp_wr &&
           attr.max_send_sge <= limits.max_sge && attr.max_receive_sge <= limits.max_sge &&
           attr.max_inline <= limits.max_inline;
}

std::uint32_t receives_at_once(const QpAttr& attr) noexcept {
    return attr.srq != nullptr ? static_cast<VerbsSrq*>(attr.srq)->depth() : attr.receive_depth;
}

std::uint32_t sends_at_once(const QpAttr& attr) noexcept {
    return attr.send_depth + kDrainSlots;
}

unsigned qp_access(AccessFlags access, const Limits& limits) noexcept {
    unsigned flags = IBV_ACCESS_LOCAL_WRITE;
    if (access.has(Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
    if (access.has_any(Access::remote_read | Access::read_source)) flags |= IBV_ACCESS_REMOTE_READ;
    if (access.has(Access::remote_atomic) && limits.atomics) flags |= IBV_ACCESS_REMOTE_ATOMIC;
#ifdef COMPAT_HAVE_IBV_FLUSH
    if (limits.flush) flags |= IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
#endif
    return flags;
}

void fill(ibv_send_wr& wr, const WorkRequest& request, Slot& slot) noexcept {
    slot.wr_id = request.wr_id;
    slot.flags = request.flags;
    wr.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
    wr.next = nullptr;
    wr.sg_list = to_verbs(request.sges);
    wr.num_sge = static_cast<int>(request.sges.size());
    wr.opcode =
        static_cast<ibv_wr_opcode>(kOpcodes[static_cast<std::size_t>(request.opcode)].verbs);
    wr.send_flags = to_verbs(request.flags);
    wr.imm_data = htonl(static_cast<std::uint32_t>(request.imm));
    if (request.opcode == Opcode::atomic_cas) {
        wr.wr.atomic = {request.remote_address, request.compare, request.operand, request.rkey};
    } else if (request.opcode == Opcode::atomic_fadd) {
        wr.wr.atomic = {request.remote_address, request.operand, 0, request.rkey};
    } else {
        wr.wr.rdma = {request.remote_address, request.rkey};
    }
}

/// siw completes what comes behind a read before it, unless that waits for the read. A read itself
/// it does not let wait, and need not: reads complete in order.
void keep_behind_reads(ibv_send_wr& wr) noexcept {
    if (wr.opcode == IBV_WR_RDMA_READ)
        wr.send_flags &= ~static_cast<unsigned>(IBV_SEND_FENCE);
    else
        wr.send_flags |= IBV_SEND_FENCE;
}

/// Both locks, or the one that they are.
class BothLocks {
public:
    BothLocks(VerbsCq& one, VerbsCq& other) noexcept
        : first_(std::min(&one, &other, std::less<>())->lock()),
          second_(&one == &other ? nullptr : &std::max(&one, &other, std::less<>())->lock()) {
        first_.lock();
        if (second_ != nullptr) second_->lock();
    }
    ~BothLocks() {
        if (second_ != nullptr) second_->unlock();
        first_.unlock();
    }
    BothLocks(const BothLocks&) = delete;
    BothLocks& operator=(const BothLocks&) = delete;

private:
    Lock& first_;
    Lock* second_;
};

}  // namespace

// --- making and unmaking

Result<std::unique_ptr<VerbsQp>> VerbsQp::create(VerbsCmId& id, const QpAttr& attr,
                                                 const Limits& limits) noexcept try {
    if (!valid(attr, limits, id.native()->verbs)) return failure(Errc::invalid_argument);
    if (attr.imm_without_receive) return failure(Errc::not_supported);
    std::unique_ptr<VerbsQp> qp(new VerbsQp(id, attr, limits));
    if (const Status made = qp->attach(); !made) return failure(made.error());
    return qp;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

VerbsQp::VerbsQp(VerbsCmId& id, const QpAttr& attr, const Limits& limits)
    : limits_(limits),
      is_iwarp_(limits.transport == Transport::iwarp),
      id_(id),
      attr_(attr),
      max_read_sge_(std::min(attr.max_send_sge, limits.max_sge_read)),
      send_cq_(static_cast<VerbsCq&>(*attr.send_cq)),
      receive_cq_(static_cast<VerbsCq&>(*attr.receive_cq)),
      srq_(static_cast<VerbsSrq*>(attr.srq)),
      child_(static_cast<VerbsPd*>(attr.pd)->children()),
      sends_(SlotKind::send, attr.send_depth),
      statistics_(attr.scope),
      receives_(SlotKind::receive, srq_ != nullptr ? 0 : attr.receive_depth) {}

Status VerbsQp::attach() noexcept {
    if (const Status room = send_cq_.attach(*this, sends_at_once(attr_)); !room) return room;
    Status made = receive_cq_.attach(*this, receives_at_once(attr_));
    if (made) {
        made = make();
        const std::lock_guard guard(receive_cq_.lock());
        if (srq_ != nullptr) receive_cq_.expect_others();
        if (made) return made;
        receive_cq_.detach(*this, number_, receives_at_once(attr_));
    }
    const std::lock_guard guard(send_cq_.lock());
    send_cq_.detach(*this, number_, sends_at_once(attr_));
    return made;
}

Status VerbsQp::make() noexcept {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = send_cq_.get();
    attr.recv_cq = receive_cq_.get();
    attr.srq = srq_ != nullptr ? srq_->get() : nullptr;
    attr.cap.max_send_wr = attr_.send_depth + kDrainSlots;
    attr.cap.max_recv_wr = srq_ != nullptr ? 0 : attr_.receive_depth;
    attr.cap.max_send_sge = std::max(attr_.max_send_sge, 1U);
    attr.cap.max_recv_sge = srq_ != nullptr ? 0 : std::max(attr_.max_receive_sge, 1U);
    attr.cap.max_inline_data = attr_.max_inline;
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = static_cast<VerbsPd*>(attr_.pd)->get();
    attr.send_ops_flags = send_ops_of(limits_);
    if (attr.send_ops_flags != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (const int rc = api().rdma_create_qp_ex(id_.native(), &attr); rc != 0)
        return failure(creation_error(errno_of(rc)));
    qp_ = id_.native()->qp;
    number_ = qp_->qp_num;
    if (attr.send_ops_flags != 0) extended_ = api().ibv_qp_to_qp_ex(qp_);
    return {};
}

VerbsQp::~VerbsQp() {
    if (qp_ == nullptr || inherited()) return;
    HubLock lock(hub().mutex());
    id_.release_qp(*this, lock);
    const BothLocks queues(send_cq_, receive_cq_);
    // Drivers drop what is left of it in the queues, and the receives of an SRQ would be lost.
    send_cq_.pull();
    receive_cq_.pull();
    api().rdma_destroy_qp(id_.native());
    send_cq_.detach(*this, number_, sends_at_once(attr_));
    receive_cq_.detach(*this, number_, receives_at_once(attr_));
}

// --- posting

Status VerbsQp::post_send(std::span<const WorkRequest> requests, std::size_t* posted) noexcept {
    if (inherited()) [[unlikely]]
        return failure(Errc::wrong_state, EPERM);
    const std::lock_guard guard(send_lock_);
    if (!can_send_) [[unlikely]]
        return failure(Errc::wrong_state);
    std::size_t nowhere = 0;
    std::size_t& done = posted != nullptr ? *posted : nowhere;
    done = 0;
    return post_list(requests, done);
}

// Plain posts: no frame, no register saved but one, so all that is rare is somewhere else.

template <Opcode opcode>
[[gnu::always_inline]] inline Status VerbsQp::plain_locked(PlainRequest& request) noexcept {
    Slot* const slot = sends_.take();
    if (slot == nullptr) [[unlikely]]
        return plain_looking<opcode>(request);
    slot->wr_id = request.wr_id;
    slot->flags = SendFlags(static_cast<std::uint8_t>(request.flags));
    request.wr_id = reinterpret_cast<std::uintptr_t>(slot);
    posting_ = request.sge.length;
    statistics_->post(stat_of(opcode), posting_);
    const int rc = ibv_post_send(qp_, reinterpret_cast<ibv_send_wr*>(&request), &bad_);
    VerbsQp* const self = opaque(this);
    if (rc != 0) [[unlikely]]
        return self->plain_refused(opcode, rc);
    if (!self->send_lock_.release()) [[unlikely]]
        opaque(self)->send_lock_.wake();
    return {};
}

template <Opcode opcode>
[[gnu::noinline]] Status VerbsQp::plain_waiting(PlainRequest& request) noexcept {
    send_lock_.lock();
    return plain_locked<opcode>(request);
}

/// The slots that were known to be free are used up.
template <Opcode opcode>
[[gnu::noinline]] Status VerbsQp::plain_looking(PlainRequest& request) noexcept {
    if (!sends_.look_for_room()) return plain_without_slot(request);
    return plain_locked<opcode>(request);
}

template <Opcode opcode>
[[gnu::always_inline]] inline Status VerbsQp::plain(PlainRequest& request) noexcept {
    if (!send_lock_.try_lock()) [[unlikely]]
        return plain_waiting<opcode>(request);
    return plain_locked<opcode>(request);
}

Status VerbsQp::plain_write(PlainRequest& request) noexcept {
    return plain<Opcode::write>(request);
}

Status VerbsQp::plain_read(PlainRequest& request) noexcept {
    return plain<Opcode::read>(request);
}

Status VerbsQp::plain_send(PlainRequest& request) noexcept {
    return plain<Opcode::send>(request);
}

/// The queue is full, or has changed its state under the caller's eyes. Gives the lock back.
[[gnu::noinline]] Status VerbsQp::plain_without_slot(const PlainRequest& plain) noexcept {
    const auto list = [this](std::span<const WorkRequest> request) {
        std::size_t done = 0;
        return post_list(request, done);
    };
    const Status posted = post_in_full(plain, statistics_.block(), list);
    send_lock_.unlock();
    return posted;
}

/// By the device. Gives the lock back.
[[gnu::noinline]] Status VerbsQp::plain_refused(Opcode opcode, int rc) noexcept {
    const Error error = posting_error(errno_of(rc));
    sends_.roll_back(1);
    statistics_->unpost(stat_of(opcode), posting_);
    if (error.code == Errc::would_block) statistics_->add(Stat::queue_full, 1);
    send_lock_.unlock();
    return failure(error);
}

Status VerbsQp::post_list(std::span<const WorkRequest> requests, std::size_t& done) noexcept {
    while (done != requests.size()) {
        const WorkRequest& next = requests[done];
        Status status;
        if (const auto wrong = settled_ ? check(next) : std::nullopt) {
            status = failure(*wrong);
        } else if (settled_) {
            status = post_flushed(sends_, send_cq_, next.wr_id);
        } else if (by_extended_call(next.opcode)) {
            status = post_extended(next);
        } else if (is_iwarp_ && !fits_iwarp(next)) {
            status = post_compacted(next);
        } else {
            status = post_chain(requests, done);
            if (!status) return status;
            continue;
        }
        if (!status) return status;
        ++done;
    }
    return {};
}

/// Null: nothing is wrong with it.
std::optional<Errc> VerbsQp::check(const WorkRequest& request) const noexcept {
    std::uint64_t length = 0;
    for (const Sge& sge : request.sges) length += sge.length;
    const std::size_t most =
        request.opcode == Opcode::read ? max_read_sge_ : std::size_t{attr_.max_send_sge};
    if (request.sges.size() > most) return Errc::invalid_argument;
    if (request.flags.has(SendFlag::inlined) &&
        (length > attr_.max_inline || writes_here(request.opcode)))
        return Errc::invalid_argument;
    if (length > limits_.max_message) return Errc::too_long;
    switch (request.opcode) {
        case Opcode::send:
        case Opcode::write:
        case Opcode::read: return std::nullopt;
        case Opcode::send_imm:
        case Opcode::write_imm:
            if (limits_.imm_bytes == 0) return Errc::not_supported;
            return std::nullopt;
        case Opcode::atomic_cas:
        case Opcode::atomic_fadd:
            if (!limits_.atomics) return Errc::not_supported;
            break;
        case Opcode::atomic_write:
            if (!limits_.atomic_write) return Errc::not_supported;
            break;
        case Opcode::flush:
            if (!limits_.flush) return Errc::not_supported;
            return std::nullopt;
        case Opcode::count_: return Errc::invalid_argument;
    }
    if (length != kAtomicLength || request.remote_address % kAtomicLength != 0)
        return Errc::invalid_argument;
    return std::nullopt;
}

Status VerbsQp::post_chain(std::span<const WorkRequest> requests, std::size_t& done) noexcept {
    std::array<ibv_send_wr, kChain> chain;
    std::size_t count = 0;
    Status stop;
    for (; count != kChain && done + count != requests.size(); ++count) {
        const WorkRequest& request = requests[done + count];
        if (by_extended_call(request.opcode)) break;
        if (is_iwarp_ && !fits_iwarp(request)) break;
        if (const auto wrong = check(request)) {
            stop = failure(*wrong);
            break;
        }
        Slot* const slot = sends_.next(count);
        if (slot == nullptr) {
            stop = failure(Errc::would_block);
            break;
        }
        fill(chain[count], request, *slot);
        if (is_iwarp_) keep_behind_reads(chain[count]);
        if (count != 0) chain[count - 1].next = &chain[count];
    }
    if (count == 0) return stop;
    sends_.commit(count);
    ibv_send_wr* bad = nullptr;
    const int rc = ibv_post_send(qp_, chain.data(), &bad);
    if (rc == 0) [[likely]] {
        done += count;
        return stop;
    }
    if (is_iwarp_ && bad == nullptr) {
        // siw has taken them all, but the connection has broken: to be flushed.
        failed_at_device();
        done += count;
        return stop;
    }
    const std::size_t taken = bad != nullptr ? static_cast<std::size_t>(bad - chain.data()) : 0;
    sends_.roll_back(count - taken);
    done += taken;
    return failure(posting_error(errno_of(rc)));
}

/// Without the elements that iWARP devices do not take, and with the one that they ask for.
Status VerbsQp::post_compacted(const WorkRequest& request) noexcept {
    if (const auto wrong = check(request)) return failure(*wrong);
    std::array<Sge, kMaxIwarpSge> sges;
    const auto end = std::ranges::copy_if(request.sges, sges.begin(), [](const Sge& sge) {
                         return sge.length != 0;
                     }).out;
    WorkRequest compacted = request;
    compacted.sges = {sges.begin(), end};
    if (request.opcode == Opcode::read && compacted.sges.empty()) {
        sges.front() = {};
        compacted.sges = {sges.data(), 1};
    }
    std::size_t done = 0;
    return post_chain({&compacted, 1}, done);
}

Status VerbsQp::post_extended(const WorkRequest& request) noexcept {
    if (const auto wrong = check(request)) return failure(*wrong);
    Slot* const slot = sends_.next();
    if (slot == nullptr) return failure(Errc::would_block);
    slot->wr_id = request.wr_id;
    slot->flags = request.flags;
    ibv_wr_start(extended_);
    extended_->wr_id = reinterpret_cast<std::uintptr_t>(slot);
    extended_->wr_flags = to_verbs(request.flags) & (IBV_SEND_SIGNALED | IBV_SEND_FENCE);
#ifdef COMPAT_HAVE_IBV_ATOMIC_WRITE
    if (request.opcode == Opcode::atomic_write) {
        std::array<std::byte, kAtomicLength> value;
        std::size_t filled = 0;
        for (const Sge& sge : request.sges) {
            if (sge.length == 0) continue;
            std::memcpy(&value[filled], sge.address, sge.length);
            filled += sge.length;
        }
        ibv_wr_atomic_write(extended_, request.rkey, request.remote_address, value.data());
    }
#endif
#ifdef COMPAT_HAVE_IBV_FLUSH
    if (request.opcode == Opcode::flush) {
        const auto type =
            request.flush_type == FlushType::persistent ? IBV_FLUSH_PERSISTENT : IBV_FLUSH_GLOBAL;
        ibv_wr_flush(extended_, request.rkey, request.remote_address, request.flush_length,
                     static_cast<std::uint8_t>(type), IBV_FLUSH_RANGE);
    }
#endif
    sends_.commit(1);
    const int rc = ibv_wr_complete(extended_);
    if (rc == 0) return {};
    sends_.roll_back(1);
    return failure(posting_error(errno_of(rc)));
}

Status VerbsQp::post_receive(const ReceiveRequest& request) noexcept {
    if (inherited()) [[unlikely]]
        return failure(Errc::wrong_state, EPERM);
    if (srq_ != nullptr || request.sges.size() > attr_.max_receive_sge)
        return failure(Errc::invalid_argument);
    const std::lock_guard guard(receive_lock_);
    if (settled_) return post_flushed(receives_, receive_cq_, request.wr_id);
    Slot* const slot = receives_.next();
    if (slot == nullptr) return failure(Errc::would_block);
    slot->wr_id = request.wr_id;
    ibv_recv_wr wr;
    wr.wr_id = reinterpret_cast<std::uintptr_t>(slot);
    wr.next = nullptr;
    ibv_sge spare;
    set_elements(wr, request.sges, is_iwarp_, spare);
    receives_.commit(1);
    ibv_recv_wr* bad = nullptr;
    const int rc = ibv_post_recv(qp_, &wr, &bad);
    if (rc != 0) [[unlikely]] {
        receives_.roll_back(1);
        return failure(posting_error(errno_of(rc)));
    }
    // Receives are posted without the kernel's knowing: rxe flushes one that comes too late when it
    // is told of the error state once more.
    if (in_error_) [[unlikely]]
        set_error_state();
    return {};
}

// --- the end

void VerbsQp::fail() noexcept {
    if (inherited()) return;
    const HubLock lock(hub().mutex());
    id_.end();
}

void VerbsQp::failed_at_device() noexcept {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) id_.end_soon();
}

void VerbsQp::connected() noexcept {
    {
        const std::lock_guard guard(send_lock_);
        can_send_ = true;
        if (attr_.plain_posts && !is_iwarp_ && max_read_sge_ != 0 && !settled_)
            plain_end_.store(std::uint64_t{limits_.max_message} + 1, std::memory_order_relaxed);
    }
    if (is_iwarp_) return;
    ibv_qp_attr attr{};
    attr.min_rnr_timer = kRnrTimer;
    attr.qp_access_flags = qp_access(attr_.access, limits_);
    const int rc = api().ibv_modify_qp(qp_, &attr, IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
    if (rc != 0)
        COMPAT_LOG_WARNING("qp 0x%x: rights of the peer not set, errno %d", number_, errno_of(rc));
}

bool VerbsQp::begin_drain() noexcept {
    const std::lock_guard guard(send_lock_);
    if (failed_.load(std::memory_order_acquire) || settled_ || sends_.idle()) return false;
    ibv_send_wr wr{};
    wr.wr_id = reinterpret_cast<std::uintptr_t>(&drain_slot_);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (is_iwarp_) keep_behind_reads(wr);
    {
        const std::lock_guard queue(send_cq_.lock());
        send_cq_.expect_others();
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad) == 0;
}

bool VerbsQp::is_drained() noexcept {
    const std::lock_guard guard(send_cq_.lock());
    send_cq_.pull();
    return drained_.load(std::memory_order_acquire) || failed_.load(std::memory_order_acquire);
}

void VerbsQp::enter_error_state() noexcept {
    failed_.store(true, std::memory_order_release);
    {
        const std::scoped_lock guard(send_lock_, receive_lock_);
        can_send_ = true;  // to be flushed
        in_error_ = true;
    }
    if (!set_error_state() || is_iwarp_) settle();
}

bool VerbsQp::set_error_state() noexcept {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    const int rc = api().ibv_modify_qp(qp_, &attr, IBV_QP_STATE);
    if (rc != 0) COMPAT_LOG_DEBUG("qp 0x%x: no error state, errno %d", number_, errno_of(rc));
    return rc == 0;
}

/// A device that is gone flushes nothing. And iWARP drivers flush what is outstanding when the
/// queue pair enters the error state, but take what is posted later without ever completing it.
/// From here on that is done in their place.
void VerbsQp::settle() noexcept {
    const std::lock_guard sending(send_lock_);
    const std::lock_guard receiving(receive_lock_);
    const BothLocks queues(send_cq_, receive_cq_);
    if (settled_) return;
    settled_ = true;
    plain_end_.store(0, std::memory_order_relaxed);
    sends_.take_no_more();
    send_cq_.expect_others();
    receive_cq_.expect_others();
    send_cq_.pull();
    receive_cq_.pull();
    flush_outstanding(sends_, send_cq_);
    if (srq_ == nullptr) flush_outstanding(receives_, receive_cq_);
}

/// What was posted too late for the device to flush it. An unsignaled request may just as well have
/// succeeded in silence.
void VerbsQp::flush_outstanding(SlotRing& ring, VerbsCq& cq) noexcept {
    for (std::uint64_t at = ring.first_outstanding(); at != ring.end(); at += SlotRing::kStep) {
        Slot& slot = ring.at(at);
        if (slot.flags.has(SendFlag::signaled)) cq.push(flushed(slot));
    }
    ring.settle();
    if (Slot* const last = cq.last_kept_of(ring))
        last->end = ring.end();  // its poll frees those behind it, too
    else
        ring.retire_all();
}

ibv_wc VerbsQp::flushed(const Slot& slot) const noexcept {
    ibv_wc wc{};
    wc.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.qp_num = number_;
    return wc;
}

Status VerbsQp::post_flushed(SlotRing& ring, VerbsCq& cq, std::uint64_t wr_id) noexcept {
    Slot* const slot = ring.next();
    if (slot == nullptr) return failure(Errc::would_block);
    slot->wr_id = wr_id;
    ring.commit(1);
    ring.completed(*slot);
    const std::lock_guard guard(cq.lock());
    cq.push(flushed(*slot));
    return {};
}

}  // namespace compat::core::verbs
