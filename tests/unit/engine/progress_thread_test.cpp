// SPDX-License-Identifier: BSD-3-Clause
// core/engine/progress_thread.hpp: when what is watched is driven and looked at.
#include "core/engine/progress_thread.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

template <class Condition>
bool comes_true(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
        if (condition()) return true;
        std::this_thread::yield();
    }
    return false;
}

/// Has nothing to do.
class Watched : public Driven {
public:
    [[nodiscard]] std::array<int, 2> channels() const noexcept override { return {-1, -1}; }
    DriveNext drive() noexcept override { return DriveNext::sleep; }
    DriveNext look() noexcept override { return DriveNext::sleep; }
};

void what_has_more_to_do_goes_on_at_once(void**) {
    constexpr int kRounds = 100;
    class Busy final : public Watched {
    public:
        DriveNext look() noexcept override {
            return ++looks < kRounds ? DriveNext::again : DriveNext::sleep;
        }
        std::atomic<int> looks{0};
    } busy;
    assert_true(watch_progress(busy).has_value());
    assert_true(comes_true([&] { return busy.looks == kRounds; }));
    unwatch_progress(busy);
}

void kicks_put_no_look_off(void**) {
    class Kicked final : public Watched {
    public:
        DriveNext look() noexcept override {
            ++looks;
            kick_progress();  // drives it at once, and long before the next look
            return DriveNext::look_later;
        }
        std::atomic<int> looks{0};
    } kicked;
    assert_true(watch_progress(kicked).has_value());
    assert_true(comes_true([&] { return kicked.looks >= 20; }));
    unwatch_progress(kicked);
}

void a_child_process_inherits_nothing_that_is_being_driven(void**) {
    class Locking final : public Watched {
    public:
        DriveNext look() noexcept override {
            inside = true;
            for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
            inside = false;
            return DriveNext::again;
        }
        std::atomic<bool> inside{false};
    } locking;
    assert_true(watch_progress(locking).has_value());
    for (int round = 0; round < 20; ++round) {
        assert_true(comes_true([&] { return locking.inside.load(); }));
        const pid_t child = fork();
        if (child == 0) _exit(locking.inside ? 1 : 0);
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    unwatch_progress(locking);
}

void a_child_process_has_a_thread_of_its_own(void**) {
    class Seen final : public Watched {
    public:
        DriveNext look() noexcept override {
            seen = true;
            return DriveNext::leave;
        }
        std::atomic<bool> seen{false};
    };
    Seen parents;
    assert_true(watch_progress(parents).has_value());
    const pid_t child = fork();
    if (child == 0) {
        unwatch_progress(parents);
        Seen own;
        const bool seen = watch_progress(own) && comes_true([&] { return own.seen.load(); });
        _exit(seen ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    unwatch_progress(parents);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_has_more_to_do_goes_on_at_once),
        cmocka_unit_test(kicks_put_no_look_off),
        cmocka_unit_test(a_child_process_inherits_nothing_that_is_being_driven),
        cmocka_unit_test(a_child_process_has_a_thread_of_its_own),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
