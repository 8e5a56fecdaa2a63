// SPDX-License-Identifier: BSD-3-Clause
// fabric-compat-run: runs a program with fabric-compat's libfabric.so.1 and librpma.so.0 in place
// of the system's, and says whether it will really use them.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.hpp"
#include "tools/launcher/binding.hpp"
#include "tools/support/dropins.hpp"

namespace compat::tools {
namespace {

constexpr const char* kName = "fabric-compat-run";

// as env(1) and the shells have them
constexpr int kUsage = 2;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
// of --check
constexpr int kBinds = 0;
constexpr int kMay = 3;
constexpr int kNever = 4;

struct Options {
    Launch launch;
    bool check = false;
    bool strict = false;
    bool verbose = false;
    std::vector<char*> command;
};

/// An option that sets an environment variable of the libraries.
struct SettingOption {
    const char* name;
    core::Setting setting;
    const char* value;  ///< null: the option takes one
};
constexpr std::array kSettingOptions{
    SettingOption{"--device", core::Setting::device, nullptr},
    SettingOption{"--log", core::Setting::log, nullptr},
    SettingOption{"--explain", core::Setting::explain, "1"},
    SettingOption{"--statistics", core::Setting::statistics, "1"},
    SettingOption{"--trace", core::Setting::trace, nullptr},
};

const core::SettingRow& row_of(core::Setting setting) {
    return core::settings()[static_cast<std::size_t>(setting)];
}

void print_usage(FILE* out) {
    std::fputs(
        "usage: fabric-compat-run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
        "       fabric-compat-run --check [OPTION...] [--] PROGRAM|LIBRARY\n"
        "       fabric-compat-run --print\n"
        "\n"
        "The program, and what it starts, finds libfabric.so.1 and librpma.so.0 of fabric-compat\n"
        "first, whether it was linked to them or opens them with dlopen.\n"
        "\n"
        "  --check      start nothing; say whether the program will use them, and why not:\n"
        "               exit status 0 it will, 3 nobody can tell before, 4 it will not\n"
        "  --strict     do not start a program that will not\n"
        "  --preload    put them into LD_PRELOAD always, not only where a DT_RPATH asks for it\n"
        "  --verbose    say before starting what --check would say\n"
        "  --print      print the directory of the two libraries\n"
        "  --help, --version\n",
        out);
    for (const SettingOption& option : kSettingOptions) {
        const core::SettingRow& row = row_of(option.setting);
        const std::string left =
            std::string(option.name) + (option.value == nullptr ? " VALUE" : "");
        std::fprintf(out, "  %s\n               %s=%s: %s\n", left.c_str(), row.name,
                     option.value == nullptr ? row.unit : option.value, row.meaning);
    }
}

[[noreturn]] void refuse(const std::string& message) {
    std::fprintf(stderr, "%s: %s\n", kName, message.c_str());
    std::exit(kUsage);
}

/// Whether the word is a setting's option; sets the variable. value may be taken from next.
bool take_setting(std::string_view word, char* next, bool& took_next) {
    for (const SettingOption& option : kSettingOptions) {
        const std::string_view name(option.name);
        if (!word.starts_with(name)) continue;
        const bool joined = word.size() > name.size() && word[name.size()] == '=';
        if (!joined && word != name) continue;
        const char* value = option.value;
        if (value == nullptr && !joined) {
            if (next == nullptr) refuse(std::string(option.name) + " needs a value");
            value = next;
            took_next = true;
        } else if (value == nullptr) {
            value = word.data() + name.size() + 1;
        } else if (joined) {
            refuse(std::string(option.name) + " takes no value");
        }
        setenv(row_of(option.setting).name, value, 1);
        return true;
    }
    return false;
}

Options parse(int count, char** words) {
    Options options;
    options.launch.dropins = find_dropins();
    int at = 1;
    for (; at < count; ++at) {
        const std::string_view word(words[at]);
        bool took_next = false;
        if (word == "--") {
            ++at;
            break;
        }
        if (!word.starts_with('-')) break;
        if (word == "--help" || word == "-h") {
            print_usage(stdout);
            std::exit(0);
        } else if (word == "--version") {
            std::printf("%s %s\n", kName, COMPAT_VERSION);
            std::exit(0);
        } else if (word == "--print") {
            std::printf("%s\n", options.launch.dropins.c_str());
            std::exit(0);
        } else if (word == "--check") {
            options.check = true;
        } else if (word == "--strict") {
            options.strict = true;
        } else if (word == "--verbose") {
            options.verbose = true;
        } else if (word == "--preload") {
            options.launch.preload = true;
        } else if (take_setting(word, words[at + 1], took_next)) {
            at += took_next ? 1 : 0;
        } else {
            refuse("no such option: " + std::string(word) + "; --help lists them");
        }
    }
    for (; at < count; ++at) options.command.push_back(words[at]);
    options.command.push_back(nullptr);
    return options;
}

struct VerdictRow {
    Verdict verdict;
    int status;
    const char* text;
};
constexpr std::array kVerdicts{
    VerdictRow{Verdict::binds, kBinds, "yes: it will use fabric-compat"},
    VerdictRow{Verdict::may, kMay, "maybe: nobody can tell before it runs"},
    VerdictRow{Verdict::never, kNever, "no: it will not use fabric-compat"},
};

const VerdictRow& row_of(Verdict verdict) {
    return kVerdicts[static_cast<std::size_t>(verdict)];
}

void print(FILE* out, const std::string& prefix, const Binding& binding) {
    std::fprintf(out, "%s%s\n", prefix.c_str(), row_of(binding.verdict).text);
    for (const std::string& reason : binding.reasons)
        std::fprintf(out, "%s  %s\n", prefix.c_str(), reason.c_str());
}

void prepare_environment(const Launch& launch) {
    if (launch.preload) setenv("LD_PRELOAD", preload_value(launch).c_str(), 1);
    setenv("LD_LIBRARY_PATH", path_value(launch).c_str(), 1);
}

int run(Options options) {
    if (options.command.front() == nullptr) {
        print_usage(stderr);
        return kUsage;
    }
    if (options.launch.dropins.empty())
        refuse("the libraries are not where they should be, seen from this program");
    const std::string path = find_program(options.command.front());
    if (path.empty()) {
        std::fprintf(stderr, "%s: %s: not found\n", kName, options.command.front());
        return kNotFound;
    }
    const Binding binding = examine(path, options.launch);
    if (options.check) {
        print(stdout, "", binding);
        return row_of(binding.verdict).status;
    }
    const bool never = binding.verdict == Verdict::never;
    if (never || options.verbose) print(stderr, std::string(kName) + ": ", binding);
    if (never && options.strict) return kNever;
    options.launch.preload |= binding.needs_preload;
    prepare_environment(options.launch);
    execvp(options.command.front(), options.command.data());
    const int error = errno;
    std::fprintf(stderr, "%s: %s: %s\n", kName, options.command.front(), std::strerror(error));
    return error == ENOENT ? kNotFound : kCannotRun;
}

}  // namespace
}  // namespace compat::tools

int main(int count, char** words) {
    return compat::tools::run(compat::tools::parse(count, words));
}
