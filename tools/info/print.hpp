// SPDX-License-Identifier: BSD-3-Clause
// Tables as text for people, as Markdown and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/info/facts.hpp"

namespace compat::tools {

void print_text(const Table& table);
void print_markdown(const Table& table);
/// "name": [{…}, …]
void print_json(const Table& table);
std::string json_text(const std::string& text);  ///< with its quotes

}  // namespace compat::tools
