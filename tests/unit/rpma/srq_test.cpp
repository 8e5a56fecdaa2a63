// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

struct SizeRow {
    int (*set)(rpma_srq_cfg*, std::uint32_t);
    int (*get)(const rpma_srq_cfg*, std::uint32_t*);
};
constexpr std::array kSizes{
    SizeRow{rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size},
    SizeRow{rpma_srq_cfg_set_rcq_size, rpma_srq_cfg_get_rcq_size},
};

rpma_cq* rcq_of(const rpma_srq* srq) {
    rpma_cq* rcq = untouched<rpma_cq>();
    assert_int_equal(rpma_srq_get_rcq(srq, &rcq), kSuccess);
    return rcq;
}

// --- configuration ----------------------------------------------------------------------------

void cfg_refuses_null_arguments(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_srq_cfg_new(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_cfg_new(&rig.srq_cfg), kSuccess);
    for (const SizeRow& row : kSizes) {
        std::uint32_t size = 77;
        assert_int_equal(row.set(nullptr, 1), RPMA_E_INVAL);
        assert_int_equal(row.get(nullptr, &size), RPMA_E_INVAL);
        assert_int_equal(row.get(rig.srq_cfg, nullptr), RPMA_E_INVAL);
        assert_int_equal(size, 77);
    }
}

void cfg_starts_with_20_and_20(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_srq_cfg_new(&rig.srq_cfg), kSuccess);
    for (const SizeRow& row : kSizes) {
        std::uint32_t size = 0;
        assert_int_equal(row.get(rig.srq_cfg, &size), kSuccess);
        assert_int_equal(size, 20);
    }
}

void cfg_sizes_take_any_value_each_its_own(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_srq_cfg_new(&rig.srq_cfg), kSuccess);
    for (const std::uint32_t base : {0U, 1U, 0x80000000U, 0xfffffff0U}) {
        for (std::uint32_t i = 0; i < kSizes.size(); ++i)
            assert_int_equal(kSizes[i].set(rig.srq_cfg, base + i), kSuccess);
        for (std::uint32_t i = 0; i < kSizes.size(); ++i) {
            std::uint32_t size = 0;
            assert_int_equal(kSizes[i].get(rig.srq_cfg, &size), kSuccess);
            assert_int_equal(size, base + i);
        }
    }
}

void cfg_delete_clears_the_pointer(void** state) {
    Rig& rig = of(state);
    check_delete_of_nothing(rpma_srq_cfg_delete);
    assert_int_equal(rpma_srq_cfg_new(&rig.srq_cfg), kSuccess);
    assert_int_equal(rpma_srq_cfg_delete(&rig.srq_cfg), kSuccess);
    assert_null(rig.srq_cfg);
    const Trial<rpma_srq_cfg> trial{{}, rpma_srq_cfg_new, rpma_srq_cfg_delete};
    assert_true(fail_each_allocation(rig.device, trial) > 0);
}

// --- the queue --------------------------------------------------------------------------------

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 1);
    rpma_srq* srq = untouched<rpma_srq>();
    rpma_cq* rcq = untouched<rpma_cq>();
    assert_int_equal(rpma_srq_new(nullptr, rig.srq_cfg, &srq), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_new(rig.peer, rig.srq_cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_get_rcq(nullptr, &rcq), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_get_rcq(rig.srq, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(srq, untouched<rpma_srq>());
    assert_ptr_equal(rcq, untouched<rpma_cq>());
}

void without_a_configuration_defaults_are_used(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_srq_new(rig.peer, nullptr, &rig.srq), kSuccess);
    assert_int_equal(rig.device.srqs().back()->depth, 20);
    assert_int_equal(rig.device.srqs().back()->max_sge, 1);
    assert_int_equal(rig.device.cqs().size(), 1);
    assert_int_equal(rig.device.cqs().back()->depth, 20);
}

void configuration_decides_the_depths(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_srq_cfg_new(&rig.srq_cfg), kSuccess);
    assert_int_equal(rpma_srq_cfg_set_rq_size(rig.srq_cfg, 31), kSuccess);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(rig.srq_cfg, 0xffffffff), kSuccess);
    assert_int_equal(rpma_srq_new(rig.peer, rig.srq_cfg, &rig.srq), kSuccess);
    assert_int_equal(rig.device.srqs().back()->depth, 31);
    assert_int_equal(rig.device.cqs().back()->depth, INT_MAX);
}

void own_receive_cq_is_armed_and_has_a_channel(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    const test::FakeCq& queue = *rig.device.cqs().back();
    assert_true(queue.armed());
    int fd = -1;
    assert_int_equal(rpma_cq_get_fd(rcq_of(rig.srq), &fd), kSuccess);
    assert_int_equal(fd, queue.channel->fd());
}

void receive_cq_of_size_0_is_none(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 0);
    assert_null(rcq_of(rig.srq));
    assert_int_equal(rig.device.cqs().size(), 0);
    assert_int_equal(rig.device.channels().size(), 0);
}

void failures_are_the_providers_and_leak_nothing(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_srq_cfg_new(&rig.srq_cfg), kSuccess);
    const Trial<rpma_srq> trial{
        {},
        [&](rpma_srq** out) { return rpma_srq_new(rig.peer, rig.srq_cfg, out); },
        rpma_srq_delete};
    assert_int_equal(fail_each_call_to_provider(rig.device, trial), 4);  // SRQ, channel, CQ, arming
    assert_true(fail_each_allocation(rig.device, trial) >= 2);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(rig.srq_cfg, 0), kSuccess);
    assert_int_equal(fail_each_call_to_provider(rig.device, trial), 1);
    assert_true(fail_each_allocation(rig.device, trial) >= 1);
}

