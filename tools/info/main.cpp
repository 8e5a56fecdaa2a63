// SPDX-License-Identifier: BSD-3-Clause
// fabric-compat-info: which devices there are and why others are not, what they can do, which ABI
// the libraries serve, and which environment variables are in force.
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tools/info/facts.hpp"
#include "tools/info/print.hpp"
#include "tools/info/process.hpp"

namespace compat::tools {
namespace {

constexpr int kDeviceFound = 0;
constexpr int kNoDevice = 1;
constexpr int kUsage = 2;
constexpr int kNoStatistics = 3;

constexpr const char kHelp[] =
    "usage: fabric-compat-info [--json | --markdown]\n"
    "       fabric-compat-info --pid PROCESS [--json]\n"
    "\n"
    "Which devices there are and why others are not, what they and libfabric's endpoints on them\n"
    "can do, which symbol versions the libraries serve, and which environment variables are in\n"
    "force.\n"
    "\n"
    "  --json       the same for scripts\n"
    "  --markdown   the table of docs/compatibility.md\n"
    "  --pid        the statistics of a process that uses the libraries, while it runs\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0, 1 when no device can be used, 3 when the process has no statistics: it does\n"
    "not use the libraries, has made no queue yet, or belongs to somebody else.\n";

void print_everything_as_text(const std::vector<Table>& tables,
                              const std::vector<std::string>& absences) {
    std::printf("fabric-compat %s\n", COMPAT_VERSION);
    for (const Table& table : tables) {
        std::printf("\n");
        print_text(table);
        if (&table != &tables.front()) continue;
        for (const std::string& absence : absences)
            std::printf("  not here: %s\n", absence.c_str());
    }
}

void print_everything_as_json(const std::vector<Table>& tables,
                              const std::vector<std::string>& absences) {
    std::printf("{\n  \"version\": %s,\n", json_text(COMPAT_VERSION).c_str());
    for (const Table& table : tables) {
        print_json(table);
        std::printf(",\n");
    }
    std::printf("  \"absent\": [");
    for (const std::string& absence : absences)
        std::printf("%s%s", &absence == &absences.front() ? "" : ", ", json_text(absence).c_str());
    std::printf("]\n}\n");
}

void print_matrix(const std::vector<Table>& tables) {
    std::printf(
        "# Compatibility\n\n"
        "Printed by `fabric-compat-info --markdown` from the tables that the libraries work by; a "
        "test compares the two.\n"
        "`-` is no, or nothing; `any` has no limit.\n");
    for (const Table& table : tables) {
        if (table.name == "environment") continue;  // the README has it
        std::printf("\n");
        print_markdown(table);
    }
}

int print_statistics(std::string_view text, bool as_json) {
    std::uint32_t process = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), process);
    if (error != std::errc() || end != text.data() + text.size()) {
        std::fputs(kHelp, stderr);
        return kUsage;
    }
    std::string reason;
    const auto totals = read_statistics(process, reason);
    if (!totals) {
        std::fprintf(stderr, "fabric-compat-info: process %u: %s\n", process, reason.c_str());
        return kNoStatistics;
    }
    if (totals->incomplete)
        std::fprintf(stderr, "fabric-compat-info: process %u has more queues than are counted\n",
                     process);
    const char* separator = "{";
    for (const core::StatRow& row : core::stat_rows()) {
        const auto value =
            static_cast<unsigned long long>(totals->cells[static_cast<std::size_t>(row.stat)]);
        if (as_json)
            std::printf("%s\"%s\": %llu", separator, row.name, value);
        else
            std::printf("%20llu  %-14s %s\n", value, row.name, row.meaning);
        separator = ", ";
    }
    if (as_json) std::printf("}\n");
    return 0;
}

int run(std::string_view option) {
    if (option == "--help" || option == "-h") {
        std::fputs(kHelp, stdout);
        return 0;
    }
    if (option == "--version") {
        std::printf("fabric-compat-info %s\n", COMPAT_VERSION);
        return 0;
    }
    if (!option.empty() && option != "--json" && option != "--markdown") {
        std::fputs(kHelp, stderr);
        return kUsage;
    }
    std::vector<std::string> absences;
    std::vector<Table> tables{device_table(absences)};
    const bool found = !tables.front().columns.empty();
    tables.push_back(endpoint_table());
    tables.push_back(library_table());
    tables.push_back(environment_table());
    if (option == "--json")
        print_everything_as_json(tables, absences);
    else if (option == "--markdown")
        print_matrix(tables);
    else
        print_everything_as_text(tables, absences);
    return found ? kDeviceFound : kNoDevice;
}

}  // namespace
}  // namespace compat::tools

int main(int count, char** words) {
    const std::string_view first = count > 1 ? words[1] : "";
    const bool as_json = count == 4 && std::string_view(words[3]) == "--json";
    if (first == "--pid" && (count == 3 || as_json))
        return compat::tools::print_statistics(words[2], as_json);
    if (count > 2) return compat::tools::run("--no-such-option");
    return compat::tools::run(first);
}
