// SPDX-License-Identifier: BSD-3-Clause
// fi_compat/endpoint.cpp, ep_cm.cpp, msg.cpp, cntr.cpp: binding, enabling, connecting, counting.
#include <cstring>

#include "tests/support/new_failure.hpp"
#include "tests/support/stderr.hpp"
#include "tests/unit/fi/ep_rig.hpp"

namespace compat::fi {
namespace {

using core::CmEventType;

void what_is_missing_is_told_when_it_is_enabled(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr),
                     -FI_EOPBADSTATE);
    assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 8, nullptr, 0, nullptr), -FI_EOPBADSTATE);
    assert_int_equal(fi_enable(rig.ep), -FI_ENOEQ);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 1), -FI_EBADFLAGS);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 0), 0);
    assert_int_equal(fi_enable(rig.ep), -FI_ENOCQ);
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t flag = std::uint64_t{1} << bit;
        if ((flag & (FI_TRANSMIT | FI_RECV)) != 0) continue;
        assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, flag), -FI_EBADFLAGS);
    }
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_enable(rig.ep), -FI_ENOCQ);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.domain->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_enable(rig.ep), 0);
    assert_int_equal(fi_enable(rig.ep), -FI_EOPBADSTATE);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 0), -FI_EOPBADSTATE);
    assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr),
                     -FI_ENOTCONN);
}

void receives_wait_for_the_connection(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(rig.ep), 0);
    for (int at = 0; at < 8; ++at)
        assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 8, nullptr, 0, &rig.marker), 0);
    assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 8, nullptr, 0, &rig.marker), -FI_EAGAIN);
    assert_int_equal(rig.ep->ops->rx_size_left(rig.ep), 0);
    assert_int_equal(fi_cancel(&rig.ep->fid, &rig.marker), 0);
    assert_int_equal(rig.error().err, FI_ECANCELED);
    rig.connect();
    assert_int_equal(rig.qp().posted_receives.size(), 7);
    assert_int_equal(fi_cancel(&rig.ep->fid, rig.memory.data()), -FI_ENOENT);
    assert_int_equal(fi_cancel(&rig.ep->fid, &rig.marker), -FI_EOPNOTSUPP);
}

void cancelling_is_refused_when_nobody_reads_what_it_leaves(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(rig.ep), 0);
    constexpr int kMost = 1'000'000;
    int entries = 0;
    ssize_t answer = 0;
    for (; answer == 0 && entries < kMost; entries += answer == 0 ? 1 : 0) {
        assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 8, nullptr, 0, &rig.marker), 0);
        answer = fi_cancel(&rig.ep->fid, &rig.marker);
    }
    assert_int_equal(answer, -FI_EAGAIN);
    // The receive is still there, and everything goes on as soon as the program reads.
    assert_int_equal(rig.error().err, FI_ECANCELED);
    assert_int_equal(fi_cancel(&rig.ep->fid, &rig.marker), 0);
    for (; entries != 0; --entries) assert_int_equal(rig.error().err, FI_ECANCELED);
    assert_int_equal(fi_cancel(&rig.ep->fid, &rig.marker), -FI_ENOENT);
}

void the_queue_pair_is_as_the_info_says(void**) {
    const struct {
        std::uint64_t mode;
        bool device_can;
        bool without_receive;
    } rows[] = {{0, true, true}, {FI_RX_CQ_DATA, true, false}, {0, false, false}};
    for (const auto& row : rows) {
        EpRig rig;
        rig.device.current_limits.imm_without_receive = row.device_can;
        rig.open({.mode = row.mode});
        const core::QpAttr& attr = rig.qp().attr;
        assert_int_equal(attr.imm_without_receive, row.without_receive);
        assert_int_equal(attr.send_depth, 33);
        assert_int_equal(attr.receive_depth, 8);
        assert_int_equal(attr.max_inline, 64);
        assert_int_equal(attr.max_receive_sge, kIov);
    }
}

void peers_may_do_what_the_capabilities_name(void**) {
    const struct {
        std::uint64_t caps;
        core::AccessFlags access;
    } rows[] = {
        {FI_MSG | FI_RMA, core::kRemoteAccess},
        {FI_MSG | FI_RMA | FI_REMOTE_READ, core::Access::remote_read},
        {FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE,
         core::Access::remote_write | core::Access::remote_atomic},
        {FI_MSG | FI_RMA | FI_READ | FI_WRITE, {}},
        {FI_MSG, {}},
    };
    for (const auto& row : rows) {
        EpRig rig;
        rig.open({.caps = row.caps});
        assert_int_equal(rig.qp().attr.access.bits(),
                         (row.access | core::Access::read_source).bits());
    }
}

