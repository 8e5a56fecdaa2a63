// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

constexpr const char* kNoSuchPort = "no-such-service";

rpma_conn_private_data private_data_of(const rpma_conn_req* req) {
    rpma_conn_private_data pdata{.ptr = untouched<void>(), .len = 77};
    assert_int_equal(rpma_conn_req_get_private_data(req, &pdata), kSuccess);
    return pdata;
}

std::string text_of(const rpma_conn_private_data& pdata) {
    return {static_cast<const char*>(pdata.ptr), pdata.len};
}

Trial<rpma_conn_req> new_trial(Rig& rig) {
    return {{},
            [&](rpma_conn_req** out) {
                return rpma_conn_req_new(rig.peer, kAddress, kPort, rig.cfg, out);
            },
            rpma_conn_req_delete};
}

// --- new --------------------------------------------------------------------------------------

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_conn_req_new(nullptr, kAddress, kPort, nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_new(rig.peer, nullptr, kPort, nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_new(rig.peer, kAddress, nullptr, nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_new(rig.peer, kAddress, kPort, nullptr, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(req, untouched<rpma_conn_req>());

    make_request(rig);
    rpma_conn_private_data pdata{.ptr = untouched<void>(), .len = 77};
    assert_int_equal(rpma_conn_req_get_private_data(nullptr, &pdata), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_get_private_data(rig.req, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(pdata.ptr, untouched<void>());
    assert_int_equal(pdata.len, 77);
}

void address_that_cannot_be_resolved_is_the_providers(void** state) {
    Rig& rig = of(state);
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_conn_req_new(rig.peer, kAddress, kNoSuchPort, nullptr, &req),
                     RPMA_E_PROVIDER);
    assert_ptr_equal(req, untouched<rpma_conn_req>());
    assert_int_equal(rig.device.calls(Call::create_cm_id), 0);
}

void without_a_configuration_defaults_are_used(void** state) {
    Rig& rig = of(state);
    make_request(rig);
    const core::QpAttr& attr = qp_of(rig).attr;
    assert_int_equal(id_of(rig).timeout_ms, 1000);
    assert_string_equal(id_of(rig).peer.text().c_str(), "127.0.0.1:7204");
    assert_true(id_of(rig).local.empty());
    assert_int_equal(rig.device.cqs().size(), 1);
    assert_int_equal(rig.device.cqs().back()->depth, 10);
    assert_true(rig.device.cqs().back()->armed());
    assert_int_equal(attr.send_depth, 10);
    assert_int_equal(attr.receive_depth, 10);
    assert_ptr_equal(attr.send_cq, rig.device.cqs().back());
    assert_ptr_equal(attr.receive_cq, rig.device.cqs().back());
    assert_ptr_equal(attr.pd, rig.device.pds().back());
    assert_null(attr.srq);
}

void queue_pair_has_one_sge_each_way_and_8_inline_bytes(void** state) {
    Rig& rig = of(state);
    make_request(rig);
    const core::QpAttr& attr = qp_of(rig).attr;
    assert_int_equal(attr.max_send_sge, 1);
    assert_int_equal(attr.max_receive_sge, 1);
    assert_int_equal(attr.max_inline, 8);
    assert_false(attr.imm_without_receive);
}

void configuration_reaches_the_device(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    rpma_conn_cfg_set_timeout(rig.cfg, 0);
    rpma_conn_cfg_set_cq_size(rig.cfg, 0xffffffff);
    rpma_conn_cfg_set_rcq_size(rig.cfg, 0x80000000);
    rpma_conn_cfg_set_sq_size(rig.cfg, 0xfffffffe);
    rpma_conn_cfg_set_rq_size(rig.cfg, 0xfffffffd);
    make_request(rig);
    // The configuration may go: values are copied.
    assert_int_equal(rpma_conn_cfg_delete(&rig.cfg), kSuccess);
    assert_int_equal(id_of(rig).timeout_ms, 0);
    assert_int_equal(rig.device.cqs().size(), 2);
    assert_int_equal(rig.device.cqs()[0]->depth, INT_MAX);
    assert_int_equal(rig.device.cqs()[1]->depth, INT_MAX);
    assert_true(rig.device.cqs()[0]->armed());
    assert_true(rig.device.cqs()[1]->armed());
    assert_int_equal(qp_of(rig).attr.send_depth, 0xfffffffe);
    assert_int_equal(qp_of(rig).attr.receive_depth, 0xfffffffd);
    connect(rig);
}

void completion_queue_of_size_0_is_refused_by_the_provider(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    rpma_conn_cfg_set_cq_size(rig.cfg, 0);
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_conn_req_new(rig.peer, kAddress, kPort, rig.cfg, &req), RPMA_E_PROVIDER);
    assert_ptr_equal(req, untouched<rpma_conn_req>());
    assert_int_equal(rig.device.live(), 1);  // the protection domain
}

void shared_channel_with_an_srq_that_has_its_own_receive_cq_is_refused(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 1);
    make_cfg(rig);
    rpma_conn_cfg_set_srq(rig.cfg, rig.srq);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    const std::size_t live = rig.device.live();
    rpma_conn_req* req = untouched<rpma_conn_req>();
    assert_int_equal(rpma_conn_req_new(rig.peer, kAddress, kPort, rig.cfg, &req), RPMA_E_INVAL);
    assert_ptr_equal(req, untouched<rpma_conn_req>());
    assert_int_equal(rig.device.live(), live);
}

void shared_channel_with_an_srq_without_one_is_fine(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 0);
    make_cfg(rig);
    rpma_conn_cfg_set_srq(rig.cfg, rig.srq);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    make_request(rig);
    assert_int_equal(rig.device.channels().size(), 1);
}

void failures_of_new_are_the_providers_and_leak_nothing(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    const Trial<rpma_conn_req> trial = new_trial(rig);
    // id, address, events, migration; channel, CQ, arming; QP
    constexpr int kPlain = 8;
    assert_int_equal(fail_each_call_to_provider(rig.device, trial), kPlain);
    rpma_conn_cfg_set_rcq_size(rig.cfg, 4);
    assert_int_equal(fail_each_call_to_provider(rig.device, trial), kPlain + 3);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    assert_int_equal(fail_each_call_to_provider(rig.device, trial), kPlain + 2);
}

void lack_of_memory_in_new_leaks_nothing(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    const Trial<rpma_conn_req> trial = new_trial(rig);
    const int plain = fail_each_allocation(rig.device, trial);
    assert_true(plain >= 4);  // request, rpma_cq, waiter, waited CQ
    rpma_conn_cfg_set_rcq_size(rig.cfg, 4);
    assert_true(fail_each_allocation(rig.device, trial) > plain);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    assert_true(fail_each_allocation(rig.device, trial) > plain);
}

void lack_of_memory_while_logging_leaks_nothing(void** state) {
    Rig& rig = of(state);
    const CapturedLog log;
    fail_each_allocation(rig.device, new_trial(rig));
}

void new_request_is_told_at_notice(void** state) {
    Rig& rig = of(state);
    const CapturedLog log;
    make_request(rig);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_NOTICE, "127.0.0.1:7204"));
}

