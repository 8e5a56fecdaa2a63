// SPDX-License-Identifier: BSD-3-Clause
// The default log function writes to stderr and syslog(3); this program has its own of both.
#include "rpma_compat/log.hpp"

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/unit/rpma/rig.hpp"

namespace {

struct SystemLog {
    int opened = 0;
    std::string identity;
    int options = 0;
    int facility = 0;
    int lines = 0;
    int priority = 0;
    std::string text;
};

SystemLog& system_log() {
    static SystemLog log;
    return log;
}

}  // namespace

extern "C" void openlog(const char* identity, int options, int facility) {
    SystemLog& log = system_log();
    ++log.opened;
    log.identity = identity;
    log.options = options;
    log.facility = facility;
}

extern "C" void syslog(int priority, const char* format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    SystemLog& log = system_log();
    ++log.lines;
    log.priority = priority;
    log.text = text;
    errno = EBADMSG;  // as a log daemon that is not there may leave it
}

namespace compat::rpma {
namespace {

struct LevelRow {
    rpma_log_level level;
    const char* field;
    int priority;
};
constexpr std::array kLevels{
    LevelRow{RPMA_LOG_LEVEL_FATAL, "*FATAL* ", LOG_CRIT},
    LevelRow{RPMA_LOG_LEVEL_ERROR, "*ERROR* ", LOG_ERR},
    LevelRow{RPMA_LOG_LEVEL_WARNING, "*WARN*  ", LOG_WARNING},
    LevelRow{RPMA_LOG_LEVEL_NOTICE, "*NOTE*  ", LOG_NOTICE},
    LevelRow{RPMA_LOG_LEVEL_INFO, "*INFO*  ", LOG_INFO},
    LevelRow{RPMA_LOG_LEVEL_DEBUG, "*DEBUG* ", LOG_DEBUG},
};

rpma_log_level threshold(rpma_log_threshold which) {
    rpma_log_level level = RPMA_LOG_LEVEL_FATAL;
    assert_int_equal(rpma_log_get_threshold(which, &level), kSuccess);
    return level;
}

void set_threshold(rpma_log_threshold which, int level) {
    assert_int_equal(rpma_log_set_threshold(which, static_cast<rpma_log_level>(level)), kSuccess);
}

int reset(void**) {
    rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    return 0;
}

/// What the work writes to stderr.
template <class Work>
std::string written_to_stderr(Work&& work) {
    std::fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    int ends[2] = {-1, -1};
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    work();
    std::fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    std::string text(8192, '\0');
    const ssize_t length = ::read(ends[0], text.data(), text.size());
    close(ends[0]);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
}

/// One line of this level by way of the library, and the number of the line it names.
int log_line(rpma_log_level level) {
    constexpr int kLine = __LINE__ + 1;
    COMPAT_RPMA_LOG(level, "number %d text %s", 42, "abc");
    return kLine;
}

// --- thresholds -------------------------------------------------------------------------------

void defaults_are_warning_and_disabled(void**) {
    assert_int_equal(threshold(RPMA_LOG_THRESHOLD), RPMA_LOG_LEVEL_WARNING);
    assert_int_equal(threshold(RPMA_LOG_THRESHOLD_AUX), RPMA_LOG_DISABLED);
}

void bad_arguments_are_refused(void**) {
    rpma_log_level level = RPMA_LOG_LEVEL_INFO;
    for (const int which : {-1, 2, 3}) {
        assert_int_equal(
            rpma_log_set_threshold(static_cast<rpma_log_threshold>(which), RPMA_LOG_LEVEL_INFO),
            RPMA_E_INVAL);
        assert_int_equal(rpma_log_get_threshold(static_cast<rpma_log_threshold>(which), &level),
                         RPMA_E_INVAL);
    }
    for (const auto which : {RPMA_LOG_THRESHOLD, RPMA_LOG_THRESHOLD_AUX}) {
        const rpma_log_level before = threshold(which);
        for (const int bad : {-2, 6, 7})
            assert_int_equal(rpma_log_set_threshold(which, static_cast<rpma_log_level>(bad)),
                             RPMA_E_INVAL);
        assert_int_equal(rpma_log_get_threshold(which, nullptr), RPMA_E_INVAL);
        assert_int_equal(threshold(which), before);
    }
    assert_int_equal(level, RPMA_LOG_LEVEL_INFO);
}

void each_threshold_takes_every_level(void**) {
    for (int main = RPMA_LOG_DISABLED; main <= RPMA_LOG_LEVEL_DEBUG; ++main) {
        for (int aux = RPMA_LOG_DISABLED; aux <= RPMA_LOG_LEVEL_DEBUG; ++aux) {
            set_threshold(RPMA_LOG_THRESHOLD, main);
            set_threshold(RPMA_LOG_THRESHOLD_AUX, aux);
            assert_int_equal(threshold(RPMA_LOG_THRESHOLD), main);
            assert_int_equal(threshold(RPMA_LOG_THRESHOLD_AUX), aux);
        }
    }
}

// --- a function of the program's own ----------------------------------------------------------

void function_gets_lines_up_to_the_threshold_only(void**) {
    for (int main = RPMA_LOG_DISABLED; main <= RPMA_LOG_LEVEL_DEBUG; ++main) {
        for (const LevelRow& row : kLevels) {
            const CapturedLog log(static_cast<rpma_log_level>(main));
            log_line(row.level);
            assert_int_equal(CapturedLog::lines().size(), row.level <= main ? 1 : 0);
        }
    }
}

void function_gets_the_raw_format_and_its_arguments(void**) {
    const CapturedLog log;
    const int line = log_line(RPMA_LOG_LEVEL_ERROR);
    const CapturedLog::Line& got = CapturedLog::lines().front();
    assert_int_equal(got.level, RPMA_LOG_LEVEL_ERROR);
    assert_string_equal(got.format.c_str(), "number %d text %s\n");
    assert_string_equal(got.text.c_str(), "number 42 text abc\n");
    assert_string_equal(got.file.c_str(), "log_test.cpp");
    assert_string_equal(got.function.c_str(), "log_line");
    assert_int_equal(got.line, line);
}

void own_function_replaces_the_default_one_until_null(void**) {
    const int before = system_log().lines;
    {
        const CapturedLog log;
        log_line(RPMA_LOG_LEVEL_ERROR);
    }  // which sets null
    assert_int_equal(system_log().lines, before);
    log_line(RPMA_LOG_LEVEL_ERROR);
    assert_int_equal(system_log().lines, before + 1);
}

void lines_of_the_core_reach_the_function(void**) {
    constexpr std::array kCoreLevels{core::LogLevel::error, core::LogLevel::warning,
                                     core::LogLevel::notice, core::LogLevel::info,
                                     core::LogLevel::debug};
    for (int main = RPMA_LOG_DISABLED; main <= RPMA_LOG_LEVEL_DEBUG; ++main) {
        const CapturedLog log(static_cast<rpma_log_level>(main));
        for (const core::LogLevel level : kCoreLevels) COMPAT_LOG(level, "core says %d", 7);
        assert_int_equal(CapturedLog::lines().size(), 0);  // whoever logs may hold locks
        core::deliver_log();
        const int expected = std::max(main - RPMA_LOG_LEVEL_FATAL, 0);
        assert_int_equal(CapturedLog::lines().size(), expected);
        for (int i = 0; i < expected; ++i) {
            const CapturedLog::Line& line = CapturedLog::lines()[static_cast<std::size_t>(i)];
            assert_int_equal(line.level, RPMA_LOG_LEVEL_ERROR + i);
            assert_string_equal(line.text.c_str(), "core says 7\n");
            assert_string_equal(line.file.c_str(), "log_test.cpp");
        }
    }
}

// --- the default function ---------------------------------------------------------------------

/// "Mon DD HH:MM:SS.uuuuuu [tid] " and its length, or 0 if the text does not begin like that.
std::size_t time_prefix_length(const std::string& text) {
    char month[4] = "";
    int day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
    int micros = 0;
    long tid = 0;
    int length = 0;
    const int fields = std::sscanf(text.c_str(), "%3s %2d %2d:%2d:%2d.%6d [%ld] %n", month, &day,
                                   &hour, &minute, &second, &micros, &tid, &length);
    if (fields != 7 || std::strlen(month) != 3 || day < 1 || day > 31) return 0;
    if (tid != static_cast<long>(gettid())) return 0;
    const std::size_t tid_length = std::to_string(tid).size();
    constexpr std::size_t kTime = sizeof "Mon DD HH:MM:SS.uuuuuu" - 1;
    return static_cast<std::size_t>(length) == kTime + sizeof " [] " - 1 + tid_length
               ? static_cast<std::size_t>(length)
               : 0;
}

void default_function_writes_time_thread_level_place_and_text(void**) {
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG);
    for (const LevelRow& row : kLevels) {
        int line = 0;
        const std::string text = written_to_stderr([&] { line = log_line(row.level); });
        const std::size_t prefix = time_prefix_length(text);
        assert_true(prefix > 0);
        char rest[128];
        std::snprintf(rest, sizeof rest, "%slog_test.cpp: %3d: log_line: number 42 text abc\n",
                      row.field, line);
        assert_string_equal(text.c_str() + prefix, rest);
        assert_string_equal(system_log().text.c_str(), rest);
        assert_int_equal(system_log().priority, LOG_LOCAL7 | row.priority);
    }
}

void thresholds_decide_where_the_default_function_writes(void**) {
    for (int main = RPMA_LOG_DISABLED; main <= RPMA_LOG_LEVEL_DEBUG; ++main) {
        for (int aux = RPMA_LOG_DISABLED; aux <= RPMA_LOG_LEVEL_DEBUG; ++aux) {
            set_threshold(RPMA_LOG_THRESHOLD, main);
            set_threshold(RPMA_LOG_THRESHOLD_AUX, aux);
            for (const LevelRow& row : kLevels) {
                const int before = system_log().lines;
                const std::string text = written_to_stderr([&] { log_line(row.level); });
                assert_int_equal(system_log().lines - before, row.level <= main ? 1 : 0);
                assert_int_equal(text.empty(), row.level > main || row.level > aux);
            }
        }
    }
}

void line_numbers_are_padded_to_three(void**) {
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR);
    rpma_log_function* const log = log_function_for(RPMA_LOG_LEVEL_ERROR);
    for (const auto& [number, expected] :
         {std::pair{7, "a.c:   7: f: x\n"}, std::pair{77, "a.c:  77: f: x\n"},
          std::pair{7777, "a.c: 7777: f: x\n"}}) {
        const std::string text = written_to_stderr(
            [&, line = number] { log(RPMA_LOG_LEVEL_ERROR, "dir/sub/a.c", line, "f", "x\n"); });
        assert_non_null(std::strstr(text.c_str(), expected));
        assert_null(std::strstr(text.c_str(), "dir/"));
    }
}

