// SPDX-License-Identifier: BSD-3-Clause
// tshark_check CAPTURE [--crc on|off] [--client OPCODES] [--server OPCODES]
// Judges a capture of tap_proxy by tshark. OPCODES: names, separated by commas, that the side must
// have sent at least once ("write,read request"); a name after '-' must not occur ("-terminate").
// Exit: 0 as it must be; 1 with the broken rules on stderr; 77 without tshark.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/e2e/tap/rules.hpp"

namespace {

using namespace compat::test;

constexpr int kSkip = 77;

void check_opcode(const Dissection& dissection, Side from, std::string_view name,
                  std::vector<std::string>& complaints) {
    const bool forbidden = name.starts_with('-');
    if (forbidden) name.remove_prefix(1);
    const unsigned opcode = opcode_number(name);
    const bool seen = count_opcode(dissection, from, opcode) != 0;
    if (opcode > 15)
        complaints.push_back("no such opcode: " + std::string(name));
    else if (seen == forbidden)
        complaints.push_back(std::string(name) + (forbidden ? " was sent" : " was not sent"));
}

void check_opcodes(const Dissection& dissection, Side from, std::string_view names,
                   std::vector<std::string>& complaints) {
    while (!names.empty()) {
        const std::size_t comma = std::min(names.find(','), names.size());
        check_opcode(dissection, from, names.substr(0, comma), complaints);
        names.remove_prefix(std::min(comma + 1, names.size()));
    }
}

bool check_option(const Dissection& dissection, std::string_view option, std::string_view value,
                  std::vector<std::string>& complaints) {
    if (option == "--client") {
        check_opcodes(dissection, Side::client, value, complaints);
    } else if (option == "--server") {
        check_opcodes(dissection, Side::server, value, complaints);
    } else if (option == "--crc" && (value == "on" || value == "off")) {
        if (all_with_crc(dissection) != (value == "on"))
            complaints.emplace_back("CRC is not " + std::string(value));
    } else {
        return false;
    }
    return true;
}

int usage() {
    std::fprintf(stderr,
                 "usage: tshark_check CAPTURE [--crc on|off] [--client OPCODES] "
                 "[--server OPCODES]\n");
    return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2 || argc % 2 != 0) return usage();
    if (!have_tshark()) {
        std::printf("skipped: tshark is not installed\n");
        return kSkip;
    }
    const Dissection dissection = dissect(argv[1]);
    std::vector<std::string> complaints = broken_rules(dissection);
    for (int index = 2; index < argc; index += 2)
        if (!check_option(dissection, argv[index], argv[index + 1], complaints)) return usage();
    for (const Side side : {Side::client, Side::server})
        std::printf("%s\n", summary(dissection, side).c_str());
    for (const std::string& complaint : complaints) std::fprintf(stderr, "%s\n", complaint.c_str());
    return complaints.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
