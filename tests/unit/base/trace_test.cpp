// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/trace.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

std::string g_folder;

std::string path_of(pid_t process) {
    return g_folder + "/trace." + std::to_string(process) + ".json";
}

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

bool is_closed_array(const std::string& text) {
    return text.starts_with("[\n{") && text.ends_with("}\n]\n");
}

void post(Trace& trace, std::uint64_t number, const char* operation) {
    trace.post(number, Trace::now(), "write", {.operation = operation});
}

int set_up(void**) {
    std::string name = (std::filesystem::temp_directory_path() / "compat-trace-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return 1;
    g_folder = name;
    return 0;
}

int tear_down(void**) {
    return std::filesystem::remove_all(g_folder) != 0 ? 0 : 1;
}

void without_the_request_there_is_none(void**) {
    assert_false(Trace::wanted());
    assert_null(Trace::create().get());
}

void the_array_is_complete_after_each_event(void**) {
    setenv("FABRIC_COMPAT_TRACE", (g_folder + "/trace").c_str(), 1);
    const auto trace = Trace::create();
    assert_non_null(trace.get());
    for (std::uint64_t number = 1; number < 50; ++number) {
        post(*trace, number, "write");
        assert_true(is_closed_array(text_of(path_of(getpid()))));
        trace->end(number, "write", "success", number);
        assert_true(is_closed_array(text_of(path_of(getpid()))));
    }
}

void errno_is_the_programs(void**) {
    const auto trace = Trace::create();
    errno = ENOTTY;
    post(*trace, 1, "write");
    assert_int_equal(errno, ENOTTY);
}

int descriptor_of(const std::string& path) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        if (std::filesystem::read_symlink(entry, error) == path)
            return std::stoi(entry.path().filename());
    }
    return -1;
}

/// A program may close what it did not open, and use the number for something of its own.
void a_number_that_is_somebody_elses_is_left_alone(void**) {
    const auto trace = Trace::create();
    post(*trace, 1, "write");
    const int own = descriptor_of(path_of(getpid()));
    assert_true(own >= 0);
    const std::string theirs = g_folder + "/theirs";
    const int other = open(theirs.c_str(), O_RDWR | O_CREAT, 0600);
    assert_int_equal(dup2(other, own), own);
    post(*trace, 2, "after_the_close");
    assert_string_equal(text_of(theirs).c_str(), "");
    const std::string text = text_of(path_of(getpid()));
    assert_true(is_closed_array(text));
    assert_true(text.find("after_the_close") != std::string::npos);
    close(own);
    close(other);
}

void a_child_has_a_file_of_its_own(void**) {
    const auto inherited = Trace::create();
    post(*inherited, 1, "write");
    const std::string before = text_of(path_of(getpid()));
    const pid_t child = fork();
    if (child == 0) {
        inherited->end(1, "write", "success", 0);
        const bool silent = !std::filesystem::exists(path_of(getpid()));
        const auto own = Trace::create();
        post(*own, 1, "of_the_child");
        const std::string text = text_of(path_of(getpid()));
        const bool good = is_closed_array(text) && text.find("of_the_child") != std::string::npos;
        _exit(silent && good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(text_of(path_of(getpid())).c_str(), before.c_str());
    inherited->end(1, "write", "success", 0);
    assert_true(is_closed_array(text_of(path_of(getpid()))));
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(without_the_request_there_is_none),
        cmocka_unit_test(the_array_is_complete_after_each_event),
        cmocka_unit_test(errno_is_the_programs),
        cmocka_unit_test(a_number_that_is_somebody_elses_is_left_alone),
        cmocka_unit_test(a_child_has_a_file_of_its_own),
    };
    return cmocka_run_group_tests_name("trace", tests, set_up, tear_down);
}
