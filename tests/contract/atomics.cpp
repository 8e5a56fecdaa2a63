// SPDX-License-Identifier: BSD-3-Clause
// Atomics, and the order of requests that wait for a response: reads, atomics, fences.
#include <set>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

Post fetch_add(std::uint64_t id, const Sge& result, Remote remote, std::uint64_t addend) {
    return {.wr_id = id,
            .opcode = Opcode::atomic_fadd,
            .sges = {result},
            .remote = remote,
            .operand = addend};
}

Post compare_swap(std::uint64_t id, const Sge& result, Remote remote, std::uint64_t compare,
                  std::uint64_t swap) {
    return {.wr_id = id,
            .opcode = Opcode::atomic_cas,
            .sges = {result},
            .remote = remote,
            .operand = swap,
            .compare = compare};
}

void fetch_add_adds_and_returns_the_old_value(void** state) {
    if (!limits().atomics) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(16);
    const Buffer& remote = pair.passive.buffer(24);
    local.word(1) = remote.word(0) = remote.word(2) = 77;
    remote.word(1) = UINT64_MAX - 1;
    const std::uint64_t addends[] = {1, 0, 1, 1, UINT64_MAX, 0x8000000000000000U};
    std::uint64_t value = remote.word(1);
    for (const std::uint64_t addend : addends) {
        must_post(pair.active, fetch_add(1, local.sge(0, 8), at(remote, 8), addend));
        assert_int_equal(expect(pair.active.send_cq(), 1).byte_length, 8);
        assert_int_equal(local.word(0), value);
        value += addend;
        assert_int_equal(remote.word(1), value);
    }
    assert_true(local.word(1) == 77 && remote.word(0) == 77 && remote.word(2) == 77);
}

void compare_swap_swaps_only_what_is_equal_and_returns_the_old_value(void** state) {
    if (!limits().atomics) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    remote.word(0) = 10;
    must_post(pair.active, compare_swap(1, local.sge(), at(remote), 11, 20));
    expect(pair.active.send_cq(), 1);
    assert_int_equal(local.word(0), 10);
    assert_int_equal(remote.word(0), 10);
    must_post(pair.active, compare_swap(2, local.sge(), at(remote), 10, 0xfedcba9876543210U));
    expect(pair.active.send_cq(), 2);
    assert_int_equal(local.word(0), 10);
    assert_int_equal(remote.word(0), 0xfedcba9876543210U);
}

void atomic_write_places_eight_bytes(void** state) {
    if (!limits().atomic_write) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(24);
    remote.fill(0xee);
    local.word(0) = 0x0123456789abcdefU;
    must_post(pair.active, {.wr_id = 1,
                            .opcode = Opcode::atomic_write,
                            .sges = {local.sge()},
                            .remote = at(remote, 8)});
    expect(pair.active.send_cq(), 1);
    assert_int_equal(remote.word(1), 0x0123456789abcdefU);
    assert_true(holds_only(remote.data(), 8, 0xee));
    assert_true(holds_only(remote.data() + 16, 8, 0xee));
}

void atomics_of_another_size_or_alignment_are_refused(void** state) {
    std::vector<Opcode> opcodes;
    if (limits().atomics) opcodes = {Opcode::atomic_fadd, Opcode::atomic_cas};
    if (limits().atomic_write) opcodes.push_back(Opcode::atomic_write);
    if (opcodes.empty()) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(16);
    const Buffer& remote = pair.passive.buffer(16);
    for (const Opcode opcode : opcodes) {
        for (const std::size_t offset : {1U, 4U, 7U})
            assert_error(
                post(pair.active,
                     {.opcode = opcode, .sges = {local.sge(0, 8)}, .remote = at(remote, offset)}),
                Errc::invalid_argument);
        for (const std::size_t length : {0U, 4U, 7U, 9U, 16U})
            assert_error(
                post(pair.active,
                     {.opcode = opcode, .sges = {local.sge(0, length)}, .remote = at(remote)}),
                Errc::invalid_argument);
    }
    expect_nothing(pair.active.send_cq());
    expect_working(pair);
}

