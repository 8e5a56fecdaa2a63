// SPDX-License-Identifier: BSD-3-Clause
// Prints the environment variables as the README's table, or with --manual as a manual page
// (scdoc).
#include <cstdio>
#include <cstring>

#include "core/base/config.hpp"

namespace {

// A pipe ends a table cell.
void print_cell(const char* text) {
    for (; *text != '\0'; ++text) {
        if (*text == '|') std::fputc('\\', stdout);
        std::fputc(*text, stdout);
    }
}

int print_manual() {
    std::puts(
        "fabric-compat-environment(7)\n\n# NAME\n\nfabric-compat-environment - environment "
        "variables "
        "of fabric-compat\n\n# DESCRIPTION\n\nBoth libraries read them. An empty variable counts "
        "as "
        "unset.\n");
    for (const compat::core::SettingRow& row : compat::core::settings())
        std::printf("*%s*=%s\n\t%s. Default: %s.\n\n", row.name, row.unit, row.meaning,
                    row.default_value);
    std::puts(
        "libfabric's own FI_LOG_LEVEL, FI_LOG_PROV, FI_LOG_SUBSYS, FI_PROVIDER and FI_TCP_IFACE "
        "work as upstream documents them.\n\n# SEE ALSO\n\n*fabric-compat-run*(1), "
        "*fabric-compat-info*(1), *fabric-compat*(7), *rpma-compat*(7)");
    return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
    if (count == 2 && std::strcmp(words[1], "--manual") == 0) return print_manual();
    std::puts("| variable | default | values | meaning |\n|---|---|---|---|");
    for (const compat::core::SettingRow& row : compat::core::settings()) {
        std::printf("| `%s` | `%s` | ", row.name, row.default_value);
        print_cell(row.unit);
        std::fputs(" | ", stdout);
        print_cell(row.meaning);
        std::puts(" |");
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
