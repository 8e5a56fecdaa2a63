// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

constexpr const char* kNoSuchPort = "no-such-service";

test::FakeCmId& listener(Rig& rig) {
    return *rig.device.cm_ids().front();
}

Trial<rpma_ep> listen_trial(Rig& rig) {
    return {{},
            [&](rpma_ep** out) { return rpma_ep_listen(rig.peer, kAddress, kPort, out); },
            rpma_ep_shutdown};
}

Trial<rpma_conn_req> next_trial(Rig& rig) {
    return {[&] { listener(rig).deliver_request("data"); },
            [&](rpma_conn_req** out) { return rpma_ep_next_conn_req(rig.ep, rig.cfg, out); },
            rpma_conn_req_delete};
}

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    rpma_ep* ep = untouched<rpma_ep>();
    assert_int_equal(rpma_ep_listen(nullptr, kAddress, kPort, &ep), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_listen(rig.peer, nullptr, kPort, &ep), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_listen(rig.peer, kAddress, nullptr, &ep), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_listen(rig.peer, kAddress, kPort, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(ep, untouched<rpma_ep>());

    make_ep(rig);
    int fd = -7;
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_ep_get_fd(nullptr, &fd), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_get_fd(rig.ep, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_next_conn_req(nullptr, nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_next_conn_req(rig.ep, nullptr, nullptr), RPMA_E_INVAL);
    assert_int_equal(fd, -7);
    assert_ptr_equal(req, untouched<rpma_conn_req>());
}

void endpoint_listens_where_it_was_told(void** state) {
    Rig& rig = of(state);
    const CapturedLog log;
    make_ep(rig);
    assert_string_equal(listener(rig).local.text().c_str(), "127.0.0.1:7204");
    assert_int_equal(listener(rig).backlog, 0);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_NOTICE, "127.0.0.1:7204"));
    int fd = -1;
    assert_int_equal(rpma_ep_get_fd(rig.ep, &fd), kSuccess);
    assert_int_equal(fd, rig.device.cm_channels().front()->fd());
}

void address_that_cannot_be_resolved_is_the_providers(void** state) {
    Rig& rig = of(state);
    rpma_ep* ep = untouched<rpma_ep>();
    assert_int_equal(rpma_ep_listen(rig.peer, kAddress, kNoSuchPort, &ep), RPMA_E_PROVIDER);
    assert_ptr_equal(ep, untouched<rpma_ep>());
    assert_int_equal(rig.device.live(), 1);
}

void failures_of_listen_are_the_providers_and_leak_nothing(void** state) {
    Rig& rig = of(state);
    assert_int_equal(fail_each_call_to_provider(rig.device, listen_trial(rig)), 4);
    assert_true(fail_each_allocation(rig.device, listen_trial(rig)) > 0);
}

void address_in_use_is_the_providers(void** state) {
    Rig& rig = of(state);
    for (const Call call : {Call::bind, Call::listen}) {
        rpma_ep* ep = untouched<rpma_ep>();
        rig.device.fail(call, 1, {core::Errc::address_in_use, EADDRINUSE});
        assert_int_equal(rpma_ep_listen(rig.peer, kAddress, kPort, &ep), RPMA_E_PROVIDER);
        assert_ptr_equal(ep, untouched<rpma_ep>());
    }
}

void shutdown_clears_the_pointer_and_leaves_requests_and_connections(void** state) {
    Rig& rig = of(state);
    check_delete_of_nothing(rpma_ep_shutdown);
    make_incoming_request(rig, "first");
    connect(rig);
    make_incoming_request(rig, "second");
    assert_int_equal(rpma_ep_shutdown(&rig.ep), kSuccess);
    assert_null(rig.ep);
    id_of(rig).deliver(core::CmEventType::disconnected);
    rpma_conn* second = nullptr;
    assert_int_equal(rpma_conn_req_connect(&rig.req, nullptr, &second), kSuccess);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(second, &event), kSuccess);
    assert_int_equal(event, RPMA_CONN_CLOSED);
    assert_int_equal(rpma_conn_delete(&second), kSuccess);
    uint32_t number = 0;
    assert_int_equal(rpma_conn_get_qp_num(rig.conn, &number), kSuccess);
}

void no_request_in_nonblocking_mode_is_no_event(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    int fd = -1;
    assert_int_equal(rpma_ep_get_fd(rig.ep, &fd), kSuccess);
    set_nonblocking(fd);
    const CapturedLog log;
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_ep_next_conn_req(rig.ep, nullptr, &req), RPMA_E_NO_EVENT);
    assert_ptr_equal(req, untouched<rpma_conn_req>());
    assert_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, ""));
}

void failed_wait_for_a_request_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    for (const ErrRow& row : kErrMap) {
        rpma_conn_req* req = untouched<rpma_conn_req>();
        rig.device.fail(Call::get_cm_event, 1, {row.core, 0});
        assert_int_equal(rpma_ep_next_conn_req(rig.ep, nullptr, &req),
                         row.core == core::Errc::would_block ? RPMA_E_NO_EVENT : RPMA_E_PROVIDER);
        assert_ptr_equal(req, untouched<rpma_conn_req>());
    }
}

