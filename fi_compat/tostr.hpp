// SPDX-License-Identifier: BSD-3-Clause
// fi_tostr(3): structures and flags as text, in the layout that fi_info(1) prints.
#pragma once

#include <rdma/fabric.h>

#include <string>

namespace compat::fi {

/// Appends data as the enum fi_type says what it is.
void append_text(std::string& text, const void* data, fi_type type);

/// An address of that format: "fi_sockaddr_in://127.0.0.1:7471".
std::string address_text(std::uint32_t addr_format, const void* address, std::size_t length);

}  // namespace compat::fi