void without_a_file_the_place_is_left_out(void**) {
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR);
    rpma_log_function* const log = log_function_for(RPMA_LOG_LEVEL_ERROR);
    const std::string text =
        written_to_stderr([&] { log(RPMA_LOG_LEVEL_ERROR, nullptr, 1, "f", "x %d\n", 5); });
    const std::size_t prefix = time_prefix_length(text);
    assert_string_equal(text.c_str() + prefix, "*ERROR* x 5\n");
    assert_string_equal(system_log().text.c_str(), "*ERROR* x 5\n");
}

void text_is_cut_at_1023_bytes(void**) {
    rpma_log_function* const log = log_function_for(RPMA_LOG_LEVEL_ERROR);
    const std::string long_text(3000, 'y');
    log(RPMA_LOG_LEVEL_ERROR, nullptr, 1, "f", "%s\n", long_text.c_str());
    assert_int_equal(system_log().text.size(), std::strlen("*ERROR* ") + 1023);
}

void errno_survives_a_line(void**) {
    errno = ENOENT;
    log_line(RPMA_LOG_LEVEL_ERROR);
    assert_int_equal(errno, ENOENT);
}

void system_log_is_opened_once_by_the_first_line(void**) {
    log_line(RPMA_LOG_LEVEL_ERROR);
    log_line(RPMA_LOG_LEVEL_ERROR);
    assert_int_equal(system_log().opened, 1);
    assert_string_equal(system_log().identity.c_str(), "rpma");
    assert_int_equal(system_log().options, LOG_PID);
    assert_int_equal(system_log().facility, LOG_LOCAL7);
}

