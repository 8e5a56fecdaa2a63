// SPDX-License-Identifier: BSD-3-Clause
// Queues: their depth is exact, slots come back by polling, completions keep their order and are
// never lost, and an error flushes what is outstanding.
#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

constexpr std::uint32_t kDepths[] = {1, 2, 3, 10, 128};

SideOptions with_depth(std::uint32_t depth) {
    SideOptions options;
    options.send_depth = depth;
    options.receive_depth = depth;
    return options;
}

void send_queue_takes_exactly_its_depth_until_completions_are_polled(void** state) {
    for (const std::uint32_t depth : kDepths) {
        Pair& pair = fixture_of(state).connect(both(with_depth(depth)));
        const Buffer& source = pair.active.buffer(8);
        const Buffer& target = pair.passive.buffer(8);
        const Post write{.sges = {source.sge()}, .remote = at(target)};
        for (std::uint32_t round = 0; round < 3; ++round) {
            for (std::uint32_t i = 0; i < depth; ++i) must_post(pair.active, write);
            assert_error(post(pair.active, write), Errc::would_block);
            // Done is not polled.
            assert_true(eventually([&] {
                (void)pair.active.receive_cq().poll({});
                return pair.active.send_cq().has_completions();
            }));
            assert_error(post(pair.active, write), Errc::would_block);
            expect(pair.active.send_cq(), 0);
            must_post(pair.active, write);
            assert_error(post(pair.active, write), Errc::would_block);
            for (std::uint32_t i = 0; i < depth; ++i) expect(pair.active.send_cq(), 0);
        }
        expect_nothing(pair.active.send_cq());
    }
}

void batch_is_posted_as_far_as_there_is_room(void** state) {
    Pair& pair = fixture_of(state).connect(both(with_depth(10)));
    const Buffer& source = pair.active.buffer(8);
    const Buffer& target = pair.passive.buffer(8);
    std::vector<Post> batch;
    for (std::uint64_t id = 0; id < 13; ++id)
        batch.push_back({.wr_id = id, .sges = {source.sge()}, .remote = at(target)});
    std::size_t posted = 99;
    assert_error(post(pair.active, batch, &posted), Errc::would_block);
    assert_int_equal(posted, 10);
    for (std::uint64_t id = 0; id < 10; ++id) expect(pair.active.send_cq(), id);
    expect_nothing(pair.active.send_cq());
}

void batch_is_posted_up_to_the_request_that_is_wrong(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(8);
    const Buffer& target = pair.passive.buffer(8);
    std::vector<Post> batch(3, {.sges = {source.sge()}, .remote = at(target)});
    batch[1].sges.resize(pair.active.options.max_sge + 1, source.sge());
    std::size_t posted = 99;
    assert_error(post(pair.active, batch, &posted), Errc::invalid_argument);
    assert_int_equal(posted, 1);
    expect(pair.active.send_cq(), 0);
    expect_nothing(pair.active.send_cq());
    assert_true(pair.active.qp->post_send({}).has_value());
}

void request_that_reads_takes_no_inline_data(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    for (const Opcode opcode : {Opcode::read, Opcode::atomic_fadd, Opcode::atomic_cas}) {
        if (opcode != Opcode::read && !limits().atomics) continue;
        const Post what{.opcode = opcode,
                        .sges = {local.sge()},
                        .remote = at(remote),
                        .flags = SendFlag::inlined | SendFlag::signaled};
        assert_error(post(pair.active, what), Errc::invalid_argument);
    }
    expect_nothing(pair.active.send_cq());
}

void receive_queue_takes_exactly_its_depth_until_completions_are_polled(void** state) {
    for (const std::uint32_t depth : kDepths) {
        Pair& pair = fixture_of(state).connect(both(with_depth(depth)));
        for (std::uint32_t round = 0; round < 3; ++round) {
            for (std::uint64_t i = 0; i < depth; ++i) must_post_receive(pair.passive, i);
            assert_error(post_receive(pair.passive, 0), Errc::would_block);
            for (std::uint32_t i = 0; i < depth; ++i) {
                must_post(pair.active, {.wr_id = i, .opcode = Opcode::send});
                expect(pair.active.send_cq(), i);
            }
            // All have been used, none has been polled.
            assert_error(post_receive(pair.passive, 0), Errc::would_block);
            expect(pair.passive.receive_cq(), 0);
            must_post_receive(pair.passive, 1000);
            assert_error(post_receive(pair.passive, 0), Errc::would_block);
            for (std::uint64_t i = 1; i < depth; ++i) expect(pair.passive.receive_cq(), i);
            must_post(pair.active, {.opcode = Opcode::send});
            expect(pair.active.send_cq(), 0);
            expect(pair.passive.receive_cq(), 1000);
        }
    }
}

