// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/wait.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/support/cmocka.hpp"

namespace {

using compat::fi::WaitObject;

int setup(void** state) {
    auto opened = WaitObject::open(FI_WAIT_FD);
    if (!opened) return -1;
    *state = opened->release();
    return 0;
}
int teardown(void** state) {
    delete static_cast<WaitObject*>(*state);
    return 0;
}
WaitObject& object_of(void** state) {
    return *static_cast<WaitObject*>(*state);
}

bool readable(const WaitObject& object) {
    pollfd ready{.fd = object.fd(), .events = POLLIN, .revents = 0};
    return poll(&ready, 1, 0) == 1;
}

void signal_makes_it_readable_until_reset(void** state) {
    WaitObject& object = object_of(state);
    assert_false(readable(object));
    object.signal();
    object.signal();
    assert_true(readable(object));
    object.reset();
    assert_false(readable(object));
    object.signal();
    assert_true(readable(object));
}

// A descriptor that stays readable makes its sleepers spin.
void reset_empties_it_however_signals_and_resets_have_crossed(void** state) {
    constexpr int kRounds = 300;
    WaitObject& object = object_of(state);
    std::atomic<int> begun{0};
    std::atomic<int> ended{0};
    std::thread signaler([&] {
        for (int round = 1; round <= kRounds; ++round) {
            while (begun.load() != round) std::this_thread::yield();
            object.signal();
            ended.store(round);
        }
    });
    int stuck = 0;
    for (int round = 1; round <= kRounds; ++round) {
        begun.store(round);
        while (ended.load() != round) object.reset();
        object.reset();
        if (readable(object)) ++stuck;
    }
    signaler.join();
    assert_int_equal(stuck, 0);
}

// Descriptors that were inherited share their state with the parent's.
void child_process_that_closes_it_leaves_the_parents_alone(void** state) {
    WaitObject& object = object_of(state);
    const int source = eventfd(0, EFD_CLOEXEC);
    assert_true(object.add_source(source).has_value());
    object.signal();
    const pid_t child = fork();
    if (child == 0) {
        object.reset();
        object.remove_source(source);
        delete &object;
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(readable(object));
    object.reset();
    assert_false(readable(object));
    eventfd_write(source, 1);
    assert_true(readable(object));
    object.remove_source(source);
    close(source);
}

#define WAIT_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        WAIT_TEST(signal_makes_it_readable_until_reset),
        WAIT_TEST(reset_empties_it_however_signals_and_resets_have_crossed),
        WAIT_TEST(child_process_that_closes_it_leaves_the_parents_alone),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
