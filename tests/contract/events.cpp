// SPDX-License-Identifier: BSD-3-Clause
// Completion channels: one event per arming, for the right completions, and none is lost.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

CompletionChannel& channel_of(const Side& side) {
    return *side.resources->channel;
}

void arm(CompletionQueue& cq, bool solicited_only = false) {
    assert_true(cq.request_notify(solicited_only).has_value());
}

void assert_event(const Side& side, const CompletionQueue& cq) {
    pollfd ready{channel_of(side).fd(), POLLIN, 0};
    assert_int_equal(
        poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1);
    const auto event = channel_of(side).get_event();
    assert_true(event.has_value());
    assert_ptr_equal(*event, &cq);
}

void assert_no_event(const Side& side) {
    pollfd ready{channel_of(side).fd(), POLLIN, 0};
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_error(channel_of(side).get_event(), Errc::would_block);
}

/// A write of active that has completed and is not polled.
void complete_one(Pair& pair) {
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    must_post(pair.active, {.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)});
    assert_true(eventually([&] {
        (void)pair.active.receive_cq().poll({});
        return pair.active.send_cq().has_completions();
    }));
}

/// A message that passive has received and not polled.
void receive_one(Pair& pair, std::uint64_t id, bool solicited) {
    must_post_receive(pair.passive, id);
    must_post(pair.active, {.wr_id = id,
                            .opcode = Opcode::send,
                            .flags = solicited ? SendFlag::signaled | SendFlag::solicited
                                               : SendFlags(SendFlag::signaled)});
    expect(pair.active.send_cq(), id);
}

void hint_is_right_when_it_says_yes(void** state) {
    Pair& pair = fixture_of(state).connect();
    assert_false(pair.active.send_cq().has_completions());
    complete_one(pair);
    WorkCompletion wc;
    assert_int_equal(*pair.active.send_cq().poll({&wc, 1}), 1);
    assert_false(pair.active.send_cq().has_completions());
}

void queue_that_is_not_armed_raises_no_event(void** state) {
    Pair& pair = fixture_of(state).connect();
    complete_one(pair);
    assert_no_event(pair.active);
}

void armed_queue_raises_one_event_for_the_next_completion(void** state) {
    Pair& pair = fixture_of(state).connect();
    for (int round = 0; round < 10; ++round) {
        arm(pair.active.send_cq());
        assert_no_event(pair.active);
        complete_one(pair);
        assert_event(pair.active, pair.active.send_cq());
        complete_one(pair);
        complete_one(pair);
        assert_no_event(pair.active);
        for (int i = 0; i < 3; ++i) expect(pair.active.send_cq(), 1);
    }
}

void completions_that_were_there_before_arming_raise_no_event(void** state) {
    Pair& pair = fixture_of(state).connect();
    complete_one(pair);
    arm(pair.active.send_cq());
    assert_no_event(pair.active);
    expect(pair.active.send_cq(), 1);
    assert_no_event(pair.active);
    complete_one(pair);
    assert_event(pair.active, pair.active.send_cq());
}

void arming_twice_raises_one_event(void** state) {
    Pair& pair = fixture_of(state).connect();
    arm(pair.active.send_cq());
    arm(pair.active.send_cq());
    complete_one(pair);
    assert_event(pair.active, pair.active.send_cq());
    complete_one(pair);
    assert_no_event(pair.active);
}

void solicited_arming_waits_for_a_solicited_message(void** state) {
    Pair& pair = fixture_of(state).connect();
    arm(pair.passive.receive_cq(), true);
    if (subject().tells_solicited) {
        receive_one(pair, 1, false);
        expect(pair.passive.receive_cq(), 1);
        assert_no_event(pair.passive);
    }
    receive_one(pair, 2, true);
    assert_event(pair.passive, pair.passive.receive_cq());
    expect(pair.passive.receive_cq(), 2);
    receive_one(pair, 3, true);
    expect(pair.passive.receive_cq(), 3);
    assert_no_event(pair.passive);
}

