// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/limits.hpp"

#include <algorithm>
#include <array>

#include "core/device/verbs/handles.hpp"

namespace compat::core::verbs {
namespace {

// ibv_device_attr_ex, device_cap_flags_ex: newer than the oldest headers we build with.
constexpr std::uint64_t kCapFlushGlobal = std::uint64_t{1} << 38;
constexpr std::uint64_t kCapFlushPersistent = std::uint64_t{1} << 39;
constexpr std::uint64_t kCapAtomicWrite = std::uint64_t{1} << 40;

#ifdef COMPAT_HAVE_IBV_FLUSH
constexpr std::uint64_t kOpsFlush = IBV_QP_EX_WITH_FLUSH;
#else
constexpr std::uint64_t kOpsFlush = 0;
#endif
#ifdef COMPAT_HAVE_IBV_ATOMIC_WRITE
constexpr std::uint64_t kOpsAtomicWrite = IBV_QP_EX_WITH_ATOMIC_WRITE;
#else
constexpr std::uint64_t kOpsAtomicWrite = 0;
#endif
constexpr std::uint64_t kOpsPlain = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

// rdma_cm's limits: what the transport's private data leaves.
constexpr std::uint8_t kIbConnectData = 56;
constexpr std::uint8_t kIbAcceptData = 196;
constexpr std::uint8_t kIbRejectData = 148;
constexpr std::uint8_t kIwarpData = 251;  // the kernel counts MPA's four bytes with it in a byte

constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;

constexpr std::uint32_t kMostSge = 32;  // more than any program of the interfaces uses

/// Sizes to try for inline data; drivers round up and tell what it became.
constexpr std::array<std::uint32_t, 9> kInlineSizes{1024, 512, 256, 192, 128, 64, 32, 16, 8};

bool query_device(ibv_context& context, ibv_device_attr_ex& attr) noexcept {
    const ibv_query_device_ex_input input{};
    verbs_context* const extended = verbs_get_ctx_op(&context, query_device_ex);
    return extended != nullptr &&
           extended->query_device_ex(&context, &input, &attr, sizeof attr) == 0;
}

/// The largest message that every port takes. Errors: device.
Result<std::uint64_t> query_max_message(ibv_context& context, int ports) noexcept {
    verbs_context* const extended = verbs_get_ctx_op(&context, query_port);
    std::uint64_t most = kMaxMessage;
    for (int port = 1; extended != nullptr && port <= ports; ++port) {
        ibv_port_attr attr{};
        const auto number = static_cast<std::uint8_t>(port);
        const int rc = extended->query_port(&context, number, &attr, sizeof attr);
        if (rc != 0) return failure(Errc::device, errno_of(rc));
        if (attr.max_msg_sz != 0) most = std::min<std::uint64_t>(most, attr.max_msg_sz);
    }
    return most;
}

/// Creates queue pairs that nobody uses, to see what works.
class Prober {
public:
    explicit Prober(ibv_context& context) noexcept
        : context_(context),
          pd_(api().ibv_alloc_pd(&context)),
          cq_(api().ibv_create_cq(&context, 1, nullptr, nullptr, 0)) {}

    [[nodiscard]] bool ready() const noexcept { return pd_ && cq_; }

    [[nodiscard]] bool works(std::uint64_t ops) const noexcept {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = attr.recv_cq = cq_.get();
        attr.cap = {1, 1, 1, 1, 0};
        attr.qp_type = IBV_QPT_RC;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = pd_.get();
        attr.send_ops_flags = ops;
        verbs_context* const extended = verbs_get_ctx_op(&context_, create_qp_ex);
        if (extended == nullptr) return false;
        const QpHandle qp(extended->create_qp_ex(&context_, &attr));
        return qp != nullptr;
    }

    [[nodiscard]] std::uint32_t max_inline() const noexcept {
        for (const std::uint32_t size : kInlineSizes) {
            ibv_qp_init_attr attr{};
            attr.send_cq = attr.recv_cq = cq_.get();
            attr.cap = {1, 1, 1, 1, size};
            attr.qp_type = IBV_QPT_RC;
            const QpHandle qp(api().ibv_create_qp(pd_.get(), &attr));
            if (qp) return std::max(size, attr.cap.max_inline_data);
        }
        return 0;
    }

private:
    ibv_context& context_;
    PdHandle pd_;
    CqHandle cq_;
};

std::uint32_t positive(int value) noexcept {
    return static_cast<std::uint32_t>(std::max(value, 0));
}

void set_transport(Limits& limits, const ibv_device& device) noexcept {
    const bool iwarp = device.transport_type == IBV_TRANSPORT_IWARP;
    limits.transport = iwarp ? Transport::iwarp : Transport::infiniband;
    limits.imm_bytes = iwarp ? 0 : sizeof(std::uint32_t);
    limits.read_sink_needs_remote_write = iwarp;
    limits.max_connect_data = iwarp ? kIwarpData : kIbConnectData;
    limits.max_accept_data = iwarp ? kIwarpData : kIbAcceptData;
    limits.max_reject_data = iwarp ? kIwarpData : kIbRejectData;
}

void set_sizes(Limits& limits, const ibv_device_attr& attr) noexcept {
    // One slot of each send queue is ours, to see the end of what was posted before a disconnect.
    // And a completion queue has to hold all of them.
    limits.max_qp_wr = positive(std::min(attr.max_qp_wr, attr.max_cqe) - 1);
    limits.max_sge = std::min(positive(attr.max_sge), kMostSge);
    limits.max_sge_read = limits.max_sge;
    if (attr.max_sge_rd > 0)
        limits.max_sge_read = std::min(limits.max_sge_read, positive(attr.max_sge_rd));
    limits.max_cqe = positive(attr.max_cqe);
    limits.max_srq_wr = positive(attr.max_srq_wr);
    limits.max_rd_atomic = positive(std::min(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom));
}

}  // namespace

Result<Limits> query_limits(ibv_context& context) noexcept {
    ibv_device_attr_ex attr{};
    if (!query_device(context, attr)) return failure(Errc::device, errno);
    const auto max_message = query_max_message(context, attr.orig_attr.phys_port_cnt);
    if (!max_message) return failure(max_message.error());
    const Prober prober(context);
    if (!prober.ready()) return failure(Errc::device, errno);

    Limits limits;
    limits.name = api().ibv_get_device_name(context.device);
    set_transport(limits, *context.device);
    set_sizes(limits, attr.orig_attr);
    limits.max_inline = prober.max_inline();
    limits.max_message = *max_message;
    limits.atomics = attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
    constexpr std::uint64_t kFlushes = kCapFlushGlobal | kCapFlushPersistent;
    limits.flush = kOpsFlush != 0 && (attr.device_cap_flags_ex & kFlushes) == kFlushes &&
                   prober.works(kOpsPlain | kOpsFlush);
    limits.atomic_write = kOpsAtomicWrite != 0 &&
                          (attr.device_cap_flags_ex & kCapAtomicWrite) != 0 &&
                          prober.works(kOpsPlain | kOpsAtomicWrite);
    constexpr std::uint32_t kOdp = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    limits.on_demand_paging = (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                              (attr.odp_caps.per_transport_caps.rc_odp_caps & kOdp) == kOdp;
    return limits;
}

std::uint64_t send_ops_of(const Limits& limits) noexcept {
    const std::uint64_t more =
        (limits.flush ? kOpsFlush : 0) | (limits.atomic_write ? kOpsAtomicWrite : 0);
    return more != 0 ? kOpsPlain | more : 0;
}

}  // namespace compat::core::verbs
