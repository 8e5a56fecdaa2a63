// SPDX-License-Identifier: BSD-3-Clause
// What goes through the context's table: posting, carrying out, polling. Reliable connections as
// InfiniBand has them.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/verbs_mock/objects.hpp"

namespace compat::mock {
namespace {

struct Range {
    std::byte* at;
    std::uint64_t length;
};

/// Null: no such memory, or not for that.
std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t length, const ibv_pd* pd,
                unsigned right) noexcept {
    const std::size_t index = key >> 8;
    if (index == 0 || index >= world().regions.size()) return nullptr;
    Mr* const mr = world().regions[index];
    if (mr == nullptr || mr->lkey != key || mr->pd != pd || (mr->access & right) != right)
        return nullptr;
    if (address < mr->iova || length > mr->length || address - mr->iova > mr->length - length)
        return nullptr;
    return static_cast<std::byte*>(mr->addr) + (address - mr->iova);
}

std::byte* find_local(const ibv_sge& sge, const ibv_pd* pd, unsigned right) noexcept {
    const std::size_t index = sge.lkey >> 8;
    if (index == 0 || index >= world().regions.size()) return nullptr;
    Mr* const mr = world().regions[index];
    return mr != nullptr ? find(sge.lkey, sge.addr, sge.length, pd, right) : nullptr;
}

bool all_local(const ibv_sge* sges, int count, const ibv_pd* pd, unsigned right) noexcept {
    for (int i = 0; i < count; ++i)
        if (sges[i].length != 0 && find_local(sges[i], pd, right) == nullptr) return false;
    return true;
}

std::uint64_t length_of(const ibv_sge* sges, int count) noexcept {
    std::uint64_t length = 0;
    for (int i = 0; i < count; ++i) length += sges[i].length;
    return length;
}

/// std::memcpy would be the C library's.
void move_bytes(std::byte* to, const std::byte* from, std::uint64_t length) noexcept {
    if (length == sizeof(std::uint64_t)) {
        __builtin_memcpy(to, from, sizeof(std::uint64_t));
        return;
    }
    if (length != 0) __builtin_memmove(to, from, length);  // null where there are none
}

// --- completions

void push(Cq& cq, const Entry& entry, bool solicited) noexcept {
    if (cq.size == cq.ring.size()) {
        violation("a completion queue overran");
        return;
    }
    std::size_t at = cq.head + cq.size++;
    if (at >= cq.ring.size()) at -= cq.ring.size();
    cq.ring[at] = entry;
    const bool told = solicited || entry.wc.status != IBV_WC_SUCCESS || !cq.armed_for_solicited;
    if (!cq.armed || !told || cq.channel == nullptr) return;
    cq.armed = false;
    auto* const channel = static_cast<CompletionChannel*>(cq.channel);
    channel->events.push_back(&cq);
    channel->ready.post();
}

ibv_wc_opcode wc_opcode(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
        case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
        case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
        case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
        default: return IBV_WC_SEND;
    }
}

void complete_send(Qp& qp, const Request& request, std::uint64_t number, ibv_wc_status status,
                   std::uint32_t length) noexcept {
    const bool signaled = qp.all_signaled || (request.flags & IBV_SEND_SIGNALED) != 0;
    if (!signaled && status == IBV_WC_SUCCESS) return;
    Entry entry{};
    entry.qp = &qp;
    entry.frees = number + 1;
    entry.wc.wr_id = request.wr_id;
    entry.wc.status = status;
    entry.wc.opcode = wc_opcode(request.opcode);
    entry.wc.qp_num = qp.qp_num;
    entry.wc.byte_len = length;
    if (status != IBV_WC_SUCCESS) entry.wc.vendor_err = world().next_vendor_error;
    push(*static_cast<Cq*>(qp.send_cq), entry, false);
}

ReceiveRing& receives_of(Qp& qp) noexcept {
    return qp.srq != nullptr ? static_cast<Srq*>(qp.srq)->receives : qp.receives;
}

Receive* next_receive(Qp& qp) noexcept {
    ReceiveRing& queue = receives_of(qp);
    return queue.head != queue.tail ? &queue.ring[queue.head % queue.ring.size()] : nullptr;
}

void complete_receive(Qp& qp, ibv_wc_status status, const Request* of,
                      std::uint64_t length) noexcept {
    ReceiveRing& queue = receives_of(qp);
    const Receive& receive = queue.ring[queue.head++ % queue.ring.size()];
    Entry entry{};
    entry.qp = &qp;
    entry.of_srq = qp.srq != nullptr;
    entry.wc.wr_id = receive.wr_id;
    entry.wc.status = status;
    entry.wc.opcode = IBV_WC_RECV;
    entry.wc.qp_num = qp.qp_num;
    entry.wc.byte_len = static_cast<std::uint32_t>(length);
    if (of != nullptr &&
        (of->opcode == IBV_WR_SEND_WITH_IMM || of->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)) {
        entry.wc.wc_flags = IBV_WC_WITH_IMM;
        entry.wc.imm_data = of->imm;
        if (of->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) entry.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    }
    push(*static_cast<Cq*>(qp.recv_cq), entry,
         of != nullptr && (of->flags & IBV_SEND_SOLICITED) != 0);
}

}  // namespace