void solicited_immediate_raises_a_solicited_event(void** state) {
    if (limits().imm_bytes == 0) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& remote = pair.passive.buffer(8);
    const Buffer& local = pair.active.buffer(8);
    for (const Opcode opcode : {Opcode::write_imm, Opcode::send_imm}) {
        arm(pair.passive.receive_cq(), true);
        for (const bool solicited : {false, true}) {
            must_post_receive(pair.passive, 1, {remote.sge()});
            must_post(pair.active, {.wr_id = 1,
                                    .opcode = opcode,
                                    .sges = {local.sge()},
                                    .remote = at(remote),
                                    .flags = solicited ? SendFlag::signaled | SendFlag::solicited
                                                       : SendFlags(SendFlag::signaled)});
            expect(pair.active.send_cq(), 1);
            expect(pair.passive.receive_cq(), 1);
            if (!solicited) assert_no_event(pair.passive);
        }
        assert_event(pair.passive, pair.passive.receive_cq());
    }
}

void solicited_arming_also_waits_for_an_error(void** state) {
    if (!subject().exact_errors) skip();  // rxe does not call failures solicited
    Pair& pair = fixture_of(state).connect();
    must_post_receive(pair.passive, 1);
    arm(pair.passive.receive_cq(), true);
    arm(pair.active.send_cq(), true);
    complete_one(pair);
    assert_no_event(pair.active);
    const Buffer& local = pair.active.buffer(8);
    must_post(pair.active, {.wr_id = 2, .sges = {local.sge()}, .remote = {1, 1}});
    assert_event(pair.active, pair.active.send_cq());
    assert_event(pair.passive, pair.passive.receive_cq());
    expect(pair.passive.receive_cq(), 1, WcStatus::flushed);
}

void arming_for_any_wins_over_solicited(void** state) {
    Pair& pair = fixture_of(state).connect();
    for (const bool solicited_first : {true, false}) {
        arm(pair.passive.receive_cq(), solicited_first);
        arm(pair.passive.receive_cq(), !solicited_first);
        receive_one(pair, 1, false);
        assert_event(pair.passive, pair.passive.receive_cq());
        expect(pair.passive.receive_cq(), 1);
    }
}

void channel_of_several_queues_names_each(void** state) {
    Pair& pair = fixture_of(state).connect();
    arm(pair.active.send_cq());
    arm(pair.active.receive_cq());
    complete_one(pair);
    must_post_receive(pair.active, 5);
    must_post(pair.passive, {.wr_id = 5, .opcode = Opcode::send});
    expect(pair.passive.send_cq(), 5);
    expect(pair.active.receive_cq(), 5);
    assert_event(pair.active, pair.active.send_cq());
    assert_event(pair.active, pair.active.receive_cq());
    assert_no_event(pair.active);
}

void destroyed_queue_leaves_no_event_behind(void** state) {
    Pair& pair = fixture_of(state).connect();
    arm(pair.active.send_cq());
    complete_one(pair);
    pair.active.qp.reset();
    pair.active.resources->send_cq.reset();
    assert_no_event(pair.active);
}

void blocking_get_event_returns_when_the_peer_sends(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect();
    const int fd = channel_of(pair.passive).fd();
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
    must_post_receive(pair.passive, 1);
    arm(pair.passive.receive_cq());
    fixture.run([&] {
        if (!post(pair.active, {.opcode = Opcode::send})) ++fixture.wrong;
    });
    const auto event = channel_of(pair.passive).get_event();
    assert_true(event.has_value());
    assert_ptr_equal(*event, &pair.passive.receive_cq());
    expect(pair.passive.receive_cq(), 1);
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
}

void signal_interrupts_a_blocking_get_event(void** state) {
    Fixture& fixture = fixture_of(state);
    Side& side = fixture.side();
    const int fd = channel_of(side).fd();
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    struct sigaction action {};
    action.sa_handler = [](int) {};
    assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
    fixture.run([&, waiter = pthread_self()] {
        while (!fixture.stop) {
            pthread_kill(waiter, SIGUSR1);
            std::this_thread::yield();
        }
    });
    const auto event = channel_of(side).get_event();
    fixture.stop = true;
    fixture.join();
    assert_error(event, Errc::interrupted);
}

