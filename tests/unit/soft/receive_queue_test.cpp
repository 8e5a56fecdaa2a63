// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/receive_queue.hpp"

#include <array>
#include <functional>
#include <thread>

#include "tests/support/cmocka.hpp"
#include "tests/support/new_failure.hpp"

namespace compat::core::soft {
namespace {

constexpr std::uint32_t kMaxSge = 2;

Status post(ReceiveQueue& queue, std::uint64_t wr_id) {
    const std::array sges{Sge{nullptr, static_cast<std::uint32_t>(wr_id), 1},
                          Sge{nullptr, static_cast<std::uint32_t>(wr_id) + 1000, 2}};
    return queue.post({wr_id, sges});
}

void release(const TakenReceive& taken) {
    taken.slots_in_use->fetch_sub(1);
}

void assert_intact(const TakenReceive& taken, std::uint64_t wr_id) {
    assert_int_equal(taken.wr_id, wr_id);
    assert_int_equal(taken.sges.size(), 2);
    assert_int_equal(taken.sges[0].length, wr_id);
    assert_int_equal(taken.sges[1].length, wr_id + 1000);
}

void queue_takes_exactly_its_depth_and_keeps_the_order(void**) {
    for (const std::uint32_t depth : {1U, 2U, 3U, 10U, 128U}) {
        ReceiveQueue queue(depth, kMaxSge);
        assert_int_equal(queue.depth(), depth);
        assert_true(queue.empty());
        for (std::uint32_t i = 0; i < depth; ++i) assert_true(post(queue, i).has_value());
        assert_int_equal(post(queue, 0).error().code, Errc::would_block);
        TakenReceive taken;
        for (std::uint32_t i = 0; i < depth; ++i) {
            assert_false(queue.empty());
            assert_true(queue.take(taken));
            assert_intact(taken, i);
        }
        assert_true(queue.empty());
        assert_false(queue.take(taken));
    }
}

void slot_stays_in_use_until_it_is_released(void**) {
    ReceiveQueue queue(2, kMaxSge);
    TakenReceive first;
    TakenReceive second;
    assert_true(post(queue, 1).has_value());
    assert_true(post(queue, 2).has_value());
    assert_true(queue.take(first));
    assert_true(queue.take(second));
    assert_int_equal(post(queue, 3).error().code, Errc::would_block);
    release(first);
    assert_true(post(queue, 3).has_value());
    assert_int_equal(post(queue, 4).error().code, Errc::would_block);
    release(second);
    assert_true(post(queue, 4).has_value());
}

void receive_that_is_being_filled_stays_when_later_ones_come_and_go(void**) {
    ReceiveQueue queue(3, kMaxSge);
    TakenReceive slow;
    assert_true(post(queue, 1).has_value());
    assert_true(queue.take(slow));
    for (std::uint64_t id = 2; id < 20; ++id) {
        TakenReceive fast;
        assert_true(post(queue, id).has_value());
        assert_true(queue.take(fast));
        assert_intact(fast, id);
        release(fast);
        assert_intact(slow, 1);
    }
    release(slow);
    for (std::uint64_t id = 20; id < 23; ++id) assert_true(post(queue, id).has_value());
    assert_int_equal(post(queue, 23).error().code, Errc::would_block);
}

void too_many_elements_are_refused(void**) {
    ReceiveQueue queue(1, kMaxSge);
    const std::array<Sge, kMaxSge + 1> sges{};
    assert_int_equal(queue.post({1, sges}).error().code, Errc::invalid_argument);
    assert_true(queue.post({1, {}}).has_value());  // none are fine
    TakenReceive taken;
    assert_true(queue.take(taken));
    assert_int_equal(taken.sges.size(), 0);
}

void queue_of_depth_zero_is_always_full(void**) {
    ReceiveQueue queue(0, 0);
    assert_int_equal(queue.post({1, {}}).error().code, Errc::would_block);
    TakenReceive taken;
    assert_false(queue.take(taken));
}

class Waiter final : public ReceiveWaiter {
public:
    explicit Waiter(std::function<void()> on_call = {}) : on_call_(std::move(on_call)) {}
    void receive_posted() noexcept override {
        ++calls;
        if (on_call_) on_call_();
    }
    std::atomic<int> calls{0};

private:
    std::function<void()> on_call_;
};

struct Fixture {
    std::shared_ptr<std::atomic<int>> children = std::make_shared<std::atomic<int>>(0);
    std::unique_ptr<SoftSrq> srq = std::make_unique<SoftSrq>(4, kMaxSge, children);
    std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>();
    std::thread thread;
};

int setup(void** state) {
    *state = new Fixture;
    return 0;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    if (fixture->thread.joinable()) fixture->thread.join();
    delete fixture;
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

void srq_counts_as_a_child_of_its_pd(void** state) {
    Fixture& fixture = of(state);
    assert_int_equal(fixture.children->load(), 1);
    fixture.srq.reset();
    assert_int_equal(fixture.children->load(), 0);
}

void waiter_is_called_once_for_the_next_post(void** state) {
    Fixture& fixture = of(state);
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    assert_int_equal(fixture.waiter->calls, 0);
    assert_true(fixture.srq->post_receive({1, {}}).has_value());
    assert_int_equal(fixture.waiter->calls, 1);
    assert_true(fixture.srq->post_receive({2, {}}).has_value());
    assert_int_equal(fixture.waiter->calls, 1);
}

void waiting_twice_is_waiting_once(void** state) {
    Fixture& fixture = of(state);
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    assert_true(fixture.srq->post_receive({1, {}}).has_value());
    assert_int_equal(fixture.waiter->calls, 1);
}

void every_waiter_is_called(void** state) {
    Fixture& fixture = of(state);
    const auto other = std::make_shared<Waiter>();
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    assert_int_equal(fixture.srq->wait(other), SoftSrq::Wait::registered);
    assert_true(fixture.srq->post_receive({1, {}}).has_value());
    assert_int_equal(fixture.waiter->calls, 1);
    assert_int_equal(other->calls, 1);
}

void nobody_waits_when_a_receive_is_there(void** state) {
    Fixture& fixture = of(state);
    assert_true(fixture.srq->post_receive({1, {}}).has_value());
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::not_needed);
    assert_true(fixture.srq->post_receive({2, {}}).has_value());
    assert_int_equal(fixture.waiter->calls, 0);
}

void failed_post_calls_nobody(void** state) {
    Fixture& fixture = of(state);
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    const std::array<Sge, kMaxSge + 1> sges{};
    assert_int_equal(fixture.srq->post_receive({1, sges}).error().code, Errc::invalid_argument);
    assert_int_equal(fixture.waiter->calls, 0);
}

void waiter_that_finds_no_memory_is_told(void** state) {
    Fixture& fixture = of(state);
    test::fail_new(1);
    const auto wait = fixture.srq->wait(fixture.waiter);
    test::fail_new(0);
    assert_int_equal(wait, SoftSrq::Wait::no_memory);
}

void waiter_that_is_gone_is_skipped(void** state) {
    Fixture& fixture = of(state);
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    fixture.waiter.reset();
    assert_true(fixture.srq->post_receive({1, {}}).has_value());
}

void waiter_may_use_the_queue_and_wait_again_while_it_is_called(void** state) {
    Fixture& fixture = of(state);
    fixture.waiter = std::make_shared<Waiter>([&] {
        TakenReceive taken;
        while (fixture.srq->wait(fixture.waiter) == SoftSrq::Wait::not_needed)
            (void)fixture.srq->take(taken);
    });
    assert_int_equal(fixture.srq->wait(fixture.waiter), SoftSrq::Wait::registered);
    for (std::uint64_t id = 0; id < 3; ++id)
        assert_true(fixture.srq->post_receive({id, {}}).has_value());
    assert_int_equal(fixture.waiter->calls, 3);
    TakenReceive none;
    assert_false(fixture.srq->take(none));
}

// Each receive is posted once the one before was taken. A wake-up lost between the failed take()
// and wait() would hang this.
void no_wake_up_is_lost_between_take_and_wait(void** state) {
    Fixture& fixture = of(state);
    constexpr int kRounds = 20'000;
    std::atomic<int> taken_count{0};
    fixture.thread = std::thread([&] {
        for (int i = 0; i < kRounds; ++i) {
            while (taken_count.load() < i) std::this_thread::yield();
            (void)fixture.srq->post_receive({static_cast<std::uint64_t>(i), {}});
        }
    });
    int wrong = 0;
    for (int i = 0; i < kRounds; ++i) {
        TakenReceive taken;
        // A wake-up may be that of the post before, late: then one waits again.
        for (int calls = fixture.waiter->calls; !fixture.srq->take(taken);
             calls = fixture.waiter->calls)
            if (fixture.srq->wait(fixture.waiter) == SoftSrq::Wait::registered)
                while (fixture.waiter->calls == calls) std::this_thread::yield();
        if (taken.wr_id != static_cast<std::uint64_t>(i)) ++wrong;
        release(taken);
        ++taken_count;
    }
    fixture.thread.join();
    assert_int_equal(wrong, 0);
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core::soft;
    const CMUnitTest tests[] = {
        cmocka_unit_test(queue_takes_exactly_its_depth_and_keeps_the_order),
        cmocka_unit_test(slot_stays_in_use_until_it_is_released),
        cmocka_unit_test(receive_that_is_being_filled_stays_when_later_ones_come_and_go),
        cmocka_unit_test(too_many_elements_are_refused),
        cmocka_unit_test(queue_of_depth_zero_is_always_full),
        TEST(srq_counts_as_a_child_of_its_pd),
        TEST(waiter_is_called_once_for_the_next_post),
        TEST(waiting_twice_is_waiting_once),
        TEST(every_waiter_is_called),
        TEST(nobody_waits_when_a_receive_is_there),
        TEST(failed_post_calls_nobody),
        TEST(waiter_that_finds_no_memory_is_told),
        TEST(waiter_that_is_gone_is_skipped),
        TEST(waiter_may_use_the_queue_and_wait_again_while_it_is_called),
        TEST(no_wake_up_is_lost_between_take_and_wait),
    };
    return cmocka_run_group_tests_name("receive_queue", tests, nullptr, nullptr);
}
