// SPDX-License-Identifier: BSD-3-Clause
// core/engine/tracked_cq.hpp and counter.hpp: reading, order, waiting.
#include <poll.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "core/engine/counter.hpp"
#include "tests/unit/engine/rig.hpp"

namespace compat::core {
namespace {

bool is_readable(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) == 1;
}

class CountingWaker final : public Waker {
public:
    void wake() noexcept override { ++calls; }
    std::atomic<int> calls{0};
};

void an_empty_queue_is_empty(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const auto ignore = [](std::size_t, const Completion&) {};
    assert_int_equal(rig.cq->read(8, ignore), TrackedCq::kEmpty);
    assert_int_equal(rig.cq->read(0, ignore), TrackedCq::kEmpty);
    Completion error;
    assert_false(rig.cq->read_error(error));
}

void no_more_entries_are_written_than_asked_for(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uintptr_t op = 0; op < 10; ++op) {
        assert_true(post_write(rig, OpFlag::entry, op).has_value());
        finish(rig, op);
    }
    std::uintptr_t expected = 0;
    const auto check = [&expected](std::size_t, const Completion& entry) {
        assert_ptr_equal(entry.context, context_of(expected));
        ++expected;
    };
    assert_int_equal(rig.cq->read(3, check), 3);
    rig.cq->progress();
    assert_int_equal(rig.cq->read(3, check), 3);
    assert_int_equal(rig.cq->read(100, check), 4);
    assert_int_equal(rig.cq->read(100, check), 0);
}

void successes_before_an_error_are_read_first_and_those_after_it_later(void** state) {
    Rig& rig = of(state);
    connect(rig);
    auto other = std::move(*ReceiveQueue::create(4, 1));
    for (std::uintptr_t op = 0; op < 2; ++op)
        assert_true(post_write(rig, OpFlag::entry, op).has_value());
    const LocalBuffer local{rig.memory.data(), 8, 9};
    assert_true(rig.receive->post({.local = {&local, 1}, .context = context_of(9)}).has_value());
    finish(rig, 0);
    finish(rig, 1, WcStatus::remote_access_error);
    WorkCompletion wc;
    wc.wr_id = rig.fake().posted_receives.at(0).wr_id;
    wc.receive_side = true;
    wc.opcode = WcOpcode::receive;
    rig.fake().complete_receive(wc);

    std::uintptr_t seen = 100;
    const auto note = [&seen](std::size_t, const Completion& entry) {
        seen = reinterpret_cast<std::uintptr_t>(entry.context);
    };
    assert_int_equal(rig.cq->read(8, note), 1);
    assert_int_equal(seen, 0);
    assert_int_equal(rig.cq->read(8, note), TrackedCq::kErrorFirst);
    assert_int_equal(rig.cq->read(0, note), TrackedCq::kErrorFirst);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(1));
    assert_int_equal(rig.cq->read(8, note), 1);
    assert_int_equal(seen, 9);
}

void a_device_that_fails_is_told(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const auto ignore = [](std::size_t, const Completion&) {};
    rig.device.fail(test::Call::poll, 1, {Errc::device, 5});
    assert_int_equal(rig.cq->read(8, ignore), TrackedCq::kDeviceFailed);
    rig.device.fail(test::Call::poll, 1, {Errc::device, 5});
    assert_int_equal(rig.cq->read(0, ignore), TrackedCq::kDeviceFailed);
}

void an_armed_queue_makes_its_descriptor_readable(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(rig.cq->arm());
    assert_false(is_readable(rig.cq->channel_fd()));
    finish(rig, 0);
    assert_true(is_readable(rig.cq->channel_fd()));
    assert_false(rig.cq->arm());
    assert_false(is_readable(rig.cq->channel_fd()));
    assert_int_equal(read_all(rig).size(), 1);
    assert_true(rig.cq->arm());
}

void arming_finds_what_came_before_it(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    finish(rig, 0);
    assert_false(rig.cq->arm());
    assert_int_equal(read_all(rig).size(), 1);
}

void complete_a_thousand_of_nobody(Rig& rig) {
    WorkCompletion wc;
    wc.receive_side = true;  // of no operation
    for (int count = 0; count < 1000; ++count)
        static_cast<test::FakeCq*>(rig.fake().attr.send_cq)->push(wc);
}

/// Before as many calls as there were completions.
template <class Arm>
bool ends(const Arm& arm) {
    bool quiet = false;
    for (int more = 0; more < 1000 && !quiet; ++more) quiet = arm();
    return quiet;
}