void address_that_only_looks_aligned_fails_at_the_target(void** state) {
    if (!limits().atomics || !subject().any_iova) skip();
    Pair& pair = fixture_of(state).connect();
    alignas(8) std::byte memory[32] = {};
    MrAttr attr;
    attr.address = memory + 4;
    attr.length = 24;
    attr.access = full_access();
    attr.iova = 0;
    const auto region = pair.passive.pd().register_memory(attr);
    assert_true(region.has_value());
    const Buffer& local = pair.active.buffer(8);
    must_post(pair.active, fetch_add(1, local.sge(), {(*region)->rkey(), 8}, 1));
    expect_failure(pair.active.send_cq(), 1);
    for (const std::byte one : memory) assert_int_equal(one, 0);
}

void concurrent_fetch_adds_lose_none(void** state) {
    if (!limits().atomics) skip();
    Fixture& fixture = fixture_of(state);
    Pair& first = fixture.connect();
    PairOptions options;
    options.passive_resources = first.passive.resources;
    Pair& second = fixture.connect(options);
    constexpr std::uint64_t kEach = 2000;
    const Buffer& counter = first.passive.buffer(8);
    std::vector<std::uint64_t> seen[2];
    const Pair* pairs[] = {&first, &second};
    const Buffer* results[] = {&first.active.buffer(8), &second.active.buffer(8)};
    for (int who = 0; who < 2; ++who) {
        seen[who].reserve(kEach);
        fixture.run([&, who] {
            for (std::uint64_t i = 0; i < kEach && !fixture.stop; ++i) {
                const bool posted =
                    post(pairs[who]->active, fetch_add(i, results[who]->sge(), at(counter), 1))
                        .has_value();
                const auto wc = next_completion(pairs[who]->active.send_cq());
                if (!posted || !wc || wc->status != WcStatus::success || wc->wr_id != i)
                    ++fixture.wrong;
                seen[who].push_back(results[who]->word(0));
            }
            ++fixture.done;
        });
    }
    std::uint64_t own = 0;
    if (subject().cpu_atomics)
        for (; fixture.done < 2; ++own) __atomic_fetch_add(&counter.word(0), 1, __ATOMIC_ACQ_REL);
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
    assert_int_equal(counter.word(0), 2 * kEach + own);
    std::set<std::uint64_t> distinct;
    for (const auto& values : seen) distinct.insert(values.begin(), values.end());
    assert_int_equal(distinct.size(), 2 * kEach);
}

void more_reads_and_atomics_than_the_limit_wait_their_turn(void** state) {
    const std::uint32_t most = limits().max_rd_atomic;
    SideOptions options;
    options.send_depth = 3 * most + 2;
    Pair& pair = fixture_of(state).connect(both(options));
    const Buffer& local = pair.active.buffer(8 * options.send_depth);
    const Buffer& remote = pair.passive.buffer(8 * options.send_depth);
    remote.fill_pattern(1);
    std::vector<Post> batch;
    for (std::uint64_t id = 0; id < options.send_depth; ++id) {
        batch.push_back({.wr_id = id,
                         .opcode = Opcode::read,
                         .sges = {local.sge(8 * id, 8)},
                         .remote = at(remote, 8 * id)});
        if (limits().atomics && id % 3 == 1) batch.back().opcode = Opcode::atomic_fadd;
    }
    must_post(pair.active, batch);
    for (std::uint64_t id = 0; id < options.send_depth; ++id) expect(pair.active.send_cq(), id);
    assert_true(holds_pattern(local.data(), local.size(), 0, 1));
}

void agreed_read_depth_of_one_is_kept(void** state) {
    SideOptions options;
    options.read_depth = 1;
    options.send_depth = 32;
    Pair& pair = fixture_of(state).connect(both(options));
    for (const auto& [from, to] :
         {std::pair{&pair.active, &pair.passive}, std::pair{&pair.passive, &pair.active}}) {
        const Buffer& local = from->buffer(32 * 1000);
        const Buffer& remote = to->buffer(32 * 1000);
        remote.fill_pattern(2);
        for (std::uint64_t id = 0; id < 32; ++id)
            must_post(*from, {.wr_id = id,
                              .opcode = Opcode::read,
                              .sges = {local.sge(1000 * id, 1000)},
                              .remote = at(remote, 1000 * id)});
        for (std::uint64_t id = 0; id < 32; ++id) expect(from->send_cq(), id);
        assert_true(holds_pattern(local.data(), local.size(), 0, 2));
    }
}

