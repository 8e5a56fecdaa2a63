// SPDX-License-Identifier: BSD-3-Clause
// Scenarios that are gone through again and again on the mock device, each time with another call
// of libibverbs or librdmacm failing.
#pragma once

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cmocka.hpp"
#include "tests/support/verbs_mock/mock.hpp"

namespace compat::test {

inline constexpr std::array kErrors{EIO, ENOMEM, EINVAL, ENODEV};

/// Of everything a program can make; what the device's own thread keeps is not among it.
struct Live {
    std::array<long, static_cast<std::size_t>(mock::Kind::count_)> counts{};
    bool operator==(const Live&) const = default;
};
inline Live live_now() {
    Live live;
    for (std::size_t kind = 0; kind < live.counts.size(); ++kind)
        live.counts[kind] = mock::live(static_cast<mock::Kind>(kind));
    return live;
}
/// The device's thread may still be at the last event.
inline bool settles_at(const Live& expected) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (live_now() != expected && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    return live_now() == expected;
}

/// False when nothing came in time: what would be a hang.
inline bool readable(int fd) {
    pollfd ready{fd, POLLIN, 0};
    return poll(&ready, 1, 10'000) == 1;
}

/// The first call of ours that failed.
struct Failure {
    std::string step;
    int code = 0;
};

/// Goes through a scenario with the nth call failing, for n = 1, 2, … until it has no nth call.
/// run() is to return what failed first, having given everything back; check() judges it.
inline int fail_each(mock::Call call, int error, const std::function<Failure()>& run,
                     const std::function<void(const Failure&)>& check) {
    const Live before = live_now();
    for (int nth = 1;; ++nth) {
        assert_true(nth < 200);
        mock::fail(call, nth, error);
        const Failure failure = run();
        const bool failed = mock::has_failed();
        mock::fail_nothing();
        if (!failed && !failure.step.empty())
            print_error("without a failure: %s gives %d\n", failure.step.c_str(), failure.code);
        if (failed) check(failure);
        const bool settled = settles_at(before);
        if (!settled) {
            print_error("%s number %d, errno %d: left behind:", mock::name_of(call), nth, error);
            const Live now = live_now();
            for (std::size_t kind = 0; kind < now.counts.size(); ++kind)
                print_error(" %ld", now.counts[kind] - before.counts[kind]);
            print_error("\n");
        }
        assert_true(settled);
        assert_int_equal(mock::violations(), 0);
        if (!failed) {
            assert_string_equal(failure.step.c_str(), "");
            return nth - 1;
        }
    }
}

}  // namespace compat::test
