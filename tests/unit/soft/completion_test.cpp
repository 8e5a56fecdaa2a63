// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/completion.hpp"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <thread>

#include "tests/support/cmocka.hpp"

namespace compat::core::soft {
namespace {

constexpr std::uint32_t kDepth = 4;

struct Fixture {
    std::unique_ptr<SoftChannel> channel;
    std::unique_ptr<SoftCq> cq;
    std::unique_ptr<SoftCq> other_cq;
    std::atomic<std::uint32_t> slots{0};
    std::vector<std::thread> threads;
    int owner = 0;
    int other_owner = 0;
};

int setup(void** state) {
    auto* fixture = new Fixture;
    *state = fixture;
    auto channel = SoftChannel::create();
    if (!channel) return -1;
    fixture->channel = std::move(*channel);
    fcntl(fixture->channel->fd(), F_SETFL, O_NONBLOCK);
    fixture->cq = std::make_unique<SoftCq>(kDepth, fixture->channel.get());
    fixture->other_cq = std::make_unique<SoftCq>(kDepth, fixture->channel.get());
    return 0;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    for (std::thread& thread : fixture->threads)
        if (thread.joinable()) thread.join();
    fixture->cq.reset();
    fixture->other_cq.reset();
    delete fixture;
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

void push(Fixture& fixture, std::uint64_t wr_id, std::uint32_t slots = 0, bool solicited = false) {
    WorkCompletion wc;
    wc.wr_id = wr_id;
    fixture.cq->push(wc, &fixture.owner, {&fixture.slots, slots}, solicited);
}

std::vector<std::uint64_t> poll_ids(SoftCq& cq, std::size_t most) {
    std::vector<WorkCompletion> wcs(most);
    const auto count = cq.poll(wcs);
    std::vector<std::uint64_t> ids;
    for (std::size_t i = 0; count && i < *count; ++i) ids.push_back(wcs[i].wr_id);
    return ids;
}

void assert_ids(const std::vector<std::uint64_t>& ids, std::vector<std::uint64_t> expected) {
    assert_int_equal(ids.size(), expected.size());
    for (std::size_t i = 0; i < ids.size(); ++i) assert_int_equal(ids[i], expected[i]);
}

int events_waiting(Fixture& fixture) {
    int count = 0;
    while (fixture.channel->get_event()) ++count;
    return count;
}

void empty_queue_gives_nothing(void** state) {
    Fixture& fixture = of(state);
    assert_false(fixture.cq->has_completions());
    assert_ids(poll_ids(*fixture.cq, 3), {});
    assert_ids(poll_ids(*fixture.cq, 0), {});
}

void poll_gives_the_oldest_first_and_no_more_than_asked(void** state) {
    Fixture& fixture = of(state);
    for (std::uint64_t id = 1; id <= 3; ++id) push(fixture, id);
    assert_true(fixture.cq->has_completions());
    assert_ids(poll_ids(*fixture.cq, 2), {1, 2});
    assert_ids(poll_ids(*fixture.cq, 0), {});
    assert_ids(poll_ids(*fixture.cq, 2), {3});
    assert_false(fixture.cq->has_completions());
}

void order_survives_many_rounds_through_the_ring(void** state) {
    Fixture& fixture = of(state);
    std::uint64_t in = 0;
    std::uint64_t out = 0;
    for (int round = 0; round < 50; ++round) {
        for (std::uint32_t i = 0; i < kDepth - 1; ++i) push(fixture, in++);
        for (const std::uint64_t id : poll_ids(*fixture.cq, kDepth)) assert_int_equal(id, out++);
    }
    assert_int_equal(in, out);
}

void reservation_makes_room_and_keeps_wrapped_entries(void** state) {
    Fixture& fixture = of(state);
    for (std::uint64_t id = 1; id <= 3; ++id) push(fixture, id);
    assert_ids(poll_ids(*fixture.cq, 2), {1, 2});
    for (std::uint64_t id = 4; id <= 6; ++id) push(fixture, id);  // past the end of the ring
    assert_true(fixture.cq->reserve(10).has_value());
    for (std::uint64_t id = 7; id <= 12; ++id) push(fixture, id);
    assert_ids(poll_ids(*fixture.cq, 20), {3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    fixture.cq->unreserve(10);
}

void reservations_add_up(void** state) {
    Fixture& fixture = of(state);
    for (int i = 0; i < 3; ++i) assert_true(fixture.cq->reserve(5).has_value());
    for (std::uint64_t id = 0; id < 15; ++id) push(fixture, id);
    assert_int_equal(poll_ids(*fixture.cq, 20).size(), 15);
}

void slots_come_back_when_the_entry_is_polled(void** state) {
    Fixture& fixture = of(state);
    fixture.slots = 7;
    push(fixture, 1, 3);
    push(fixture, 2, 0);
    push(fixture, 3, 4);
    assert_int_equal(fixture.slots.load(), 7);
    assert_ids(poll_ids(*fixture.cq, 1), {1});
    assert_int_equal(fixture.slots.load(), 4);
    assert_ids(poll_ids(*fixture.cq, 5), {2, 3});
    assert_int_equal(fixture.slots.load(), 0);
}

void purge_removes_the_entries_of_one_owner_and_gives_their_slots_back(void** state) {
    Fixture& fixture = of(state);
    std::atomic<std::uint32_t> other_slots{1};
    assert_true(fixture.cq->reserve(8).has_value());
    fixture.slots = 2;
    push(fixture, 1, 1);
    WorkCompletion wc;
    wc.wr_id = 2;
    fixture.cq->push(wc, &fixture.other_owner, {&other_slots, 1}, false);
    push(fixture, 3, 1);
    wc.wr_id = 4;
    fixture.cq->push(wc, &fixture.other_owner, {}, false);
    fixture.cq->purge(&fixture.owner);
    assert_int_equal(fixture.slots.load(), 0);
    assert_int_equal(other_slots.load(), 1);
    assert_ids(poll_ids(*fixture.cq, 8), {2, 4});
    assert_int_equal(other_slots.load(), 0);
    fixture.cq->purge(&fixture.owner);
    assert_false(fixture.cq->has_completions());
}

void unarmed_queue_raises_nothing(void** state) {
    Fixture& fixture = of(state);
    push(fixture, 1, 0, true);
    assert_int_equal(events_waiting(fixture), 0);
}

void arming_raises_one_event_for_the_next_completion_only(void** state) {
    Fixture& fixture = of(state);
    push(fixture, 1);
    assert_true(fixture.cq->request_notify(false).has_value());
    assert_int_equal(events_waiting(fixture), 0);  // not for what was there before
    push(fixture, 2);
    push(fixture, 3);
    assert_int_equal(events_waiting(fixture), 1);
    push(fixture, 4);
    assert_int_equal(events_waiting(fixture), 0);
}

void solicited_arming_ignores_others(void** state) {
    Fixture& fixture = of(state);
    assert_true(fixture.cq->request_notify(true).has_value());
    push(fixture, 1);
    assert_int_equal(events_waiting(fixture), 0);
    push(fixture, 2, 0, true);
    assert_int_equal(events_waiting(fixture), 1);
    push(fixture, 3, 0, true);
    assert_int_equal(events_waiting(fixture), 0);
}

void arming_for_any_wins_over_solicited_in_either_order(void** state) {
    Fixture& fixture = of(state);
    for (const bool solicited_first : {true, false}) {
        assert_true(fixture.cq->request_notify(solicited_first).has_value());
        assert_true(fixture.cq->request_notify(!solicited_first).has_value());
        push(fixture, 1);
        assert_int_equal(events_waiting(fixture), 1);
        assert_int_equal(poll_ids(*fixture.cq, 4).size(), 1);
    }
}

void channel_tells_which_queue_it_was_in_order(void** state) {
    Fixture& fixture = of(state);
    assert_true(fixture.cq->request_notify(false).has_value());
    assert_true(fixture.other_cq->request_notify(false).has_value());
    fixture.other_cq->push({}, &fixture.owner, {}, false);
    push(fixture, 1);
    pollfd ready{fixture.channel->fd(), POLLIN, 0};
    assert_int_equal(poll(&ready, 1, 0), 1);
    assert_ptr_equal(*fixture.channel->get_event(), fixture.other_cq.get());
    assert_ptr_equal(*fixture.channel->get_event(), fixture.cq.get());
    const auto none = fixture.channel->get_event();
    assert_int_equal(none.error().code, Errc::would_block);
    assert_int_equal(poll(&ready, 1, 0), 0);
}

void each_arming_keeps_its_event_until_it_is_taken(void** state) {
    Fixture& fixture = of(state);
    for (int i = 0; i < 3; ++i) {
        assert_true(fixture.cq->request_notify(false).has_value());
        push(fixture, 1);
    }
    assert_true(fixture.other_cq->request_notify(false).has_value());
    fixture.other_cq->push({}, &fixture.owner, {}, false);
    assert_int_equal(events_waiting(fixture), 4);
}

void destroyed_queue_leaves_no_event(void** state) {
    Fixture& fixture = of(state);
    for (SoftCq* cq : {fixture.cq.get(), fixture.other_cq.get(), fixture.cq.get()}) {
        assert_true(cq->request_notify(false).has_value());
        cq->push({}, &fixture.owner, {}, false);
    }
    fixture.cq.reset();
    assert_ptr_equal(*fixture.channel->get_event(), fixture.other_cq.get());
    assert_int_equal(events_waiting(fixture), 0);
    pollfd ready{fixture.channel->fd(), POLLIN, 0};
    assert_int_equal(poll(&ready, 1, 0), 0);
}

void get_event_blocks_until_an_event_is_raised(void** state) {
    Fixture& fixture = of(state);
    fcntl(fixture.channel->fd(), F_SETFL, 0);
    assert_true(fixture.cq->request_notify(false).has_value());
    fixture.threads.emplace_back([&] { push(fixture, 1); });
    assert_ptr_equal(*fixture.channel->get_event(), fixture.cq.get());
    assert_ids(poll_ids(*fixture.cq, 1), {1});
}

void queue_without_a_channel_can_be_armed(void**) {
    SoftCq cq(1, nullptr);
    assert_true(cq.request_notify(false).has_value());
    cq.push({}, nullptr, {}, false);
    assert_true(cq.has_completions());
}

void threads_push_and_poll_without_loss_or_disorder(void** state) {
    Fixture& fixture = of(state);
    constexpr std::uint64_t kEach = 20'000;
    constexpr std::uint32_t kRoom = 64;
    assert_true(fixture.cq->reserve(2 * kRoom).has_value());
    std::array<std::atomic<std::uint32_t>, 2> in_use{};
    for (std::uint64_t who = 0; who < 2; ++who) {
        fixture.threads.emplace_back([&, who] {
            for (std::uint64_t i = 0; i < kEach;) {
                if (in_use[who].load(std::memory_order_acquire) == kRoom) {
                    std::this_thread::yield();
                    continue;
                }
                in_use[who].fetch_add(1);
                WorkCompletion wc;
                wc.wr_id = who << 32 | i++;
                fixture.cq->push(wc, &fixture.owner, {&in_use[who], 1}, false);
            }
        });
    }
    std::array<std::uint64_t, 2> next{};
    std::array<WorkCompletion, 16> wcs;
    int out_of_order = 0;
    while (next[0] + next[1] < 2 * kEach) {
        const auto count = fixture.cq->poll(wcs);
        for (std::size_t i = 0; i < *count; ++i) {
            const std::uint64_t id = wcs[i].wr_id;
            if ((id & 0xffffffffU) != next[id >> 32]++) ++out_of_order;
        }
    }
    for (std::thread& thread : fixture.threads) thread.join();
    assert_int_equal(out_of_order, 0);
    assert_int_equal(in_use[0].load() + in_use[1].load(), 0);
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core::soft;
    const CMUnitTest tests[] = {
        TEST(empty_queue_gives_nothing),
        TEST(poll_gives_the_oldest_first_and_no_more_than_asked),
        TEST(order_survives_many_rounds_through_the_ring),
        TEST(reservation_makes_room_and_keeps_wrapped_entries),
        TEST(reservations_add_up),
        TEST(slots_come_back_when_the_entry_is_polled),
        TEST(purge_removes_the_entries_of_one_owner_and_gives_their_slots_back),
        TEST(unarmed_queue_raises_nothing),
        TEST(arming_raises_one_event_for_the_next_completion_only),
        TEST(solicited_arming_ignores_others),
        TEST(arming_for_any_wins_over_solicited_in_either_order),
        TEST(channel_tells_which_queue_it_was_in_order),
        TEST(each_arming_keeps_its_event_until_it_is_taken),
        TEST(destroyed_queue_leaves_no_event),
        TEST(get_event_blocks_until_an_event_is_raised),
        TEST(queue_without_a_channel_can_be_armed),
        TEST(threads_push_and_poll_without_loss_or_disorder),
    };
    return cmocka_run_group_tests_name("completion", tests, nullptr, nullptr);
}