/// Private data as libfabric programs get them across.
std::string framed(const std::string& data) {
    return static_cast<char>(data.size()) + data;
}

void each_outcome_of_connecting_is_its_event(void**) {
    const struct {
        CmEventType type;
        const char* data;
        int err;
    } rows[] = {
        {CmEventType::rejected, "no", FI_ECONNREFUSED},
        {CmEventType::rejected, "", FI_ECONNREFUSED},
        {CmEventType::unreachable, "", FI_ETIMEDOUT},
        {CmEventType::connect_error, "", FI_ECONNRESET},
        {CmEventType::disconnected, "", FI_ECONNRESET},
        {CmEventType::device_removed, "", FI_ENODEV},
    };
    for (const auto& row : rows) {
        EpRig rig;
        rig.open({.connected = false});
        fi_ep_bind(rig.ep, &rig.eq->fid, 0);
        fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
        const sockaddr_in address = EpRig::target_address();
        assert_int_equal(fi_connect(rig.ep, &address, "hello", 5), 0);
        assert_string_equal(rig.id().private_data.c_str(), framed("hello").c_str());
        rig.id().deliver(row.type, framed(row.data));
        assert_int_equal(rig.event(), -FI_EAVAIL);
        const fi_eq_err_entry error = rig.event_error();
        assert_int_equal(error.err, row.err);
        assert_ptr_equal(error.fid, &rig.ep->fid);
        assert_ptr_equal(error.context, &rig.marker);
        assert_int_equal(error.err_data_size, std::strlen(row.data));
        assert_int_equal(std::memcmp(error.err_data_size != 0 ? error.err_data : "", row.data,
                                     error.err_data_size),
                         0);
        assert_int_equal(fi_connect(rig.ep, &address, nullptr, 0), -FI_EOPBADSTATE);
    }
}

void who_asks_is_told_why_there_is_no_connection(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    fi_ep_bind(rig.ep, &rig.eq->fid, 0);
    fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
    const sockaddr_in address = EpRig::target_address();
    assert_int_equal(fi_connect(rig.ep, &address, nullptr, 0), 0);
    rig.id().deliver(CmEventType::rejected);
    setenv("FABRIC_COMPAT_EXPLAIN", "1", 1);
    const std::string text = stderr_of([&] { rig.event(); });
    unsetenv("FABRIC_COMPAT_EXPLAIN");
    assert_true(text.find("no connection to 127.0.0.1:7204: nobody listens there") != text.npos);
}

void a_peer_that_cannot_be_reached_is_an_event(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    fi_ep_bind(rig.ep, &rig.eq->fid, 0);
    fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
    const sockaddr_in address = EpRig::target_address();
    rig.device.fail(test::Call::resolve, 1, {core::Errc::unreachable});
    assert_int_equal(fi_connect(rig.ep, &address, nullptr, 0), 0);
    assert_int_equal(rig.event(), -FI_EAVAIL);
    assert_int_equal(rig.event_error().err, FI_EHOSTUNREACH);
}

void a_device_that_fails_while_connecting_is_told_at_once(void**) {
    for (const test::Call failing :
         {test::Call::create_cm_id, test::Call::create_qp, test::Call::connect}) {
        EpRig rig;
        rig.open({.connected = false});
        fi_ep_bind(rig.ep, &rig.eq->fid, 0);
        fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
        const sockaddr_in address = EpRig::target_address();
        rig.device.fail(failing, 1, {core::Errc::no_memory});
        assert_int_equal(fi_connect(rig.ep, &address, nullptr, 0), -FI_ENOMEM);
        assert_int_equal(rig.event(), -FI_EAGAIN);
    }
}

void the_data_of_an_answer_comes_with_the_event(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    fi_ep_bind(rig.ep, &rig.eq->fid, 0);
    fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
    const sockaddr_in address = EpRig::target_address();
    const std::string longest(55, 'x');  // InfiniBand's 56 less the byte in front
    std::size_t size = 0;
    std::size_t length = sizeof size;
    assert_int_equal(fi_getopt(&rig.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &length),
                     0);
    assert_int_equal(size, longest.size());
    assert_int_equal(fi_connect(rig.ep, &address, longest.data(), longest.size() + 1), -FI_EINVAL);
    assert_int_equal(fi_connect(rig.ep, &address, longest.data(), longest.size()), 0);
    rig.id().deliver(CmEventType::established, framed("welcome"));
    assert_int_equal(rig.event(), FI_CONNECTED);
    assert_int_equal(rig.last_size, sizeof(fi_eq_cm_entry) + 7);
    const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(rig.last_event.data());
    assert_ptr_equal(entry->fid, &rig.ep->fid);
    assert_int_equal(std::memcmp(entry->data, "welcome", 7), 0);
}

