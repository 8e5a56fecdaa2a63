// SPDX-License-Identifier: BSD-3-Clause
// Receives: those of one QP and of an SRQ, what happens when there is none, immediate data.
#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

std::uint64_t imm_of(std::uint64_t value) {
    return limits().imm_bytes == 8 ? value : value & 0xffffffffU;
}

// --- SRQ

struct Shared {
    explicit Shared(Fixture& fixture, std::uint32_t depth = 16) {
        SideOptions plain;
        plain.send_depth = plain.receive_depth = 32;
        SideOptions with_srq = plain;
        with_srq.with_srq = true;
        with_srq.receive_depth = depth;
        PairOptions options{plain, with_srq, {}, {}};
        first = &fixture.connect(options);
        options.passive_resources = first->passive.resources;
        second = &fixture.connect(options);
    }
    Pair* first;
    Pair* second;
    [[nodiscard]] CompletionQueue& cq() const { return first->passive.receive_cq(); }
    [[nodiscard]] Side& target() const { return first->passive; }
};

void srq_serves_two_queue_pairs_in_the_order_of_arrival(void** state) {
    const Shared shared(fixture_of(state));
    const Buffer& target = shared.target().buffer(64 * 8);
    for (std::uint64_t id = 0; id < 8; ++id)
        must_post_receive(shared.target(), id, {target.sge(64 * id, 64)});
    for (std::uint64_t id = 0; id < 8; ++id) {
        const Pair& pair = id % 3 == 0 ? *shared.first : *shared.second;
        std::byte text[64];
        for (std::byte& one : text) one = static_cast<std::byte>(id + 1);
        must_post(pair.active, {.wr_id = id,
                                .opcode = Opcode::send,
                                .sges = {{text, sizeof text, 0}},
                                .flags = SendFlag::signaled | SendFlag::inlined});
        expect(pair.active.send_cq(), id);
        const WorkCompletion wc = expect(shared.cq(), id);
        assert_int_equal(wc.qp_num, pair.passive.qp->number());
        assert_true(holds_only(target.data() + 64 * id, 64, static_cast<int>(id + 1)));
    }
}

void srq_takes_exactly_its_depth(void** state) {
    for (const std::uint32_t depth : {1U, 3U, 10U}) {
        const Shared shared(fixture_of(state), depth);
        for (int round = 0; round < 3; ++round) {
            for (std::uint64_t id = 0; id < depth; ++id) must_post_receive(shared.target(), id);
            assert_error(post_receive(shared.target(), 0), Errc::would_block);
            for (std::uint64_t id = 0; id < depth; ++id) {
                const Pair& pair = id % 2 == 0 ? *shared.first : *shared.second;
                must_post(pair.active, {.opcode = Opcode::send});
                expect(pair.active.send_cq(), 0);
                settle(pair.active);
            }
            assert_error(post_receive(shared.target(), 0), Errc::would_block);
            for (std::uint64_t id = 0; id < depth; ++id) expect(shared.cq(), id);
        }
    }
}

void queue_pair_of_an_srq_takes_no_receives_itself(void** state) {
    const Shared shared(fixture_of(state));
    const ReceiveRequest request{1, {}};
    assert_error(shared.target().qp->post_receive(request), Errc::invalid_argument);
}

void receives_of_an_srq_survive_the_failure_of_a_queue_pair(void** state) {
    const Shared shared(fixture_of(state));
    for (std::uint64_t id = 0; id < 4; ++id) must_post_receive(shared.target(), id);
    shared.first->passive.qp->fail();
    expect_event(shared.first->active.cm(), CmEventType::disconnected);
    expect_nothing(shared.cq());
    for (std::uint64_t id = 0; id < 4; ++id) {
        must_post(shared.second->active, {.wr_id = id, .opcode = Opcode::send});
        expect(shared.second->active.send_cq(), id);
        expect(shared.cq(), id);
    }
    // As they survive its end.
    shared.first->passive.qp.reset();
    must_post_receive(shared.target(), 9);
    must_post(shared.second->active, {.wr_id = 9, .opcode = Opcode::send});
    expect(shared.cq(), 9);
}