void arming_ends_however_much_there_is(void** state) {
    Rig& rig = of(state);
    connect(rig);
    complete_a_thousand_of_nobody(rig);
    assert_false(rig.cq->arm());
    assert_true(ends([&] { return rig.cq->arm(); }));
}

// Nothing else would tell of those that are left: the device announces what comes, not what is
// there.
void a_counter_may_not_be_slept_on_while_completions_are_left(void** state) {
    Rig& rig = of(state);
    connect(rig);
    Counter counter;
    assert_true(counter.attach(*rig.cq).has_value());
    complete_a_thousand_of_nobody(rig);
    assert_false(counter.arm());
    assert_true(ends([&] { return counter.arm(); }));
    // An entry that nobody has read is no reason to stay awake for a counter.
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    finish(rig, 0);
    assert_true(counter.arm());
    assert_false(rig.cq->arm());
    counter.detach(*rig.cq);
}

void a_queue_that_cannot_be_armed_is_not_slept_on(void** state) {
    Rig& rig = of(state);
    connect(rig);
    rig.device.fail(test::Call::request_notify, 1, {Errc::device, 5});
    assert_false(rig.cq->arm());
    assert_true(rig.cq->arm());
}

void a_completion_that_another_thread_took_still_woke_the_sleeper(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(rig.cq->arm());
    finish(rig, 0);
    rig.cq->progress();
    assert_true(is_readable(rig.cq->channel_fd()));
    assert_false(rig.cq->arm());
}

void entries_of_the_engines_own_call_the_waker(void** state) {
    Rig& rig = of(state);
    connect(rig);
    CountingWaker waker;
    rig.cq->set_waker(&waker);
    assert_true(rig.cq->push({.context = context_of(1)}).has_value());
    assert_int_equal(waker.calls, 1);
    assert_int_equal(read_all(rig).size(), 1);
    rig.cq->set_waker(nullptr);
}

void a_queue_that_keeps_no_entries_only_counts(void** state) {
    Rig& rig = of(state);
    rig.cq.reset();
    rig.pd = std::move(*rig.device.allocate_pd());
    rig.cq = std::move(*TrackedCq::create(rig.device, {.size = 1, .keeps_entries = false}));
    rig.transmit = std::move(
        *TransmitQueue::create(*rig.cq, {.depth = kDepth, .split = {.max_message = kMaxMessage}}));
    rig.transmit->set_counter(OpKind::write, &rig.writes);
    rig.receive = std::move(*ReceiveQueue::create(1, 1));
    rig.id = std::move(*rig.device.create_cm_id(nullptr));
    rig.qp = std::move(*TrackedQp::create(*rig.id, {.send_cq = rig.cq.get(),
                                                    .receive_cq = rig.cq.get(),
                                                    .transmit = rig.transmit.get(),
                                                    .receive = rig.receive.get(),
                                                    .qp = {.pd = rig.pd.get()},
                                                    .port = {}}));
    for (std::size_t op = 0; op < 5; ++op) {
        assert_true(post_write(rig, OpFlag::entry, op).has_value());
        finish(rig, op, op == 4 ? WcStatus::flushed : WcStatus::success);
        rig.cq->progress();
    }
    assert_int_equal(rig.writes.value(), 4);
    assert_int_equal(rig.writes.errors(), 1);
    assert_false(rig.cq->has_entries());
    assert_int_equal(rig.cq->space().occupied(), 0);
}

// --- what waits while nobody reads

/// Until the progress thread has done it.
template <class Condition>
bool comes_true(Rig& rig, const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
        {
            const std::lock_guard guard(rig.cq->lock());
            if (condition()) return true;
        }
        std::this_thread::yield();
    }
    return false;
}

/// The progress thread has looked at all that it has watched so far, and calls nothing that it
/// began to call before.
void let_the_thread_come_round() {
    class Visited final : public Driven {
    public:
        [[nodiscard]] std::array<int, 2> channels() const noexcept override { return {-1, -1}; }
        DriveNext drive() noexcept override { return DriveNext::sleep; }
        DriveNext look() noexcept override {
            visited = true;
            return DriveNext::sleep;
        }
        std::atomic<bool> visited{false};
    } guest;
    assert_true(watch_progress(guest).has_value());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!guest.visited && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    assert_true(guest.visited);
    unwatch_progress(guest);  // not before the round is over
}

void finish_locked(Rig& rig, std::size_t nth) {
    const std::lock_guard guard(rig.cq->lock());
    finish(rig, nth);
}

