// SPDX-License-Identifier: BSD-3-Clause
// core/engine/transmit_queue.hpp: one operation, one completion or error; slots come back.
#include <cstring>

#include "tests/unit/engine/rig.hpp"

namespace compat::core {
namespace {

using test::Call;

constexpr OpFlags kQuiet{};

void a_write_becomes_one_request_and_one_entry(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_int_equal(rig.posted().size(), 1);
    const test::PostedSend& request = rig.posted()[0];
    assert_int_equal(request.request.opcode, Opcode::write);
    assert_int_equal(request.request.remote_address, kRemoteAddress);
    assert_int_equal(request.request.rkey, kRemoteKey);
    assert_true(is_signaled(rig, 0));
    assert_int_equal(request.sges.size(), 1);
    assert_int_equal(request.sges[0].lkey, 7);
    assert_int_equal(read_all(rig).size(), 0);
    finish(rig, 0);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_ptr_equal(entries[0].context, context_of(1));
    assert_int_equal(entries[0].flags, kSendFlags);
    assert_int_equal(entries[0].kind, CompletionKind::write);
    assert_int_equal(rig.cq->space().occupied(), 0);
}

void expect_error(Rig& rig, std::uintptr_t op, WcStatus status) {
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(op));
    assert_int_equal(error.status, status);
}

void expect_no_error(Rig& rig) {
    Completion error;
    assert_false(rig.cq->read_error(error));
}

void posting_before_the_connection_is_wrong_state(void** state) {
    Rig& rig = of(state);
    connect(rig, {.open = false});
    assert_int_equal(post_write(rig, OpFlag::entry, 1).error().code, Errc::wrong_state);
    assert_int_equal(rig.cq->space().occupied(), 0);
}

void what_the_device_refuses_leaves_no_trace(void** state) {
    Rig& rig = of(state);
    connect(rig);
    rig.device.fail(Call::post_send, 1, {Errc::invalid_argument});
    assert_int_equal(post_write(rig, OpFlag::entry, 1).error().code, Errc::invalid_argument);
    assert_int_equal(rig.cq->space().occupied(), 0);
    assert_int_equal(rig.transmit->free_slots(), kDepth);
    assert_true(post_write(rig, OpFlag::entry, 2).has_value());
    finish(rig, 0);
    assert_ptr_equal(read_all(rig).at(0).context, context_of(2));
}

void unflagged_operations_leave_no_entry_and_their_slots_come_back(void** state) {
    Rig& rig = of(state);
    connect(rig);
    std::size_t finished = 0;
    for (int op = 0; op < 20 * static_cast<int>(kDepth); ++op) {
        Status posted = post_write(rig, kQuiet, 0);
        while (!posted) {
            assert_int_equal(posted.error().code, Errc::would_block);
            assert_true(finished < rig.posted().size());
            while (!is_signaled(rig, finished)) ++finished;
            finish(rig, finished++);
            posted = post_write(rig, kQuiet, 0);
        }
    }
    assert_int_equal(rig.posted().size(), 20 * kDepth);
    assert_int_equal(read_all(rig).size(), 0);
}

void one_request_in_a_quarter_of_the_queue_is_signaled(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uint32_t op = 0; op < kDepth; ++op)
        assert_true(post_write(rig, kQuiet, 0).has_value());
    for (std::uint32_t op = 0; op < kDepth; ++op)
        assert_int_equal(is_signaled(rig, op), op % kSignalInterval == kSignalInterval - 1);
}

void a_full_send_queue_is_would_block_until_a_completion_is_polled(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uint32_t op = 0; op < kDepth; ++op)
        assert_true(post_write(rig, OpFlag::entry, op).has_value());
    assert_int_equal(post_write(rig, OpFlag::entry, 99).error().code, Errc::would_block);
    assert_int_equal(rig.posted().size(), kDepth);
    finish(rig, 0);
    // The post itself makes progress.
    assert_true(post_write(rig, OpFlag::entry, 99).has_value());
    assert_int_equal(read_all(rig).size(), 1);
}

