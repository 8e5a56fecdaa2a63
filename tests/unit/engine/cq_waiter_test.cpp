// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/cq_waiter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "core/base/log.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/fake_device.hpp"

namespace compat::core {
namespace {

using test::Call;
using test::FakeChannel;
using test::FakeCq;

struct Fixture {
    test::FakeDevice device;
    std::unique_ptr<CqWaiter> waiter;
    std::unique_ptr<WaitedCq> cq;
    std::unique_ptr<WaitedCq> other;
    std::vector<std::thread> threads;
};

int setup(void** state) {
    auto* fixture = new Fixture;
    *state = fixture;
    auto waiter = CqWaiter::create(fixture->device);
    if (!waiter) return -1;
    fixture->waiter = std::move(*waiter);
    auto cq = fixture->waiter->create_cq(fixture->device, 8);
    auto other = fixture->waiter->create_cq(fixture->device, 9);
    if (!cq || !other) return -1;
    fixture->cq = std::move(*cq);
    fixture->other = std::move(*other);
    return 0;
}

FakeChannel& channel_of(Fixture& fixture) {
    return *fixture.device.channels().front();
}

int teardown(void** state) {
    const std::unique_ptr<Fixture> fixture(static_cast<Fixture*>(*state));
    if (fixture->waiter != nullptr) channel_of(*fixture).held = false;
    for (std::thread& thread : fixture->threads)
        if (thread.joinable()) thread.join();
    fixture->cq.reset();
    fixture->other.reset();
    fixture->waiter.reset();
    return fixture->device.live() == 0 ? 0 : -1;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

FakeCq& fake(Fixture& fixture) {
    return *fixture.device.cqs()[0];
}
FakeCq& other_fake(Fixture& fixture) {
    return *fixture.device.cqs()[1];
}

void push(FakeCq& queue, std::uint64_t wr_id, std::uint32_t qp_num = 0) {
    queue.push({.wr_id = wr_id, .qp_num = qp_num});
}

std::vector<std::uint64_t> poll_ids(WaitedCq& queue, std::size_t most) {
    std::vector<WorkCompletion> wcs(most);
    const auto count = queue.poll(wcs);
    assert_true(count.has_value());
    std::vector<std::uint64_t> ids;
    for (std::size_t i = 0; i < *count; ++i) ids.push_back(wcs[i].wr_id);
    return ids;
}

void assert_ids(const std::vector<std::uint64_t>& ids, const std::vector<std::uint64_t>& expected) {
    assert_int_equal(ids.size(), expected.size());
    for (std::size_t i = 0; i < ids.size(); ++i) assert_int_equal(ids[i], expected[i]);
}

void set_nonblocking(Fixture& fixture) {
    assert_int_equal(fcntl(fixture.waiter->fd(), F_SETFL, O_NONBLOCK), 0);
}

bool readable(Fixture& fixture) {
    pollfd channel{.fd = fixture.waiter->fd(), .events = POLLIN, .revents = 0};
    return ::poll(&channel, 1, 0) == 1;
}

void assert_ready(Fixture& fixture, const WaitedCq& expected) {
    const auto ready = fixture.waiter->wait();
    assert_true(ready.has_value());
    assert_ptr_equal(*ready, &expected);
}

Errc error_of_wait(Fixture& fixture) {
    const auto ready = fixture.waiter->wait();
    assert_false(ready.has_value());
    return ready.error().code;
}

// --- making -----------------------------------------------------------------------------------

void queues_are_made_armed_on_the_waiters_channel(void** state) {
    Fixture& fixture = of(state);
    assert_int_equal(fixture.waiter->fd(), channel_of(fixture).fd());
    assert_true(fake(fixture).armed());
    assert_true(other_fake(fixture).armed());
    assert_ptr_equal(fake(fixture).channel, &channel_of(fixture));
    assert_int_equal(fake(fixture).depth, 8);
    assert_int_equal(other_fake(fixture).depth, 9);
    assert_ptr_equal(&fixture.cq->queue(), &fake(fixture));
}

void failures_to_make_are_passed_on_and_leak_nothing(void** state) {
    Fixture& fixture = of(state);
    fixture.other.reset();
    const std::size_t live = fixture.device.live();
    fixture.device.fail(Call::create_completion_channel, 1, {Errc::no_memory, ENOMEM});
    const auto waiter = CqWaiter::create(fixture.device);
    assert_false(waiter.has_value());
    assert_int_equal(waiter.error().code, Errc::no_memory);
    assert_int_equal(waiter.error().device_errno, ENOMEM);
    for (const Call call : {Call::create_cq, Call::request_notify}) {
        fixture.device.fail(call, 1, {Errc::device, EIO});
        const auto queue = fixture.waiter->create_cq(fixture.device, 4);
        assert_false(queue.has_value());
        assert_int_equal(queue.error().code, Errc::device);
        assert_int_equal(queue.error().device_errno, EIO);
    }
    assert_int_equal(fixture.device.live(), live);
}

void place_of_a_destroyed_queue_is_free_again(void** state) {
    Fixture& fixture = of(state);
    for (int round = 0; round < 3; ++round) {
        fixture.other.reset();
        auto queue = fixture.waiter->create_cq(fixture.device, 4);
        assert_true(queue.has_value());
        fixture.other = std::move(*queue);
        push(other_fake(fixture), 1);
        assert_ready(fixture, *fixture.other);
    }
}

// --- waiting ----------------------------------------------------------------------------------

void wait_returns_at_once_while_a_queue_has_completions(void** state) {
    Fixture& fixture = of(state);
    for (std::uint64_t id = 1; id <= 3; ++id) push(fake(fixture), id);
    for (std::uint64_t id = 1; id <= 3; ++id) {
        assert_ready(fixture, *fixture.cq);
        assert_ready(fixture, *fixture.cq);
        assert_ids(poll_ids(*fixture.cq, 1), {id});
    }
    set_nonblocking(fixture);
    assert_int_equal(error_of_wait(fixture), Errc::would_block);
}

void each_arming_gives_one_event(void** state) {
    Fixture& fixture = of(state);
    for (std::uint64_t id = 1; id <= 3; ++id) push(fake(fixture), id);
    assert_int_equal(channel_of(fixture).pending(), 1);
    assert_false(fake(fixture).armed());
    assert_ready(fixture, *fixture.cq);
    assert_int_equal(channel_of(fixture).pending(), 0);
    assert_true(fake(fixture).armed());
    push(fake(fixture), 4);
    push(fake(fixture), 5);
    assert_int_equal(channel_of(fixture).pending(), 1);
}

void queue_of_the_oldest_event_comes_first(void** state) {
    Fixture& fixture = of(state);
    push(other_fake(fixture), 1);
    push(fake(fixture), 2);
    assert_ready(fixture, *fixture.other);
    assert_ready(fixture, *fixture.cq);
}

void what_comes_during_the_look_is_told_in_order(void** state) {
    Fixture& fixture = of(state);
    set_nonblocking(fixture);
    FakeCq& first = fake(fixture);
    first.after_empty_poll = [&] {
        push(first, 1);
        push(other_fake(fixture), 2);
    };
    assert_ready(fixture, *fixture.cq);
    assert_ready(fixture, *fixture.other);
}

void queue_without_an_event_is_found_by_looking(void** state) {
    Fixture& fixture = of(state);
    push(other_fake(fixture), 1);
    assert_ready(fixture, *fixture.other);  // takes the event
    assert_int_equal(channel_of(fixture).pending(), 0);
    assert_ready(fixture, *fixture.other);
}

void events_of_polled_completions_are_stale(void** state) {
    Fixture& fixture = of(state);
    set_nonblocking(fixture);
    push(fake(fixture), 1);
    push(other_fake(fixture), 2);
    assert_ids(poll_ids(*fixture.cq, 4), {1});
    assert_ids(poll_ids(*fixture.other, 4), {2});
    assert_int_equal(channel_of(fixture).pending(), 2);
    assert_int_equal(error_of_wait(fixture), Errc::would_block);
    assert_int_equal(channel_of(fixture).pending(), 0);
    assert_true(fake(fixture).armed());
    assert_true(other_fake(fixture).armed());
}

void stale_event_does_not_hide_the_queue_that_is_ready(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    assert_ids(poll_ids(*fixture.cq, 4), {1});
    push(other_fake(fixture), 2);
    assert_ready(fixture, *fixture.other);
    assert_int_equal(channel_of(fixture).pending(), 0);
}

/// Waits until the channel was asked for an event this often: the last caller sleeps, or will.
void wait_for_sleepers(Fixture& fixture, int asked) {
    while (fixture.device.calls(Call::get_completion_event) < asked) std::this_thread::yield();
}

void blocking_wait_sleeps_over_stale_events(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    assert_ids(poll_ids(*fixture.cq, 1), {1});
    std::atomic<WaitedCq*> ready{nullptr};
    fixture.threads.emplace_back([&] {
        const auto queue = fixture.waiter->wait();
        ready = queue ? *queue : nullptr;
    });
    wait_for_sleepers(fixture, 2);  // the stale event, and then for good
    assert_null(ready.load());
    push(fake(fixture), 2);
    fixture.threads.back().join();
    assert_ptr_equal(ready.load(), fixture.cq.get());
    assert_ids(poll_ids(*fixture.cq, 2), {2});
}

void each_of_two_sleepers_is_woken(void** state) {
    Fixture& fixture = of(state);
    std::atomic<int> woken{0};
    for (int i = 0; i < 2; ++i)
        fixture.threads.emplace_back([&] {
            if (fixture.waiter->wait()) ++woken;
        });
    wait_for_sleepers(fixture, 2);
    push(fake(fixture), 1);
    push(other_fake(fixture), 2);
    for (std::thread& thread : fixture.threads) thread.join();
    assert_int_equal(woken.load(), 2);
}

/// A thread that is about to sleep, and an event that it has not taken yet.
void start_slow_sleeper(Fixture& fixture, std::atomic<int>& woken) {
    channel_of(fixture).held = true;
    fixture.threads.emplace_back([&] {
        if (fixture.waiter->wait()) ++woken;
    });
    wait_for_sleepers(fixture, 1);
}

void end_slow_sleeper(Fixture& fixture, const std::atomic<int>& woken) {
    channel_of(fixture).held = false;
    push(fake(fixture), 9);
    fixture.threads.back().join();
    assert_int_equal(woken.load(), 1);
}

void polling_while_another_thread_sleeps_takes_none_of_its_events(void** state) {
    Fixture& fixture = of(state);
    std::atomic<int> woken{0};
    start_slow_sleeper(fixture, woken);
    push(other_fake(fixture), 1);
    assert_ids(poll_ids(*fixture.other, 1), {1});
    assert_ids(poll_ids(*fixture.other, 1), {});
    assert_int_equal(channel_of(fixture).pending(), 1);
    end_slow_sleeper(fixture, woken);
}

void waiting_while_another_thread_sleeps_takes_none_of_its_events(void** state) {
    Fixture& fixture = of(state);
    std::atomic<int> woken{0};
    start_slow_sleeper(fixture, woken);
    push(other_fake(fixture), 1);
    assert_ready(fixture, *fixture.other);
    assert_int_equal(channel_of(fixture).pending(), 1);
    end_slow_sleeper(fixture, woken);
}

void nothing_there_in_nonblocking_mode_is_would_block(void** state) {
    Fixture& fixture = of(state);
    set_nonblocking(fixture);
    assert_int_equal(error_of_wait(fixture), Errc::would_block);
    assert_int_equal(fixture.device.calls(Call::get_completion_event), 0);
}

void ignore_signal(int) {}

void signal_ends_a_blocking_wait(void** state) {
    Fixture& fixture = of(state);
    struct sigaction action {};
    action.sa_handler = ignore_signal;  // without SA_RESTART
    struct sigaction old {};
    sigaction(SIGUSR1, &action, &old);
    std::atomic<bool> done{false};
    std::atomic<Errc> error{Errc::count_};
    fixture.threads.emplace_back([&] {
        const auto ready = fixture.waiter->wait();
        if (!ready) error = ready.error().code;
        done = true;
    });
    wait_for_sleepers(fixture, 1);
    const pthread_t sleeper = fixture.threads.back().native_handle();
    while (!done) {  // one that comes before the sleep ends nothing
        pthread_kill(sleeper, SIGUSR1);
        std::this_thread::yield();
    }
    fixture.threads.back().join();
    sigaction(SIGUSR1, &old, nullptr);
    assert_int_equal(error.load(), Errc::interrupted);
}

std::string& logged() {
    static std::string text;
    return text;
}
void remember(LogLevel, const char*, int, const char*, const char* text) {
    logged() += text;
}

void failed_channel_is_interrupted_and_logged(void** state) {
    Fixture& fixture = of(state);
    logged().clear();
    set_log_sink(remember, LogLevel::error);
    channel_of(fixture).raise(&fake(fixture));
    fixture.device.fail(Call::get_completion_event, 1, {Errc::device, EIO});
    assert_int_equal(error_of_wait(fixture), Errc::interrupted);
    set_log_sink(nullptr, LogLevel::error);
    assert_true(logged().find("channel failed") != std::string::npos);
}

void event_of_an_unknown_queue_is_wrong_state(void** state) {
    Fixture& fixture = of(state);
    FakeCq* const stranger = nullptr;
    channel_of(fixture).raise(stranger);
    assert_int_equal(error_of_wait(fixture), Errc::wrong_state);
}

void failed_arming_is_the_devices_error(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    fixture.device.fail(Call::request_notify, 1, {Errc::no_memory, ENOMEM});
    const auto ready = fixture.waiter->wait();
    assert_false(ready.has_value());
    assert_int_equal(ready.error().code, Errc::device);
    assert_int_equal(ready.error().device_errno, ENOMEM);
    assert_ready(fixture, *fixture.cq);  // and the completion is not lost
}

void failed_arming_is_made_up_for_by_the_next_wait(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    fixture.device.fail(Call::request_notify, 1, {Errc::device, EIO});
    assert_false(fixture.waiter->wait().has_value());
    assert_ids(poll_ids(*fixture.cq, 1), {1});
    assert_false(fake(fixture).armed());
    set_nonblocking(fixture);
    assert_int_equal(error_of_wait(fixture), Errc::would_block);
    assert_true(fake(fixture).armed());
}

// --- polling ----------------------------------------------------------------------------------

void program_that_never_waits_pays_nothing(void** state) {
    Fixture& fixture = of(state);
    const int armings = fixture.device.calls(Call::request_notify);
    for (std::uint64_t id = 1; id <= 5; ++id) {
        push(fake(fixture), id);
        assert_ids(poll_ids(*fixture.cq, 2), {id});
        assert_ids(poll_ids(*fixture.cq, 2), {});
    }
    assert_int_equal(fixture.device.calls(Call::request_notify), armings);
    assert_int_equal(fixture.device.calls(Call::get_completion_event), 0);
    assert_int_equal(channel_of(fixture).pending(), 1);
}

void empty_poll_takes_stale_events_back_once_after_a_wait(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    assert_ready(fixture, *fixture.cq);
    push(fake(fixture), 2);  // raises an event: the wait armed the queue
    assert_ids(poll_ids(*fixture.cq, 2), {1, 2});
    assert_true(readable(fixture));
    assert_ids(poll_ids(*fixture.cq, 4), {});
    assert_false(readable(fixture));
    assert_true(fake(fixture).armed());

    const int armings = fixture.device.calls(Call::request_notify);
    const int events = fixture.device.calls(Call::get_completion_event);
    push(fake(fixture), 3);
    assert_ids(poll_ids(*fixture.cq, 4), {3});
    for (int i = 0; i < 3; ++i) assert_ids(poll_ids(*fixture.cq, 4), {});
    assert_int_equal(fixture.device.calls(Call::request_notify), armings);
    assert_int_equal(fixture.device.calls(Call::get_completion_event), events);
}

void poll_that_gives_less_than_asked_takes_stale_events_back(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    assert_ready(fixture, *fixture.cq);
    push(fake(fixture), 2);
    assert_ids(poll_ids(*fixture.cq, 4), {1, 2});
    assert_false(readable(fixture));
    assert_true(fake(fixture).armed());
}

void descriptor_is_readable_again_for_what_comes_after_the_empty_poll(void** state) {
    Fixture& fixture = of(state);
    for (std::uint64_t id = 0; id < 10; id += 2) {
        push(fake(fixture), id);
        assert_true(readable(fixture));
        assert_ready(fixture, *fixture.cq);
        push(fake(fixture), id + 1);
        assert_ids(poll_ids(*fixture.cq, 2), {id, id + 1});
        assert_ids(poll_ids(*fixture.cq, 4), {});
        assert_false(readable(fixture));
    }
}

void events_stay_while_the_other_queue_has_completions(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    assert_ready(fixture, *fixture.cq);
    push(other_fake(fixture), 2);
    assert_ids(poll_ids(*fixture.cq, 1), {1});
    assert_ids(poll_ids(*fixture.cq, 1), {});
    assert_true(readable(fixture));
    assert_ready(fixture, *fixture.other);
    assert_ids(poll_ids(*fixture.other, 2), {2});
    assert_ids(poll_ids(*fixture.other, 2), {});
    assert_false(readable(fixture));
}

void failed_arming_in_an_empty_poll_is_passed_on(void** state) {
    Fixture& fixture = of(state);
    push(fake(fixture), 1);
    assert_ready(fixture, *fixture.cq);
    push(fake(fixture), 2);
    assert_ids(poll_ids(*fixture.cq, 2), {1, 2});
    fixture.device.fail(Call::request_notify, 1, {Errc::device, EIO});
    WorkCompletion wc;
    const auto polled = fixture.cq->poll({&wc, 1});
    assert_false(polled.has_value());
    assert_int_equal(polled.error().device_errno, EIO);
    assert_ids(poll_ids(*fixture.cq, 1), {});
    assert_false(readable(fixture));
}

void failed_poll_is_passed_on(void** state) {
    Fixture& fixture = of(state);
    fixture.device.fail(Call::poll, 1, {Errc::device, EIO});
    WorkCompletion wc;
    const auto polled = fixture.cq->poll({&wc, 1});
    assert_false(polled.has_value());
    assert_int_equal(polled.error().device_errno, EIO);
}

// --- devices that cannot tell whether there are completions -----------------------------------

void shy_queue_is_found_ready_and_keeps_its_order(void** state) {
    Fixture& fixture = of(state);
    fake(fixture).shy = true;
    for (std::uint64_t id = 1; id <= 5; ++id) push(fake(fixture), id);
    assert_ready(fixture, *fixture.cq);
    assert_ids(poll_ids(*fixture.cq, 1), {1});
    assert_ready(fixture, *fixture.cq);
    assert_ready(fixture, *fixture.cq);
    assert_ids(poll_ids(*fixture.cq, 0), {});
    assert_ids(poll_ids(*fixture.cq, 3), {2, 3, 4});
    assert_ready(fixture, *fixture.cq);
    assert_ids(poll_ids(*fixture.cq, 9), {5});
    set_nonblocking(fixture);
    assert_int_equal(error_of_wait(fixture), Errc::would_block);
    assert_ids(poll_ids(*fixture.cq, 9), {});
}

void poll_that_begins_with_what_was_looked_at_takes_stale_events_back(void** state) {
    Fixture& fixture = of(state);
    fake(fixture).shy = true;
    push(fake(fixture), 1);
    assert_ready(fixture, *fixture.cq);
    push(fake(fixture), 2);
    assert_ids(poll_ids(*fixture.cq, 8), {1, 2});
    assert_false(readable(fixture));
}

void completion_that_was_looked_at_is_given_even_if_the_poll_fails(void** state) {
    Fixture& fixture = of(state);
    fake(fixture).shy = true;
    push(fake(fixture), 1);
    assert_ready(fixture, *fixture.cq);
    fixture.device.fail(Call::poll, 1, {Errc::device, EIO});
    assert_ids(poll_ids(*fixture.cq, 4), {1});
    assert_true(fixture.device.has_failed());
}

void poll_that_fails_while_looking_makes_the_queue_ready(void** state) {
    Fixture& fixture = of(state);
    fake(fixture).shy = true;
    fixture.device.fail(Call::poll, 1, {Errc::device, EIO});
    assert_ready(fixture, *fixture.cq);  // the program is to hear of it when it polls
}

void forgotten_qp_takes_its_completion_with_it(void** state) {
    Fixture& fixture = of(state);
    fake(fixture).shy = true;
    push(fake(fixture), 1, 0x11);
    push(fake(fixture), 2, 0x12);
    assert_ready(fixture, *fixture.cq);
    fixture.cq->forget(0x12);
    assert_ready(fixture, *fixture.cq);
    fixture.cq->forget(0x11);
    assert_ids(poll_ids(*fixture.cq, 4), {2});
}

void waiting_and_pushing_threads_lose_nothing(void** state) {
    Fixture& fixture = of(state);
    constexpr std::uint64_t kAll = 3000;
    fake(fixture).shy = true;
    fixture.threads.emplace_back([&] {
        for (std::uint64_t id = 0; id < kAll; ++id)
            push(id % 2 == 0 ? fake(fixture) : other_fake(fixture), id);
    });
    std::uint64_t next[2] = {0, 1};
    std::uint64_t taken = 0;
    int disorder = 0;
    while (taken < kAll) {
        const auto ready = fixture.waiter->wait();
        assert_true(ready.has_value());
        const std::size_t which = *ready == fixture.cq.get() ? 0 : 1;
        // at times all, at times one: some events become stale, some completions have none
        for (const std::uint64_t id : poll_ids(**ready, taken % 3 == 0 ? 1 : 16)) {
            if (id != next[which]) ++disorder;
            next[which] += 2;
            ++taken;
        }
    }
    fixture.threads.back().join();
    assert_int_equal(disorder, 0);
    set_nonblocking(fixture);
    assert_int_equal(error_of_wait(fixture), Errc::would_block);
}

}  // namespace
}  // namespace compat::core

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        TEST(queues_are_made_armed_on_the_waiters_channel),
        TEST(failures_to_make_are_passed_on_and_leak_nothing),
        TEST(place_of_a_destroyed_queue_is_free_again),
        TEST(wait_returns_at_once_while_a_queue_has_completions),
        TEST(each_arming_gives_one_event),
        TEST(queue_of_the_oldest_event_comes_first),
        TEST(what_comes_during_the_look_is_told_in_order),
        TEST(queue_without_an_event_is_found_by_looking),
        TEST(events_of_polled_completions_are_stale),
        TEST(stale_event_does_not_hide_the_queue_that_is_ready),
        TEST(blocking_wait_sleeps_over_stale_events),
        TEST(each_of_two_sleepers_is_woken),
        TEST(polling_while_another_thread_sleeps_takes_none_of_its_events),
        TEST(waiting_while_another_thread_sleeps_takes_none_of_its_events),
        TEST(nothing_there_in_nonblocking_mode_is_would_block),
        TEST(signal_ends_a_blocking_wait),
        TEST(failed_channel_is_interrupted_and_logged),
        TEST(event_of_an_unknown_queue_is_wrong_state),
        TEST(failed_arming_is_the_devices_error),
        TEST(failed_arming_is_made_up_for_by_the_next_wait),
        TEST(program_that_never_waits_pays_nothing),
        TEST(empty_poll_takes_stale_events_back_once_after_a_wait),
        TEST(descriptor_is_readable_again_for_what_comes_after_the_empty_poll),
        TEST(poll_that_gives_less_than_asked_takes_stale_events_back),
        TEST(events_stay_while_the_other_queue_has_completions),
        TEST(failed_arming_in_an_empty_poll_is_passed_on),
        TEST(failed_poll_is_passed_on),
        TEST(shy_queue_is_found_ready_and_keeps_its_order),
        TEST(poll_that_begins_with_what_was_looked_at_takes_stale_events_back),
        TEST(completion_that_was_looked_at_is_given_even_if_the_poll_fails),
        TEST(poll_that_fails_while_looking_makes_the_queue_ready),
        TEST(forgotten_qp_takes_its_completion_with_it),
        TEST(waiting_and_pushing_threads_lose_nothing),
    };
    return cmocka_run_group_tests_name("cq_waiter", tests, nullptr, nullptr);
}