void what_waits_behind_a_fence_leaves_although_nobody_reads(void** state) {
    Rig& rig = of(state);
    connect(rig, {.automatic = true});
    CountingWaker waker;
    rig.cq->set_waker(&waker);
    // Again and again, since the thread leaves the queue alone when nothing waits.
    constexpr std::size_t kRounds = 5;
    for (std::size_t round = 0; round < kRounds; ++round) {
        const std::size_t before = round * 2;
        assert_true(post_write(rig, OpFlag::entry, 1).has_value());
        assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 2).has_value());
        finish_locked(rig, before);
        assert_true(comes_true(rig, [&] { return rig.posted().size() == before + 2; }));
        assert_true(comes_true(rig, [&] { return waker.calls != 0; }));  // who sleeps shall read
        finish_locked(rig, before + 1);
        assert_int_equal(read_all(rig).size(), 2);
        let_the_thread_come_round();  // a call may be late
        waker.calls = 0;
    }
    rig.cq->set_waker(nullptr);
    let_the_thread_come_round();
}

void a_buffer_for_several_messages_takes_the_next_although_nobody_reads(void** state) {
    Rig& rig = of(state);
    connect(rig, {.automatic = true});
    rig.receive->set_min_multiple(16);
    const LocalBuffer local{rig.memory.data(), 128, 9};
    assert_true(
        rig.receive->post({.local = {&local, 1}, .context = context_of(1), .multiple = true})
            .has_value());
    for (std::size_t message = 0; message < 3; ++message) {
        assert_true(
            comes_true(rig, [&] { return rig.fake().posted_receives.size() == message + 1; }));
        const std::lock_guard guard(rig.cq->lock());
        WorkCompletion wc;
        wc.wr_id = rig.fake().posted_receives.at(message).wr_id;
        wc.receive_side = true;
        wc.opcode = WcOpcode::receive;
        wc.byte_length = 10;
        rig.fake().complete_receive(wc);
    }
    assert_true(comes_true(rig, [&] { return rig.fake().posted_receives.size() == 4; }));
    assert_int_equal(read_all(rig).size(), 3);
}

void a_buffer_for_several_messages_is_watched_no_longer_than_it_is_posted(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::size_t round = 0; round < 2; ++round) {
        assert_int_equal(rig.cq->look(), DriveNext::leave);
        const LocalBuffer local{rig.memory.data(), 128, 9};
        const Receive receive{.local = {&local, 1}, .context = context_of(1), .multiple = true};
        assert_true(rig.receive->post(receive).has_value());
        assert_int_equal(rig.cq->look(), DriveNext::sleep);
        rig.fake().complete_receive({.wr_id = rig.fake().posted_receives.at(round).wr_id,
                                     .opcode = WcOpcode::receive,
                                     .receive_side = true,
                                     .byte_length = 128});
        assert_int_equal(read_all(rig).size(), 1);
    }
    assert_int_equal(rig.cq->look(), DriveNext::leave);
}

void what_waits_leaves_once_a_program_reads_that_let_entries_pile_up(void** state) {
    Rig& rig = of(state);
    connect(rig, {.automatic = true});
    constexpr int kMaxUnread = 1 << 17;
    for (int entry = 0; entry < kMaxUnread; ++entry)
        assert_true(rig.cq->push({.context = context_of(1)}).has_value());
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    finish_locked(rig, 0);
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 2).has_value());
    const auto* const device_cq = static_cast<test::FakeCq*>(rig.fake().attr.send_cq);
    assert_true(comes_true(rig, [&] { return device_cq->armed(); }));
    assert_int_equal(rig.posted().size(), 1);
    assert_int_equal(rig.cq->read(1, [](std::size_t, const Completion&) {}), 1);
    assert_true(comes_true(rig, [&] { return rig.posted().size() == 2; }));
}

void nothing_is_watched_without_need(void** state) {
    Rig& rig = of(state);
    connect(rig, {.automatic = true});
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    const auto* const device_cq = static_cast<test::FakeCq*>(rig.fake().attr.send_cq);
    let_the_thread_come_round();
    assert_false(device_cq->armed());
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 2).has_value());
    assert_true(comes_true(rig, [&] { return device_cq->armed(); }));
}

void a_counter_polls_the_queues_it_is_attached_to(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    assert_true(*rig.writes.attach(*rig.cq));
    assert_false(*rig.writes.attach(*rig.cq));
    assert_true(post_write(rig, {}, 1).has_value());
    finish(rig, 0);
    assert_int_equal(rig.writes.value(), 0);
    rig.writes.progress();
    assert_int_equal(rig.writes.value(), 1);
    assert_false(rig.writes.detach(*rig.cq));
    assert_true(rig.writes.detach(*rig.cq));
}