// What was read is written back elsewhere: without the fence old bytes may leave.
void fence_waits_for_the_reads_before_it(void** state) {
    Pair& pair = fixture_of(state).connect();
    constexpr std::size_t kLength = 30'000;
    const Buffer& local = pair.active.buffer(kLength);
    const Buffer& origin = pair.passive.buffer(kLength);
    const Buffer& copy = pair.passive.buffer(kLength);
    for (unsigned round = 1; round <= 100; ++round) {
        origin.fill_pattern(round);
        must_post(pair.active, {{.opcode = Opcode::read,
                                 .sges = {local.sge()},
                                 .remote = at(origin),
                                 .flags = kUnsignaled},
                                {.wr_id = round,
                                 .sges = {local.sge()},
                                 .remote = at(copy),
                                 .flags = SendFlag::signaled | SendFlag::fence}});
        expect(pair.active.send_cq(), round);
        settle(pair.active);
        assert_true(holds_pattern(copy.data(), kLength, 0, round));
    }
}

void fence_waits_for_the_atomics_before_it(void** state) {
    if (!limits().atomics) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& counter = pair.passive.buffer(8);
    const Buffer& copy = pair.passive.buffer(8);
    for (std::uint64_t round = 0; round < 100; ++round) {
        Post add = fetch_add(1, local.sge(), at(counter), 1);
        add.flags = kUnsignaled;
        must_post(pair.active, {add,
                                {.wr_id = 2,
                                 .sges = {local.sge()},
                                 .remote = at(copy),
                                 .flags = SendFlag::signaled | SendFlag::fence}});
        expect(pair.active.send_cq(), 2);
        assert_int_equal(copy.word(0), round);
    }
}

void atomics_and_writes_of_one_queue_pair_are_executed_in_order(void** state) {
    if (!limits().atomics) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(24);
    const Buffer& remote = pair.passive.buffer(8);
    for (std::uint64_t round = 0; round < 100; ++round) {
        local.word(0) = 1000 * round;
        must_post(pair.active,
                  {{.sges = {local.sge(0, 8)}, .remote = at(remote), .flags = kUnsignaled},
                   fetch_add(1, local.sge(8, 8), at(remote), 5),
                   {.wr_id = 2,
                    .opcode = Opcode::read,
                    .sges = {local.sge(16, 8)},
                    .remote = at(remote)}});
        expect(pair.active.send_cq(), 1);
        expect(pair.active.send_cq(), 2);
        assert_int_equal(local.word(1), 1000 * round);
        assert_int_equal(local.word(2), 1000 * round + 5);
    }
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(fetch_add_adds_and_returns_the_old_value),
    CONTRACT_TEST(compare_swap_swaps_only_what_is_equal_and_returns_the_old_value),
    CONTRACT_TEST(atomic_write_places_eight_bytes),
    CONTRACT_TEST(atomics_of_another_size_or_alignment_are_refused),
    CONTRACT_TEST(address_that_only_looks_aligned_fails_at_the_target),
    CONTRACT_TEST(concurrent_fetch_adds_lose_none),
    CONTRACT_TEST(more_reads_and_atomics_than_the_limit_wait_their_turn),
    CONTRACT_TEST(agreed_read_depth_of_one_is_kept),
    CONTRACT_TEST(fence_waits_for_the_reads_before_it),
    CONTRACT_TEST(fence_waits_for_the_atomics_before_it),
    CONTRACT_TEST(atomics_and_writes_of_one_queue_pair_are_executed_in_order),
};

}  // namespace

std::span<const CMUnitTest> atomic_tests() {
    return kTests;
}

}  // namespace compat::contract