void failed_call_is_named_in_the_log(void** state) {
    Rig& rig = of(state);
    const CapturedLog log(RPMA_LOG_LEVEL_ERROR);
    rig.device.fail(Call::resolve, 1, {core::Errc::unreachable, EHOSTUNREACH});
    rpma_conn_req* req = nullptr;
    assert_int_equal(rpma_conn_req_new(rig.peer, kAddress, kPort, nullptr, &req), RPMA_E_PROVIDER);
    assert_non_null(
        CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "rdma_resolve_addr failed: No route to host\n"));
}

// --- delete -----------------------------------------------------------------------------------

void deleted_outgoing_request_rejects_nothing(void** state) {
    Rig& rig = of(state);
    make_request(rig);
    assert_int_equal(rpma_conn_req_delete(&rig.req), kSuccess);
    assert_null(rig.req);
    assert_int_equal(rig.device.calls(Call::reject), 0);
    assert_int_equal(rig.device.live(), 1);
    check_delete_of_nothing(rpma_conn_req_delete);
}

void deleted_incoming_request_is_rejected(void** state) {
    Rig& rig = of(state);
    make_incoming_request(rig);
    const std::size_t live_with_ep = 3;  // PD, endpoint's channel and id
    assert_int_equal(rpma_conn_req_delete(&rig.req), kSuccess);
    assert_null(rig.req);
    assert_int_equal(rig.device.calls(Call::reject), 1);
    assert_int_equal(rig.device.live(), live_with_ep);
}

