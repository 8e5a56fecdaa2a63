// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>

#include <cstring>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

using core::WcOpcode;
using core::WcStatus;
using core::WorkCompletion;

int set_up_connected(void** state) {
    if (const int rc = set_up(state); rc != 0) return rc;
    make_conn(of(state));
    return 0;
}

rpma_cq* cq_of(Rig& rig) {
    rpma_cq* cq = nullptr;
    assert_int_equal(rpma_conn_get_cq(rig.conn, &cq), kSuccess);
    return cq;
}

test::FakeCq& fake_of(Rig& rig) {
    return *rig.device.cqs().back();
}

ibv_wc poll_one(Rig& rig) {
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 1, &wc, nullptr), kSuccess);
    return wc;
}

int poll_code(Rig& rig) {
    ibv_wc wc{};
    return rpma_cq_get_wc(cq_of(rig), 1, &wc, nullptr);
}

// --- arguments --------------------------------------------------------------------------------

void bad_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    rpma_cq* const cq = cq_of(rig);
    qp_of(rig).complete_send({.wr_id = 1});
    int fd = -7;
    int got = 77;
    ibv_wc wc[2] = {};
    wc[0].wr_id = 99;
    assert_int_equal(rpma_cq_get_fd(nullptr, &fd), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_fd(cq, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_wait(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(nullptr, 1, wc, &got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(cq, 1, nullptr, &got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(cq, 0, wc, &got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(cq, -1, wc, &got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(cq, 2, wc, nullptr), RPMA_E_INVAL);
    assert_int_equal(fd, -7);
    assert_int_equal(got, 77);
    assert_int_equal(wc[0].wr_id, 99);
    assert_int_equal(poll_one(rig).wr_id, 1);  // and nothing was taken
}

void descriptor_is_that_of_its_own_channel(void** state) {
    Rig& rig = of(state);
    int fd = -1;
    assert_int_equal(rpma_cq_get_fd(cq_of(rig), &fd), kSuccess);
    assert_int_equal(fd, rig.device.channels().back()->fd());
}

// --- polling ----------------------------------------------------------------------------------

void empty_queue_has_no_completion_and_nothing_is_written(void** state) {
    Rig& rig = of(state);
    for (const int entries : {1, 3, 100}) {
        int got = 77;
        std::vector<ibv_wc> wc(static_cast<std::size_t>(entries));
        wc[0].wr_id = 99;
        assert_int_equal(rpma_cq_get_wc(cq_of(rig), entries, wc.data(), &got),
                         RPMA_E_NO_COMPLETION);
        assert_int_equal(got, 77);
        assert_int_equal(wc[0].wr_id, 99);
    }
}

void completions_come_in_order_and_no_more_than_asked(void** state) {
    Rig& rig = of(state);
    constexpr int kAll = 41;
    for (const int entries : {1, 2, 15, 16, 17, 32, 40, 41, 42, 100}) {
        for (std::uint64_t id = 0; id < kAll; ++id) qp_of(rig).complete_send({.wr_id = id});
        std::vector<ibv_wc> wc(static_cast<std::size_t>(entries) + 1);
        int next = 0;
        while (next < kAll) {
            wc[static_cast<std::size_t>(entries)].wr_id = 99;
            int got = 0;
            assert_int_equal(rpma_cq_get_wc(cq_of(rig), entries, wc.data(), &got), kSuccess);
            assert_int_equal(got, std::min(entries, kAll - next));
            assert_int_equal(wc[static_cast<std::size_t>(entries)].wr_id, 99);
            for (int i = 0; i < got; ++i)
                assert_int_equal(wc[static_cast<std::size_t>(i)].wr_id, next++);
        }
        assert_int_equal(poll_code(rig), RPMA_E_NO_COMPLETION);
    }
}

void single_entry_may_have_a_count(void** state) {
    Rig& rig = of(state);
    qp_of(rig).complete_send({.wr_id = 5});
    ibv_wc wc{};
    int got = 0;
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 1, &wc, &got), kSuccess);
    assert_int_equal(got, 1);
    assert_int_equal(wc.wr_id, 5);
}

void failed_poll_is_the_providers_and_writes_nothing(void** state) {
    Rig& rig = of(state);
    for (const ErrRow& row : kErrMap) {
        ibv_wc wc[2] = {};
        int got = 77;
        rig.device.fail(Call::poll, 1, {row.core, 0});
        assert_int_equal(rpma_cq_get_wc(cq_of(rig), 2, wc, &got), RPMA_E_PROVIDER);
        assert_int_equal(got, 77);
    }
}

void completions_taken_before_a_failure_are_given(void** state) {
    Rig& rig = of(state);
    for (std::uint64_t id = 0; id < 20; ++id) qp_of(rig).complete_send({.wr_id = id});
    ibv_wc wc[40] = {};
    int got = 0;
    rig.device.fail(Call::poll, 2, {core::Errc::device, 0});
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 40, wc, &got), kSuccess);
    assert_true(rig.device.has_failed());
    const int first = got;
    assert_true(first > 0 && first < 20);
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 40, wc, &got), kSuccess);
    assert_int_equal(first + got, 20);
    assert_int_equal(wc[0].wr_id, first);
}