void a_full_completion_queue_is_would_block_until_an_entry_is_read(void** state) {
    Rig& rig = of(state);
    connect(rig, {.cq_size = 4});
    for (std::uintptr_t op = 0; op < 4; ++op)
        assert_true(post_write(rig, OpFlag::entry, op).has_value());
    assert_int_equal(post_write(rig, OpFlag::entry, 4).error().code, Errc::would_block);
    assert_true(post_write(rig, kQuiet, 4).has_value());
    for (std::size_t op = 0; op < 4; ++op) finish(rig, op);
    rig.cq->progress();
    assert_int_equal(post_write(rig, OpFlag::entry, 5).error().code, Errc::would_block);
    assert_int_equal(read_all(rig, 1).size(), 4);
    assert_true(post_write(rig, OpFlag::entry, 5).has_value());
}

void a_failure_completes_its_operation_and_those_before_it(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(post_write(rig, kQuiet, 2).has_value());
    assert_true(post_write(rig, OpFlag::entry, 3).has_value());
    finish(rig, 0);
    finish(rig, 1, WcStatus::remote_access_error, 2);
    finish(rig, 2, WcStatus::flushed);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_ptr_equal(entries[0].context, context_of(1));
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(2));
    assert_int_equal(error.status, WcStatus::remote_access_error);
    assert_int_equal(error.vendor_error, 2);
    assert_int_equal(error.flags, kSendFlags);
    expect_error(rig, 3, WcStatus::flushed);
    expect_no_error(rig);
    assert_int_equal(rig.writes.value(), 1);
    assert_int_equal(rig.writes.errors(), 2);
    assert_int_equal(rig.cq->space().occupied(), 0);
}

void quiet_operations_before_a_failure_succeeded(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uintptr_t op = 0; op < 3; ++op) assert_true(post_write(rig, kQuiet, op).has_value());
    finish(rig, 2, WcStatus::retry_exceeded);
    assert_int_equal(read_all(rig).size(), 0);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(2));
    assert_false(rig.cq->read_error(error));
    assert_int_equal(rig.transmit->free_slots(), kDepth);
}

void counters_count_every_operation_and_need_no_entry(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    assert_true(post_write(rig, kQuiet, 0).has_value());
    assert_true(post(rig, Opcode::read, kQuiet, 8, 0).has_value());
    assert_true(post(rig, Opcode::send, kQuiet, 8, 0).has_value());
    for (std::size_t op = 0; op < 3; ++op) {
        assert_true(is_signaled(rig, op));
        finish(rig, op);
    }
    rig.cq->progress();
    assert_int_equal(rig.writes.value(), 1);
    assert_int_equal(rig.reads.value(), 1);
    assert_int_equal(rig.sends.value(), 1);
    assert_int_equal(read_all(rig).size(), 0);
}

Operation long_write(const LocalBuffer& local, const RemoteRange& remote) {
    return {.opcode = Opcode::write,
            .flags = OpFlag::entry,
            .local = {&local, 1},
            .remote = {&remote, 1},
            .length = local.length,
            .context = context_of(77)};
}

void a_split_operation_has_one_entry_after_its_last_piece(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const LocalBuffer local{rig.memory.data(), 3 * kMaxMessage, 7};
    const RemoteRange remote{kRemoteAddress, 3 * kMaxMessage, kRemoteKey};
    assert_true(rig.transmit->post(long_write(local, remote)).has_value());
    assert_int_equal(rig.posted().size(), 3);
    assert_false(is_signaled(rig, 0));
    assert_false(is_signaled(rig, 1));
    assert_true(is_signaled(rig, 2));
    finish(rig, 2);
    assert_int_equal(read_all(rig).size(), 1);
    assert_int_equal(rig.transmit->free_slots(), kDepth);
}

void a_split_operation_that_fails_half_way_has_one_error(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const LocalBuffer local{rig.memory.data(), 3 * kMaxMessage, 7};
    const RemoteRange remote{kRemoteAddress, 3 * kMaxMessage, kRemoteKey};
    assert_true(rig.transmit->post(long_write(local, remote)).has_value());
    assert_true(post_write(rig, OpFlag::entry, 78).has_value());
    finish(rig, 1, WcStatus::remote_access_error);
    finish(rig, 2, WcStatus::flushed);
    finish(rig, 3, WcStatus::flushed);
    expect_error(rig, 77, WcStatus::remote_access_error);
    expect_error(rig, 78, WcStatus::flushed);
    expect_no_error(rig);
    assert_int_equal(rig.transmit->free_slots(), kDepth);
}

