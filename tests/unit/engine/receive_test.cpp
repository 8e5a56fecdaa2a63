// SPDX-License-Identifier: BSD-3-Clause
// core/engine/receive_queue.hpp: receives, buffers for several messages, cancelling.
#include "tests/unit/engine/rig.hpp"

namespace compat::core {
namespace {

using test::Call;

Status post_receive(Rig& rig, std::size_t offset, std::uint64_t length, std::uintptr_t context,
                    bool multiple = false, bool entry = true) {
    const LocalBuffer local{rig.memory.data() + offset, length, 9};
    return rig.receive->post({.local = {&local, length != 0 ? 1U : 0U},
                              .context = context_of(context),
                              .entry_flags = kReceiveFlags,
                              .entry = entry,
                              .multiple = multiple});
}

WorkCompletion arrival(Rig& rig, std::size_t nth, std::uint64_t length) {
    WorkCompletion wc;
    wc.wr_id = rig.fake().posted_receives.at(nth).wr_id;
    wc.opcode = WcOpcode::receive;
    wc.receive_side = true;
    wc.byte_length = length;
    return wc;
}

void arrive(Rig& rig, std::size_t nth, std::uint64_t length) {
    rig.fake().complete_receive(arrival(rig, nth, length));
}

void a_receive_gives_one_entry_with_its_buffer(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    assert_true(post_receive(rig, 100, 50, 1).has_value());
    assert_int_equal(rig.fake().posted_receives.at(0).sges.at(0).length, 50);
    arrive(rig, 0, 20);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_ptr_equal(entries[0].context, context_of(1));
    assert_ptr_equal(entries[0].buffer, rig.memory.data() + 100);
    assert_int_equal(entries[0].length, 20);
    assert_int_equal(entries[0].flags, kReceiveFlags);
    assert_int_equal(entries[0].kind, CompletionKind::receive);
    assert_false(entries[0].buffer_released);
    assert_int_equal(rig.receives.value(), 1);
}

void receives_posted_before_the_connection_are_kept_for_it(void** state) {
    Rig& rig = of(state);
    connect(rig, {.open = false});
    assert_true(post_receive(rig, 0, 8, 1).has_value());
    assert_true(post_receive(rig, 8, 8, 2).has_value());
    rig.qp = std::move(*TrackedQp::create(*rig.id, {.send_cq = rig.cq.get(),
                                                    .receive_cq = rig.cq.get(),
                                                    .transmit = rig.transmit.get(),
                                                    .receive = rig.receive.get(),
                                                    .qp = {.pd = rig.pd.get()},
                                                    .port = {}}));
    assert_int_equal(rig.fake().posted_receives.size(), 2);
    arrive(rig, 0, 8);
    arrive(rig, 1, 8);
    const auto entries = read_all(rig);
    assert_ptr_equal(entries.at(0).context, context_of(1));
    assert_ptr_equal(entries.at(1).context, context_of(2));
}

void more_receives_than_the_depth_are_would_block(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uintptr_t at = 0; at < kReceiveDepth; ++at)
        assert_true(post_receive(rig, 0, 8, at).has_value());
    assert_int_equal(post_receive(rig, 0, 8, 9).error().code, Errc::would_block);
    arrive(rig, 0, 8);
    assert_int_equal(read_all(rig).size(), 1);
    assert_true(post_receive(rig, 0, 8, 9).has_value());
}

void a_receive_of_nothing_is_posted(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_receive(rig, 0, 0, 1).has_value());
    assert_int_equal(rig.fake().posted_receives.at(0).sges.size(), 0);
    arrive(rig, 0, 0);
    assert_ptr_equal(read_all(rig).at(0).buffer, nullptr);
}

void a_quiet_receive_counts_and_leaves_no_entry(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    assert_true(post_receive(rig, 0, 8, 1, false, false).has_value());
    arrive(rig, 0, 8);
    assert_int_equal(read_all(rig).size(), 0);
    assert_int_equal(rig.receives.value(), 1);
}

void a_failed_receive_is_an_error_entry_whatever_was_asked(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    assert_true(post_receive(rig, 0, 8, 1, false, false).has_value());
    WorkCompletion wc = arrival(rig, 0, 0);
    wc.status = WcStatus::flushed;
    rig.fake().complete_receive(wc);
    assert_int_equal(read_all(rig).size(), 0);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(1));
    assert_int_equal(error.kind, CompletionKind::receive);
    assert_int_equal(rig.receives.errors(), 1);
    assert_int_equal(rig.receives.value(), 0);
}