void device_that_claims_more_than_asked_is_unknown(void** state) {
    Rig& rig = of(state);
    fake_of(rig).overstated = 1;
    qp_of(rig).complete_send({.wr_id = 1});
    assert_int_equal(poll_code(rig), RPMA_E_UNKNOWN);
}

void polling_allocates_nothing(void** state) {
    Rig& rig = of(state);
    for (std::uint64_t id = 0; id < 20; ++id) qp_of(rig).complete_send({.wr_id = id});
    ibv_wc wc[40] = {};
    int got = 0;
    test::fail_new(1);
    assert_int_equal(rpma_cq_wait(cq_of(rig)), kSuccess);
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 40, wc, &got), kSuccess);
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 40, wc, &got), RPMA_E_NO_COMPLETION);
    assert_false(test::new_has_failed());
    test::fail_new(0);
}

// --- what a completion looks like -------------------------------------------------------------

struct StatusRow {
    WcStatus core;
    int verbs;
};
constexpr std::array kStatuses{
    StatusRow{WcStatus::success, 0},
    StatusRow{WcStatus::local_length_error, 1},
    StatusRow{WcStatus::local_qp_operation_error, 2},
    StatusRow{WcStatus::local_protection_error, 4},
    StatusRow{WcStatus::flushed, 5},
    StatusRow{WcStatus::remote_invalid_request, 9},
    StatusRow{WcStatus::remote_access_error, 10},
    StatusRow{WcStatus::remote_operation_error, 11},
    StatusRow{WcStatus::retry_exceeded, 12},
    StatusRow{WcStatus::rnr_retry_exceeded, 13},
    StatusRow{WcStatus::fatal, 19},
    StatusRow{WcStatus::general_error, 21},
    StatusRow{WcStatus::no_message, 21},
};
static_assert(kStatuses.size() == static_cast<std::size_t>(WcStatus::count_));

void every_status_has_its_number(void** state) {
    Rig& rig = of(state);
    for (const StatusRow& row : kStatuses) {
        for (const bool receive : {false, true}) {
            const WorkCompletion completion{
                .wr_id = kWrId, .status = row.core, .vendor_error = 0x5a};
            if (receive)
                qp_of(rig).complete_receive(completion);
            else
                qp_of(rig).complete_send(completion);
            const ibv_wc wc = poll_one(rig);
            assert_int_equal(wc.status, row.verbs);
            assert_int_equal(wc.wr_id, kWrId);
            assert_int_equal(wc.vendor_err, 0x5a);
            assert_int_equal(wc.qp_num, qp_of(rig).number());
        }
    }
}

struct OpcodeRow {
    WcOpcode core;
    int verbs;
};
constexpr std::array kOpcodes{
    OpcodeRow{WcOpcode::send, 0},
    OpcodeRow{WcOpcode::write, 1},
    OpcodeRow{WcOpcode::read, 2},
    OpcodeRow{WcOpcode::compare_swap, 3},
    OpcodeRow{WcOpcode::fetch_add, 4},
    OpcodeRow{WcOpcode::atomic_write, 9},
    OpcodeRow{WcOpcode::flush, 8},
    OpcodeRow{WcOpcode::receive, 128},
    OpcodeRow{WcOpcode::receive_write_imm, 129},
};
static_assert(kOpcodes.size() == static_cast<std::size_t>(WcOpcode::count_));

void every_opcode_has_its_number(void** state) {
    Rig& rig = of(state);
    for (const OpcodeRow& row : kOpcodes) {
        qp_of(rig).complete_send({.opcode = row.core, .byte_length = 4096});
        const ibv_wc wc = poll_one(rig);
        int opcode = -1;
        std::memcpy(&opcode, &wc.opcode, sizeof opcode);  // newer than the enum's enumerators
        assert_int_equal(opcode, row.verbs);
        assert_int_equal(wc.byte_len, 4096);
        assert_int_equal(wc.wc_flags, 0);
        assert_int_equal(wc.imm_data, 0);
    }
}