/// InfiniBand pads them with zeros; a peer that is no libfabric program may send anything.
void private_data_are_as_many_as_the_byte_in_front_says_and_have_come(void**) {
    const struct {
        std::string sent;
        std::string wanted;
    } rows[] = {
        {framed("welcome") + std::string(100, '\0'), "welcome"},
        {std::string(196, '\0'), ""},
        {"\x20short", "short"},
        {"\xff", ""},
        {"", ""},
    };
    for (const auto& row : rows) {
        EpRig rig;
        rig.open({.connected = false});
        fi_ep_bind(rig.ep, &rig.eq->fid, 0);
        fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
        const sockaddr_in address = EpRig::target_address();
        assert_int_equal(fi_connect(rig.ep, &address, nullptr, 0), 0);
        rig.id().deliver(CmEventType::established, row.sent);
        assert_int_equal(rig.event(), FI_CONNECTED);
        assert_int_equal(rig.last_size, sizeof(fi_eq_cm_entry) + row.wanted.size());
        const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(rig.last_event.data());
        assert_int_equal(std::memcmp(entry->data, row.wanted.data(), row.wanted.size()), 0);
    }
}

void the_end_of_a_connection_is_one_event(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    rig.id().deliver(CmEventType::disconnected);
    assert_int_equal(rig.event(), FI_SHUTDOWN);
    assert_int_equal(rig.event(), -FI_EAGAIN);
    assert_int_equal(fi_shutdown(rig.ep, 0), -FI_ENOTCONN);
    std::size_t length = 0;
    assert_int_equal(fi_getpeer(rig.ep, nullptr, &length), -FI_ENOTCONN);
}

void events_of_a_connection_need_no_memory(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    fi_ep_bind(rig.ep, &rig.eq->fid, 0);
    fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
    const sockaddr_in address = EpRig::target_address();
    assert_int_equal(fi_connect(rig.ep, &address, nullptr, 0), 0);
    rig.id().deliver(CmEventType::established, framed("welcome"));
    test::fail_new(1);
    const long connected = rig.event();
    test::fail_new(0);
    assert_int_equal(connected, FI_CONNECTED);
    assert_int_equal(rig.last_size, sizeof(fi_eq_cm_entry) + std::strlen("welcome"));
    rig.id().deliver(CmEventType::disconnected);
    test::fail_new(1);
    const long shut_down = rig.event();
    test::fail_new(0);
    assert_int_equal(shut_down, FI_SHUTDOWN);
}

void closing_takes_the_endpoints_events_along(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    rig.id().deliver(CmEventType::disconnected);
    assert_int_equal(fi_close(&rig.ep->fid), 0);
    rig.ep = nullptr;
    assert_int_equal(rig.event(), -FI_EAGAIN);
    assert_int_equal(rig.device.qps().size(), 0);
    assert_int_equal(rig.device.cm_ids().size(), 0);
}

void counters_may_stand_in_for_queues(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.caps = FI_RMA | FI_RMA_EVENT, .connected = false});
    fi_cntr_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &rig.cntr, nullptr), 0);
    fi_ep_bind(rig.ep, &rig.eq->fid, 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cntr->fid, 0), -FI_EBADFLAGS);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cntr->fid, FI_WRITE | FI_MULTI_RECV), -FI_EBADFLAGS);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cntr->fid, FI_WRITE | FI_REMOTE_WRITE), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cntr->fid, FI_WRITE), -FI_EINVAL);
    rig.connect();
    assert_int_equal(fi_inject_write(rig.ep, rig.memory.data(), 8, 0, 0, 1), 0);
    assert_true(rig.is_signaled());
    assert_int_equal(fi_cntr_read(rig.cntr), 0);
    rig.finish();
    assert_int_equal(fi_cntr_wait(rig.cntr, 1, 0), 0);
    assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr), 0);
    assert_int_equal(fi_cntr_wait(rig.cntr, 2, 0), -FI_ETIMEDOUT);
    rig.finish(core::WcStatus::remote_access_error);
    assert_int_equal(fi_cntr_wait(rig.cntr, 2, 1000), -FI_EAVAIL);
    assert_int_equal(fi_cntr_readerr(rig.cntr), 1);
    assert_non_null(rig.qp().observer);
    rig.qp().observer->remote_access(core::Opcode::write, 8);
    assert_int_equal(fi_cntr_read(rig.cntr), 2);
    // Reads are not counted here.
    assert_int_equal(fi_read(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr), 0);
    rig.finish();
    assert_int_equal(fi_cntr_read(rig.cntr), 2);
}