void failed_rejection_is_told_and_the_request_is_gone(void** state) {
    Rig& rig = of(state);
    make_incoming_request(rig);
    rig.device.fail(Call::reject, 1, {core::Errc::device, EIO});
    assert_int_equal(rpma_conn_req_delete(&rig.req), RPMA_E_PROVIDER);
    assert_null(rig.req);
    assert_int_equal(rig.device.live(), 3);
}

// --- connect ----------------------------------------------------------------------------------

void nothing_is_touched_without_a_request(void**) {
    char byte = 0;
    const rpma_conn_private_data pdata{.ptr = &byte, .len = 1};
    rpma_conn* conn = untouched<rpma_conn>();
    rpma_conn_req* none = nullptr;
    assert_int_equal(rpma_conn_req_connect(nullptr, &pdata, &conn), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_connect(&none, &pdata, &conn), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_connect(nullptr, &pdata, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(conn, untouched<rpma_conn>());
    assert_null(none);
}

void bad_arguments_consume_the_request(void** state) {
    Rig& rig = of(state);
    char byte = 0;
    const rpma_conn_private_data no_pointer{.ptr = nullptr, .len = 1};
    const rpma_conn_private_data no_length{.ptr = &byte, .len = 0};
    const rpma_conn_private_data neither{.ptr = nullptr, .len = 0};
    for (const bool incoming : {false, true}) {
        for (const auto* pdata : {&no_pointer, &no_length, &neither,
                                  static_cast<const rpma_conn_private_data*>(nullptr)}) {
            const std::size_t live = incoming ? 3 : 1;
            if (incoming)
                make_incoming_request(rig);
            else
                make_request(rig);
            rpma_conn* conn = untouched<rpma_conn>();
            rpma_conn** const out = pdata != nullptr ? &conn : nullptr;
            assert_int_equal(rpma_conn_req_connect(&rig.req, pdata, out), RPMA_E_INVAL);
            assert_null(rig.req);
            assert_ptr_equal(conn, untouched<rpma_conn>());
            assert_int_equal(rig.device.live(), live);
        }
    }
    assert_int_equal(rig.device.calls(Call::connect), 0);
    assert_int_equal(rig.device.calls(Call::accept), 0);
}

void check_parameters(const test::FakeCmId& id, const std::string& data) {
    assert_int_equal(id.parameters.responder_resources, 255);
    assert_int_equal(id.parameters.initiator_depth, 255);
    assert_int_equal(id.parameters.rnr_retry_count, 7);
    assert_int_equal(id.private_data.size(), data.size());
    assert_memory_equal(id.private_data.data(), data.data(), data.size());
}

void outgoing_request_connects(void** state) {
    Rig& rig = of(state);
    for (const std::size_t size : {0, 1, 28, 255}) {
        make_request(rig);
        const std::string data(size, 'x');
        connect(rig, data);
        assert_null(rig.req);
        assert_true(id_of(rig).connected);
        assert_false(id_of(rig).accepted);
        check_parameters(id_of(rig), data);
        assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    }
}

void incoming_request_is_accepted(void** state) {
    Rig& rig = of(state);
    make_incoming_request(rig);
    const std::string data("yes\0and more", 12);
    connect(rig, data);
    assert_null(rig.req);
    assert_true(id_of(rig).accepted);
    assert_false(id_of(rig).connected);
    check_parameters(id_of(rig), data);
    assert_int_equal(rig.device.calls(Call::reject), 0);
}

Trial<rpma_conn> connect_trial(Rig& rig, bool incoming) {
    return {[&rig, incoming] {
                if (incoming)
                    make_incoming_request(rig);
                else
                    make_request(rig);
            },
            [&rig](rpma_conn** out) {
                const int rc = rpma_conn_req_connect(&rig.req, nullptr, out);
                assert_null(rig.req);
                return rc;
            },
            rpma_conn_delete};
}

void failures_of_connect_consume_the_request_and_leak_nothing(void** state) {
    Rig& rig = of(state);
    make_ep(rig);
    for (const bool native_flush : {true, false}) {
        rig.device.current_limits.flush = native_flush;
        const int calls = native_flush ? 1 : 2;  // without it a buffer is registered
        for (const bool incoming : {false, true}) {
            const Trial<rpma_conn> trial = connect_trial(rig, incoming);
            assert_int_equal(fail_each_call_to_provider(rig.device, trial), calls);
            assert_true(fail_each_allocation(rig.device, trial) >= 2);
        }
    }
}

void private_data_longer_than_the_device_takes_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_request(rig);
    char bytes[57] = {};
    const rpma_conn_private_data pdata{.ptr = bytes, .len = sizeof bytes};
    rig.device.fail(Call::connect, 1, {core::Errc::too_long, 0});
    rpma_conn* conn = untouched<rpma_conn>();
    assert_int_equal(rpma_conn_req_connect(&rig.req, &pdata, &conn), RPMA_E_PROVIDER);
    assert_null(rig.req);
    assert_ptr_equal(conn, untouched<rpma_conn>());
}

void flush_buffer_is_made_only_where_flush_is_not_native(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    assert_int_equal(rig.device.mrs().size(), 0);
    assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    rig.device.current_limits.flush = false;
    make_conn(rig);
    assert_int_equal(rig.device.mrs().size(), 1);
    assert_int_equal(rig.device.mrs().back()->attr.length, 8);
    assert_int_equal(rig.device.mrs().back()->attr.access.bits(),
                     core::AccessFlags(core::Access::local_write).bits());
}

// --- receives before the connection -----------------------------------------------------------

void receive_is_posted_before_the_connection(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    for (const bool incoming : {false, true}) {
        if (incoming)
            make_incoming_request(rig);
        else
            make_request(rig);
        assert_int_equal(rpma_conn_req_recv(rig.req, rig.local, 8, 24, kContext), kSuccess);
        assert_int_equal(rpma_conn_req_recv(rig.req, rig.local, 0, 0, nullptr), kSuccess);
        const auto& posted = qp_of(rig).posted_receives;
        assert_int_equal(posted.size(), 2);
        assert_int_equal(posted[0].wr_id, kWrId);
        assert_int_equal(posted[0].sges.size(), 1);
        assert_ptr_equal(posted[0].sges[0].address, rig.memory.data() + 8);
        assert_int_equal(posted[0].sges[0].length, 24);
        assert_int_equal(posted[0].sges[0].lkey, rig.device.mrs().back()->lkey());
        assert_int_equal(posted[1].wr_id, 0);
        assert_int_equal(posted[1].sges[0].length, 0);
        assert_int_equal(rpma_conn_req_delete(&rig.req), kSuccess);
    }
}

void bad_receives_are_refused(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    make_request(rig);
    assert_int_equal(rpma_conn_req_recv(nullptr, rig.local, 0, 8, kContext), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_recv(rig.req, nullptr, 0, 8, kContext), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_recv(rig.req, nullptr, 0, 0, kContext), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_recv(rig.req, rig.local, 0, SIZE_MAX, kContext), RPMA_E_INVAL);
    assert_int_equal(rig.device.calls(Call::post_receive), 0);
}

void refused_receive_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    make_request(rig);
    for (const ErrRow& row : kErrMap) {
        rig.device.fail(Call::post_receive, 1, {row.core, 0});
        assert_int_equal(rpma_conn_req_recv(rig.req, rig.local, 0, 8, kContext), RPMA_E_PROVIDER);
    }
}