void immediate_data_is_in_network_order_and_flagged(void** state) {
    Rig& rig = of(state);
    for (const WcOpcode opcode : {WcOpcode::receive, WcOpcode::receive_write_imm}) {
        for (const std::uint32_t imm : {0U, 1U, 0x01020304U, UINT32_MAX}) {
            qp_of(rig).complete_receive({.opcode = opcode, .has_imm = true, .imm = imm});
            const ibv_wc wc = poll_one(rig);
            assert_int_equal(wc.wc_flags, 2);
            assert_int_equal(ntohl(wc.imm_data), imm);
        }
    }
    qp_of(rig).complete_receive({.opcode = WcOpcode::receive, .has_imm = true, .imm = 0x01020304});
    const ibv_wc wc = poll_one(rig);
    const std::uint8_t expected[4] = {1, 2, 3, 4};
    assert_memory_equal(&wc.imm_data, expected, 4);
}

void without_immediate_data_nothing_is_flagged(void** state) {
    Rig& rig = of(state);
    qp_of(rig).complete_receive({.opcode = WcOpcode::receive, .has_imm = false, .imm = 5});
    const ibv_wc wc = poll_one(rig);
    assert_int_equal(wc.wc_flags, 0);
    assert_int_equal(wc.imm_data, 0);
}

// --- waiting ----------------------------------------------------------------------------------

void wait_returns_at_once_while_there_are_completions(void** state) {
    Rig& rig = of(state);
    for (std::uint64_t id = 0; id < 3; ++id) qp_of(rig).complete_send({.wr_id = id});
    for (std::uint64_t id = 0; id < 3; ++id) {
        assert_int_equal(rpma_cq_wait(cq_of(rig)), kSuccess);
        assert_int_equal(rpma_cq_wait(cq_of(rig)), kSuccess);
        assert_int_equal(poll_one(rig).wr_id, id);
    }
}

void one_request_at_a_time_never_meets_an_empty_queue_after_a_wait(void** state) {
    Rig& rig = of(state);
    for (std::uint64_t id = 0; id < 50; ++id) {
        qp_of(rig).complete_send({.wr_id = id});
        assert_int_equal(rpma_cq_wait(cq_of(rig)), kSuccess);
        assert_int_equal(poll_one(rig).wr_id, id);
        if (id % 3 == 0) assert_int_equal(poll_code(rig), RPMA_E_NO_COMPLETION);
    }
}

void nothing_there_in_nonblocking_mode_is_no_completion(void** state) {
    Rig& rig = of(state);
    set_nonblocking(rig.device.channels().back()->fd());
    assert_int_equal(rpma_cq_wait(cq_of(rig)), RPMA_E_NO_COMPLETION);
    qp_of(rig).complete_send({.wr_id = 1});
    assert_int_equal(poll_one(rig).wr_id, 1);
    // The event of a completion that is gone wakes nobody.
    assert_int_equal(rpma_cq_wait(cq_of(rig)), RPMA_E_NO_COMPLETION);
}

void failed_wait_is_no_completion_for_whatever_reason(void** state) {
    Rig& rig = of(state);
    for (const ErrRow& row : kErrMap) {
        rig.device.channels().back()->raise(&fake_of(rig));
        rig.device.fail(Call::get_completion_event, 1, {row.core, 0});
        assert_int_equal(rpma_cq_wait(cq_of(rig)), RPMA_E_NO_COMPLETION);
    }
}

void failed_arming_is_the_providers(void** state) {
    Rig& rig = of(state);
    for (const ErrRow& row : kErrMap) {
        rig.device.channels().back()->raise(&fake_of(rig));
        rig.device.fail(Call::request_notify, 1, {row.core, 0});
        assert_int_equal(rpma_cq_wait(cq_of(rig)), RPMA_E_PROVIDER);
    }
}

}  // namespace
}  // namespace compat::rpma

#undef TEST
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_connected, tear_down)

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(bad_arguments_are_refused),
        TEST(descriptor_is_that_of_its_own_channel),
        TEST(empty_queue_has_no_completion_and_nothing_is_written),
        TEST(completions_come_in_order_and_no_more_than_asked),
        TEST(single_entry_may_have_a_count),
        TEST(failed_poll_is_the_providers_and_writes_nothing),
        TEST(completions_taken_before_a_failure_are_given),
        TEST(device_that_claims_more_than_asked_is_unknown),
        TEST(polling_allocates_nothing),
        TEST(every_status_has_its_number),
        TEST(every_opcode_has_its_number),
        TEST(immediate_data_is_in_network_order_and_flagged),
        TEST(without_immediate_data_nothing_is_flagged),
        TEST(wait_returns_at_once_while_there_are_completions),
        TEST(one_request_at_a_time_never_meets_an_empty_queue_after_a_wait),
        TEST(nothing_there_in_nonblocking_mode_is_no_completion),
        TEST(failed_wait_is_no_completion_for_whatever_reason),
        TEST(failed_arming_is_the_providers),
    };
    return cmocka_run_group_tests_name("cq", tests, nullptr, nullptr);
}