void delete_ends_the_queue_and_its_receive_cq(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    assert_int_equal(rpma_srq_delete(&rig.srq), kSuccess);
    assert_null(rig.srq);
    assert_int_equal(rig.device.srqs().size(), 0);
    assert_int_equal(rig.device.cqs().size(), 0);
    assert_int_equal(rig.device.channels().size(), 0);
    check_delete_of_nothing(rpma_srq_delete);
}

// --- receives ---------------------------------------------------------------------------------

void receive_is_posted_as_given(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    make_local(rig);
    assert_int_equal(rpma_srq_recv(rig.srq, rig.local, 16, 32, kContext), kSuccess);
    const test::PostedReceive& posted = rig.device.srqs().back()->posted.back();
    assert_int_equal(posted.wr_id, kWrId);
    assert_int_equal(posted.sges.size(), 1);
    assert_ptr_equal(posted.sges[0].address, rig.memory.data() + 16);
    assert_int_equal(posted.sges[0].length, 32);
    assert_int_equal(posted.sges[0].lkey, rig.device.mrs().back()->lkey());
}

void receive_of_nothing_has_no_memory(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    assert_int_equal(rpma_srq_recv(rig.srq, nullptr, 0, 0, nullptr), kSuccess);
    const test::PostedReceive& posted = rig.device.srqs().back()->posted.back();
    assert_int_equal(posted.wr_id, 0);
    assert_int_equal(posted.sges.size(), 0);
}

void bad_receives_are_refused(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    make_local(rig);
    assert_int_equal(rpma_srq_recv(nullptr, rig.local, 0, 8, kContext), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(rig.srq, nullptr, 0, 8, kContext), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(rig.srq, nullptr, 8, 0, kContext), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(rig.srq, rig.local, 0, std::size_t{1} << 32, kContext),
                     RPMA_E_INVAL);
    assert_int_equal(rig.device.calls(Call::srq_post_receive), 0);
}

void refused_receive_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    make_local(rig);
    for (const ErrRow& row : kErrMap) {
        rig.device.fail(Call::srq_post_receive, 1, {row.core, 0});
        assert_int_equal(rpma_srq_recv(rig.srq, rig.local, 0, 8, kContext), RPMA_E_PROVIDER);
    }
}

void one_queue_serves_connections_that_come_and_go(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    make_cfg(rig);
    assert_int_equal(rpma_conn_cfg_set_srq(rig.cfg, rig.srq), kSuccess);
    std::array<rpma_conn*, 3> conns{};
    for (rpma_conn*& conn : conns) {
        make_conn(rig);
        conn = std::exchange(rig.conn, nullptr);
    }
    std::array<std::uint32_t, 3> numbers{};
    for (std::size_t i = 0; i < conns.size(); ++i) {
        assert_int_equal(rpma_conn_get_qp_num(conns[i], &numbers[i]), kSuccess);
        rig.device.qps()[i]->complete_receive({.wr_id = i, .opcode = core::WcOpcode::receive});
    }
    ibv_wc wc[4];
    int got = 0;
    assert_int_equal(rpma_cq_get_wc(rcq_of(rig.srq), 4, wc, &got), kSuccess);
    assert_int_equal(got, 3);
    for (std::size_t i = 0; i < conns.size(); ++i) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal(wc[i].qp_num, numbers[i]);
        assert_int_equal(rpma_conn_delete(&conns[i]), kSuccess);
    }
    assert_int_equal(rpma_srq_recv(rig.srq, nullptr, 0, 0, nullptr), kSuccess);
}

void completion_seen_by_a_wait_goes_with_its_connection(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 5);
    make_cfg(rig);
    assert_int_equal(rpma_conn_cfg_set_srq(rig.cfg, rig.srq), kSuccess);
    make_conn(rig);
    rpma_cq* const rcq = rcq_of(rig.srq);
    rig.device.cqs().front()->shy = true;  // the SRQ's: the wait has to take the completion to look
    rig.device.qps().back()->complete_receive({.wr_id = 1, .opcode = core::WcOpcode::receive});
    assert_int_equal(rpma_cq_wait(rcq), kSuccess);
    assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(rcq, 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(cfg_refuses_null_arguments),
        TEST(cfg_starts_with_20_and_20),
        TEST(cfg_sizes_take_any_value_each_its_own),
        TEST(cfg_delete_clears_the_pointer),
        TEST(null_arguments_are_refused),
        TEST(without_a_configuration_defaults_are_used),
        TEST(configuration_decides_the_depths),
        TEST(own_receive_cq_is_armed_and_has_a_channel),
        TEST(receive_cq_of_size_0_is_none),
        TEST(failures_are_the_providers_and_leak_nothing),
        TEST(delete_ends_the_queue_and_its_receive_cq),
        TEST(receive_is_posted_as_given),
        TEST(receive_of_nothing_has_no_memory),
        TEST(bad_receives_are_refused),
        TEST(refused_receive_is_the_providers),
        TEST(one_queue_serves_connections_that_come_and_go),
        TEST(completion_seen_by_a_wait_goes_with_its_connection),
    };
    return cmocka_run_group_tests_name("srq", tests, nullptr, nullptr);
}