void both_queue_pairs_of_an_empty_srq_go_on_when_receives_come(void** state) {
    if (!subject().holds_messages) skip();
    const Shared shared(fixture_of(state));
    for (const Pair* pair : {shared.first, shared.second})
        for (std::uint64_t id = 0; id < 10; ++id)
            must_post(pair->active, {.wr_id = id, .opcode = Opcode::send});
    expect_nothing(shared.cq());
    for (std::uint64_t id = 0; id < 20; ++id) {
        must_post_receive(shared.target(), id);
        expect(shared.cq(), id);
    }
    for (const Pair* pair : {shared.first, shared.second})
        for (std::uint64_t id = 0; id < 10; ++id) expect(pair->active.send_cq(), id);
}

// --- taking a receive back

bool can_cancel(const Side& side) {
    const Status answer = side.qp->cancel_receive(1U << 20);
    return answer || answer.error().code != Errc::not_supported;
}

void cancelled_receive_is_gone_and_the_others_keep_their_order(void** state) {
    SideOptions options;
    options.receive_depth = 4;
    Pair& pair = fixture_of(state).connect({{}, options, {}, {}});
    if (!can_cancel(pair.passive)) skip();
    const Buffer& target = pair.passive.buffer(5 * 8);
    // The ring of the queue must be anywhere when it happens.
    for (int round = 0; round < 7; ++round) {
        for (std::uint64_t id = 0; id < 4; ++id)
            must_post_receive(pair.passive, id, {target.sge(8 * id, 8)});
        assert_true(pair.passive.qp->cancel_receive(1).has_value());
        assert_error(pair.passive.qp->cancel_receive(1), Errc::invalid_argument);
        must_post_receive(pair.passive, 4, {target.sge(32, 8)});
        assert_error(post_receive(pair.passive, 5), Errc::would_block);
        for (const std::uint64_t id : {0U, 2U, 3U, 4U}) {
            must_post(pair.active, {.wr_id = id, .opcode = Opcode::send});
            expect(pair.passive.receive_cq(), id);
            expect(pair.active.send_cq(), id);
        }
        assert_error(pair.passive.qp->cancel_receive(4), Errc::invalid_argument);
    }
    expect_nothing(pair.passive.receive_cq());
}

void receive_of_an_srq_can_be_cancelled(void** state) {
    const Shared shared(fixture_of(state), 3);
    if (!can_cancel(shared.first->active)) skip();
    for (std::uint64_t id = 0; id < 3; ++id) must_post_receive(shared.target(), id);
    SharedReceiveQueue& srq = *shared.target().resources->srq;
    assert_true(srq.cancel_receive(0).has_value());
    assert_error(srq.cancel_receive(0), Errc::invalid_argument);
    assert_error(shared.target().qp->cancel_receive(1), Errc::invalid_argument);
    must_post(shared.first->active, {.wr_id = 1, .opcode = Opcode::send});
    expect(shared.cq(), 1);
    must_post_receive(shared.target(), 3);
    must_post_receive(shared.target(), 4);
    assert_error(post_receive(shared.target(), 5), Errc::would_block);
}

void receive_that_is_cancelled_while_messages_come_ends_once(void** state) {
    Fixture& fixture = fixture_of(state);
    SideOptions options;
    options.send_depth = options.receive_depth = 1;
    Pair& pair = fixture.connect(both(options));
    if (!can_cancel(pair.passive)) skip();
    constexpr std::uint64_t kMessages = 500;
    fixture.run([&] {
        for (std::uint64_t id = 0; id < kMessages && !fixture.stop; ++id) {
            const auto sent = post(pair.active, {.wr_id = id, .opcode = Opcode::send})
                                  ? next_completion(pair.active.send_cq())
                                  : std::nullopt;
            if (!sent || sent->status != WcStatus::success) return void(++fixture.wrong);
        }
    });
    std::uint64_t received = 0;
    for (std::uint64_t id = 0; received < kMessages && fixture.wrong == 0; ++id) {
        must_post_receive(pair.passive, id);
        if (id % 3 != 0) std::this_thread::yield();
        if (pair.passive.qp->cancel_receive(id)) continue;
        expect(pair.passive.receive_cq(), id);
        ++received;
    }
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
    expect_nothing(pair.passive.receive_cq());
}

