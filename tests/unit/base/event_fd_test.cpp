// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/event_fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

struct Fixture {
    std::optional<EventFd> event;
    std::thread thread;
};

int setup(void** state) {
    auto* fixture = new Fixture;
    *state = fixture;
    auto event = EventFd::create();
    if (!event) return -1;
    fixture->event = std::move(*event);
    return 0;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    if (fixture->thread.joinable()) fixture->thread.join();
    delete fixture;
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}
EventFd& event_of(void** state) {
    return *of(state).event;
}

void make_non_blocking(const EventFd& event) {
    assert_int_equal(fcntl(event.fd(), F_SETFL, fcntl(event.fd(), F_GETFL) | O_NONBLOCK), 0);
}

bool readable(const EventFd& event) {
    pollfd one{event.fd(), POLLIN, 0};
    return poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
}

void descriptor_is_closed_on_exec_and_blocks_at_first(void** state) {
    const int fd = event_of(state).fd();
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

void each_wait_takes_one_of_the_posts(void** state) {
    EventFd& event = event_of(state);
    make_non_blocking(event);
    for (int i = 0; i < 3; ++i) event.post();
    for (int i = 0; i < 3; ++i) {
        assert_true(readable(event));
        assert_true(event.wait().has_value());
    }
    assert_false(readable(event));
    const Status empty = event.wait();
    assert_false(empty.has_value());
    assert_int_equal(empty.error().code, Errc::would_block);
}

void try_wait_never_blocks_on_a_blocking_descriptor(void** state) {
    EventFd& event = event_of(state);
    assert_false(event.try_wait());
    event.post();
    event.post();
    assert_true(event.try_wait());
    assert_true(event.try_wait());
    assert_false(event.try_wait());
}

void wait_returns_when_another_thread_posts(void** state) {
    Fixture& fixture = of(state);
    fixture.thread = std::thread([&] { fixture.event->post(); });
    assert_true(fixture.event->wait().has_value());
    assert_false(fixture.event->try_wait());
}

void waiters_share_the_posts_exactly(void** state) {
    Fixture& fixture = of(state);
    constexpr int kPosts = 2000;
    std::atomic<int> taken{0};
    fixture.thread = std::thread([&] {
        for (int i = 0; i < kPosts / 2; ++i) {
            if (fixture.event->wait()) ++taken;
        }
    });
    for (int i = 0; i < kPosts; ++i) {
        fixture.event->post();
        if (i % 4 == 0 && fixture.event->try_wait()) ++taken;
    }
    fixture.thread.join();
    while (fixture.event->try_wait()) ++taken;
    assert_int_equal(taken.load(), kPosts);
    assert_false(fixture.event->try_wait());
}

void signal_interrupts_a_wait(void** state) {
    Fixture& fixture = of(state);
    struct sigaction action {};  // without SA_RESTART
    action.sa_handler = [](int) {};
    assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<bool> done{false};
    // Again and again: the first may arrive before the wait has begun.
    fixture.thread = std::thread([&, waiter = pthread_self()] {
        while (!done) {
            pthread_kill(waiter, SIGUSR1);
            std::this_thread::yield();
        }
    });
    const Status interrupted = fixture.event->wait();
    done = true;
    fixture.thread.join();
    assert_false(interrupted.has_value());
    assert_int_equal(interrupted.error().code, Errc::interrupted);
}

void moving_hands_the_descriptor_over(void** state) {
    EventFd& event = event_of(state);
    const int fd = event.fd();
    EventFd moved(std::move(event));
    assert_int_equal(moved.fd(), fd);
    event = std::move(moved);
    assert_int_equal(event.fd(), fd);
    event.post();
    assert_true(event.try_wait());
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(descriptor_is_closed_on_exec_and_blocks_at_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(each_wait_takes_one_of_the_posts, setup, teardown),
        cmocka_unit_test_setup_teardown(try_wait_never_blocks_on_a_blocking_descriptor, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(wait_returns_when_another_thread_posts, setup, teardown),
        cmocka_unit_test_setup_teardown(waiters_share_the_posts_exactly, setup, teardown),
        cmocka_unit_test_setup_teardown(signal_interrupts_a_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(moving_hands_the_descriptor_over, setup, teardown),
    };
    return cmocka_run_group_tests_name("event_fd", tests, nullptr, nullptr);
}