void an_operation_longer_than_the_send_queue_goes_piece_by_piece(void** state) {
    Rig& rig = of(state);
    connect(rig);
    constexpr std::uint64_t kPieces = 3 * kDepth + 1;
    const LocalBuffer local{rig.memory.data(), kPieces * kMaxMessage, 7};
    const RemoteRange remote{kRemoteAddress, kPieces * kMaxMessage, kRemoteKey};
    assert_true(rig.transmit->post(long_write(local, remote)).has_value());
    assert_true(post_write(rig, OpFlag::entry, 78).has_value());
    std::size_t finished = 0;
    std::vector<Completion> entries;
    while (entries.size() < 2) {
        while (finished < rig.posted().size() && !is_signaled(rig, finished)) ++finished;
        assert_true(finished < rig.posted().size());
        finish(rig, finished++);
        for (const Completion& entry : read_all(rig)) entries.push_back(entry);
    }
    assert_int_equal(rig.posted().size(), kPieces + 1);
    assert_ptr_equal(entries[0].context, context_of(77));
    assert_ptr_equal(entries[1].context, context_of(78));
    assert_int_equal(rig.transmit->free_slots(), kDepth);
}

void an_operation_longer_than_the_send_queue_that_fails_sends_no_more(void** state) {
    Rig& rig = of(state);
    connect(rig);
    constexpr std::uint64_t kPieces = 3 * kDepth;
    const LocalBuffer local{rig.memory.data(), kPieces * kMaxMessage, 7};
    const RemoteRange remote{kRemoteAddress, kPieces * kMaxMessage, kRemoteKey};
    assert_true(rig.transmit->post(long_write(local, remote)).has_value());
    assert_int_equal(rig.posted().size(), kDepth);
    finish(rig, 0, WcStatus::remote_access_error);
    for (std::size_t piece = 1; piece < kDepth; ++piece) finish(rig, piece, WcStatus::flushed);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_int_equal(error.status, WcStatus::remote_access_error);
    for (std::size_t piece = kDepth; piece < rig.posted().size(); ++piece)
        finish(rig, piece, WcStatus::flushed);
    assert_false(rig.cq->read_error(error));
    assert_true(post_write(rig, OpFlag::entry, 78).has_value());
    finish(rig, rig.posted().size() - 1, WcStatus::flushed);
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(78));
}

void a_short_injected_source_goes_inline(void** state) {
    Rig& rig = of(state);
    connect(rig);
    std::memset(rig.memory.data(), 0x5a, kMaxInline);
    assert_true(post(rig, Opcode::write, OpFlag::inject, kMaxInline, 1).has_value());
    std::memset(rig.memory.data(), 0, kMaxInline);
    assert_true(rig.posted()[0].request.flags.has(SendFlag::inlined));
    assert_int_equal(rig.posted()[0].inline_bytes.size(), kMaxInline);
    assert_int_equal(static_cast<int>(rig.posted()[0].inline_bytes[kMaxInline - 1]), 0x5a);
}

void a_delivered_write_completes_with_the_read_behind_it(void** state) {
    Rig& rig = of(state);
    connect(rig);
    rig.transmit->set_probe({.remote_address = 1, .rkey = 2, .sink = {rig.memory.data(), 1, 3}});
    constexpr OpFlags kDelivered = OpFlag::entry | OpFlag::inject | OpFlag::deliver;
    assert_true(post_write(rig, kDelivered, 1).has_value());
    assert_int_equal(rig.posted().size(), 2);
    assert_true(rig.posted()[0].request.flags.has(SendFlag::inlined));
    assert_false(is_signaled(rig, 0));
    assert_int_equal(rig.posted()[1].request.opcode, Opcode::read);
    assert_false(rig.posted()[1].request.flags.has(SendFlag::inlined));
    assert_true(is_signaled(rig, 1));
    finish(rig, 1);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 1);
    assert_ptr_equal(entries[0].context, context_of(1));
    assert_int_equal(entries[0].kind, CompletionKind::write);
    // Of a write that is refused nobody hears twice.
    assert_true(post_write(rig, OpFlag::entry | OpFlag::deliver, 2).has_value());
    finish(rig, 2, WcStatus::remote_access_error);
    finish(rig, 3, WcStatus::flushed);
    expect_error(rig, 2, WcStatus::remote_access_error);
    expect_no_error(rig);
}

