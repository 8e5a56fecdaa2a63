// SPDX-License-Identifier: BSD-3-Clause
// The verbs device call by call: statuses, asynchronous events, a device that dies, doorbells, and
// limits.
#include <cstdlib>

#include "core/device/verbs/verbs_device.hpp"
#include "tests/contract/rig.hpp"
#include "tests/unit/verbs/failing.hpp"

using namespace compat::contract;
using compat::mock::Call;
namespace mock = compat::mock;

namespace {

constexpr std::uint64_t kRequest = 7;
constexpr std::uint64_t kReceive = 9;
constexpr std::uint32_t kVendorError = 0x77;

/// A connection on which one write and one receive of the active side wait.
Pair& connect_and_post(Fixture& fixture, const SideOptions& options = {}) {
    Pair& pair = fixture.connect(both(options));
    const Buffer& source = pair.active.buffer(64);
    const Buffer& target = pair.passive.buffer(64);
    must_post_receive(pair.active, kReceive);
    mock::pause(true);
    must_post(pair.active, {.wr_id = kRequest, .sges = {source.sge(0, 8)}, .remote = at(target)});
    return pair;
}
void expect_flushed(const Pair& pair) {
    expect(pair.active.send_cq(), kRequest, WcStatus::flushed);
    expect(pair.active.receive_cq(), kReceive, WcStatus::flushed);
}

// --- completions

struct StatusRow {
    ibv_wc_status verbs;
    WcStatus core;
};
constexpr StatusRow kStatuses[] = {
    {IBV_WC_LOC_LEN_ERR, WcStatus::local_length_error},
    {IBV_WC_LOC_QP_OP_ERR, WcStatus::local_qp_operation_error},
    {IBV_WC_LOC_EEC_OP_ERR, WcStatus::general_error},
    {IBV_WC_LOC_PROT_ERR, WcStatus::local_protection_error},
    {IBV_WC_WR_FLUSH_ERR, WcStatus::flushed},
    {IBV_WC_MW_BIND_ERR, WcStatus::general_error},
    {IBV_WC_BAD_RESP_ERR, WcStatus::remote_operation_error},
    {IBV_WC_LOC_ACCESS_ERR, WcStatus::local_protection_error},
    {IBV_WC_REM_INV_REQ_ERR, WcStatus::remote_invalid_request},
    {IBV_WC_REM_ACCESS_ERR, WcStatus::remote_access_error},
    {IBV_WC_REM_OP_ERR, WcStatus::remote_operation_error},
    {IBV_WC_RETRY_EXC_ERR, WcStatus::retry_exceeded},
    {IBV_WC_RNR_RETRY_EXC_ERR, WcStatus::rnr_retry_exceeded},
    {IBV_WC_LOC_RDD_VIOL_ERR, WcStatus::general_error},
    {IBV_WC_REM_INV_RD_REQ_ERR, WcStatus::general_error},
    {IBV_WC_REM_ABORT_ERR, WcStatus::remote_operation_error},
    {IBV_WC_INV_EECN_ERR, WcStatus::general_error},
    {IBV_WC_INV_EEC_STATE_ERR, WcStatus::general_error},
    {IBV_WC_FATAL_ERR, WcStatus::fatal},
    {IBV_WC_RESP_TIMEOUT_ERR, WcStatus::retry_exceeded},
    {IBV_WC_GENERAL_ERR, WcStatus::general_error},
};

void every_status_of_the_device_is_told_and_ends_the_connection(void** state) {
    for (const StatusRow& row : kStatuses) {
        Pair& pair = connect_and_post(fixture_of(state));
        mock::fail_next_request(row.verbs, kVendorError);
        mock::pause(false);
        const WorkCompletion wc = expect(pair.active.send_cq(), kRequest, row.core);
        assert_int_equal(wc.vendor_error, kVendorError);
        expect(pair.active.receive_cq(), kReceive, WcStatus::flushed);
        expect_event(pair.active.cm(), CmEventType::disconnected);
        expect_event(pair.passive.cm(), CmEventType::disconnected);
    }
}

// --- what no completion tells of

void asynchronous_event_of_a_failure_ends_the_connection(void** state) {
    for (const ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR,
                                      IBV_EVENT_PORT_ERR, IBV_EVENT_DEVICE_FATAL}) {
        Pair& pair = connect_and_post(fixture_of(state), {.with_srq = type == IBV_EVENT_SRQ_ERR});
        mock::raise(type);
        expect(pair.active.send_cq(), kRequest, WcStatus::flushed);
        expect_event(pair.active.cm(), CmEventType::disconnected);
        expect_event(pair.passive.cm(), CmEventType::disconnected);
        mock::pause(false);
    }
}

void device_removal_is_told_and_ends_the_connection(void** state) {
    const Pair& pair = connect_and_post(fixture_of(state));
    mock::remove_device();
    for (const Side* side : {&pair.active, &pair.passive}) {
        expect_event(side->cm(), CmEventType::device_removed);
        expect_event(side->cm(), CmEventType::disconnected);
    }
    expect_flushed(pair);
}

/// It answers no call any more and completes nothing, as one that was pulled out.
void requests_on_a_dead_device_are_flushed(void** state) {
    Pair& pair = connect_and_post(fixture_of(state));
    mock::die(true);
    mock::raise(IBV_EVENT_DEVICE_FATAL);
    expect_flushed(pair);
    must_post_receive(pair.active, kReceive);
    expect(pair.active.receive_cq(), kReceive, WcStatus::flushed);
    expect_nothing(pair.active.send_cq());
    mock::die(false);
}

