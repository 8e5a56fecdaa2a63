// SPDX-License-Identifier: BSD-3-Clause
// What librpma's interface hands to an RDMA device as it is, and takes from it as it is: queues
// stay exact, contexts come back, and everything is counted.
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/statistics.hpp"
#include "tests/unit/verbs/rpma_session.hpp"

using namespace compat::test;
using compat::core::Stat;
using compat::core::StatTotals;

namespace {

constexpr int kDepth = 10;  // of a send queue, unless the program says something else
constexpr std::size_t kLength = 8;

/// What was counted since the last look.
class Look {
public:
    Look() { compat::core::own_statistics(before_); }
    std::uint64_t operator[](Stat stat) const {
        StatTotals now;
        compat::core::own_statistics(now);
        const auto at = static_cast<std::size_t>(stat);
        return now.cells[at] - before_.cells[at];
    }

private:
    StatTotals before_{};
};

int write(const RpmaSession& session, std::uint64_t context, std::size_t target = 64,
          int flags = RPMA_F_COMPLETION_ALWAYS) {
    return rpma_write(session.client, session.remote, target, session.local, 0, kLength, flags,
                      RpmaSession::tag(context));
}

rpma_cq* cq_of(rpma_conn* conn) {
    rpma_cq* cq = nullptr;
    assert_int_equal(rpma_conn_get_cq(conn, &cq), 0);
    return cq;
}

int setup(void** state) {
    auto* const session = new RpmaSession;
    *state = session;
    return session->open() && session->connect() ? 0 : -1;
}

int teardown(void** state) {
    delete static_cast<RpmaSession*>(*state);
    return 0;
}

RpmaSession& of(void** state) {
    return *static_cast<RpmaSession*>(*state);
}

void send_queue_takes_exactly_its_depth_round_after_round(void** state) {
    RpmaSession& session = of(state);
    for (int round = 0; round < 5; ++round) {
        const Look look;
        for (int i = 0; i < kDepth; ++i)
            assert_int_equal(write(session, 100 + static_cast<std::uint64_t>(i)), 0);
        assert_int_equal(write(session, 1), RPMA_E_PROVIDER);
        assert_int_equal(look[Stat::writes], kDepth);
        assert_int_equal(look[Stat::write_bytes], kDepth * kLength);
        assert_int_equal(look[Stat::queue_full], 1);
        ibv_wc wcs[kDepth];
        std::uint64_t context = 100;
        for (const int expected : {4, 4, 2}) {
            int got = 0;
            assert_int_equal(rpma_cq_get_wc(cq_of(session.client), 4, wcs, &got), 0);
            assert_int_equal(got, expected);
            for (int i = 0; i < got; ++i) {
                assert_int_equal(wcs[i].status, IBV_WC_SUCCESS);
                assert_int_equal(wcs[i].opcode, IBV_WC_RDMA_WRITE);
                assert_int_equal(wcs[i].wr_id, context++);
            }
        }
        assert_int_equal(look[Stat::completions], kDepth);
        assert_int_equal(rpma_cq_get_wc(cq_of(session.client), 1, wcs, nullptr),
                         RPMA_E_NO_COMPLETION);
    }
}

void unsignaled_requests_are_retired_by_the_next_that_completes(void** state) {
    RpmaSession& session = of(state);
    for (int round = 0; round < 5; ++round) {
        for (int i = 1; i < kDepth; ++i)
            assert_int_equal(write(session, 1, 64, RPMA_F_COMPLETION_ON_ERROR), 0);
        assert_int_equal(write(session, 2), 0);
        assert_int_equal(write(session, 3), RPMA_E_PROVIDER);
        assert_true(session.completed(session.client, 2));
    }
}

void failed_request_and_those_behind_it_come_back_and_are_counted(void** state) {
    RpmaSession& session = of(state);
    const Look look;
    assert_int_equal(write(session, 11), 0);
    assert_int_equal(write(session, 12, session.memory.size()), 0);
    assert_int_equal(write(session, 13), 0);
    // Somewhere among them the session's receive is flushed, which has no context.
    std::vector<ibv_wc> wcs;
    for (int i = 0; i < 4; ++i) {
        ibv_wc wc{};
        assert_true(session.get_wc(cq_of(session.client), wc));
        if (wc.wr_id != 0) wcs.push_back(wc);
    }
    constexpr ibv_wc_status kExpected[] = {IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR,
                                           IBV_WC_WR_FLUSH_ERR};
    assert_int_equal(wcs.size(), std::size(kExpected));
    for (std::size_t i = 0; i < wcs.size(); ++i) {
        assert_int_equal(wcs[i].status, kExpected[i]);
        assert_int_equal(wcs[i].wr_id, 11 + i);
    }
    assert_int_equal(look[Stat::completions], 1);
    assert_int_equal(look[Stat::errors], 1);
    assert_int_equal(look[Stat::flushed], 2);
}

void refused_post_is_counted_as_none(void** state) {
    RpmaSession& session = of(state);
    const Look look;
    compat::mock::fail(compat::mock::Call::post_send, 1, EINVAL);
    assert_int_equal(write(session, 1), RPMA_E_PROVIDER);
    compat::mock::fail_nothing();
    assert_int_equal(look[Stat::writes], 0);
    assert_int_equal(look[Stat::write_bytes], 0);
    assert_int_equal(write(session, 2), 0);
    assert_true(session.completed(session.client, 2));
}

void completion_found_by_a_wait_comes_before_later_ones(void** state) {
    RpmaSession& session = of(state);
    rpma_cq* const cq = cq_of(session.client);
    for (std::uint64_t round = 0; round < 3; ++round) {
        assert_int_equal(write(session, 21), 0);
        assert_int_equal(rpma_cq_wait(cq), 0);
        assert_int_equal(write(session, 22), 0);
        assert_true(session.completed(session.client, 21));
        assert_true(session.completed(session.client, 22));
        ibv_wc wc;
        assert_int_equal(rpma_cq_get_wc(cq, 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
    }
}

void child_process_posts_and_polls_nothing(void** state) {
    RpmaSession& session = of(state);
    assert_int_equal(write(session, 31), 0);
    rpma_cq* const cq = cq_of(session.client);
    const pid_t child = fork();
    if (child == 0) {
        ibv_wc wc;
        const bool refused = write(session, 32) == RPMA_E_PROVIDER &&
                             rpma_cq_get_wc(cq, 1, &wc, nullptr) == RPMA_E_PROVIDER;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(session.completed(session.client, 31));
}

}  // namespace

int main() {
    setenv("FABRIC_COMPAT_DEVICE", "verbs", 1);
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const CMUnitTest tests[] = {
        TEST(send_queue_takes_exactly_its_depth_round_after_round),
        TEST(unsignaled_requests_are_retired_by_the_next_that_completes),
        TEST(failed_request_and_those_behind_it_come_back_and_are_counted),
        TEST(refused_post_is_counted_as_none),
        TEST(completion_found_by_a_wait_comes_before_later_ones),
        TEST(child_process_posts_and_polls_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