void counters_of_peers_need_the_capability(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.caps = FI_MSG | FI_RMA, .connected = false});
    fi_cntr_attr attr{};
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &rig.cntr, nullptr), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cntr->fid, FI_REMOTE_READ), -FI_ENOSYS);
    fid_cntr* other = nullptr;
    attr.flags = 1;
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &other, nullptr), -FI_EINVAL);
    attr = {};
    set_enum(attr.events, 77);
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &other, nullptr), -FI_EINVAL);
    attr = {};
    set_enum(attr.wait_obj, 77);
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &other, nullptr), -FI_EINVAL);
}

void aliases_share_all_but_their_flags(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.bind = FI_SELECTIVE_COMPLETION});
    fid_ep* alias = nullptr;
    assert_int_equal(fi_ep_alias(rig.ep, &alias, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
    assert_int_equal(fi_ep_alias(rig.ep, &alias, FI_TRANSMIT | FI_MORE), -FI_EBADFLAGS);
    assert_int_equal(fi_ep_alias(rig.ep, &alias, FI_TRANSMIT | FI_COMPLETION), 0);
    assert_int_equal(fi_write(alias, rig.memory.data(), 8, nullptr, 0, 0, 1, &rig.marker), 0);
    rig.finish();
    rig.entry();
    assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, &rig.marker), 0);
    rig.finish();
    rig.nothing();
    assert_int_equal(fi_close(&rig.ep->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&alias->fid), 0);
}

void options_are_lowered_before_it_is_enabled(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    struct ::fid* fid = &rig.ep->fid;
    std::size_t size = 0;
    std::size_t length = sizeof size;
    for (const int name : {FI_OPT_TX_SIZE, FI_OPT_RX_SIZE, FI_OPT_MAX_MSG_SIZE, FI_OPT_MAX_RMA_SIZE,
                           FI_OPT_INJECT_MSG_SIZE, FI_OPT_INJECT_RMA_SIZE, FI_OPT_CM_DATA_SIZE,
                           FI_OPT_MIN_MULTI_RECV})
        assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, name, &size, &length), 0);
    size = kInject + 1;
    assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_RMA_SIZE, &size, sizeof size),
                     -FI_EINVAL);
    size = 16;
    assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_RMA_SIZE, &size, sizeof size),
                     0);
    fi_ep_bind(rig.ep, &rig.eq->fid, 0);
    fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV);
    rig.connect();
    assert_int_equal(fi_inject_write(rig.ep, rig.memory.data(), 17, 0, 0, 1), -FI_EMSGSIZE);
    assert_int_equal(fi_inject(rig.ep, rig.memory.data(), 17, 0), 0);
    assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_RMA_SIZE, &size, sizeof size),
                     -FI_EOPBADSTATE);
    assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, sizeof size), 0);
}

