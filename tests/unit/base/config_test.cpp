// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/config.hpp"

#include <cstdlib>
#include <cstring>

#include "core/base/log.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

int g_warnings = 0;

void count_warning(LogLevel level, const char*, int, const char*, const char*) {
    if (level == LogLevel::warning) ++g_warnings;
}

const SettingRow& row_of(Setting setting) {
    return settings()[static_cast<std::size_t>(setting)];
}

int without_variables(void**) {
    for (const SettingRow& row : settings()) unsetenv(row.name);
    g_warnings = 0;
    set_log_sink(count_warning, LogLevel::warning);
    return 0;
}

int without_sink(void**) {
    for (const SettingRow& row : settings()) unsetenv(row.name);
    set_log_sink(nullptr, LogLevel::error);
    return 0;
}

void every_setting_has_its_row_at_its_place(void**) {
    assert_int_equal(settings().size(), static_cast<std::size_t>(Setting::count_));
    for (std::size_t i = 0; i < settings().size(); ++i)
        assert_int_equal(static_cast<std::size_t>(settings()[i].setting), i);
}

void every_variable_has_a_name_of_ours_once_and_a_meaning(void**) {
    for (const SettingRow& row : settings()) {
        assert_int_equal(std::strncmp(row.name, "FABRIC_COMPAT_", 14), 0);
        assert_true(std::strlen(row.meaning) > 0);
        assert_true(std::strlen(row.unit) > 0);
        int same = 0;
        for (const SettingRow& other : settings()) same += std::strcmp(row.name, other.name) == 0;
        assert_int_equal(same, 1);
    }
}

void unset_variable_gives_the_default(void**) {
    for (const SettingRow& row : settings())
        assert_string_equal(setting_text(row.setting), row.default_value);
}

void empty_variable_gives_the_default(void**) {
    for (const SettingRow& row : settings()) {
        assert_int_equal(setenv(row.name, "", 1), 0);
        assert_string_equal(setting_text(row.setting), row.default_value);
    }
}

void set_variable_gives_its_text(void**) {
    for (const SettingRow& row : settings()) {
        assert_int_equal(setenv(row.name, "something", 1), 0);
        assert_string_equal(setting_text(row.setting), "something");
    }
}

void number_is_read_in_decimal(void**) {
    const SettingRow& row = row_of(Setting::connect_timeout);
    assert_int_equal(setenv(row.name, "010", 1), 0);
    assert_int_equal(setting_number(Setting::connect_timeout), 10);
    assert_int_equal(setenv(row.name, "0", 1), 0);
    assert_int_equal(setting_number(Setting::connect_timeout), 0);
    assert_int_equal(g_warnings, 0);
}

void unset_number_is_the_default_without_a_warning(void**) {
    const SettingRow& row = row_of(Setting::connect_timeout);
    assert_int_equal(setting_number(Setting::connect_timeout), std::atol(row.default_value));
    assert_int_equal(g_warnings, 0);
}

void what_is_no_number_gives_the_default_and_a_warning(void**) {
    const SettingRow& row = row_of(Setting::connect_timeout);
    const long expected = std::atol(row.default_value);
    int warnings = 0;
    for (const char* text : {"soon", "10s", "-1", " ", "1 2"}) {
        assert_int_equal(setenv(row.name, text, 1), 0);
        assert_int_equal(setting_number(Setting::connect_timeout), expected);
        assert_int_equal(g_warnings, ++warnings);
    }
}

void log_level_is_read_by_its_name(void**) {
    assert_false(stderr_log_level().has_value());
    struct Row {
        const char* text;
        LogLevel level;
    };
    constexpr Row kRows[] = {{"error", LogLevel::error},
                             {"warning", LogLevel::warning},
                             {"notice", LogLevel::notice},
                             {"info", LogLevel::info},
                             {"debug", LogLevel::debug}};
    for (const Row& row : kRows) {
        assert_int_equal(setenv(row_of(Setting::log).name, row.text, 1), 0);
        assert_true(stderr_log_level() == row.level);
    }
    for (const char* text : {"off", "Error", "errors", "1"}) {
        assert_int_equal(setenv(row_of(Setting::log).name, text, 1), 0);
        assert_false(stderr_log_level().has_value());
    }
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_has_its_row_at_its_place),
        cmocka_unit_test(every_variable_has_a_name_of_ours_once_and_a_meaning),
        cmocka_unit_test_setup_teardown(unset_variable_gives_the_default, without_variables,
                                        without_sink),
        cmocka_unit_test_setup_teardown(empty_variable_gives_the_default, without_variables,
                                        without_sink),
        cmocka_unit_test_setup_teardown(set_variable_gives_its_text, without_variables,
                                        without_sink),
        cmocka_unit_test_setup_teardown(number_is_read_in_decimal, without_variables, without_sink),
        cmocka_unit_test_setup_teardown(unset_number_is_the_default_without_a_warning,
                                        without_variables, without_sink),
        cmocka_unit_test_setup_teardown(what_is_no_number_gives_the_default_and_a_warning,
                                        without_variables, without_sink),
        cmocka_unit_test_setup_teardown(log_level_is_read_by_its_name, without_variables,
                                        without_sink),
    };
    return cmocka_run_group_tests_name("config", tests, nullptr, nullptr);
}
