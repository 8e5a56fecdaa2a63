// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/log.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/assert.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

constexpr std::array kLevels{LogLevel::error, LogLevel::warning, LogLevel::notice, LogLevel::info,
                             LogLevel::debug};

struct Line {
    LogLevel level = LogLevel::debug;
    int line = 0;
    char file[64] = "";
    char function[64] = "";
    char text[2048] = "";
};

Line g_last;
int g_lines = 0;

void remember(LogLevel level, const char* file, int line, const char* function, const char* text) {
    ++g_lines;
    g_last.level = level;
    g_last.line = line;
    std::strncpy(g_last.file, file, sizeof g_last.file - 1);
    std::strncpy(g_last.function, function, sizeof g_last.function - 1);
    std::strncpy(g_last.text, text, sizeof g_last.text - 1);
    errno = ERANGE;
}

int forget(void**) {
    g_last = Line();
    g_lines = 0;
    set_log_sink(nullptr, LogLevel::debug);
    return 0;
}

void without_a_sink_nothing_is_enabled(void**) {
    for (const LogLevel level : kLevels) assert_false(log_enabled(level));
    log_text(LogLevel::error, "file", 1, "function", "text");
    assert_int_equal(g_lines, 0);
}

void sink_sees_its_level_and_all_that_are_graver(void**) {
    for (const LogLevel most_talkative : kLevels) {
        set_log_sink(remember, most_talkative);
        for (const LogLevel level : kLevels) {
            g_lines = 0;
            COMPAT_LOG(level, "text");
            assert_int_equal(g_lines, level <= most_talkative ? 1 : 0);
            assert_int_equal(log_enabled(level), level <= most_talkative);
        }
    }
}

void arguments_are_not_evaluated_for_a_line_nobody_wants(void**) {
    set_log_sink(remember, LogLevel::error);
    int evaluated = 0;
    COMPAT_LOG_DEBUG("%d", ++evaluated);
    assert_int_equal(evaluated, 0);
    COMPAT_LOG_ERROR("%d", ++evaluated);
    assert_int_equal(evaluated, 1);
}

void sink_gets_formatted_text_and_the_caller_without_folders(void**) {
    set_log_sink(remember, LogLevel::info);
    log_text(LogLevel::info, "some/folder/name.cpp", 17, "post_send", "qp 0x%x: %s", 0x11, "full");
    assert_string_equal(g_last.text, "qp 0x11: full");
    assert_string_equal(g_last.file, "name.cpp");
    assert_string_equal(g_last.function, "post_send");
    assert_int_equal(g_last.line, 17);
    assert_true(g_last.level == LogLevel::info);
    log_text(LogLevel::info, "name.cpp", 1, "f", "text");
    assert_string_equal(g_last.file, "name.cpp");
}

void macro_names_this_file_and_function(void**) {
    set_log_sink(remember, LogLevel::debug);
    COMPAT_LOG_NOTICE("text");
    assert_string_equal(g_last.file, "log_test.cpp");
    assert_string_equal(g_last.function, __func__);
    assert_true(g_last.level == LogLevel::notice);
}

void text_that_is_too_long_is_cut_and_ended(void**) {
    set_log_sink(remember, LogLevel::debug);
    static char long_text[5000];
    std::memset(long_text, 'x', sizeof long_text - 1);
    COMPAT_LOG_ERROR("%s", long_text);
    const std::size_t length = std::strlen(g_last.text);
    assert_true(length > 100);
    assert_true(length < sizeof long_text - 1);
}

void errno_survives_a_log_line(void**) {
    set_log_sink(remember, LogLevel::debug);
    errno = ENOENT;
    COMPAT_LOG_ERROR("text");
    assert_int_equal(g_lines, 1);
    assert_int_equal(errno, ENOENT);
}

void removed_sink_sees_nothing_more(void**) {
    set_log_sink(remember, LogLevel::debug);
    set_log_sink(nullptr, LogLevel::debug);
    COMPAT_LOG_ERROR("text");
    assert_int_equal(g_lines, 0);
}

void kept_invariant_says_nothing(void**) {
    set_log_sink(remember, LogLevel::debug);
    assert_true(COMPAT_ASSERT(1 + 1 == 2));
    assert_int_equal(g_lines, 0);
}

#ifndef COMPAT_FATAL_ASSERT
void broken_invariant_logs_an_error_and_is_false(void**) {
    set_log_sink(remember, LogLevel::error);
    const bool kept = COMPAT_ASSERT(1 + 1 == 3);
    assert_false(kept);
    assert_int_equal(g_lines, 1);
    assert_true(g_last.level == LogLevel::error);
    assert_non_null(std::strstr(g_last.text, "1 + 1 == 3"));
}
#endif

}  // namespace
}  // namespace compat::core

#define COMPAT_CASE(name) cmocka_unit_test_setup_teardown(name, forget, forget)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        COMPAT_CASE(without_a_sink_nothing_is_enabled),
        COMPAT_CASE(sink_sees_its_level_and_all_that_are_graver),
        COMPAT_CASE(arguments_are_not_evaluated_for_a_line_nobody_wants),
        COMPAT_CASE(sink_gets_formatted_text_and_the_caller_without_folders),
        COMPAT_CASE(macro_names_this_file_and_function),
        COMPAT_CASE(text_that_is_too_long_is_cut_and_ended),
        COMPAT_CASE(errno_survives_a_log_line),
        COMPAT_CASE(removed_sink_sees_nothing_more),
        COMPAT_CASE(kept_invariant_says_nothing),
#ifndef COMPAT_FATAL_ASSERT
        COMPAT_CASE(broken_invariant_logs_an_error_and_is_false),
#endif
    };
    return cmocka_run_group_tests_name("log", tests, nullptr, nullptr);
}