void unsignaled_requests_complete_in_silence_and_are_retired_by_a_signaled_one(void** state) {
    constexpr std::uint32_t kDepth = 8;
    Pair& pair = fixture_of(state).connect(both(with_depth(kDepth)));
    const Buffer& source = pair.active.buffer(8);
    const Buffer& target = pair.passive.buffer(8);
    Post silent{.sges = {source.sge()}, .remote = at(target), .flags = kUnsignaled};
    Post signaled{.wr_id = 5, .sges = {source.sge()}, .remote = at(target)};
    for (int round = 0; round < 20; ++round) {
        for (std::uint32_t i = 1; i < kDepth; ++i) must_post(pair.active, silent);
        must_post(pair.active, signaled);
        assert_error(post(pair.active, silent), Errc::would_block);
        expect(pair.active.send_cq(), 5);
    }
    expect_nothing(pair.active.send_cq());
}

void queue_full_of_unsignaled_requests_stays_full(void** state) {
    Pair& pair = fixture_of(state).connect(both(with_depth(4)));
    const Buffer& source = pair.active.buffer(8);
    const Buffer& target = pair.passive.buffer(8);
    const Post silent{.sges = {source.sge()}, .remote = at(target), .flags = kUnsignaled};
    for (int i = 0; i < 4; ++i) must_post(pair.active, silent);
    expect_nothing(pair.active.send_cq());
    assert_error(post(pair.active, silent), Errc::would_block);
}

void unsignaled_kinds_of_every_opcode_stay_silent(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    for (std::uint64_t id = 0; id < 4; ++id) must_post_receive(pair.passive, id, {remote.sge()});
    std::vector<Opcode> opcodes{Opcode::send, Opcode::write, Opcode::read};
    if (limits().imm_bytes != 0)
        opcodes.insert(opcodes.end(), {Opcode::send_imm, Opcode::write_imm});
    if (limits().atomics) opcodes.insert(opcodes.end(), {Opcode::atomic_cas, Opcode::atomic_fadd});
    if (limits().atomic_write) opcodes.push_back(Opcode::atomic_write);
    for (const Opcode opcode : opcodes)
        must_post(pair.active, {.wr_id = 1,
                                .opcode = opcode,
                                .sges = {local.sge()},
                                .remote = at(remote),
                                .flags = kUnsignaled});
    if (limits().flush)
        must_post(pair.active, {.wr_id = 1,
                                .opcode = Opcode::flush,
                                .remote = at(remote),
                                .flags = kUnsignaled,
                                .flush_length = 8});
    must_post(pair.active, {.wr_id = 2, .sges = {local.sge()}, .remote = at(remote)});
    expect(pair.active.send_cq(), 2);
    expect_nothing(pair.active.send_cq());
}

void completions_come_in_posting_order_whatever_the_opcode(void** state) {
    constexpr std::uint32_t kDepth = 128;
    Pair& pair = fixture_of(state).connect(both(with_depth(kDepth)));
    constexpr std::size_t kLarge = 200'000;
    const Buffer& local = pair.active.buffer(kLarge);
    const Buffer& remote = pair.passive.buffer(kLarge);
    std::vector<Post> batch;
    for (std::uint64_t id = 0; id < kDepth; ++id) {
        Post one{.wr_id = id, .sges = {local.sge(0, 8)}, .remote = at(remote)};
        switch (id % 5) {
            case 0: one.opcode = Opcode::read; break;
            case 1: one.opcode = Opcode::send; break;
            case 2: one.sges = {local.sge()}; break;
            case 3: one.opcode = limits().atomics ? Opcode::atomic_fadd : Opcode::read; break;
            default: break;
        }
        if (one.opcode == Opcode::send) must_post_receive(pair.passive, id, {remote.sge(8, 8)});
        batch.push_back(one);
    }
    must_post(pair.active, batch);
    for (std::uint64_t id = 0; id < kDepth; ++id) expect(pair.active.send_cq(), id);
}

