// SPDX-License-Identifier: BSD-3-Clause
// Prints the environment variables as the README's table.
#include <cstdio>

#include "core/base/config.hpp"

namespace {

// A pipe ends a table cell.
void print_cell(const char* text) {
    for (; *text != '\0'; ++text) {
        if (*text == '|') std::fputc('\\', stdout);
        std::fputc(*text, stdout);
    }
}

}  // namespace

int main() {
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