void a_multiple_buffer_takes_messages_one_behind_the_other(void** state) {
    Rig& rig = of(state);
    connect(rig);
    rig.receive->set_min_multiple(16);
    assert_true(post_receive(rig, 0, 100, 1, true).has_value());
    arrive(rig, 0, 30);
    rig.cq->progress();
    arrive(rig, 1, 50);  // 20 bytes are left: enough for one more
    rig.cq->progress();
    arrive(rig, 2, 10);  // 10 are not
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 3);
    const std::size_t places[] = {0, 30, 80};
    for (std::size_t at = 0; at < 3; ++at) {
        assert_ptr_equal(entries[at].context, context_of(1));
        assert_ptr_equal(entries[at].buffer, rig.memory.data() + places[at]);
        assert_int_equal(entries[at].buffer_released, at == 2);
    }
    assert_int_equal(rig.fake().posted_receives.at(2).sges.at(0).length, 20);
    assert_int_equal(rig.fake().posted_receives.size(), 3);
    assert_int_equal(rig.receive->free_slots(), kReceiveDepth);
}

void a_later_receive_does_not_overtake_a_multiple_buffer(void** state) {
    Rig& rig = of(state);
    connect(rig);
    rig.receive->set_min_multiple(16);
    assert_true(post_receive(rig, 0, 40, 1, true).has_value());
    assert_true(post_receive(rig, 100, 8, 2).has_value());
    assert_true(post_receive(rig, 200, 40, 3, true).has_value());
    assert_true(post_receive(rig, 300, 8, 4).has_value());
    assert_int_equal(rig.fake().posted_receives.size(), 1);
    arrive(rig, 0, 30);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_true(entries[0].buffer_released);
    // The receive behind it and the next multiple buffer, but nothing behind that one.
    assert_int_equal(rig.fake().posted_receives.size(), 3);
    arrive(rig, 1, 8);
    arrive(rig, 2, 40);
    assert_int_equal(read_all(rig).size(), 2);
    assert_int_equal(rig.fake().posted_receives.size(), 4);
}

void a_multiple_buffer_is_given_back_when_the_connection_breaks(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_receive(rig, 0, 100, 1, true).has_value());
    assert_true(post_receive(rig, 200, 8, 2).has_value());
    WorkCompletion wc = arrival(rig, 0, 0);
    wc.status = WcStatus::flushed;
    rig.fake().complete_receive(wc);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_true(error.buffer_released);
    assert_ptr_equal(error.context, context_of(1));
    // What was held back is posted, for the device to flush it.
    assert_int_equal(rig.fake().posted_receives.size(), 2);
}

void cancelling_a_receive_that_is_held_back_takes_it_out(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_receive(rig, 0, 100, 1, true).has_value());
    for (std::uintptr_t at = 2; at < 5; ++at)
        assert_true(post_receive(rig, 200, 8, at).has_value());
    const auto cancelled = rig.receive->cancel(context_of(3));
    assert_true(cancelled.has_value());
    assert_int_equal(cancelled->status, WcStatus::flushed);
    assert_ptr_equal(cancelled->context, context_of(3));
    assert_int_equal(rig.receive->cancel(context_of(3)).error().code, Errc::invalid_argument);
    const auto last = rig.receive->cancel(context_of(4));
    assert_true(last.has_value());
    assert_true(post_receive(rig, 300, 8, 5).has_value());
    arrive(rig, 0, 100);
    read_all(rig);
    assert_int_equal(rig.fake().posted_receives.size(), 3);
    arrive(rig, 1, 8);
    arrive(rig, 2, 8);
    const auto entries = read_all(rig);
    assert_ptr_equal(entries.at(0).context, context_of(2));
    assert_ptr_equal(entries.at(1).context, context_of(5));
}

void cancelling_what_the_device_keeps_is_busy_and_it_completes(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_receive(rig, 0, 8, 1).has_value());
    assert_int_equal(rig.receive->cancel(context_of(1)).error().code, Errc::busy);
    arrive(rig, 0, 8);
    assert_int_equal(read_all(rig).size(), 1);
}

