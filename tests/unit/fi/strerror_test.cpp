// SPDX-License-Identifier: BSD-3-Clause
#include <rdma/fi_errno.h>

#include <climits>
#include <cstring>
#include <set>
#include <string>

#include "fi_compat/err_map.hpp"
#include "tests/support/cmocka.hpp"

namespace {

using namespace compat;

void system_errors_have_the_systems_text(void**) {
    assert_string_equal(fi_strerror(FI_EIO), std::strerror(EIO));
    assert_string_equal(fi_strerror(0), std::strerror(0));
}

void negative_numbers_mean_the_same(void**) {
    for (int number : {FI_EAGAIN, FI_ENOSYS, int{FI_EAVAIL}, int{FI_EFIREWALLADDR}})
        assert_string_equal(fi_strerror(-number), fi_strerror(number));
}

void every_own_error_has_a_text_of_its_own(void**) {
    std::set<std::string> texts;
    for (int number = FI_ERRNO_OFFSET; number < FI_ERRNO_MAX; ++number)
        assert_true(texts.insert(fi_strerror(number)).second);
}

void numbers_beyond_the_last_are_unspecified(void**) {
    for (int number : {int{FI_ERRNO_MAX}, 5000, INT_MAX, INT_MIN})
        assert_string_equal(fi_strerror(number), fi_strerror(FI_EOTHER));
    assert_non_null(fi_strerror(200));
}

void every_core_error_becomes_a_negative_errno(void**) {
    for (const fi::ErrRow& row : fi::kErrMap) assert_int_equal(fi::to_fi({row.core, 0}), -row.fi);
}

void what_the_device_said_is_passed_on(void**) {
    assert_int_equal(fi::to_fi({core::Errc::device, ENODEV}), -FI_ENODEV);
    assert_int_equal(fi::to_fi({core::Errc::device, 0}), -FI_EIO);
    assert_int_equal(fi::to_fi({core::Errc::busy, ENODEV}), -FI_EBUSY);
}

void every_completion_status_has_errno_number_and_text(void**) {
    for (const fi::WcRow& row : fi::kWcMap) {
        assert_int_equal(fi::wc_fi_errno(row.core, false), row.fi_transmit);
        assert_int_equal(fi::wc_fi_errno(row.core, true), row.fi_receive);
        assert_string_equal(fi::prov_errno_text(fi::wc_prov_errno(row.core)),
                            core::wc_status_text(row.core));
    }
    assert_int_equal(fi::wc_fi_errno(core::WcStatus::local_length_error, true), FI_ETRUNC);
    assert_non_null(fi::prov_errno_text(-1));
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(system_errors_have_the_systems_text),
        cmocka_unit_test(negative_numbers_mean_the_same),
        cmocka_unit_test(every_own_error_has_a_text_of_its_own),
        cmocka_unit_test(numbers_beyond_the_last_are_unspecified),
        cmocka_unit_test(every_core_error_becomes_a_negative_errno),
        cmocka_unit_test(what_the_device_said_is_passed_on),
        cmocka_unit_test(every_completion_status_has_errno_number_and_text),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