void receives_are_used_in_posting_order(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(4);
    const Buffer& target = pair.passive.buffer(4 * 16);
    for (std::uint64_t id = 0; id < 16; ++id)
        must_post_receive(pair.passive, id, {target.sge(4 * id, 4)});
    for (std::uint64_t id = 0; id < 16; ++id) {
        source.fill(static_cast<int>(id));
        must_post(pair.active, {.opcode = Opcode::send, .sges = {source.sge()}});
        expect(pair.active.send_cq(), 0);
        expect(pair.passive.receive_cq(), id);
        assert_true(holds_only(target.data() + 4 * id, 4, static_cast<int>(id)));
    }
}

void small_completion_queue_loses_nothing_of_two_queue_pairs(void** state) {
    SideOptions options = with_depth(100);
    options.cq_depth = 1;
    options.one_cq = true;
    Pair& first = fixture_of(state).connect(both(options));
    PairOptions shared = both(options);
    shared.active_resources = first.active.resources;
    shared.passive_resources = first.passive.resources;
    Pair& second = fixture_of(state).connect(shared);
    for (Pair* pair : {&first, &second})
        for (std::uint64_t id = 0; id < 100; ++id) must_post_receive(pair->passive, id);
    for (Pair* pair : {&first, &second})
        for (std::uint64_t id = 0; id < 100; ++id)
            must_post(pair->active, {.wr_id = id, .opcode = Opcode::send});
    for (Side* side : {&first.active, &first.passive}) {
        std::uint64_t next[2] = {0, 0};
        for (int i = 0; i < 200; ++i) {
            const auto wc = next_completion(side->send_cq());
            assert_true(wc.has_value());
            const Side& of_first = side == &first.active ? first.active : first.passive;
            const bool is_first = wc->qp_num == of_first.qp->number();
            assert_int_equal(wc->wr_id, next[is_first ? 0 : 1]++);
        }
        expect_nothing(side->send_cq());
    }
}

void destroyed_queue_pair_takes_its_completions_along(void** state) {
    SideOptions options = with_depth(8);
    options.one_cq = true;
    Pair& first = fixture_of(state).connect(both(options));
    PairOptions shared = both(options);
    shared.active_resources = first.active.resources;
    Pair& second = fixture_of(state).connect(shared);
    const Buffer& source = first.active.buffer(8);
    const Buffer& one = first.passive.buffer(8);
    const Buffer& two = second.passive.buffer(8);
    must_post(first.active, {.wr_id = 1, .sges = {source.sge()}, .remote = at(one)});
    expect(first.active.send_cq(), 1);
    must_post_receive(first.active, 12);
    must_post(first.passive, {.wr_id = 13, .opcode = Opcode::send});
    expect(first.passive.send_cq(), 13);  // so that one waits to be polled here
    for (int i = 0; i < 3; ++i) {
        must_post(first.active, {.wr_id = 10, .sges = {source.sge()}, .remote = at(one)});
        must_post(second.active, {.wr_id = 20, .sges = {source.sge()}, .remote = at(two)});
        must_post_receive(first.active, 11);
    }
    first.active.qp.reset();
    for (int i = 0; i < 3; ++i) expect(second.active.send_cq(), 20);
    expect_nothing(second.active.send_cq());
}

void failed_queue_pair_flushes_everything_once_and_goes_on_flushing(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    for (std::uint64_t id = 0; id < 5; ++id) must_post_receive(pair.active, id);
    // No receive is posted there: these cannot complete.
    const std::uint64_t waiting = subject().holds_messages ? 5 : 0;
    for (std::uint64_t id = 0; id < waiting; ++id)
        must_post(pair.active,
                  {.wr_id = id,
                   .opcode = Opcode::send,
                   .sges = {local.sge()},
                   .flags = id % 2 == 0 ? SendFlags(SendFlag::signaled) : kUnsignaled});
    pair.active.qp->fail();
    for (std::uint64_t id = 0; id < waiting; ++id)
        expect(pair.active.send_cq(), id, WcStatus::flushed);
    for (std::uint64_t id = 0; id < 5; ++id) {
        const WorkCompletion wc = expect(pair.active.receive_cq(), id, WcStatus::flushed);
        assert_true(wc.receive_side);
        assert_int_equal(wc.qp_num, pair.active.qp->number());
    }
    for (std::uint64_t id = 100; id < 140; ++id) {  // more than the queues are deep
        must_post(pair.active, {.wr_id = id, .opcode = Opcode::send, .flags = kUnsignaled});
        must_post_receive(pair.active, id);
        expect(pair.active.send_cq(), id, WcStatus::flushed);
        expect(pair.active.receive_cq(), id, WcStatus::flushed);
    }
    expect_nothing(pair.active.send_cq());
    expect_nothing(pair.active.receive_cq());
    expect_event(pair.active.cm(), CmEventType::disconnected);
    expect_event(pair.passive.cm(), CmEventType::disconnected);
}