void a_longer_injected_source_is_copied_and_the_copy_is_registered(void** state) {
    Rig& rig = of(state);
    connect(rig);
    std::memset(rig.memory.data(), 0x5a, kMaxInject);
    assert_true(post(rig, Opcode::write, OpFlag::inject, kMaxInline + 1, 1).has_value());
    std::memset(rig.memory.data(), 0, kMaxInject);
    const test::PostedSend& request = rig.posted()[0];
    assert_false(request.request.flags.has(SendFlag::inlined));
    assert_int_equal(request.sges.size(), 1);
    const auto* copy = static_cast<const std::byte*>(request.sges[0].address);
    assert_ptr_not_equal(copy, rig.memory.data());
    assert_int_equal(static_cast<int>(copy[kMaxInline]), 0x5a);
    assert_int_equal(request.sges[0].lkey, rig.device.mrs().at(0)->lkey());
}

void the_copies_of_injected_sources_come_back(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (int op = 0; op < 200; ++op) {
        assert_true(post(rig, Opcode::write, OpFlag::inject, kMaxInject, 1).has_value());
        finish(rig, rig.posted().size() - 1);
        rig.cq->progress();
    }
}

void more_waits_for_the_next_post(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uintptr_t op = 0; op < 3; ++op)
        assert_true(post_write(rig, OpFlag::entry | OpFlag::more, op).has_value());
    assert_int_equal(rig.posted().size(), 0);
    assert_true(post_write(rig, OpFlag::entry, 3).has_value());
    assert_int_equal(rig.posted().size(), 4);
    for (std::size_t op = 0; op < 4; ++op) finish(rig, op);
    assert_int_equal(read_all(rig).size(), 4);
}

void more_is_pushed_out_by_progress(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry | OpFlag::more, 1).has_value());
    assert_int_equal(read_all(rig).size(), 0);
    assert_int_equal(rig.posted().size(), 1);
}

void more_is_pushed_out_by_a_post_that_is_refused(void** state) {
    Rig& rig = of(state);
    connect(rig, {.cq_size = 1});
    assert_true(post_write(rig, OpFlag::entry | OpFlag::more, 1).has_value());
    assert_int_equal(post_write(rig, OpFlag::entry | OpFlag::more, 2).error().code,
                     Errc::would_block);
    assert_int_equal(rig.posted().size(), 1);
}

void more_than_fits_one_batch_goes_out_by_itself(void** state) {
    Rig& rig = of(state);
    connect(rig, {.cq_size = 64, .depth = 64});
    for (std::uintptr_t op = 0; op < 40; ++op)
        assert_true(post_write(rig, OpFlag::entry | OpFlag::more, op).has_value());
    assert_true(rig.posted().size() >= 32);
    rig.transmit->flush();
    assert_int_equal(rig.posted().size(), 40);
}

void an_injected_source_does_not_wait_for_more(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::inject | OpFlag::more, 1).has_value());
    assert_int_equal(rig.posted().size(), 1);
}

void a_batch_that_the_device_refuses_fails_one_by_one(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(post_write(rig, OpFlag::entry | OpFlag::more, 2).has_value());
    assert_true(post_write(rig, OpFlag::more, 3).has_value());
    rig.device.fail(Call::post_send, 1, {Errc::device, 5});
    rig.transmit->flush();
    assert_true(rig.fake().failed);
    finish(rig, 0);
    assert_int_equal(read_all(rig).size(), 1);
    for (const std::uintptr_t op : {2U, 3U})
        expect_error(rig, op, WcStatus::local_qp_operation_error);
    expect_no_error(rig);
    assert_int_equal(rig.cq->space().occupied(), 0);
}

