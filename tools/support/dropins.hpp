// SPDX-License-Identifier: BSD-3-Clause
// Where our libraries with upstream's SONAMEs are.
#pragma once

#include <array>
#include <string>

namespace compat::tools {

/// A library that we stand in for.
struct Served {
    const char* soname;
    const char* stem;  ///< by which a program that opens it would name it
    const char* own;   ///< our own name of it, for programs that are linked to us
};
inline constexpr std::array kServed{
    Served{"libfabric.so.1", "libfabric.so", "libfabric-compat.so.1"},
    Served{"librpma.so.0", "librpma.so", "librpma-compat.so.1"},
};

/// Their directory, found from where this program lies, so that an installed tree can be moved;
/// empty when it is not there.
std::string find_dropins();

}  // namespace compat::tools
