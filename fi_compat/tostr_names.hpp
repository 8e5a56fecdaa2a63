// SPDX-License-Identifier: BSD-3-Clause
// The names of libfabric's constants, one table a namespace: bits of one value mean different
// things in different places.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <span>
#include <string>

namespace compat::fi {

struct NameRow {
    std::uint64_t value;
    const char* name;
};

/// The table of an enum fi_type that is a set of bits or an enumeration; empty for the others.
std::span<const NameRow> names_of(fi_type type) noexcept;

/// enum fi_resource_mgmt has no fi_type of its own.
std::span<const NameRow> names_of_resource_mgmt() noexcept;

/// "FI_MSG, FI_RMA"; unknown bits in hex.
void append_flags(std::string& text, std::uint64_t value, fi_type type);
/// One name, or "Unknown".
void append_enum(std::string& text, std::uint64_t value, fi_type type);
void append_name(std::string& text, std::uint64_t value, std::span<const NameRow> names);

}  // namespace compat::fi
