// SPDX-License-Identifier: BSD-3-Clause
// What there is to say about this machine and these libraries, as tables: taken from the devices,
// from the offers of fi_getinfo() and from the libraries' files, never written down again.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace compat::tools {

using Value = std::variant<bool, std::uint64_t, std::string>;

struct Row {
    std::string name;
    std::vector<Value> values;  ///< one a column
};

struct Table {
    std::string name;   ///< a JSON key
    std::string title;  ///< above it, for people
    std::vector<std::string> columns;
    std::vector<Row> rows;
    bool rows_are_objects = false;  ///< in JSON: each row is one, else each column
};

/// The devices of this machine; absences gets a line for each that could be there and is not.
Table device_table(std::vector<std::string>& absences);
/// What each endpoint type can do, one column for each provider name that is not an alias.
Table endpoint_table();
/// The drop-in libraries and the symbol versions they have.
Table library_table();
Table environment_table();

}  // namespace compat::tools
