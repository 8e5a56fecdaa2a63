// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/result.hpp"

#include <cerrno>
#include <memory>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

Result<int> half_of(int number) {
    if (number % 2 != 0) return failure(Errc::invalid_argument);
    return number / 2;
}

void value_is_a_success(void**) {
    const Result<int> result = half_of(8);
    assert_true(result.has_value());
    assert_int_equal(*result, 4);
}

void every_code_and_errno_come_back(void**) {
    for (int i = 0; i < static_cast<int>(Errc::count_); ++i) {
        const auto code = static_cast<Errc>(i);
        const Status status = failure(code, EPERM);
        assert_false(status.has_value());
        assert_true(status.error().code == code);
        assert_int_equal(status.error().device_errno, EPERM);
    }
}

void failure_without_errno_has_none(void**) {
    assert_int_equal(half_of(7).error().device_errno, 0);
}

void map_changes_the_value_and_passes_the_error_on(void**) {
    const auto next = [](int value) { return value + 1; };
    const Result<int> five = half_of(8).map(next);
    assert_int_equal(five.value(), 5);
    const Result<int> none = half_of(7).map(next);
    assert_false(none.has_value());
    assert_true(none.error().code == Errc::invalid_argument);
}

void error_of_another_result_is_a_failure(void**) {
    const Result<int> first = half_of(1);
    const Status second = failure(first.error());
    assert_true(second.error().code == Errc::invalid_argument);
}

void owner_moves_through_a_result(void**) {
    Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
    const std::unique_ptr<int> owner = std::move(*result);
    assert_int_equal(*owner, 5);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(value_is_a_success),
        cmocka_unit_test(every_code_and_errno_come_back),
        cmocka_unit_test(failure_without_errno_has_none),
        cmocka_unit_test(map_changes_the_value_and_passes_the_error_on),
        cmocka_unit_test(error_of_another_result_is_a_failure),
        cmocka_unit_test(owner_moves_through_a_result),
    };
    return cmocka_run_group_tests_name("result", tests, nullptr, nullptr);
}