void queue_of_a_failed_queue_pair_is_as_deep_as_before(void** state) {
    Pair& pair = fixture_of(state).connect(both(with_depth(3)));
    pair.active.qp->fail();
    for (std::uint64_t id = 0; id < 3; ++id) {
        must_post(pair.active, {.wr_id = id, .opcode = Opcode::send});
        must_post_receive(pair.active, id);
    }
    assert_error(post(pair.active, {.opcode = Opcode::send}), Errc::would_block);
    assert_error(post_receive(pair.active, 9), Errc::would_block);
    for (std::uint64_t id = 0; id < 3; ++id) {
        expect(pair.active.send_cq(), id, WcStatus::flushed);
        expect(pair.active.receive_cq(), id, WcStatus::flushed);
    }
}

void receives_may_be_posted_before_connecting_and_sends_may_not(void** state) {
    Side& side = fixture_of(state).side();
    side.make_id();
    const Listening& listener = fixture_of(state).listening();
    assert_true(side.id->resolve({}, listener.id->local_address(), 2000).has_value());
    side.make_qp();
    must_post_receive(side, 1);
    assert_error(post(side, {.opcode = Opcode::send}), Errc::wrong_state);
    side.qp.reset();
    expect_nothing(side.receive_cq());
}

void queue_pair_beyond_the_limits_is_invalid(void** state) {
    Side& side = fixture_of(state).side();
    side.make_id();
    const Listening& listener = fixture_of(state).listening();
    assert_true(side.id->resolve({}, listener.id->local_address(), 2000).has_value());
    const Limits& most = limits();
    const auto refused = [&](auto change) {
        QpAttr attr = side.qp_attr();
        change(attr);
        const auto qp = side.id->create_qp(attr);
        return !qp && qp.error().code == Errc::invalid_argument;
    };
    assert_true(refused([&](QpAttr& attr) { attr.send_depth = most.max_qp_wr + 1; }));
    assert_true(refused([&](QpAttr& attr) { attr.receive_depth = most.max_qp_wr + 1; }));
    assert_true(refused([&](QpAttr& attr) { attr.max_send_sge = most.max_sge + 1; }));
    assert_true(refused([&](QpAttr& attr) { attr.max_receive_sge = most.max_sge + 1; }));
    assert_true(refused([&](QpAttr& attr) { attr.max_inline = most.max_inline + 1; }));
    assert_true(refused([&](QpAttr& attr) { attr.pd = nullptr; }));
    assert_true(refused([&](QpAttr& attr) { attr.send_cq = nullptr; }));
    assert_false(side.pd().in_use());
    side.make_qp();
    assert_true(side.pd().in_use());
    assert_false(side.id->create_qp(side.qp_attr()).has_value());  // an id has one
}

void queue_pair_at_the_limits_works(void** state) {
    SideOptions options;
    options.send_depth = options.receive_depth = std::min(limits().max_qp_wr, 32U * 1024);
    options.max_inline = limits().max_inline;
    options.max_sge = 1;
    Pair& pair = fixture_of(state).connect(both(options));
    expect_working(pair);
}

void completion_queue_without_entries_is_invalid(void**) {
    assert_error(subject().device->create_cq(0, nullptr), Errc::invalid_argument);
}

void many_completions_are_polled_at_once(void** state) {
    Pair& pair = fixture_of(state).connect(both(with_depth(32)));
    const Buffer& source = pair.active.buffer(8);
    const Buffer& target = pair.passive.buffer(8);
    for (std::uint64_t id = 0; id < 32; ++id)
        must_post(pair.active, {.wr_id = id, .sges = {source.sge()}, .remote = at(target)});
    std::uint64_t next = 0;
    assert_true(eventually([&] {
        WorkCompletion wcs[7];
        const auto count = pair.active.send_cq().poll(wcs);
        for (std::size_t i = 0; i < *count; ++i)
            if (wcs[i].wr_id != next++) ++fixture_of(state).wrong;
        return next >= 32;
    }));
    assert_int_equal(next, 32);
    assert_int_equal(fixture_of(state).wrong, 0);
}

