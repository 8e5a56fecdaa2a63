// SPDX-License-Identifier: BSD-3-Clause
// libibverbs' functions: completion queues, shared receive queues, queue pairs.
#include <algorithm>
#include <cerrno>

#include "tests/support/verbs_mock/objects.hpp"

using namespace compat::mock;

namespace compat::mock {

Qp* create_qp(ibv_pd* pd, ibv_qp_init_attr_ex& attr) noexcept {
    const Config& config = world().config;
    const auto most = static_cast<std::uint32_t>(config.max_qp_wr);
    const auto sges = static_cast<std::uint32_t>(config.max_sge);
    const ibv_qp_cap& cap = attr.cap;
    if (cap.max_send_wr > most || cap.max_recv_wr > most || cap.max_send_sge > sges ||
        cap.max_recv_sge > sges || cap.max_inline_data > config.max_inline) {
        errno = EINVAL;
        return nullptr;
    }
    auto* const qp = new Qp{};
    qp->context = pd->context;
    qp->qp_context = attr.qp_context;
    qp->pd = pd;
    qp->send_cq = attr.send_cq;
    qp->recv_cq = attr.recv_cq;
    qp->srq = attr.srq;
    qp->qp_num = world().next_qp++;
    qp->state = IBV_QPS_RESET;
    qp->qp_type = attr.qp_type;
    qp->cap = cap;
    qp->all_signaled = attr.sq_sig_all != 0;
    qp->sends.resize(cap.max_send_wr);
    qp->send_sges.resize(std::size_t{cap.max_send_wr} * cap.max_send_sge);
    qp->inlined.resize(std::size_t{cap.max_send_wr} * cap.max_inline_data);
    qp->receives.ring.resize(cap.max_recv_wr);
    qp->access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    ++static_cast<Pd*>(pd)->children;
    ++static_cast<Cq*>(qp->send_cq)->users;
    ++static_cast<Cq*>(qp->recv_cq)->users;
    if (qp->srq != nullptr) ++static_cast<Srq*>(qp->srq)->users;
    world().qps.push_back(qp);
    count(Kind::qp, 1);
    return qp;
}

int destroy_qp(Qp& qp) noexcept {
    if (world().config.cleans_cq) {
        forget_completions(*static_cast<Cq*>(qp.send_cq), qp);
        forget_completions(*static_cast<Cq*>(qp.recv_cq), qp);
    } else {
        for (ibv_cq* const cq : {qp.send_cq, qp.recv_cq})
            for (Entry& entry : static_cast<Cq*>(cq)->ring)
                if (entry.qp == &qp) entry.qp = nullptr;
    }
    if (Qp* const peer = qp.peer) {
        peer->peer = nullptr;
        run(*peer);
    }
    --static_cast<Pd*>(qp.pd)->children;
    --static_cast<Cq*>(qp.send_cq)->users;
    --static_cast<Cq*>(qp.recv_cq)->users;
    if (qp.srq != nullptr) --static_cast<Srq*>(qp.srq)->users;
    std::erase(world().qps, &qp);
    count(Kind::qp, -1);
    delete &qp;
    return 0;
}

void forget_completions(Cq& cq, const Qp& qp) noexcept {
    std::size_t stays = 0;
    const auto at = [&](std::size_t position) -> Entry& {
        return cq.ring[(cq.head + position) % cq.ring.size()];
    };
    for (std::size_t i = 0; i < cq.size; ++i)
        if (at(i).qp != &qp)
            at(stays++) = at(i);
        else if (at(i).of_srq)
            ++static_cast<Srq*>(qp.srq)->receives.freed;
    cq.size = stays;
}

}  // namespace compat::mock

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* of, int depth, void* cq_context, ibv_comp_channel* channel,
                      int) {
    if (fails(Call::create_cq)) return nullptr;
    const Guard guard;
    if (depth < 1 || depth > config().max_cqe) {
        errno = EINVAL;
        return nullptr;
    }
    auto* const cq = new Cq{};
    cq->context = of;
    cq->channel = channel;
    cq->cq_context = cq_context;
    cq->cqe = depth;
    cq->ring.resize(static_cast<std::size_t>(depth));
    if (channel != nullptr) ++channel->refcnt;
    count(Kind::cq, 1);
    return cq;
}
int ibv_resize_cq(ibv_cq* cq, int depth) {
    if (const int error = failure_of(Call::resize_cq)) return error;
    if (!config().resizes_cq) return EOPNOTSUPP;
    const Guard guard;
    auto* const own = static_cast<Cq*>(cq);
    if (depth > config().max_cqe || static_cast<std::size_t>(depth) < own->size) return EINVAL;
    std::vector<Entry> ring(static_cast<std::size_t>(depth));
    for (std::size_t i = 0; i < own->size; ++i)
        ring[i] = own->ring[(own->head + i) % own->ring.size()];
    own->ring.swap(ring);
    own->head = 0;
    own->cqe = depth;
    return 0;
}
int ibv_destroy_cq(ibv_cq* cq) {
    const Guard guard;
    auto* const own = static_cast<Cq*>(cq);
    if (own->users != 0) {
        violation("a completion queue in use was destroyed");
        return EBUSY;
    }
    if (cq->channel != nullptr) {
        auto* const channel = static_cast<CompletionChannel*>(cq->channel);
        for (auto left = std::erase(channel->events, own); left != 0; --left)
            channel->ready.withdraw();
        --channel->refcnt;
    }
    if (own->unacknowledged != 0) violation("a queue with unacknowledged events was destroyed");
    count(Kind::cq, -1);
    delete own;
    return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
    if (fails(Call::create_srq)) return nullptr;
    const Guard guard;
    if (attr->attr.max_wr > static_cast<std::uint32_t>(config().max_srq_wr)) {
        errno = EINVAL;
        return nullptr;
    }
    auto* const srq = new Srq{};
    srq->context = pd->context;
    srq->pd = pd;
    srq->receives.ring.resize(attr->attr.max_wr);
    ++static_cast<Pd*>(pd)->children;
    count(Kind::srq, 1);
    return srq;
}
int ibv_destroy_srq(ibv_srq* srq) {
    const Guard guard;
    auto* const own = static_cast<Srq*>(srq);
    if (own->users != 0) {
        violation("a shared receive queue in use was destroyed");
        return EBUSY;
    }
    --static_cast<Pd*>(srq->pd)->children;
    count(Kind::srq, -1);
    delete own;
    return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
    if (fails(Call::create_qp)) return nullptr;
    const Guard guard;
    ibv_qp_init_attr_ex extended{};
    extended.qp_context = attr->qp_context;
    extended.send_cq = attr->send_cq;
    extended.recv_cq = attr->recv_cq;
    extended.srq = attr->srq;
    extended.cap = attr->cap;
    extended.qp_type = attr->qp_type;
    extended.sq_sig_all = attr->sq_sig_all;
    return create_qp(pd, extended);
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    if (const int error = failure_of(Call::modify_qp)) return error;
    if (world().dead) return EIO;
    const Guard guard;
    auto* const own = static_cast<Qp*>(qp);
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0) own->access = attr->qp_access_flags;
    if ((mask & IBV_QP_STATE) != 0) set_state(*own, attr->qp_state);
    return 0;
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
    const Guard guard;
    *attr = {};
    *init = {};
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->cap = init->cap = static_cast<Qp*>(qp)->cap;
    init->send_cq = qp->send_cq;
    init->recv_cq = qp->recv_cq;
    init->srq = qp->srq;
    init->qp_type = qp->qp_type;
    return 0;
}
int ibv_destroy_qp(ibv_qp* qp) {
    const Guard guard;
    return destroy_qp(*static_cast<Qp*>(qp));
}
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp*) {
    errno = EOPNOTSUPP;
    return nullptr;
}

}  // extern "C"
