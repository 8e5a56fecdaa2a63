// SPDX-License-Identifier: BSD-3-Clause
// libibverbs' functions: the device and its objects.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/verbs_mock/objects.hpp"

using namespace compat::mock;

// The headers make macros of some.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

namespace {

constexpr int kPorts = 1;

ibv_device_attr device_attr() noexcept {
    const Config& config = world().config;
    ibv_device_attr attr{};
    std::strcpy(attr.fw_ver, "1.0");
    attr.node_guid = attr.sys_image_guid = 1;
    attr.max_mr_size = UINT64_MAX;
    attr.page_size_cap = 4096;
    attr.max_qp = 1024;
    attr.max_qp_wr = config.max_qp_wr;
    attr.max_sge = config.max_sge;
    attr.max_sge_rd = config.max_sge_rd;
    attr.max_cq = 1024;
    attr.max_cqe = config.max_cqe;
    attr.max_mr = 1 << 20;
    attr.max_pd = 1024;
    attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = config.max_rd_atomic;
    attr.max_res_rd_atom = config.max_rd_atomic * attr.max_qp;
    attr.atomic_cap = config.iwarp ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
    attr.max_srq = 1024;
    attr.max_srq_wr = config.max_srq_wr;
    attr.max_srq_sge = config.max_sge;
    attr.max_pkeys = 1;
    attr.phys_port_cnt = kPorts;
    return attr;
}

ibv_port_attr port_attr() noexcept {
    ibv_port_attr attr{};
    attr.state = IBV_PORT_ACTIVE;
    attr.max_mtu = attr.active_mtu = IBV_MTU_4096;
    attr.gid_tbl_len = 1;
    attr.max_msg_sz = world().config.max_message;
    attr.pkey_tbl_len = 1;
    attr.lid = 1;
    attr.active_width = 2;
    attr.active_speed = 32;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    return attr;
}

int query_device_ex(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr,
                    size_t size) {
    if (fails(Call::query_device)) return errno;
    ibv_device_attr_ex all{};
    all.orig_attr = device_attr();
    if (world().config.on_demand_paging) {
        all.odp_caps.general_caps = IBV_ODP_SUPPORT;
        all.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                                      IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    }
    std::memcpy(static_cast<void*>(attr), &all, std::min(size, sizeof all));
    return 0;
}

int query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr, size_t size) {
    if (fails(Call::query_port)) return errno;
    const ibv_port_attr all = port_attr();
    std::memcpy(attr, &all, std::min(size, sizeof all));
    return 0;
}

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attr) {
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (fails(Call::create_qp)) return nullptr;
    const Guard guard;
    return create_qp(attr->pd, *attr);
}

int advise_mr(ibv_pd*, ibv_advise_mr_advice, std::uint32_t, ibv_sge*, std::uint32_t) {
    if (fails(Call::advise_mr)) return errno;
    return world().config.on_demand_paging ? 0 : EOPNOTSUPP;
}

ibv_context* context() noexcept {
    World& all = world();
    const Guard guard;
    verbs_context& made = all.context;
    if (made.sz != 0) return &made.context;
    all.device.node_type = all.config.iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    all.device.transport_type = all.config.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    made.sz = sizeof made;
    made.query_device_ex = query_device_ex;
    made.query_port = query_port;
    made.create_qp_ex = create_qp_ex;
    made.advise_mr = advise_mr;
    made.context.device = &all.device;
    made.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    made.context.async_fd = all.async_ready.fd();
    made.context.cmd_fd = -1;
    made.context.num_comp_vectors = 1;
    set_data_path(made.context.ops);
    return &made.context;
}

/// Whether the mapping may be used so. Only what is easily known: nothing at all, and the zero
/// page.
bool mapped(const void* address, std::size_t length) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    return begin >= 4096 && begin + length >= begin;
}

}  // namespace