void two_threads_post_to_one_queue_pair(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect(both(with_depth(16)));
    constexpr std::uint64_t kEach = 3000;
    const Buffer& source = pair.active.buffer(2 * kEach * 8);
    const Buffer& target = pair.passive.buffer(2 * kEach * 8);
    source.fill_pattern(1);
    for (std::uint64_t who = 0; who < 2; ++who) {
        fixture.run([&, who] {
            for (std::uint64_t i = 0; i < kEach && !fixture.stop;) {
                const std::size_t offset = (who * kEach + i) * 8;
                const Status posted = post(pair.active, {.wr_id = who << 32 | i,
                                                         .sges = {source.sge(offset, 8)},
                                                         .remote = at(target, offset)});
                if (posted)
                    ++i;
                else if (posted.error().code == Errc::would_block)
                    std::this_thread::yield();
                else
                    ++fixture.wrong;
            }
        });
    }
    std::uint64_t next[2] = {0, 0};
    for (std::uint64_t i = 0; i < 2 * kEach; ++i) {
        const auto wc = next_completion(pair.active.send_cq());
        assert_true(wc.has_value());
        assert_int_equal(wc->status, WcStatus::success);
        assert_int_equal(wc->wr_id & 0xffffffffU, next[wc->wr_id >> 32]++);
    }
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
    settle(pair.active);
    assert_true(holds_pattern(target.data(), target.size(), 0, 1));
}

void two_threads_poll_one_completion_queue(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect(both(with_depth(64)));
    constexpr std::uint64_t kCount = 5000;
    const Buffer& source = pair.active.buffer(8);
    const Buffer& target = pair.passive.buffer(8);
    std::vector<std::atomic<int>> polled(kCount);
    std::atomic<std::uint64_t> total{0};
    for (int i = 0; i < 2; ++i) {
        fixture.run([&] {
            while (total < kCount && !fixture.stop) {
                WorkCompletion wcs[4];
                const auto count = pair.active.send_cq().poll(wcs);
                for (std::size_t k = 0; count && k < *count; ++k) ++polled[wcs[k].wr_id];
                total += count.value_or(0);
                if (count.value_or(0) == 0) std::this_thread::yield();
            }
        });
    }
    for (std::uint64_t id = 0; id < kCount;) {
        if (post(pair.active, {.wr_id = id, .sges = {source.sge()}, .remote = at(target)}))
            ++id;
        else
            std::this_thread::yield();
    }
    assert_true(eventually([&] { return total == kCount; }));
    fixture.join();
    for (const auto& times : polled) assert_int_equal(times.load(), 1);
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(send_queue_takes_exactly_its_depth_until_completions_are_polled),
    CONTRACT_TEST(batch_is_posted_as_far_as_there_is_room),
    CONTRACT_TEST(batch_is_posted_up_to_the_request_that_is_wrong),
    CONTRACT_TEST(request_that_reads_takes_no_inline_data),
    CONTRACT_TEST(receive_queue_takes_exactly_its_depth_until_completions_are_polled),
    CONTRACT_TEST(unsignaled_requests_complete_in_silence_and_are_retired_by_a_signaled_one),
    CONTRACT_TEST(queue_full_of_unsignaled_requests_stays_full),
    CONTRACT_TEST(unsignaled_kinds_of_every_opcode_stay_silent),
    CONTRACT_TEST(completions_come_in_posting_order_whatever_the_opcode),
    CONTRACT_TEST(receives_are_used_in_posting_order),
    CONTRACT_TEST(small_completion_queue_loses_nothing_of_two_queue_pairs),
    CONTRACT_TEST(destroyed_queue_pair_takes_its_completions_along),
    CONTRACT_TEST(failed_queue_pair_flushes_everything_once_and_goes_on_flushing),
    CONTRACT_TEST(queue_of_a_failed_queue_pair_is_as_deep_as_before),
    CONTRACT_TEST(receives_may_be_posted_before_connecting_and_sends_may_not),
    CONTRACT_TEST(queue_pair_beyond_the_limits_is_invalid),
    CONTRACT_TEST(queue_pair_at_the_limits_works),
    CONTRACT_TEST(completion_queue_without_entries_is_invalid),
    CONTRACT_TEST(many_completions_are_polled_at_once),
    CONTRACT_TEST(two_threads_post_to_one_queue_pair),
    CONTRACT_TEST(two_threads_poll_one_completion_queue),
};

}  // namespace

std::span<const CMUnitTest> queue_tests() {
    return kTests;
}

}  // namespace compat::contract
