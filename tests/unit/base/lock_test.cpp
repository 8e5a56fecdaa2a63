// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/lock.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

void lock_that_is_held_cannot_be_tried(void**) {
    Lock lock;
    assert_true(lock.try_lock());
    assert_false(lock.try_lock());
    lock.unlock();
    assert_true(lock.try_lock());
    lock.unlock();
}

/// Holders that give the CPU away, so that others run out of patience and sleep.
void waiters_that_sleep_all_get_the_lock(void**) {
    constexpr int kThreads = 8;
    constexpr int kRounds = 2000;
    Lock lock;
    long count = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (int round = 0; round < kRounds; ++round) {
                const std::lock_guard guard(lock);
                const long seen = count;
                if (round % 16 == 0) std::this_thread::yield();
                count = seen + 1;
            }
        });
    for (std::thread& thread : threads) thread.join();
    assert_int_equal(count, kThreads * kRounds);
    assert_true(lock.try_lock());
    lock.unlock();
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(lock_that_is_held_cannot_be_tried),
        cmocka_unit_test(waiters_that_sleep_all_get_the_lock),
    };
    return cmocka_run_group_tests_name("lock", tests, nullptr, nullptr);
}
