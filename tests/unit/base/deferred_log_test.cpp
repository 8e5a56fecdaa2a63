// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/deferred_log.hpp"

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

std::vector<std::string>& heard() {
    static std::vector<std::string> lines;
    return lines;
}

void remember(LogLevel, const char*, int, const char*, const char* text) {
    heard().emplace_back(text);
    errno = EBADMSG;
}

/// As a program's log function that calls the library, which has something to say.
void remember_and_say_more(LogLevel level, const char* file, int line, const char* function,
                           const char* text) {
    defer_log(remember, level, file, line, function, "more");
    deliver_log();
    heard().emplace_back(text);
}

void defer(LogSink sink, const char* text) {
    defer_log(sink, LogLevel::error, "file", 1, "function", text);
}

int forget(void**) {
    heard().clear();
    return 0;
}

void lines_wait_until_they_are_delivered_in_order(void**) {
    defer(remember, "first");
    defer(remember, "second");
    assert_true(heard().empty());
    errno = 0;
    deliver_log();
    assert_int_equal(errno, 0);
    assert_true(heard() == std::vector<std::string>({"first", "second"}));
    deliver_log();
    assert_int_equal(heard().size(), 2);
}

void what_a_sink_causes_comes_after_what_waits(void**) {
    defer(remember_and_say_more, "first");
    defer(remember, "second");
    deliver_log();
    assert_true(heard() == std::vector<std::string>({"first", "second", "more"}));
}

void a_thread_delivers_its_own_lines(void**) {
    defer(remember, "mine");
    std::thread([] {
        deliver_log();
        assert_true(heard().empty());
        defer(remember, "its");
        deliver_log();
        defer(remember, "lost with its thread");
    }).join();
    assert_true(heard() == std::vector<std::string>({"its"}));
    assert_int_equal(g_deferred_log_lines, 1);
    deliver_log();
    assert_int_equal(g_deferred_log_lines, 0);
}

}  // namespace
}  // namespace compat::core

#define TEST(function) cmocka_unit_test_setup(function, forget)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        TEST(lines_wait_until_they_are_delivered_in_order),
        TEST(what_a_sink_causes_comes_after_what_waits),
        TEST(a_thread_delivers_its_own_lines),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