void flush(Qp& qp) noexcept {
    for (; qp.send_head != qp.send_tail; ++qp.send_head)
        complete_send(qp, qp.sends[qp.send_head % qp.sends.size()], qp.send_head,
                      IBV_WC_WR_FLUSH_ERR, 0);
    if (qp.srq != nullptr) return;
    while (next_receive(qp) != nullptr) complete_receive(qp, IBV_WC_WR_FLUSH_ERR, nullptr, 0);
}

namespace {

void flush_at_once(Qp& qp) noexcept {
    if (qp.state == IBV_QPS_ERR && world().config.flushes_at_once) flush(qp);
}

// --- carrying out

enum class Outcome : std::uint8_t { done, waits, failed };
struct Result {
    Outcome outcome;
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint32_t length = 0;
    bool peer_fails = false;
};

Result failed(ibv_wc_status status, bool peer_fails = false) noexcept {
    return {Outcome::failed, status, 0, peer_fails};
}

bool takes_receive(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool is_message(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}
bool is_atomic(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
unsigned right_of(ibv_wr_opcode opcode) noexcept {
    if (opcode == IBV_WR_RDMA_READ) return IBV_ACCESS_REMOTE_READ;
    return is_atomic(opcode) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

void gather(std::byte* to, const ibv_sge* sges, int count) noexcept {
    for (int i = 0; i < count; ++i) {
        move_bytes(to, reinterpret_cast<const std::byte*>(sges[i].addr), sges[i].length);
        to += sges[i].length;
    }
}
void scatter(const std::byte* from, const ibv_sge* sges, int count) noexcept {
    for (int i = 0; i < count; ++i) {
        move_bytes(reinterpret_cast<std::byte*>(sges[i].addr), from, sges[i].length);
        from += sges[i].length;
    }
}

/// From elements to elements.
void transfer(const ibv_sge* from, int from_count, const ibv_sge* to, int to_count) noexcept {
    std::uint64_t from_done = 0;
    std::uint64_t to_done = 0;
    while (from_count != 0 && to_count != 0) {
        const std::uint64_t length =
            std::min<std::uint64_t>(from->length - from_done, to->length - to_done);
        move_bytes(reinterpret_cast<std::byte*>(to->addr) + to_done,
                   reinterpret_cast<const std::byte*>(from->addr) + from_done, length);
        from_done += length;
        to_done += length;
        if (from_done == from->length) ++from, --from_count, from_done = 0;
        if (to_count != 0 && to_done == to->length) ++to, --to_count, to_done = 0;
    }
}

Result carry_out_atomic(const Request& request, std::byte* remote, const ibv_sge& result) noexcept {
    std::uint64_t old = 0;
    auto* const at = reinterpret_cast<std::uint64_t*>(remote);
    old = *at;
    if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        *at = old + request.compare;
    else if (old == request.compare)
        *at = request.swap;
    move_bytes(reinterpret_cast<std::byte*>(result.addr), reinterpret_cast<std::byte*>(&old),
               sizeof old);
    return {Outcome::done, IBV_WC_SUCCESS, sizeof old};
}

Result carry_out_message(Qp& peer, const Request& request, const ibv_sge* sges,
                         std::uint64_t length) noexcept {
    const Receive& receive = *next_receive(peer);
    if (length_of(receive.sge.data(), receive.elements) < length) {
        complete_receive(peer, IBV_WC_LOC_LEN_ERR, nullptr, 0);
        return failed(IBV_WC_REM_INV_REQ_ERR, true);
    }
    if (!all_local(receive.sge.data(), receive.elements, peer.pd, IBV_ACCESS_LOCAL_WRITE)) {
        complete_receive(peer, IBV_WC_LOC_PROT_ERR, nullptr, 0);
        return failed(IBV_WC_REM_OP_ERR, true);
    }
    transfer(sges, request.elements, receive.sge.data(), receive.elements);
    complete_receive(peer, IBV_WC_SUCCESS, &request, length);
    return {Outcome::done, IBV_WC_SUCCESS, static_cast<std::uint32_t>(length)};
}

Result carry_out_remote(Qp& peer, const Request& request, const ibv_sge* sges,
                        std::uint64_t length) noexcept {
    const unsigned right = right_of(request.opcode);
    std::byte* remote = nullptr;
    if (length != 0) {
        if (is_atomic(request.opcode) && request.remote % sizeof(std::uint64_t) != 0)
            return failed(IBV_WC_REM_INV_REQ_ERR, true);
        if ((peer.access & right) == right)
            remote = find(request.rkey, request.remote, length, peer.pd, right);
        if (remote == nullptr) return failed(IBV_WC_REM_ACCESS_ERR, true);
    }
    if (is_atomic(request.opcode)) return carry_out_atomic(request, remote, *sges);
    if (request.opcode == IBV_WR_RDMA_READ)
        scatter(remote, sges, request.elements);
    else
        gather(remote, sges, request.elements);
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        complete_receive(peer, IBV_WC_SUCCESS, &request, length);
    return {Outcome::done, IBV_WC_SUCCESS, static_cast<std::uint32_t>(length)};
}

Result carry_out(Qp& qp, const Request& request, const ibv_sge* sges) noexcept {
    World& all = world();
    if (all.next_status != IBV_WC_SUCCESS) {
        const ibv_wc_status status = all.next_status;
        all.next_status = IBV_WC_SUCCESS;
        return failed(status);
    }
    const bool inlined = (request.flags & IBV_SEND_INLINE) != 0;
    const bool changes_here = request.opcode == IBV_WR_RDMA_READ || is_atomic(request.opcode);
    const unsigned right = changes_here ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0U;
    if (!inlined && !all_local(sges, request.elements, qp.pd, right))
        return failed(IBV_WC_LOC_PROT_ERR);
    Qp* const peer = qp.peer;
    if (peer == nullptr || peer->state == IBV_QPS_ERR) return failed(IBV_WC_RETRY_EXC_ERR);
    if (peer->state != IBV_QPS_RTS) return {Outcome::waits};
    const std::uint64_t length = length_of(sges, request.elements);
    if (takes_receive(request.opcode) && next_receive(*peer) == nullptr) {
        if (qp.rnr_retry == 7) return {Outcome::waits};
        return failed(IBV_WC_RNR_RETRY_EXC_ERR);
    }
    return is_message(request.opcode) ? carry_out_message(*peer, request, sges, length)
                                      : carry_out_remote(*peer, request, sges, length);
}

void run_sends(Qp& qp) noexcept {
    while (!world().paused && !world().dead && qp.state == IBV_QPS_RTS &&
           qp.send_head != qp.send_tail) {
        const std::uint64_t number = qp.send_head;
        const std::size_t place = number % qp.sends.size();
        const Request& request = qp.sends[place];
        const Result result =
            carry_out(qp, request, qp.send_sges.data() + place * qp.cap.max_send_sge);
        if (result.outcome == Outcome::waits) return;
        ++qp.send_head;
        complete_send(qp, request, number, result.status, result.length);
        if (result.outcome == Outcome::done) continue;
        if (Qp* const peer = qp.peer; peer != nullptr && result.peer_fails)
            set_state(*peer, IBV_QPS_ERR);
        set_state(qp, IBV_QPS_ERR);
    }
}

// --- posting

/// What drivers say no to.
int refusal(const Qp& qp, const ibv_send_wr& wr) noexcept {
    if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) return EINVAL;
    if (qp.send_tail - qp.send_freed == qp.sends.size()) return ENOMEM;
    if (static_cast<std::uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
    const std::uint64_t length = length_of(wr.sg_list, wr.num_sge);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0 && length > qp.cap.max_inline_data) return EINVAL;
    if (length > world().config.max_message) return EINVAL;
    return 0;
}

void take_inline(Qp& qp, std::size_t place, const ibv_send_wr& wr, ibv_sge* sges) noexcept {
    std::byte* to = qp.inlined.data() + place * qp.cap.max_inline_data;
    for (int i = 0; i < wr.num_sge; ++i) {
        move_bytes(to, reinterpret_cast<const std::byte*>(wr.sg_list[i].addr),
                   wr.sg_list[i].length);
        sges[i].addr = reinterpret_cast<std::uintptr_t>(to);
        to += wr.sg_list[i].length;
    }
}

void enqueue(Qp& qp, const ibv_send_wr& wr) noexcept {
    const std::size_t place = qp.send_tail++ % qp.sends.size();
    Request& request = qp.sends[place];
    request.wr_id = wr.wr_id;
    request.opcode = wr.opcode;
    request.flags = wr.send_flags;
    request.imm = wr.imm_data;
    request.elements = wr.num_sge;
    if (is_atomic(wr.opcode)) {
        request.remote = wr.wr.atomic.remote_addr;
        request.rkey = wr.wr.atomic.rkey;
        request.compare = wr.wr.atomic.compare_add;
        request.swap = wr.wr.atomic.swap;
    } else {
        request.remote = wr.wr.rdma.remote_addr;
        request.rkey = wr.wr.rdma.rkey;
    }
    ibv_sge* const sges = qp.send_sges.data() + place * qp.cap.max_send_sge;
    for (int i = 0; i < wr.num_sge; ++i) sges[i] = wr.sg_list[i];
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) take_inline(qp, place, wr, sges);
    world().last_request = {wr.opcode, wr.send_flags, wr.num_sge,
                            length_of(wr.sg_list, wr.num_sge)};
}

int post_send(ibv_qp* of, ibv_send_wr* wr, ibv_send_wr** bad) {
    const int injected = failure_of(Call::post_send);
    const Guard guard;
    Qp& qp = *static_cast<Qp*>(of);
    const bool rings_in_vain = world().config.iwarp && injected == ENOTCONN;  // as siw does
    int error = rings_in_vain ? 0 : injected;
    for (; error == 0 && wr != nullptr; wr = error == 0 ? wr->next : wr) {
        error = refusal(qp, *wr);
        if (error == 0) enqueue(qp, *wr);
    }
    // As rxe, which names none where its doorbell failed. siw would have taken them all.
    if (error != 0) *bad = injected != 0 && !world().config.iwarp ? nullptr : wr;
    flush_at_once(qp);
    run(qp);
    return rings_in_vain ? injected : error;
}

int enqueue_receive(ReceiveRing& queue, const ibv_recv_wr& wr) noexcept {
    if (queue.tail - queue.freed == queue.ring.size()) return ENOMEM;
    Receive& receive = queue.ring[queue.tail % queue.ring.size()];
    if (static_cast<std::size_t>(wr.num_sge) > receive.sge.size()) return EINVAL;
    receive.wr_id = wr.wr_id;
    receive.elements = wr.num_sge;
    for (int i = 0; i < wr.num_sge; ++i) receive.sge[static_cast<std::size_t>(i)] = wr.sg_list[i];
    ++queue.tail;
    return 0;
}

int enqueue_receives(ReceiveRing& queue, ibv_recv_wr* wr, ibv_recv_wr** bad, int error) noexcept {
    for (; error == 0 && wr != nullptr; wr = error == 0 ? wr->next : wr)
        error = enqueue_receive(queue, *wr);
    if (error != 0) *bad = wr;
    return error;
}

int post_recv(ibv_qp* of, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    const int injected = failure_of(Call::post_recv);
    const Guard guard;
    Qp& qp = *static_cast<Qp*>(of);
    const int error = enqueue_receives(qp.receives, wr, bad, injected);
    flush_at_once(qp);
    run(qp);
    return error;
}

int post_srq_recv(ibv_srq* of, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    const int injected = failure_of(Call::post_srq_recv);
    const Guard guard;
    const int error = enqueue_receives(static_cast<Srq*>(of)->receives, wr, bad, injected);
    for (Qp* const qp : world().qps)
        if (qp->srq == of) run(*qp);
    return error;
}

// --- polling

int poll_cq(ibv_cq* of, int room, ibv_wc* wc) {
    if (const int injected = failure_of(Call::poll_cq)) return -injected;
    const Guard guard;
    Cq& cq = *static_cast<Cq*>(of);
    int got = 0;
    for (; got < room && cq.size != 0; ++got, --cq.size) {
        const Entry& entry = cq.ring[cq.head];
        wc[got] = entry.wc;
        if (++cq.head == cq.ring.size()) cq.head = 0;
        if (entry.qp == nullptr) continue;
        if (entry.frees != 0)
            entry.qp->send_freed = entry.frees;
        else
            ++receives_of(*entry.qp).freed;
    }
    return got;
}

int req_notify_cq(ibv_cq* of, int solicited_only) {
    if (const int injected = failure_of(Call::req_notify)) return injected;
    const Guard guard;
    Cq& cq = *static_cast<Cq*>(of);
    cq.armed = true;
    cq.armed_for_solicited = solicited_only != 0;
    return 0;
}

}  // namespace

void set_data_path(ibv_context_ops& ops) noexcept {
    ops.post_send = post_send;
    ops.post_recv = post_recv;
    ops.post_srq_recv = post_srq_recv;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
}

void set_state(Qp& qp, ibv_qp_state state) noexcept {
    qp.state = state;
    flush_at_once(qp);
    run(qp);
}

/// One side's progress may be the other's.
void run(Qp& qp) noexcept {
    if (qp.running) return;
    qp.running = true;
    run_sends(qp);
    qp.running = false;
    Qp* const peer = qp.peer;
    if (peer == nullptr || peer->running || peer->send_head == peer->send_tail) return;
    peer->running = true;
    run_sends(*peer);
    peer->running = false;
}

}  // namespace compat::mock
