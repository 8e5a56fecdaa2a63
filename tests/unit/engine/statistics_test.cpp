// SPDX-License-Identifier: BSD-3-Clause
// core/base/statistics.hpp, and what the engine counts: what was posted, and how it ended.
#include "core/base/statistics.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/engine/rig.hpp"

namespace compat::core {
namespace {

constexpr OpFlags kQuiet{};

/// What was counted since the last look.
class Look {
public:
    Look() { own_statistics(before_); }
    std::uint64_t operator[](Stat stat) const {
        StatTotals now;
        own_statistics(now);
        const auto at = static_cast<std::size_t>(stat);
        return now.cells[at] - before_.cells[at];
    }
    /// Of all that is not named here.
    [[nodiscard]] std::uint64_t rest(std::initializer_list<Stat> named) const {
        std::uint64_t sum = 0;
        for (const StatRow& row : stat_rows())
            if (std::find(named.begin(), named.end(), row.stat) == named.end())
                sum += (*this)[row.stat];
        return sum;
    }

private:
    StatTotals before_{};
};

void operations_are_counted_by_kind_with_their_bytes(void** state) {
    struct Row {
        Opcode opcode;
        Stat stat;
    };
    constexpr Row kRows[] = {{Opcode::send, Stat::sends},
                             {Opcode::send_imm, Stat::sends},
                             {Opcode::write, Stat::writes},
                             {Opcode::write_imm, Stat::writes},
                             {Opcode::read, Stat::reads}};
    Rig& rig = of(state);
    connect(rig);
    for (const Row& row : kRows) {
        const Look look;
        const auto bytes = static_cast<Stat>(static_cast<std::size_t>(row.stat) + kStatKinds);
        assert_true(post(rig, row.opcode, OpFlag::entry, 24, 1).has_value());
        assert_int_equal(look[row.stat], 1);
        assert_int_equal(look[bytes], 24);
        assert_int_equal(look.rest({row.stat, bytes}), 0);
        finish(rig, rig.posted().size() - 1);
        assert_int_equal(read_all(rig).size(), 1);
        assert_int_equal(look[Stat::completions], 1);
        assert_int_equal(look.rest({row.stat, bytes, Stat::completions}), 0);
    }
}

void an_operation_cut_into_pieces_is_one(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const Look look;
    const std::uint64_t length = 3 * kMaxMessage;
    const LocalBuffer local{rig.memory.data(), length, 7};
    const RemoteRange remote{kRemoteAddress, length, kRemoteKey};
    assert_true(rig.transmit
                    ->post(Operation{.opcode = Opcode::write,
                                     .flags = OpFlag::entry,
                                     .local = {&local, 1},
                                     .remote = {&remote, 1},
                                     .length = length})
                    .has_value());
    assert_int_equal(rig.posted().size(), 3);
    assert_int_equal(look[Stat::writes], 1);
    assert_int_equal(look[Stat::write_bytes], length);
    finish(rig, 2);
    assert_int_equal(read_all(rig).size(), 1);
    assert_int_equal(look[Stat::completions], 1);
}

void a_full_queue_is_counted_and_its_post_is_not(void** state) {
    Rig& rig = of(state);
    connect(rig);
    for (std::uint32_t op = 0; op < kDepth; ++op)
        assert_true(post_write(rig, OpFlag::entry, 0).has_value());
    const Look look;
    assert_false(post_write(rig, OpFlag::entry, 0).has_value());
    assert_int_equal(look[Stat::queue_full], 1);
    assert_int_equal(look.rest({Stat::queue_full}), 0);
}

void what_the_device_refuses_is_not_counted(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const Look look;
    rig.device.fail(test::Call::post_send, 1, {Errc::invalid_argument});
    assert_false(post_write(rig, OpFlag::entry, 1).has_value());
    assert_int_equal(look.rest({}), 0);
}

void operations_that_only_a_counter_sees_are_completions(void** state) {
    Rig& rig = of(state);
    connect(rig, {.counters = true});
    const Look look;
    assert_true(post_write(rig, kQuiet, 0).has_value());
    finish(rig, 0);
    assert_int_equal(read_all(rig).size(), 0);
    assert_int_equal(rig.writes.value(), 1);
    assert_int_equal(look[Stat::completions], 1);
}

void failures_are_errors_and_the_rest_flushed(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const Look look;
    for (int op = 0; op < 3; ++op) assert_true(post_write(rig, OpFlag::entry, 0).has_value());
    finish(rig, 0, WcStatus::remote_access_error);
    finish(rig, 1, WcStatus::flushed);
    finish(rig, 2, WcStatus::flushed);
    rig.cq->progress();
    assert_int_equal(look[Stat::errors], 1);
    assert_int_equal(look[Stat::flushed], 2);
    assert_int_equal(look[Stat::completions], 0);
}

void receives_are_counted_when_posted_and_when_they_end(void** state) {
    Rig& rig = of(state);
    connect(rig);
    const Look look;
    const LocalBuffer local{rig.memory.data(), 50, 7};
    for (std::uint32_t at = 0; at < kReceiveDepth; ++at)
        assert_true(rig.receive->post({.local = {&local, 1}}).has_value());
    assert_int_equal(look[Stat::receives], kReceiveDepth);
    assert_int_equal(look[Stat::receive_bytes], 50 * kReceiveDepth);
    assert_false(rig.receive->post({.local = {&local, 1}}).has_value());
    assert_int_equal(look[Stat::queue_full], 1);
}

void a_block_that_is_given_back_keeps_its_sum(void**) {
    const Look look;
    for (std::uint64_t round = 1; round <= 1000; ++round) {
        const Statistics first;
        const Statistics second;
        first->post(Stat::writes, 3);
        second->post_shared(Stat::writes, 4);
        assert_int_equal(look[Stat::writes], 2 * round);
        assert_int_equal(look[Stat::write_bytes], 7 * round);
    }
}

void a_child_begins_with_nothing_and_leaves_the_parent_alone(void**) {
    const Statistics inherited;
    inherited->post(Stat::sends, 1);
    const Look look;
    const pid_t child = fork();
    if (child == 0) {
        StatTotals totals;
        bool good = !own_statistics(totals);
        inherited->post(Stat::sends, 100);
        {
            const Statistics own;
            own->post(Stat::reads, 5);
            good = good && own_statistics(totals) &&
                   totals.cells[static_cast<std::size_t>(Stat::read_bytes)] == 5;
        }
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(look.rest({}), 0);
}

void a_page_of_another_process_or_of_none_is_refused(void**) {
    alignas(StatBlock) std::array<std::byte, kStatisticsHeaderBytes + sizeof(StatBlock)> page{};
    StatTotals totals;
    StatisticsHeader header{
        .magic = kStatisticsMagic, .process = 42, .blocks = 1, .cells = kStats, .incomplete = 0};
    const auto sums = [&](std::uint32_t process, std::size_t length) {
        std::memcpy(page.data(), &header, sizeof header);
        return sum_statistics(std::span(page).first(length), process, totals);
    };
    reinterpret_cast<StatBlock*>(page.data() + kStatisticsHeaderBytes)->post(Stat::reads, 9);
    assert_true(sums(42, page.size()));
    assert_int_equal(totals.cells[static_cast<std::size_t>(Stat::read_bytes)], 9);
    assert_false(sums(43, page.size()));
    assert_false(sums(42, page.size() - 1));
    assert_false(sums(42, kStatisticsHeaderBytes - 1));
    header.blocks = 2;
    assert_false(sums(42, page.size()));
    header.blocks = 1;
    header.cells = kStats + 1;
    assert_false(sums(42, page.size()));
    header.cells = kStats;
    header.magic = 0;
    assert_false(sums(42, page.size()));
}

void every_number_has_its_row_at_its_place(void**) {
    assert_int_equal(stat_rows().size(), kStats);
    for (std::size_t at = 0; at < kStats; ++at)
        assert_int_equal(static_cast<std::size_t>(stat_rows()[at].stat), at);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const CMUnitTest tests[] = {
        TEST(operations_are_counted_by_kind_with_their_bytes),
        TEST(an_operation_cut_into_pieces_is_one),
        TEST(a_full_queue_is_counted_and_its_post_is_not),
        TEST(what_the_device_refuses_is_not_counted),
        TEST(operations_that_only_a_counter_sees_are_completions),
        TEST(failures_are_errors_and_the_rest_flushed),
        TEST(receives_are_counted_when_posted_and_when_they_end),
        cmocka_unit_test(a_block_that_is_given_back_keeps_its_sum),
        cmocka_unit_test(a_child_begins_with_nothing_and_leaves_the_parent_alone),
        cmocka_unit_test(a_page_of_another_process_or_of_none_is_refused),
        cmocka_unit_test(every_number_has_its_row_at_its_place),
    };
    return cmocka_run_group_tests_name("statistics", tests, nullptr, nullptr);
}