// --- private data of the peer -----------------------------------------------------------------

void outgoing_request_has_no_private_data(void** state) {
    Rig& rig = of(state);
    make_request(rig);
    assert_null(private_data_of(rig.req).ptr);
    assert_int_equal(private_data_of(rig.req).len, 0);
}

void incoming_request_has_what_the_peer_sent(void** state) {
    Rig& rig = of(state);
    for (const std::size_t size : {0, 1, 56, 255}) {
        const std::string sent(size, 'p');
        make_incoming_request(rig, sent);
        const rpma_conn_private_data pdata = private_data_of(rig.req);
        assert_int_equal(pdata.len, size);
        assert_int_equal(pdata.ptr == nullptr, size == 0);
        if (size != 0) assert_string_equal(text_of(pdata).c_str(), sent.c_str());
        assert_int_equal(rpma_conn_req_delete(&rig.req), kSuccess);
    }
}

void private_data_moves_to_the_connection_and_stays_where_it_is(void** state) {
    Rig& rig = of(state);
    make_incoming_request(rig, "hello");
    const rpma_conn_private_data before = private_data_of(rig.req);
    connect(rig);
    rpma_conn_private_data after{};
    assert_int_equal(rpma_conn_get_private_data(rig.conn, &after), kSuccess);
    assert_ptr_equal(after.ptr, before.ptr);
    assert_int_equal(after.len, 5);
    assert_string_equal(text_of(before).c_str(), "hello");
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(address_that_cannot_be_resolved_is_the_providers),
        TEST(without_a_configuration_defaults_are_used),
        TEST(queue_pair_has_one_sge_each_way_and_8_inline_bytes),
        TEST(configuration_reaches_the_device),
        TEST(completion_queue_of_size_0_is_refused_by_the_provider),
        TEST(shared_channel_with_an_srq_that_has_its_own_receive_cq_is_refused),
        TEST(shared_channel_with_an_srq_without_one_is_fine),
        TEST(failures_of_new_are_the_providers_and_leak_nothing),
        TEST(lack_of_memory_in_new_leaks_nothing),
        TEST(lack_of_memory_while_logging_leaks_nothing),
        TEST(new_request_is_told_at_notice),
        TEST(failed_call_is_named_in_the_log),
        TEST(deleted_outgoing_request_rejects_nothing),
        TEST(deleted_incoming_request_is_rejected),
        TEST(failed_rejection_is_told_and_the_request_is_gone),
        TEST(nothing_is_touched_without_a_request),
        TEST(bad_arguments_consume_the_request),
        TEST(outgoing_request_connects),
        TEST(incoming_request_is_accepted),
        TEST(failures_of_connect_consume_the_request_and_leak_nothing),
        TEST(private_data_longer_than_the_device_takes_is_the_providers),
        TEST(flush_buffer_is_made_only_where_flush_is_not_native),
        TEST(receive_is_posted_before_the_connection),
        TEST(bad_receives_are_refused),
        TEST(refused_receive_is_the_providers),
        TEST(outgoing_request_has_no_private_data),
        TEST(incoming_request_has_what_the_peer_sent),
        TEST(private_data_moves_to_the_connection_and_stays_where_it_is),
    };
    return cmocka_run_group_tests_name("conn_req", tests, nullptr, nullptr);
}