void a_counter_wakes_only_who_waits(void**) {
    Counter counter;
    CountingWaker waker;
    counter.set_waker(&waker);
    counter.add(1);
    assert_int_equal(waker.calls, 0);
    counter.begin_wait();
    counter.add(1);
    counter.add_errors(1);
    counter.set(7);
    counter.set_errors(3);
    assert_int_equal(waker.calls, 4);
    counter.end_wait();
    counter.add(1);
    assert_int_equal(waker.calls, 4);
    assert_int_equal(counter.value(), 8);
    assert_int_equal(counter.errors(), 3);
}

void a_counter_of_bytes_counts_bytes(void**) {
    Counter counter(CounterUnit::bytes);
    counter.tick(100);
    counter.tick(28);
    assert_int_equal(counter.value(), 128);
}

void remote_counters_tell_reads_from_writes(void**) {
    Counter writes;
    Counter reads;
    RemoteCounters observer;
    assert_true(observer.empty());
    observer.set(&writes, &reads);
    observer.remote_access(Opcode::write, 8);
    observer.remote_access(Opcode::write_imm, 8);
    observer.remote_access(Opcode::atomic_write, 8);
    observer.remote_access(Opcode::read, 8);
    observer.remote_access(Opcode::atomic_fadd, 8);
    observer.remote_access(Opcode::send, 8);
    observer.remote_access(Opcode::flush, 8);
    assert_int_equal(writes.value(), 3);
    assert_int_equal(reads.value(), 2);
    observer.set(nullptr, &reads);
    observer.remote_access(Opcode::write, 8);
    assert_int_equal(writes.value(), 3);
}

void the_lock_excludes(void**) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 20000;
    Lock lock;
    int value = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&lock, &value] {
            for (int round = 0; round < kRounds; ++round) {
                const std::lock_guard guard(lock);
                ++value;
            }
        });
    for (std::thread& thread : threads) thread.join();
    assert_int_equal(value, kThreads * kRounds);
    assert_true(lock.try_lock());
    assert_false(lock.try_lock());
    lock.unlock();
}

void posting_and_reading_from_two_threads_loses_nothing(void** state) {
    Rig& rig = of(state);
    connect(rig, {.cq_size = 8});
    rig.device.auto_complete = true;
    constexpr std::uintptr_t kOps = 20000;
    std::thread poster([&rig] {
        for (std::uintptr_t op = 0; op < kOps; ++op) {
            const OpFlags flags = op % 3 == 0 ? OpFlags(OpFlag::entry) : OpFlags();
            while (!post_write(rig, flags, op)) std::this_thread::yield();
        }
    });
    std::uintptr_t expected = 0;
    while (expected < kOps) {
        for (const Completion& entry : read_all(rig, 4)) {
            if (entry.context != context_of(expected)) break;
            expected += 3;
        }
        std::this_thread::yield();
    }
    poster.join();
    assert_true(expected >= kOps);
    assert_int_equal(rig.cq->space().occupied(), 0);
}

}  // namespace
}  // namespace compat::core

#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        RIGGED(an_empty_queue_is_empty),
        RIGGED(no_more_entries_are_written_than_asked_for),
        RIGGED(successes_before_an_error_are_read_first_and_those_after_it_later),
        RIGGED(a_device_that_fails_is_told),
        RIGGED(an_armed_queue_makes_its_descriptor_readable),
        RIGGED(arming_finds_what_came_before_it),
        RIGGED(arming_ends_however_much_there_is),
        RIGGED(a_counter_may_not_be_slept_on_while_completions_are_left),
        RIGGED(a_queue_that_cannot_be_armed_is_not_slept_on),
        RIGGED(a_completion_that_another_thread_took_still_woke_the_sleeper),
        RIGGED(entries_of_the_engines_own_call_the_waker),
        RIGGED(a_queue_that_keeps_no_entries_only_counts),
        RIGGED(what_waits_behind_a_fence_leaves_although_nobody_reads),
        RIGGED(a_buffer_for_several_messages_takes_the_next_although_nobody_reads),
        RIGGED(what_waits_leaves_once_a_program_reads_that_let_entries_pile_up),
        RIGGED(a_buffer_for_several_messages_is_watched_no_longer_than_it_is_posted),
        RIGGED(nothing_is_watched_without_need),
        RIGGED(a_counter_polls_the_queues_it_is_attached_to),
        cmocka_unit_test(a_counter_wakes_only_who_waits),
        cmocka_unit_test(a_counter_of_bytes_counts_bytes),
        cmocka_unit_test(remote_counters_tell_reads_from_writes),
        cmocka_unit_test(the_lock_excludes),
        RIGGED(posting_and_reading_from_two_threads_loses_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
