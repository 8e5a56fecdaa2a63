// SPDX-License-Identifier: BSD-3-Clause
// A device is looked for once a process: each failure on the way has a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/device/verbs/verbs_device.hpp"
#include "tests/unit/verbs/failing.hpp"

using namespace compat;
using mock::Call;

namespace {

enum Outcome : int { kNoDevice, kTrueLimits, kLessInline, kUntrue, kLeft, kNotReached };

bool has_true_limits(const core::Limits& limits) {
    return limits.max_message == mock::config().max_message &&
           limits.max_qp_wr == static_cast<std::uint32_t>(mock::config().max_qp_wr - 1);
}

/// What becomes of the device when the nth call fails.
Outcome look(Call call, int nth) {
    mock::fail(call, nth, EIO);
    const auto devices = core::verbs::devices();
    if (!mock::has_failed()) return kNotReached;
    if (mock::live(mock::Kind::pd) != 0 || mock::live(mock::Kind::cq) != 0 ||
        mock::live(mock::Kind::qp) != 0 || mock::violations() != 0)
        return kLeft;
    if (devices.empty()) return kNoDevice;
    const core::Limits& limits = devices[0]->limits();
    if (!has_true_limits(limits)) return kUntrue;
    return limits.max_inline == mock::config().max_inline ? kTrueLimits : kLessInline;
}

Outcome look_in_child(Call call, int nth) {
    const pid_t child = fork();
    if (child == 0) _exit(look(call, nth));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return static_cast<Outcome>(WEXITSTATUS(status));
}

void device_that_does_not_answer_is_left_out(void**) {
    for (const Call call : {Call::get_devices, Call::query_device, Call::query_port, Call::alloc_pd,
                            Call::create_cq}) {
        int nth = 1;
        for (;; ++nth) {
            const Outcome outcome = look_in_child(call, nth);
            if (outcome == kNotReached) break;
            if (outcome != kNoDevice) print_error("%s: %d\n", mock::name_of(call), outcome);
            assert_int_equal(outcome, kNoDevice);
        }
        assert_true(nth > 1);
    }
}

void size_of_inline_data_that_could_not_be_tried_is_not_promised(void**) {
    int nth = 1;
    for (;; ++nth) {
        const Outcome outcome = look_in_child(Call::create_qp, nth);
        if (outcome == kNotReached) break;
        assert_true(outcome == kTrueLimits || outcome == kLessInline);
    }
    assert_true(nth > 1);
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(device_that_does_not_answer_is_left_out),
        cmocka_unit_test(size_of_inline_data_that_could_not_be_tried_is_not_promised),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