extern "C" {

// --- devices

ibv_device** ibv_get_device_list(int* count) {
    auto** const list = new ibv_device* [2] { context()->device, nullptr };
    if (count != nullptr) *count = 1;
    return list;
}
void ibv_free_device_list(ibv_device** list) {
    delete[] list;
}
const char* ibv_get_device_name(ibv_device* device) {
    return device->name;
}
__be64 ibv_get_device_guid(ibv_device*) {
    return 1;
}
ibv_context* ibv_open_device(ibv_device*) {
    return context();
}
int ibv_close_device(ibv_context*) {
    return 0;
}
int ibv_fork_init() {
    return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
    if (fails(Call::query_device)) return errno;
    *attr = device_attr();
    return 0;
}
int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* attr) {
    if (fails(Call::query_port)) return errno;
    const ibv_port_attr all = port_attr();
    std::memcpy(static_cast<void*>(attr), &all, offsetof(ibv_port_attr, link_layer));
    return 0;
}
int ibv_query_gid(ibv_context*, std::uint8_t, int, ibv_gid* gid) {
    *gid = {};
    gid->raw[10] = gid->raw[11] = 0xff;
    gid->raw[12] = 127;
    gid->raw[15] = 1;
    return 0;
}
int ibv_query_pkey(ibv_context*, std::uint8_t, int, __be16* pkey) {
    *pkey = 0xffff;
    return 0;
}
int ibv_get_async_event(ibv_context*, ibv_async_event* event) {
    if (!world().async_ready.take()) return -1;
    const Guard guard;
    *event = world().async_events.front();
    world().async_events.pop_front();
    return 0;
}
void ibv_ack_async_event(ibv_async_event*) {}

// --- protection domains and regions

ibv_pd* ibv_alloc_pd(ibv_context* of) {
    if (fails(Call::alloc_pd)) return nullptr;
    auto* const pd = new Pd{};
    pd->context = of;
    count(Kind::pd, 1);
    return pd;
}
int ibv_dealloc_pd(ibv_pd* pd) {
    const Guard guard;
    auto* const own = static_cast<Pd*>(pd);
    if (own->children != 0) {
        violation("a protection domain in use was deallocated");
        return EBUSY;
    }
    count(Kind::pd, -1);
    delete own;
    return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, std::uint64_t iova,
                         unsigned access) {
    if (fails(Call::reg_mr)) return nullptr;
    const bool changes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    const bool refused = (changes && (access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
                         ((access & IBV_ACCESS_ON_DEMAND) != 0 && !config().on_demand_paging);
    if (refused || !mapped(address, length)) {
        errno = refused ? EINVAL : EFAULT;
        return nullptr;
    }
    const Guard guard;
    World& all = world();
    auto* const mr = new Mr{};
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = address;
    mr->length = length;
    mr->iova = iova;
    mr->access = all.last_access = access;
    auto place = std::find(all.regions.begin() + 1, all.regions.end(), nullptr);
    if (place == all.regions.end()) place = all.regions.insert(place, nullptr);
    *place = mr;
    const auto index = static_cast<std::uint32_t>(place - all.regions.begin());
    mr->lkey = mr->rkey = index << 8 | (++all.generation & 0xff);
    ++static_cast<Pd*>(pd)->children;
    count(Kind::mr, 1);
    return mr;
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, std::uint64_t iova, int access) {
    return ibv_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
    return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                            static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, size_t, std::uint64_t, int, int) {
    errno = EOPNOTSUPP;
    return nullptr;
}
int ibv_dereg_mr(ibv_mr* mr) {
    const Guard guard;
    --static_cast<Pd*>(mr->pd)->children;
    world().regions[mr->lkey >> 8] = nullptr;
    count(Kind::mr, -1);
    delete static_cast<Mr*>(mr);
    return 0;
}

// --- address handles: of datagrams, which there are none of

ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*) {
    errno = EOPNOTSUPP;
    return nullptr;
}
int ibv_destroy_ah(ibv_ah*) {
    return EINVAL;
}

// --- completion channels

ibv_comp_channel* ibv_create_comp_channel(ibv_context* of) {
    if (fails(Call::create_channel)) return nullptr;
    auto* const channel = new CompletionChannel{};
    channel->context = of;
    channel->fd = channel->ready.fd();
    count(Kind::completion_channel, 1);
    return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    const Guard guard;
    if (channel->refcnt != 0) {
        violation("a completion channel in use was destroyed");
        return EBUSY;
    }
    count(Kind::completion_channel, -1);
    delete static_cast<CompletionChannel*>(channel);
    return 0;
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
    if (fails(Call::get_cq_event)) return -1;
    auto* const own = static_cast<CompletionChannel*>(channel);
    if (!own->ready.take()) return -1;
    const Guard guard;
    Cq* const front = own->events.front();
    own->events.pop_front();
    ++front->unacknowledged;
    *cq = front;
    *cq_context = front->cq_context;
    return 0;
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned events) {
    const Guard guard;
    auto* const own = static_cast<Cq*>(cq);
    if (events > own->unacknowledged) violation("more events were acknowledged than taken");
    own->unacknowledged -= events;
}

// --- texts

const char* ibv_wc_status_str(ibv_wc_status) {
    return "status";
}
const char* ibv_node_type_str(ibv_node_type) {
    return "node type";
}
const char* ibv_port_state_str(ibv_port_state) {
    return "port state";
}
const char* ibv_event_type_str(ibv_event_type) {
    return "event";
}

}  // extern "C"