void nothing_is_opened_before_the_first_line(void**) {
    assert_int_equal(system_log().opened, 0);
}

// --- what is told -----------------------------------------------------------------------------

void provider_error_has_the_call_and_the_reason(void**) {
    const CapturedLog log;
    log_provider_error("a.cpp", 5, "f", "ibv_reg_mr", {core::Errc::device, ENOMEM});
    assert_string_equal(CapturedLog::lines().back().text.c_str(),
                        "ibv_reg_mr failed: Cannot allocate memory\n");
    log_provider_error("a.cpp", 5, "f", "rdma_listen", {core::Errc::address_in_use, 0});
    assert_string_equal(CapturedLog::lines().back().text.c_str(),
                        "rdma_listen failed: Address already in use\n");
    assert_int_equal(CapturedLog::lines().back().level, RPMA_LOG_LEVEL_ERROR);
}

}  // namespace
}  // namespace compat::rpma

#undef TEST
#define TEST(function) cmocka_unit_test_setup_teardown(function, nullptr, reset)

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(nothing_is_opened_before_the_first_line),
        TEST(defaults_are_warning_and_disabled),
        TEST(bad_arguments_are_refused),
        TEST(each_threshold_takes_every_level),
        TEST(function_gets_lines_up_to_the_threshold_only),
        TEST(function_gets_the_raw_format_and_its_arguments),
        TEST(own_function_replaces_the_default_one_until_null),
        TEST(lines_of_the_core_reach_the_function),
        TEST(default_function_writes_time_thread_level_place_and_text),
        TEST(thresholds_decide_where_the_default_function_writes),
        TEST(line_numbers_are_padded_to_three),
        TEST(without_a_file_the_place_is_left_out),
        TEST(text_is_cut_at_1023_bytes),
        TEST(errno_survives_a_line),
        TEST(system_log_is_opened_once_by_the_first_line),
        TEST(provider_error_has_the_call_and_the_reason),
    };
    return cmocka_run_group_tests_name("log", tests, nullptr, nullptr);
}