// Both sides sleep whenever they find nothing: a lost wake-up ends the game.
void sleepers_play_ping_pong(void** state) {
    Fixture& fixture = fixture_of(state);
    SideOptions options;
    options.one_cq = true;
    Pair& pair = fixture.connect(both(options));
    constexpr int kRounds = 1000;
    const auto sleep_for_completion = [](const Side& side, WorkCompletion& wc) {
        for (;;) {
            if (side.send_cq().poll({&wc, 1}).value_or(0) == 1) return true;
            if (!side.send_cq().request_notify(false)) return false;
            if (side.send_cq().poll({&wc, 1}).value_or(0) == 1) return true;
            pollfd ready{channel_of(side).fd(), POLLIN, 0};
            if (poll(&ready, 1, 10'000) != 1) return false;
            (void)channel_of(side).get_event();
        }
    };
    // A ball is a receive; the first completion may be that of the send before.
    const auto play = [&](const Side& side, bool serves) {
        for (int round = 0; round < kRounds; ++round) {
            if (serves && !post(side, {.opcode = Opcode::send})) return false;
            WorkCompletion wc;
            do {
                if (!sleep_for_completion(side, wc) || wc.status != WcStatus::success) return false;
            } while (!wc.receive_side);
            if (!post_receive(side, 1)) return false;
            if (!serves && !post(side, {.opcode = Opcode::send})) return false;
        }
        return true;
    };
    for (const Side* side : {&pair.active, &pair.passive})
        for (int i = 0; i < 4; ++i) must_post_receive(*side, 1);
    fixture.run([&] {
        if (!play(pair.passive, false)) ++fixture.wrong;
    });
    assert_true(play(pair.active, true));
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
}

// A program may arm and never take its events: the channel must neither grow nor lose its place.
void events_that_nobody_takes_do_no_harm(void** state) {
    Pair& pair = fixture_of(state).connect();
    for (int round = 0; round < 1000; ++round) {
        arm(pair.active.send_cq());
        const Buffer& local =
            pair.active.buffers.empty() ? pair.active.buffer(8) : pair.active.buffers.front();
        must_post(pair.active, {.wr_id = 1, .sges = {local.sge(0, 0)}});
        expect(pair.active.send_cq(), 1);
    }
    for (int round = 0; round < 1000; ++round) assert_event(pair.active, pair.active.send_cq());
    assert_no_event(pair.active);
}

void passive_program_that_sleeps_is_served(void** state) {
    // Nobody polls for the target: one-sided requests complete all the same.
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(100'000);
    const Buffer& remote = pair.passive.buffer(100'000);
    local.fill_pattern(1);
    must_post(pair.active, {.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)});
    assert_true(eventually([&] { return pair.active.send_cq().has_completions(); }));
    expect(pair.active.send_cq(), 1);
    settle(pair.active);
    assert_true(holds_pattern(remote.data(), remote.size(), 0, 1));
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(hint_is_right_when_it_says_yes),
    CONTRACT_TEST(queue_that_is_not_armed_raises_no_event),
    CONTRACT_TEST(armed_queue_raises_one_event_for_the_next_completion),
    CONTRACT_TEST(completions_that_were_there_before_arming_raise_no_event),
    CONTRACT_TEST(arming_twice_raises_one_event),
    CONTRACT_TEST(solicited_arming_waits_for_a_solicited_message),
    CONTRACT_TEST(solicited_immediate_raises_a_solicited_event),
    CONTRACT_TEST(solicited_arming_also_waits_for_an_error),
    CONTRACT_TEST(arming_for_any_wins_over_solicited),
    CONTRACT_TEST(channel_of_several_queues_names_each),
    CONTRACT_TEST(destroyed_queue_leaves_no_event_behind),
    CONTRACT_TEST(blocking_get_event_returns_when_the_peer_sends),
    CONTRACT_TEST(signal_interrupts_a_blocking_get_event),
    CONTRACT_TEST(sleepers_play_ping_pong),
    CONTRACT_TEST(events_that_nobody_takes_do_no_harm),
    CONTRACT_TEST(passive_program_that_sleeps_is_served),
};

}  // namespace

std::span<const CMUnitTest> event_tests() {
    return kTests;
}

}  // namespace compat::contract
