// SPDX-License-Identifier: BSD-3-Clause
// The verbs device on an iWARP NIC: what it may not be given, and what it does not tell.
#include <poll.h>

#include "core/device/verbs/verbs_device.hpp"
#include "tests/contract/rig.hpp"
#include "tests/unit/verbs/failing.hpp"

using namespace compat::contract;
namespace mock = compat::mock;

namespace {

void limits_leave_out_what_iwarp_lacks(void**) {
    assert_true(limits().transport == Transport::iwarp);
    assert_int_equal(limits().imm_bytes, 0);
    assert_false(limits().atomics);
    assert_true(limits().read_sink_needs_remote_write);
}

// --- what it is given

struct Posted {
    Opcode opcode;
    std::vector<std::size_t> lengths;
    int elements;
};

void elements_of_no_bytes_are_left_out_and_a_read_has_one(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(64);
    const Buffer& remote = pair.passive.buffer(64);
    const Posted rows[] = {
        {Opcode::write, {0, 8, 0, 8}, 2}, {Opcode::write, {0}, 0}, {Opcode::write, {}, 0},
        {Opcode::send, {0, 8}, 1},        {Opcode::send, {0}, 0},  {Opcode::read, {0, 8}, 1},
        {Opcode::read, {0}, 1},           {Opcode::read, {}, 1},   {Opcode::read, {0, 0}, 1},
    };
    for (const Posted& row : rows) {
        if (row.opcode == Opcode::send) must_post_receive(pair.passive, 1, {remote.sge()});
        Post what{.wr_id = 2, .opcode = row.opcode, .remote = at(remote)};
        std::size_t length = 0;
        for (const std::size_t one : row.lengths) {
            what.sges.push_back(local.sge(0, one));
            length += one;
        }
        must_post(pair.active, what);
        expect(pair.active.send_cq(), 2);
        assert_int_equal(mock::last_request().elements, row.elements);
        assert_int_equal(mock::last_request().length, length);
    }
}

void request_waits_for_the_reads_before_it_and_a_read_for_none(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        must_post(pair.active, {.wr_id = 1,
                                .opcode = opcode,
                                .sges = {local.sge()},
                                .remote = at(remote),
                                .flags = SendFlag::signaled | SendFlag::fence});
        expect(pair.active.send_cq(), 1);
        const bool fenced = (mock::last_request().flags & IBV_SEND_FENCE) != 0;
        assert_int_equal(fenced, opcode == Opcode::write);
    }
}

// --- what it tells

void queue_armed_for_solicited_messages_is_told_of_all(void** state) {
    Pair& pair = fixture_of(state).connect();
    must_post_receive(pair.passive, 1);
    assert_true(pair.passive.receive_cq().request_notify(true).has_value());
    must_post(pair.active, {.wr_id = 1, .opcode = Opcode::send});
    pollfd told{pair.passive.resources->channel->fd(), POLLIN, 0};
    assert_int_equal(poll(&told, 1, 10'000), 1);
}

// siw flushes when the socket is closed: after the connection has ended for us, who have done it in
// its place by then.
void request_that_we_have_flushed_completes_once(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    mock::config().flushes_at_once = false;
    mock::pause(true);
    for (std::uint64_t id = 0; id < 3; ++id) {
        must_post(pair.active, {.wr_id = id, .sges = {local.sge()}, .remote = at(remote)});
        must_post_receive(pair.active, 10 + id);
    }
    pair.active.qp->fail();
    for (std::uint64_t id = 0; id < 3; ++id) {
        expect(pair.active.send_cq(), id, WcStatus::flushed);
        expect(pair.active.receive_cq(), 10 + id, WcStatus::flushed);
    }
    mock::flush();
    expect_nothing(pair.active.send_cq());
    expect_nothing(pair.active.receive_cq());
    // Nor does it free or fill what is posted now.
    for (std::uint64_t id = 20; id < 60; ++id) {
        must_post(pair.active, {.wr_id = id, .opcode = Opcode::send});
        expect(pair.active.send_cq(), id, WcStatus::flushed);
    }
}

// siw takes requests, and then says that nobody is connected any more.
void requests_that_meet_a_broken_connection_are_flushed(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    mock::pause(true);
    mock::fail(mock::Call::post_send, 1, ENOTCONN);
    const Post one{.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)};
    must_post(pair.active, {one, one});
    for (int i = 0; i < 2; ++i) expect(pair.active.send_cq(), 1, WcStatus::flushed);
    expect_nothing(pair.active.send_cq());
    expect_event(pair.active.cm(), CmEventType::disconnected);
    expect_event(pair.passive.cm(), CmEventType::disconnected);
}

int teardown_mock(void** state) {
    mock::fail_nothing();
    mock::pause(false);
    mock::config().flushes_at_once = true;
    return compat::contract::teardown(state) == 0 && mock::violations() == 0 ? 0 : -1;
}

}  // namespace

#define TEST(function) \
    cmocka_unit_test_setup_teardown(function, compat::contract::setup, teardown_mock)

int main() {
    mock::config().iwarp = true;
    Subject subject;
    subject.address =
        compat::core::resolve_address("127.0.0.1", "0", compat::core::Resolve::numeric).value();
    subject.device = compat::core::verbs::owner_of(subject.address);
    set_subject(subject);
    const CMUnitTest tests[] = {
        TEST(limits_leave_out_what_iwarp_lacks),
        TEST(elements_of_no_bytes_are_left_out_and_a_read_has_one),
        TEST(request_waits_for_the_reads_before_it_and_a_read_for_none),
        TEST(queue_armed_for_solicited_messages_is_told_of_all),
        TEST(request_that_we_have_flushed_completes_once),
        TEST(requests_that_meet_a_broken_connection_are_flushed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