// --- no receive there

void message_waits_for_a_receive_that_another_thread_posts(void** state) {
    if (!subject().holds_messages) skip();
    Fixture& fixture = fixture_of(state);
    for (const bool with_srq : {false, true}) {
        SideOptions options;
        options.with_srq = with_srq;
        Pair& pair = fixture.connect({{}, options, {}, {}});
        const Buffer& local = pair.active.buffer(100'000);
        const Buffer& remote = pair.passive.buffer(100'000);
        for (unsigned round = 1; round <= 20; ++round) {
            local.fill_pattern(round);
            must_post(pair.active, {.wr_id = round, .opcode = Opcode::send, .sges = {local.sge()}});
            if (round == 1) expect_nothing(pair.active.send_cq());
            fixture.run([&, round] {
                if (!post_receive(pair.passive, round, {remote.sge()})) ++fixture.wrong;
            });
            expect(pair.passive.receive_cq(), round);
            expect(pair.active.send_cq(), round);
            assert_true(holds_pattern(remote.data(), remote.size(), 0, round));
        }
    }
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
}

void waiting_message_does_not_lose_what_follows_it(void** state) {
    if (!subject().holds_messages) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(4096);
    const Buffer& remote = pair.passive.buffer(4096);
    local.fill_pattern(3);
    must_post(
        pair.active,
        {{.wr_id = 1, .opcode = Opcode::send, .sges = {local.sge(0, 64)}},
         {.wr_id = 2, .sges = {local.sge()}, .remote = at(remote)},
         {.wr_id = 3, .opcode = Opcode::read, .sges = {local.sge(0, 8)}, .remote = at(remote)},
         {.wr_id = 4, .opcode = Opcode::send}});
    expect_nothing(pair.active.send_cq());
    const Buffer& message = pair.passive.buffer(64);
    must_post_receive(pair.passive, 1, {message.sge()});
    for (std::uint64_t id = 1; id <= 3; ++id) expect(pair.active.send_cq(), id);
    expect(pair.passive.receive_cq(), 1);
    assert_true(holds_pattern(message.data(), 64, 0, 3));
    assert_true(holds_pattern(remote.data(), 4096, 0, 3));
    must_post_receive(pair.passive, 2);
    expect(pair.active.send_cq(), 4);
    expect(pair.passive.receive_cq(), 2);
}

// Each side waits for its own message to be answered before it posts the receive for the other's.
void both_sides_may_wait_for_a_receive_and_still_read_and_write(void** state) {
    if (!subject().holds_messages) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer* local[2] = {};
    const std::pair<Side*, Side*> ways[] = {{&pair.active, &pair.passive},
                                            {&pair.passive, &pair.active}};
    for (unsigned way = 0; way < 2; ++way) {
        const auto& [from, to] = ways[way];
        local[way] = &from->buffer(20'000);
        const Buffer& remote = to->buffer(20'000);
        local[way]->fill_pattern(way);
        must_post(*from, {{.wr_id = 1, .sges = {local[way]->sge()}, .remote = at(remote)},
                          {.wr_id = 2, .opcode = Opcode::send}});
    }
    for (const auto& [from, to] : ways) expect(from->send_cq(), 1);
    for (const auto& [from, to] : ways) expect_nothing(from->send_cq());
    for (const auto& [from, to] : ways) must_post_receive(*from, 3);
    for (const auto& [from, to] : ways) {
        expect(from->send_cq(), 2);
        expect(from->receive_cq(), 3);
    }
}

void message_that_waits_longer_than_its_retries_fails(void** state) {
    if (!subject().holds_messages) skip();
    SideOptions finite;
    finite.rnr_retry_count = 1;
    Pair& pair = fixture_of(state).connect(both(finite));
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    must_post(pair.active, {{.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)},
                            {.wr_id = 2, .opcode = Opcode::send, .flags = kUnsignaled},
                            {.wr_id = 3, .sges = {local.sge()}, .remote = at(remote)}});
    expect(pair.active.send_cq(), 1);
    expect(pair.active.send_cq(), 2, WcStatus::rnr_retry_exceeded);
    expect(pair.active.send_cq(), 3, WcStatus::flushed);
    expect_event(pair.active.cm(), CmEventType::disconnected);
    expect_event(pair.passive.cm(), CmEventType::disconnected);
}

void connection_with_a_waiting_message_can_be_destroyed(void** state) {
    if (!subject().holds_messages) skip();
    Pair& pair = fixture_of(state).connect();
    must_post(pair.active, {.wr_id = 1, .opcode = Opcode::send});
    expect_nothing(pair.active.send_cq());
    pair.passive.qp.reset();
    pair.passive.id.reset();
    expect_failure(pair.active.send_cq(), 1);
    expect_event(pair.active.cm(), CmEventType::disconnected);
}

/// Whoever is answered knows that what it said has arrived.
void answer_does_not_overtake_the_completions_of_what_it_answers(void** state) {
    if (!subject().answers_come_last) skip();
    SideOptions one;
    one.one_cq = true;
    Pair& pair = fixture_of(state).connect(both(one));
    constexpr std::uint64_t kSends = 8;
    for (int round = 0; round < 20; ++round) {
        for (std::uint64_t id = 0; id < kSends; ++id) must_post_receive(pair.passive, id);
        must_post_receive(pair.active, kSends);
        for (std::uint64_t id = 0; id < kSends; ++id)
            must_post(pair.active, {.wr_id = id, .opcode = Opcode::send});
        for (std::uint64_t id = 0; id < kSends; ++id) expect(pair.passive.receive_cq(), id);
        must_post(pair.passive, {.wr_id = kSends, .opcode = Opcode::send});
        for (std::uint64_t id = 0; id <= kSends; ++id) expect(pair.active.send_cq(), id);
        expect(pair.passive.send_cq(), kSends);
    }
}

void fast_sender_is_held_back_by_a_slow_receiver(void** state) {
    if (!subject().holds_messages) skip();
    Fixture& fixture = fixture_of(state);
    SideOptions options;
    options.receive_depth = 4;
    Pair& pair = fixture.connect(both(options));
    constexpr std::uint64_t kCount = 2000;
    const Buffer& local = pair.active.buffer(kCount * 8);
    const Buffer& remote = pair.passive.buffer(4 * 8);
    for (std::uint64_t id = 0; id < kCount; ++id) local.word(id) = id;
    for (std::uint64_t id = 0; id < 4; ++id)
        must_post_receive(pair.passive, id, {remote.sge(8 * id, 8)});
    fixture.run([&] {
        std::uint64_t posted = 0;
        std::uint64_t done = 0;
        while (done < kCount && !fixture.stop) {
            if (posted < kCount && post(pair.active, {.wr_id = posted,
                                                      .opcode = Opcode::send,
                                                      .sges = {local.sge(8 * posted, 8)}})) {
                ++posted;
                continue;
            }
            const auto wc = next_completion(pair.active.send_cq());
            if (!wc || wc->status != WcStatus::success || wc->wr_id != done++) {
                ++fixture.wrong;
                return;
            }
        }
    });
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const std::uint64_t slot = i % 4;
        expect(pair.passive.receive_cq(), slot);
        assert_int_equal(remote.word(slot), i);
        must_post_receive(pair.passive, slot, {remote.sge(8 * slot, 8)});
    }
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
}

// --- immediate data

void write_with_immediate_takes_a_receive_and_leaves_its_buffer(void** state) {
    if (limits().imm_bytes == 0) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(100);
    const Buffer& remote = pair.passive.buffer(100);
    const Buffer& untouched = pair.passive.buffer(100);
    local.fill(1);
    untouched.fill(0xee);
    for (std::uint64_t id = 0; id < 3; ++id) must_post_receive(pair.passive, id, {untouched.sge()});
    const std::uint64_t immediates[] = {0, imm_of(UINT64_MAX), imm_of(0x1122334455667788U)};
    for (std::uint64_t id = 0; id < 3; ++id) {
        must_post(pair.active, {.wr_id = id,
                                .opcode = Opcode::write_imm,
                                .sges = {local.sge(0, 50 * id)},
                                .remote = at(remote),
                                .imm = immediates[id]});
        expect(pair.active.send_cq(), id);
        const WorkCompletion wc = expect(pair.passive.receive_cq(), id);
        assert_true(wc.has_imm);
        assert_int_equal(wc.imm, immediates[id]);
        assert_int_equal(wc.byte_length, 50 * id);
    }
    assert_true(holds_only(untouched.data(), 100, 0xee));
}

void immediate_waits_for_a_receive_behind_its_bytes(void** state) {
    if (limits().imm_bytes == 0) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(50'000);
    const Buffer& remote = pair.passive.buffer(50'000);
    local.fill_pattern(1);
    must_post(pair.active, {.wr_id = 1,
                            .opcode = Opcode::write_imm,
                            .sges = {local.sge()},
                            .remote = at(remote),
                            .imm = 42});
    expect_nothing(pair.active.send_cq());
    must_post_receive(pair.passive, 1);
    const WorkCompletion wc = expect(pair.passive.receive_cq(), 1);
    assert_int_equal(wc.imm, 42);
    assert_int_equal(wc.byte_length, local.size());
    assert_true(holds_pattern(remote.data(), remote.size(), 0, 1));
    expect(pair.active.send_cq(), 1);
}

void sends_and_writes_with_immediate_do_not_mix_theirs_up(void** state) {
    if (limits().imm_bytes == 0) skip();
    SideOptions options;
    options.send_depth = options.receive_depth = 64;
    Pair& pair = fixture_of(state).connect(both(options));
    const Buffer& local = pair.active.buffer(64);
    const Buffer& remote = pair.passive.buffer(64);
    const Opcode opcodes[] = {Opcode::send_imm, Opcode::send, Opcode::write_imm, Opcode::write,
                              Opcode::send};
    for (std::uint64_t id = 0; id < 60; ++id)
        must_post_receive(pair.passive, id, {remote.sge(32, 32)});
    std::vector<Post> batch;
    for (std::uint64_t id = 0; id < 60; ++id)
        batch.push_back({.wr_id = id,
                         .opcode = opcodes[id % 5],
                         .sges = {local.sge(0, id % 7)},
                         .remote = at(remote),
                         .imm = id});
    must_post(pair.active, batch);
    std::uint64_t receive = 0;
    for (std::uint64_t id = 0; id < 60; ++id) {
        if (opcodes[id % 5] == Opcode::write) continue;
        const WorkCompletion wc = expect(pair.passive.receive_cq(), receive++);
        const bool has_imm = opcodes[id % 5] != Opcode::send;
        assert_int_equal(wc.has_imm, has_imm);
        if (has_imm) assert_int_equal(wc.imm, id);
        assert_int_equal(wc.byte_length, id % 7);
    }
    for (std::uint64_t id = 0; id < 60; ++id) expect(pair.active.send_cq(), id);
}

void immediate_without_receive_takes_none(void** state) {
    if (!limits().imm_without_receive) skip();
    SideOptions options;
    options.imm_without_receive = true;
    Pair& pair = fixture_of(state).connect({{}, options, {}, {}});
    const Buffer& local = pair.active.buffer(64);
    const Buffer& remote = pair.passive.buffer(64);
    must_post_receive(pair.passive, 77, {remote.sge(0, 8)});
    must_post(pair.active, {.wr_id = 1,
                            .opcode = Opcode::write_imm,
                            .sges = {local.sge(0, 32)},
                            .remote = at(remote),
                            .imm = 9});
    expect(pair.active.send_cq(), 1);
    const WorkCompletion wc = expect(pair.passive.receive_cq(), 0);
    assert_int_equal(wc.opcode, WcOpcode::receive_write_imm);
    assert_true(wc.receive_side);
    assert_int_equal(wc.imm, 9);
    assert_int_equal(wc.byte_length, 32);
    assert_int_equal(wc.qp_num, pair.passive.qp->number());
    must_post(pair.active, {.wr_id = 2, .opcode = Opcode::send});
    expect(pair.passive.receive_cq(), 77);
    expect(pair.active.send_cq(), 2);
}

void immediates_without_receive_are_held_back_and_none_is_lost(void** state) {
    if (!limits().imm_without_receive) skip();
    SideOptions options;
    options.imm_without_receive = true;
    options.receive_depth = 8;
    SideOptions sender;
    sender.send_depth = 40;
    Pair& pair = fixture_of(state).connect({sender, options, {}, {}});
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    for (std::uint64_t id = 0; id < 40; ++id)
        must_post(pair.active, {.wr_id = id,
                                .opcode = Opcode::write_imm,
                                .sges = {local.sge()},
                                .remote = at(remote),
                                .imm = id});
    // No more than the target has room for are done before it polls. How many of those are known to
    // be done while the next one waits is the device's affair.
    std::uint64_t done = 0;
    const auto quiet = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < quiet)
        if (WorkCompletion wc; pair.active.send_cq().poll({&wc, 1}).value_or(0) == 1)
            assert_int_equal(wc.wr_id, done++);
    assert_in_range(done, 0, 8);
    for (std::uint64_t id = 0; id < 40; ++id)
        assert_int_equal(expect(pair.passive.receive_cq(), 0).imm, id);
    while (done < 40) expect(pair.active.send_cq(), done++);
    expect_nothing(pair.passive.receive_cq());
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(srq_serves_two_queue_pairs_in_the_order_of_arrival),
    CONTRACT_TEST(srq_takes_exactly_its_depth),
    CONTRACT_TEST(queue_pair_of_an_srq_takes_no_receives_itself),
    CONTRACT_TEST(receives_of_an_srq_survive_the_failure_of_a_queue_pair),
    CONTRACT_TEST(both_queue_pairs_of_an_empty_srq_go_on_when_receives_come),
    CONTRACT_TEST(cancelled_receive_is_gone_and_the_others_keep_their_order),
    CONTRACT_TEST(receive_of_an_srq_can_be_cancelled),
    CONTRACT_TEST(receive_that_is_cancelled_while_messages_come_ends_once),
    CONTRACT_TEST(message_waits_for_a_receive_that_another_thread_posts),
    CONTRACT_TEST(waiting_message_does_not_lose_what_follows_it),
    CONTRACT_TEST(both_sides_may_wait_for_a_receive_and_still_read_and_write),
    CONTRACT_TEST(message_that_waits_longer_than_its_retries_fails),
    CONTRACT_TEST(connection_with_a_waiting_message_can_be_destroyed),
    CONTRACT_TEST(answer_does_not_overtake_the_completions_of_what_it_answers),
    CONTRACT_TEST(fast_sender_is_held_back_by_a_slow_receiver),
    CONTRACT_TEST(write_with_immediate_takes_a_receive_and_leaves_its_buffer),
    CONTRACT_TEST(immediate_waits_for_a_receive_behind_its_bytes),
    CONTRACT_TEST(sends_and_writes_with_immediate_do_not_mix_theirs_up),
    CONTRACT_TEST(immediate_without_receive_takes_none),
    CONTRACT_TEST(immediates_without_receive_are_held_back_and_none_is_lost),
};

}  // namespace

std::span<const CMUnitTest> receive_tests() {
    return kTests;
}

}  // namespace compat::contract