void a_fence_waits_for_all_earlier_operations_and_holds_later_ones(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 2).has_value());
    assert_true(post_write(rig, OpFlag::entry, 3).has_value());
    assert_int_equal(rig.posted().size(), 1);
    assert_int_equal(read_all(rig).size(), 0);
    assert_int_equal(rig.posted().size(), 1);
    finish(rig, 0);
    assert_int_equal(read_all(rig).size(), 1);
    assert_int_equal(rig.posted().size(), 3);
    finish(rig, 1);
    finish(rig, 2);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 2);
    assert_ptr_equal(entries[0].context, context_of(2));
    assert_ptr_equal(entries[1].context, context_of(3));
}

void a_fence_with_nothing_before_it_goes_at_once(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 1).has_value());
    assert_int_equal(rig.posted().size(), 1);
}

void a_fence_after_quiet_operations_asks_for_their_end(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, kQuiet, 1).has_value());
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 2).has_value());
    // A signaled request of no bytes shows that the quiet one is over.
    assert_int_equal(rig.posted().size(), 2);
    assert_true(is_signaled(rig, 1));
    assert_int_equal(rig.posted()[1].sges.size(), 0);
    assert_int_equal(rig.posted()[1].request.opcode, Opcode::read);  // no peer refuses that
    finish(rig, 1);
    assert_int_equal(read_all(rig).size(), 0);
    assert_int_equal(rig.posted().size(), 3);
    finish(rig, 2);
    assert_int_equal(read_all(rig).size(), 1);
}

void the_queue_behind_a_fence_is_bounded(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 0).has_value());
    assert_true(post_write(rig, OpFlag::fence, 0).has_value());
    int accepted = 0;
    while (accepted < 1000) {
        const Status posted = post_write(rig, kQuiet, 0);
        if (!posted) {
            assert_int_equal(posted.error().code, Errc::would_block);
            break;
        }
        ++accepted;
    }
    assert_in_range(accepted, 8, 100);
}

void an_injected_source_behind_a_fence_is_copied_at_once(void** state) {
    Rig& rig = of(state);
    connect(rig);
    std::memset(rig.memory.data(), 0x5a, 8);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(post_write(rig, OpFlag::inject | OpFlag::fence, 2).has_value());
    std::memset(rig.memory.data(), 0, 8);
    finish(rig, 0);
    read_all(rig);
    assert_int_equal(rig.posted().size(), 2);
    assert_true(rig.posted()[1].request.flags.has(SendFlag::inlined));
    assert_int_equal(static_cast<int>(rig.posted()[1].inline_bytes.at(0)), 0x5a);
}

void operations_behind_a_fence_are_flushed_when_the_connection_breaks(void** state) {
    Rig& rig = of(state);
    connect(rig);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 2).has_value());
    finish(rig, 0, WcStatus::retry_exceeded);
    Completion error;
    assert_true(rig.cq->read_error(error));
    assert_int_equal(rig.posted().size(), 2);
    finish(rig, 1, WcStatus::flushed);
    assert_true(rig.cq->read_error(error));
    assert_ptr_equal(error.context, context_of(2));
    assert_false(rig.cq->read_error(error));
}

void closing_gives_back_the_room_of_what_did_not_complete(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uintptr_t op = 0; op < 5; ++op)
        assert_true(post_write(rig, OpFlag::entry, op).has_value());
    assert_true(post_write(rig, OpFlag::entry | OpFlag::fence, 5).has_value());
    assert_true(post_write(rig, OpFlag::entry, 6).has_value());
    assert_int_equal(rig.cq->space().occupied(), 7);
    rig.qp.reset();
    assert_int_equal(rig.cq->space().occupied(), 0);
    assert_int_equal(post_write(rig, OpFlag::entry, 7).error().code, Errc::wrong_state);
    assert_int_equal(read_all(rig).size(), 0);
}

