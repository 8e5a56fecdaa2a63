// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/print.hpp"

#include <algorithm>
#include <cstdio>

namespace compat::tools {
namespace {

/// Where limits end: what is cut into pieces has none.
constexpr std::uint64_t kEndless = SIZE_MAX / 2;

std::string text_of(const Value& value) {
    if (const bool* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "-";
    if (const auto* number = std::get_if<std::uint64_t>(&value))
        return *number >= kEndless ? "any" : std::to_string(*number);
    const std::string& text = std::get<std::string>(value);
    return text.empty() ? "-" : text;
}

std::string json_of(const Value& value) {
    if (const bool* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return std::to_string(*number);
    return json_text(std::get<std::string>(value));
}

std::string markdown_of(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '|') escaped += '\\';
        escaped += c;
    }
    return escaped;
}

void print_object(const std::string& name, const std::vector<std::string>& keys,
                  const std::vector<Value>& values, bool last) {
    std::printf("    {\"name\": %s", json_text(name).c_str());
    for (std::size_t at = 0; at < keys.size(); ++at)
        std::printf(", %s: %s", json_text(keys[at]).c_str(), json_of(values[at]).c_str());
    std::printf("}%s\n", last ? "" : ",");
}

}  // namespace

std::string json_text(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        if (static_cast<unsigned char>(c) < ' ') {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
            quoted += code;
        } else {
            quoted += c;
        }
    }
    return quoted + '"';
}

void print_text(const Table& table) {
    std::printf("%s\n", table.title.c_str());
    std::size_t first = 0;
    std::vector<std::size_t> widths;
    for (const std::string& column : table.columns) widths.push_back(column.size());
    for (const Row& row : table.rows) {
        first = std::max(first, row.name.size());
        for (std::size_t at = 0; at < row.values.size(); ++at)
            widths[at] = std::max(widths[at], text_of(row.values[at]).size());
    }
    const auto print_row = [&](const std::string& name, const auto& text_at) {
        std::string line = "  " + name;
        std::size_t end = 2 + first;
        for (std::size_t at = 0; at < widths.size(); ++at) {
            line.resize(std::max(line.size(), end), ' ');
            line += "  " + text_at(at);
            end += 2 + widths[at];
        }
        std::printf("%s\n", line.c_str());
    };
    print_row("", [&](std::size_t at) { return table.columns[at]; });
    for (const Row& row : table.rows)
        print_row(row.name, [&](std::size_t at) { return text_of(row.values[at]); });
}

void print_markdown(const Table& table) {
    std::printf("## %s\n\n| |", table.title.c_str());
    for (const std::string& column : table.columns) std::printf(" %s |", column.c_str());
    std::printf("\n|---|");
    for (std::size_t at = 0; at < table.columns.size(); ++at) std::printf("---|");
    std::printf("\n");
    for (const Row& row : table.rows) {
        std::printf("| `%s` |", row.name.c_str());
        for (const Value& value : row.values)
            std::printf(" %s |", markdown_of(text_of(value)).c_str());
        std::printf("\n");
    }
}

void print_json(const Table& table) {
    std::printf("  %s: [\n", json_text(table.name).c_str());
    if (table.rows_are_objects) {
        for (const Row& row : table.rows)
            print_object(row.name, table.columns, row.values, &row == &table.rows.back());
    } else {
        std::vector<std::string> keys;
        for (const Row& row : table.rows) keys.push_back(row.name);
        for (std::size_t column = 0; column < table.columns.size(); ++column) {
            std::vector<Value> values;
            for (const Row& row : table.rows) values.push_back(row.values[column]);
            print_object(table.columns[column], keys, values, column + 1 == table.columns.size());
        }
    }
    std::printf("  ]");
}

}  // namespace compat::tools
