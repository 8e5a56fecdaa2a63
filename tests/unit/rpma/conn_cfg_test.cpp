// SPDX-License-Identifier: BSD-3-Clause
#include <climits>
#include <thread>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

struct SizeRow {
    int (*set)(rpma_conn_cfg*, std::uint32_t);
    int (*get)(const rpma_conn_cfg*, std::uint32_t*);
    std::uint32_t initial;
};
constexpr std::array kSizes{
    SizeRow{rpma_conn_cfg_set_cq_size, rpma_conn_cfg_get_cq_size, 10},
    SizeRow{rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_get_rcq_size, 0},
    SizeRow{rpma_conn_cfg_set_sq_size, rpma_conn_cfg_get_sq_size, 10},
    SizeRow{rpma_conn_cfg_set_rq_size, rpma_conn_cfg_get_rq_size, 10},
};

std::uint32_t size_of(const rpma_conn_cfg* cfg, const SizeRow& row) {
    std::uint32_t size = 0xdead;
    assert_int_equal(row.get(cfg, &size), kSuccess);
    return size;
}

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    int timeout_ms = 77;
    bool shared = true;
    rpma_srq* srq = untouched<rpma_srq>();
    assert_int_equal(rpma_conn_cfg_new(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_set_timeout(nullptr, 1), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_timeout(nullptr, &timeout_ms), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_timeout(rig.cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_set_compl_channel(nullptr, true), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_compl_channel(nullptr, &shared), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_compl_channel(rig.cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_set_srq(nullptr, srq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_srq(nullptr, &srq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_srq(rig.cfg, nullptr), RPMA_E_INVAL);
    for (const SizeRow& row : kSizes) {
        std::uint32_t size = 77;
        assert_int_equal(row.set(nullptr, 1), RPMA_E_INVAL);
        assert_int_equal(row.get(nullptr, &size), RPMA_E_INVAL);
        assert_int_equal(row.get(rig.cfg, nullptr), RPMA_E_INVAL);
        assert_int_equal(size, 77);
    }
    assert_int_equal(timeout_ms, 77);
    assert_true(shared);
    assert_ptr_equal(srq, untouched<rpma_srq>());
}

void defaults_are_those_of_upstream(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    int timeout_ms = 0;
    bool shared = true;
    rpma_srq* srq = untouched<rpma_srq>();
    assert_int_equal(rpma_conn_cfg_get_timeout(rig.cfg, &timeout_ms), kSuccess);
    assert_int_equal(rpma_conn_cfg_get_compl_channel(rig.cfg, &shared), kSuccess);
    assert_int_equal(rpma_conn_cfg_get_srq(rig.cfg, &srq), kSuccess);
    assert_int_equal(timeout_ms, 1000);
    assert_false(shared);
    assert_null(srq);
    for (const SizeRow& row : kSizes) assert_int_equal(size_of(rig.cfg, row), row.initial);
}

void sizes_take_any_value_each_its_own(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    for (const std::uint32_t base : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xfffffff0U}) {
        for (std::uint32_t i = 0; i < kSizes.size(); ++i)
            assert_int_equal(kSizes[i].set(rig.cfg, base + i), kSuccess);
        for (std::uint32_t i = 0; i < kSizes.size(); ++i)
            assert_int_equal(size_of(rig.cfg, kSizes[i]), base + i);
    }
}

void timeout_takes_zero_but_nothing_negative(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    int timeout_ms = -1;
    for (const int value : {0, 1, INT_MAX}) {
        assert_int_equal(rpma_conn_cfg_set_timeout(rig.cfg, value), kSuccess);
        for (const int refused : {-1, INT_MIN})
            assert_int_equal(rpma_conn_cfg_set_timeout(rig.cfg, refused), RPMA_E_INVAL);
        assert_int_equal(rpma_conn_cfg_get_timeout(rig.cfg, &timeout_ms), kSuccess);
        assert_int_equal(timeout_ms, value);
    }
}

void channel_is_shared_as_set(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    for (const bool value : {true, false, true}) {
        bool shared = !value;
        assert_int_equal(rpma_conn_cfg_set_compl_channel(rig.cfg, value), kSuccess);
        assert_int_equal(rpma_conn_cfg_get_compl_channel(rig.cfg, &shared), kSuccess);
        assert_int_equal(shared, value);
    }
}

void srq_cannot_be_unset(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    make_srq(rig, 0);
    rpma_srq* srq = nullptr;
    assert_int_equal(rpma_conn_cfg_set_srq(rig.cfg, rig.srq), kSuccess);
    assert_int_equal(rpma_conn_cfg_set_srq(rig.cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_srq(rig.cfg, &srq), kSuccess);
    assert_ptr_equal(srq, rig.srq);
}

void delete_clears_the_pointer(void** state) {
    Rig& rig = of(state);
    check_delete_of_nothing(rpma_conn_cfg_delete);
    make_cfg(rig);
    assert_int_equal(rpma_conn_cfg_delete(&rig.cfg), kSuccess);
    assert_null(rig.cfg);
}

void lack_of_memory_is_told_and_gives_null(void** state) {
    Rig& rig = of(state);
    rpma_conn_cfg* cfg = untouched<rpma_conn_cfg>();
    test::fail_new(1);
    assert_int_equal(rpma_conn_cfg_new(&cfg), RPMA_E_NOMEM);
    assert_null(cfg);
    const Trial<rpma_conn_cfg> trial{{}, rpma_conn_cfg_new, rpma_conn_cfg_delete, true};
    assert_true(fail_each_allocation(rig.device, trial) > 0);
}

void accessors_may_be_called_from_many_threads(void** state) {
    Rig& rig = of(state);
    make_cfg(rig);
    constexpr std::uint32_t kRounds = 2000;
    std::array<int, 2> torn{};
    const auto work = [&](std::uint32_t self) {
        for (std::uint32_t i = 0; i < kRounds; ++i) {
            std::uint32_t seen = 0;
            rpma_conn_cfg_set_cq_size(rig.cfg, self * 0x01010101U);
            rpma_conn_cfg_get_cq_size(rig.cfg, &seen);
            if (seen != 0x01010101U && seen != 0x02020202U) ++torn[self - 1];
        }
    };
    std::thread first(work, 1);
    std::thread second(work, 2);
    first.join();
    second.join();
    assert_int_equal(torn[0] + torn[1], 0);
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(defaults_are_those_of_upstream),
        TEST(sizes_take_any_value_each_its_own),
        TEST(timeout_takes_zero_but_nothing_negative),
        TEST(channel_is_shared_as_set),
        TEST(srq_cannot_be_unset),
        TEST(delete_clears_the_pointer),
        TEST(lack_of_memory_is_told_and_gives_null),
        TEST(accessors_may_be_called_from_many_threads),
    };
    return cmocka_run_group_tests_name("conn_cfg", tests, nullptr, nullptr);
}