// --- receives

void receive_of_an_unpolled_message_is_free_when_the_queue_pair_is_gone(void** state) {
    constexpr std::uint32_t kDepth = 16;
    Pair& pair = fixture_of(state).connect(both({.receive_depth = kDepth, .with_srq = true}));
    const Buffer& buffer = pair.passive.buffer(64);
    const Buffer& source = pair.active.buffer(64);
    for (std::uint64_t id = 0; id < kDepth; ++id)
        must_post_receive(pair.passive, id, {buffer.sge(0, 8)});
    for (std::uint64_t id = 0; id < kDepth; ++id) {
        must_post(pair.active, {.wr_id = id, .opcode = Opcode::send, .sges = {source.sge(0, 8)}});
        expect(pair.active.send_cq(), id);
    }
    pair.passive.qp.reset();
    const Sge element = buffer.sge(0, 8);
    for (std::uint64_t id = 0; id < kDepth; ++id)
        assert_true(pair.passive.resources->srq->post_receive({id, {&element, 1}}).has_value());
}

// --- doorbells

void list_is_one_call(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(64);
    const Buffer& target = pair.passive.buffer(64);
    std::vector<Post> batch;
    for (std::uint64_t id = 0; id < 16; ++id)
        batch.push_back({.wr_id = id, .sges = {source.sge(0, 8)}, .remote = at(target)});
    const std::uint64_t before = mock::calls_of(Call::post_send);
    must_post(pair.active, batch);
    assert_int_equal(mock::calls_of(Call::post_send) - before, 1);
    for (std::uint64_t id = 0; id < 16; ++id) expect(pair.active.send_cq(), id);
}

void list_that_fails_half_way_says_how_much_was_posted(void** state) {
    Pair& pair = fixture_of(state).connect(both({.send_depth = 40}));
    const Buffer& source = pair.active.buffer(64);
    const Buffer& target = pair.passive.buffer(64);
    std::vector<Post> batch;
    for (std::uint64_t id = 0; id < 40; ++id)
        batch.push_back({.wr_id = id, .sges = {source.sge(0, 8)}, .remote = at(target)});
    mock::fail(Call::post_send, 2, EIO);
    std::size_t posted = 0;
    const Status status = post(pair.active, batch, &posted);
    mock::fail_nothing();
    assert_error(status, Errc::device);
    assert_int_equal(status.error().device_errno, EIO);
    assert_int_equal(posted, 16);
    for (std::uint64_t id = 0; id < 16; ++id) expect(pair.active.send_cq(), id);
    expect_working(pair);
}

// --- limits

void limits_are_those_of_the_device(void**) {
    const mock::Config& device = mock::config();
    const Limits& told = limits();
    assert_string_equal(told.name.c_str(), "mock0");
    assert_int_equal(told.max_qp_wr, device.max_qp_wr - 1);  // one is ours
    assert_int_equal(told.max_sge, device.max_sge);
    assert_int_equal(told.max_sge_read, device.max_sge_rd);
    assert_int_equal(told.max_cqe, device.max_cqe);
    assert_int_equal(told.max_srq_wr, device.max_srq_wr);
    assert_int_equal(told.max_rd_atomic, device.max_rd_atomic);
    assert_int_equal(told.max_inline, device.max_inline);
    assert_int_equal(told.max_message, device.max_message);
    assert_true(told.on_demand_paging);
    assert_true(told.atomics);
    assert_false(told.flush);
}

void on_demand_paging_is_asked_of_the_device(void** state) {
    Side& side = fixture_of(state).side();
    std::array<std::byte, 64> memory{};
    const auto region =
        side.pd().register_memory({.address = memory.data(),
                                   .length = memory.size(),
                                   .access = Access::remote_write | Access::on_demand});
    assert_true(region.has_value());
    assert_int_equal(mock::last_access(),
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
}

int teardown_mock(void** state) {
    mock::pause(false);
    mock::die(false);
    mock::fail_nothing();
    return compat::contract::teardown(state) == 0 && mock::violations() == 0 ? 0 : -1;
}

}  // namespace

#define TEST(function) \
    cmocka_unit_test_setup_teardown(function, compat::contract::setup, teardown_mock)

int main() {
    mock::config().on_demand_paging = true;
    mock::config().max_sge_rd = 4;
    Subject subject;
    subject.address =
        compat::core::resolve_address("127.0.0.1", "0", compat::core::Resolve::numeric).value();
    subject.device = compat::core::verbs::owner_of(subject.address);
    set_subject(subject);
    const CMUnitTest tests[] = {
        TEST(every_status_of_the_device_is_told_and_ends_the_connection),
        TEST(asynchronous_event_of_a_failure_ends_the_connection),
        TEST(device_removal_is_told_and_ends_the_connection),
        TEST(requests_on_a_dead_device_are_flushed),
        TEST(receive_of_an_unpolled_message_is_free_when_the_queue_pair_is_gone),
        TEST(list_is_one_call),
        TEST(list_that_fails_half_way_says_how_much_was_posted),
        TEST(limits_are_those_of_the_device),
        TEST(on_demand_paging_is_asked_of_the_device),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