void two_connections_on_one_queue_do_not_mix(void** state) {
    Rig& rig = of(state);
    connect(rig);
    auto other = std::move(*TransmitQueue::create(
        *rig.cq, {.depth = kDepth,
                  .split = {.max_sge = 4, .max_sge_read = 2, .max_message = kMaxMessage},
                  .max_inline = kMaxInline}));
    auto id = std::move(*rig.device.create_cm_id(nullptr));
    auto receive = std::move(*ReceiveQueue::create(1, 1));
    auto qp = std::move(*TrackedQp::create(*id, {.send_cq = rig.cq.get(),
                                                 .receive_cq = rig.cq.get(),
                                                 .transmit = other.get(),
                                                 .receive = receive.get(),
                                                 .qp = {.pd = rig.pd.get()},
                                                 .port = {}}));
    test::FakeQp& first = *rig.device.qps().at(0);
    test::FakeQp& second = *rig.device.qps().at(1);
    assert_true(post_write(rig, OpFlag::entry, 1).has_value());
    const LocalBuffer local{rig.memory.data(), 8, 7};
    const RemoteRange remote{kRemoteAddress, 8, kRemoteKey};
    assert_true(other
                    ->post({.opcode = Opcode::read,
                            .flags = OpFlag::entry,
                            .local = {&local, 1},
                            .remote = {&remote, 1},
                            .length = 8,
                            .context = context_of(2)})
                    .has_value());
    WorkCompletion wc;
    wc.wr_id = second.posted.at(0).request.wr_id;
    second.complete_send(wc);
    wc.wr_id = first.posted.at(0).request.wr_id;
    first.complete_send(wc);
    const auto entries = read_all(rig);
    assert_int_equal(entries.size(), 2);
    assert_ptr_equal(entries[0].context, context_of(2));
    assert_int_equal(entries[0].kind, CompletionKind::read);
    assert_ptr_equal(entries[1].context, context_of(1));
}

}  // namespace
}  // namespace compat::core

#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        RIGGED(a_write_becomes_one_request_and_one_entry),
        RIGGED(posting_before_the_connection_is_wrong_state),
        RIGGED(what_the_device_refuses_leaves_no_trace),
        RIGGED(unflagged_operations_leave_no_entry_and_their_slots_come_back),
        RIGGED(one_request_in_a_quarter_of_the_queue_is_signaled),
        RIGGED(a_full_send_queue_is_would_block_until_a_completion_is_polled),
        RIGGED(a_full_completion_queue_is_would_block_until_an_entry_is_read),
        RIGGED(a_failure_completes_its_operation_and_those_before_it),
        RIGGED(quiet_operations_before_a_failure_succeeded),
        RIGGED(counters_count_every_operation_and_need_no_entry),
        RIGGED(a_split_operation_has_one_entry_after_its_last_piece),
        RIGGED(a_split_operation_that_fails_half_way_has_one_error),
        RIGGED(an_operation_longer_than_the_send_queue_goes_piece_by_piece),
        RIGGED(an_operation_longer_than_the_send_queue_that_fails_sends_no_more),
        RIGGED(a_short_injected_source_goes_inline),
        RIGGED(a_delivered_write_completes_with_the_read_behind_it),
        RIGGED(a_longer_injected_source_is_copied_and_the_copy_is_registered),
        RIGGED(the_copies_of_injected_sources_come_back),
        RIGGED(more_waits_for_the_next_post),
        RIGGED(more_is_pushed_out_by_progress),
        RIGGED(more_is_pushed_out_by_a_post_that_is_refused),
        RIGGED(more_than_fits_one_batch_goes_out_by_itself),
        RIGGED(an_injected_source_does_not_wait_for_more),
        RIGGED(a_batch_that_the_device_refuses_fails_one_by_one),
        RIGGED(a_fence_waits_for_all_earlier_operations_and_holds_later_ones),
        RIGGED(a_fence_with_nothing_before_it_goes_at_once),
        RIGGED(a_fence_after_quiet_operations_asks_for_their_end),
        RIGGED(the_queue_behind_a_fence_is_bounded),
        RIGGED(an_injected_source_behind_a_fence_is_copied_at_once),
        RIGGED(operations_behind_a_fence_are_flushed_when_the_connection_breaks),
        RIGGED(closing_gives_back_the_room_of_what_did_not_complete),
        RIGGED(two_connections_on_one_queue_do_not_mix),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