void messages_become_sends(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    const iovec iov[] = {{rig.memory.data(), 4}, {rig.memory.data() + 50, 4}};
    fi_msg message{};
    message.msg_iov = iov;
    message.iov_count = 2;
    message.data = 5;
    assert_int_equal(fi_send(rig.ep, rig.memory.data(), 8, nullptr, 0, &rig.marker), 0);
    assert_int_equal(rig.last().request.opcode, core::Opcode::send);
    rig.finish();
    assert_int_equal(rig.entry().flags, FI_MSG | FI_SEND);
    assert_int_equal(fi_sendv(rig.ep, iov, nullptr, 2, 0, nullptr), 0);
    assert_int_equal(rig.last().sges.size(), 2);
    assert_int_equal(fi_sendmsg(rig.ep, &message, FI_REMOTE_CQ_DATA), 0);
    assert_int_equal(rig.last().request.opcode, core::Opcode::send_imm);
    assert_int_equal(rig.last().request.imm, 5);
    assert_int_equal(fi_senddata(rig.ep, rig.memory.data(), 8, nullptr, 6, 0, nullptr), 0);
    assert_int_equal(rig.last().request.imm, 6);
    assert_int_equal(fi_inject(rig.ep, rig.memory.data(), 8, 0), 0);
    assert_true(rig.last().request.flags.has(core::SendFlag::inlined));
    assert_int_equal(fi_injectdata(rig.ep, rig.memory.data(), 8, 7, 0), 0);
    assert_int_equal(rig.last().request.imm, 7);
    assert_int_equal(fi_sendmsg(rig.ep, &message, FI_MULTI_RECV), -FI_EBADFLAGS);
    assert_int_equal(fi_recvmsg(rig.ep, &message, FI_FENCE), -FI_EBADFLAGS);
    assert_int_equal(fi_recvmsg(rig.ep, &message, FI_MULTI_RECV), -FI_EINVAL);
    assert_int_equal(fi_recvv(rig.ep, iov, nullptr, kIov + 1, 0, nullptr), -FI_EINVAL);
}

void what_an_endpoint_does_not_offer_says_so(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    assert_non_null(rig.ep->tagged);
    assert_non_null(rig.ep->atomic);
    assert_non_null(rig.ep->collective);
    assert_int_equal(rig.ep->tagged->send(rig.ep, nullptr, 0, nullptr, 0, 0, nullptr), -FI_ENOSYS);
    assert_int_equal(fi_control(&rig.ep->fid, FI_BACKLOG, nullptr), -FI_ENOSYS);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 0), -FI_EOPBADSTATE);
    assert_int_equal(fi_accept(rig.ep, nullptr, 0), -FI_EOPBADSTATE);
}

}  // namespace
// The queue has more than one wait looks at, of nobody, and then what is waited for; no event tells
// of it. A wait that slept would end with its time.
void waiting_for_a_counter_goes_through_all_that_has_completed(void** state) {
    constexpr int kNobodys = 2000;
    EpRig& rig = rig_of(state);
    rig.open({.connected = false});
    fi_cntr_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &rig.cntr, nullptr), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(rig.ep, &rig.cntr->fid, FI_WRITE), 0);
    rig.connect();
    assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr), 0);
    auto& queue = static_cast<test::FakeCq&>(*rig.qp().attr.send_cq);
    core::WorkCompletion wc;
    wc.receive_side = true;
    for (int count = 0; count < kNobodys; ++count) queue.push(wc);
    rig.finish();
    fid* const waited[] = {&rig.cntr->fid};
    assert_int_equal(fi_trywait(rig.fabric, const_cast<fid**>(waited), 1), -FI_EAGAIN);
    assert_int_equal(fi_cntr_read(rig.cntr), 0);
    assert_int_equal(fi_cntr_wait(rig.cntr, 1, 3000), 0);
}

}  // namespace compat::fi

int main() {
    using namespace compat::fi;
    const CMUnitTest tests[] = {
        RIGGED(what_is_missing_is_told_when_it_is_enabled),
        RIGGED(receives_wait_for_the_connection),
        RIGGED(cancelling_is_refused_when_nobody_reads_what_it_leaves),
        cmocka_unit_test(the_queue_pair_is_as_the_info_says),
        cmocka_unit_test(peers_may_do_what_the_capabilities_name),
        cmocka_unit_test(each_outcome_of_connecting_is_its_event),
        RIGGED(who_asks_is_told_why_there_is_no_connection),
        RIGGED(a_peer_that_cannot_be_reached_is_an_event),
        cmocka_unit_test(private_data_are_as_many_as_the_byte_in_front_says_and_have_come),
        cmocka_unit_test(a_device_that_fails_while_connecting_is_told_at_once),
        RIGGED(the_data_of_an_answer_comes_with_the_event),
        RIGGED(the_end_of_a_connection_is_one_event),
        RIGGED(events_of_a_connection_need_no_memory),
        RIGGED(closing_takes_the_endpoints_events_along),
        RIGGED(counters_may_stand_in_for_queues),
        RIGGED(waiting_for_a_counter_goes_through_all_that_has_completed),
        RIGGED(counters_of_peers_need_the_capability),
        RIGGED(aliases_share_all_but_their_flags),
        RIGGED(options_are_lowered_before_it_is_enabled),
        RIGGED(messages_become_sends),
        RIGGED(what_an_endpoint_does_not_offer_says_so),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