void any_other_event_is_invalid_and_taken(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    set_nonblocking(rig.device.cm_channels().front()->fd());
    for (std::size_t type = 0; type < static_cast<std::size_t>(core::CmEventType::count_); ++type) {
        if (type == static_cast<std::size_t>(core::CmEventType::connect_request)) continue;
        listener(rig).deliver(static_cast<core::CmEventType>(type));
        rpma_conn_req* req = untouched<rpma_conn_req>();
        assert_int_equal(rpma_ep_next_conn_req(rig.ep, nullptr, &req), RPMA_E_INVAL);
        assert_ptr_equal(req, untouched<rpma_conn_req>());
        assert_int_equal(rpma_ep_next_conn_req(rig.ep, nullptr, &req), RPMA_E_NO_EVENT);
    }
}

void requests_come_in_order_with_their_private_data(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    listener(rig).deliver_request("one");
    listener(rig).deliver_request();
    listener(rig).deliver_request("three");
    for (const char* const expected : {"one", "", "three"}) {
        assert_int_equal(rpma_ep_next_conn_req(rig.ep, nullptr, &rig.req), kSuccess);
        rpma_conn_private_data pdata{};
        assert_int_equal(rpma_conn_req_get_private_data(rig.req, &pdata), kSuccess);
        const std::string text(static_cast<const char*>(pdata.ptr), pdata.len);
        assert_string_equal(text.c_str(), expected);
        assert_int_equal(rpma_conn_req_delete(&rig.req), kSuccess);
    }
    assert_int_equal(rig.device.calls(Call::reject), 3);
}

void configuration_reaches_the_device(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    rpma_conn_cfg_set_cq_size(rig.cfg, 21);
    rpma_conn_cfg_set_rcq_size(rig.cfg, 22);
    rpma_conn_cfg_set_sq_size(rig.cfg, 23);
    rpma_conn_cfg_set_rq_size(rig.cfg, 24);
    make_incoming_request(rig);
    assert_int_equal(rig.device.cqs()[0]->depth, 21);
    assert_int_equal(rig.device.cqs()[1]->depth, 22);
    assert_int_equal(qp_of(rig).attr.send_depth, 23);
    assert_int_equal(qp_of(rig).attr.receive_depth, 24);
    assert_ptr_equal(qp_of(rig).attr.pd, rig.device.pds().front());
}

void conflicting_configuration_is_invalid_and_the_request_is_gone(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    make_srq(rig, 1);
    make_cfg(rig);
    rpma_conn_cfg_set_srq(rig.cfg, rig.srq);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    const std::size_t live = rig.device.live();
    listener(rig).deliver_request();
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_ep_next_conn_req(rig.ep, rig.cfg, &req), RPMA_E_INVAL);
    assert_ptr_equal(req, untouched<rpma_conn_req>());
    assert_int_equal(rig.device.live(), live);
}

void failures_of_next_are_the_providers_and_end_the_request(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    make_cfg(rig);
    // After the event: events, migration; channel, CQ, arming; QP
    constexpr int kPlain = 7;
    assert_int_equal(fail_each_call_to_provider(rig.device, next_trial(rig), 2), kPlain);
    rpma_conn_cfg_set_rcq_size(rig.cfg, 3);
    assert_int_equal(fail_each_call_to_provider(rig.device, next_trial(rig), 2), kPlain + 3);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    assert_int_equal(fail_each_call_to_provider(rig.device, next_trial(rig), 2), kPlain + 2);
}

void lack_of_memory_in_next_ends_the_request(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    assert_true(fail_each_allocation(rig.device, next_trial(rig)) >= 4);
    const CapturedLog log;  // what is only done for the log must not leak either
    assert_true(fail_each_allocation(rig.device, next_trial(rig)) >= 4);
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(endpoint_listens_where_it_was_told),
        TEST(address_that_cannot_be_resolved_is_the_providers),
        TEST(failures_of_listen_are_the_providers_and_leak_nothing),
        TEST(address_in_use_is_the_providers),
        TEST(shutdown_clears_the_pointer_and_leaves_requests_and_connections),
        TEST(no_request_in_nonblocking_mode_is_no_event),
        TEST(failed_wait_for_a_request_is_the_providers),
        TEST(any_other_event_is_invalid_and_taken),
        TEST(requests_come_in_order_with_their_private_data),
        TEST(configuration_reaches_the_device),
        TEST(conflicting_configuration_is_invalid_and_the_request_is_gone),
        TEST(failures_of_next_are_the_providers_and_end_the_request),
        TEST(lack_of_memory_in_next_ends_the_request),
    };
    return cmocka_run_group_tests_name("ep", tests, nullptr, nullptr);
}