void a_cancelled_receive_is_an_error_entry_of_the_queue(void** state) {
    Rig& rig = of(state);
    connect(rig, {.open = false});
    assert_true(post_receive(rig, 0, 8, 1).has_value());
    const auto cancelled = rig.receive->cancel(context_of(1));
    assert_true(cancelled.has_value());
    assert_true(rig.cq->push(*cancelled).has_value());
    const auto ignore = [](std::size_t, const Completion&) {};
    assert_int_equal(rig.cq->read(1, ignore), TrackedCq::kErrorFirst);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(1));
}

void immediate_data_that_took_no_receive_is_a_remote_write(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    WorkCompletion wc;
    wc.opcode = WcOpcode::receive_write_imm;
    wc.receive_side = true;
    wc.has_imm = true;
    wc.imm = 0x1122334455667788;
    wc.byte_length = 4096;
    rig.fake().complete_receive(wc);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_int_equal(entries[0].kind, CompletionKind::remote_write);
    assert_true(entries[0].imm == 0x1122334455667788);
    assert_int_equal(entries[0].length, 4096);
    assert_int_equal(entries[0].flags, kRemoteWriteFlags);
    assert_ptr_equal(entries[0].context, nullptr);
    assert_int_equal(rig.receives.value(), 0);
}

void immediate_data_that_took_a_receive_has_its_context(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_receive(rig, 0, 0, 1).has_value());
    WorkCompletion wc = arrival(rig, 0, 64);
    wc.opcode = WcOpcode::receive_write_imm;
    wc.has_imm = true;
    rig.fake().complete_receive(wc);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_int_equal(entries[0].kind, CompletionKind::remote_write);
    assert_ptr_equal(entries[0].context, context_of(1));
    assert_int_equal(entries[0].flags, kRemoteWriteFlags);
    assert_ptr_equal(entries[0].buffer, nullptr);
    assert_int_equal(rig.receive->free_slots(), kReceiveDepth);
}

void receives_find_room_beyond_the_size_of_the_queue(void** state) {
    Rig& rig = of(state);
    connect(rig, {.cq_size = 1});
    for (int round = 0; round < 100; ++round) {
        assert_true(post_receive(rig, 0, 8, static_cast<std::uintptr_t>(round)).has_value());
        arrive(rig, rig.fake().posted_receives.size() - 1, 8);
        rig.cq->progress();
    }
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 100);
    for (std::uintptr_t at = 0; at < 100; ++at)
        assert_ptr_equal(entries[at].context, context_of(at));
}

void the_device_refusing_a_receive_is_told_and_forgotten(void** state) {
    Rig& rig = of(state);
    connect(rig);
    rig.device.fail(Call::post_receive, 1, {Errc::device, 5});
    assert_int_equal(post_receive(rig, 0, 8, 1).error().code, Errc::device);
    assert_int_equal(rig.receive->free_slots(), kReceiveDepth);
}

}  // namespace
}  // namespace compat::core

#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        RIGGED(a_receive_gives_one_entry_with_its_buffer),
        RIGGED(receives_posted_before_the_connection_are_kept_for_it),
        RIGGED(more_receives_than_the_depth_are_would_block),
        RIGGED(a_receive_of_nothing_is_posted),
        RIGGED(a_quiet_receive_counts_and_leaves_no_entry),
        RIGGED(a_failed_receive_is_an_error_entry_whatever_was_asked),
        RIGGED(a_multiple_buffer_takes_messages_one_behind_the_other),
        RIGGED(a_later_receive_does_not_overtake_a_multiple_buffer),
        RIGGED(a_multiple_buffer_is_given_back_when_the_connection_breaks),
        RIGGED(cancelling_a_receive_that_is_held_back_takes_it_out),
        RIGGED(cancelling_what_the_device_keeps_is_busy_and_it_completes),
        RIGGED(a_cancelled_receive_is_an_error_entry_of_the_queue),
        RIGGED(immediate_data_that_took_no_receive_is_a_remote_write),
        RIGGED(immediate_data_that_took_a_receive_has_its_context),
        RIGGED(receives_find_room_beyond_the_size_of_the_queue),
        RIGGED(the_device_refusing_a_receive_is_told_and_forgotten),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
