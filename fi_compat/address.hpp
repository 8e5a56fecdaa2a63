// SPDX-License-Identifier: BSD-3-Clause
// Addresses as programs hold them: sockaddr structures, or text (FI_ADDR_STR).
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/core.hpp"

namespace compat::fi {

/// "fi_sockaddr_in://192.0.2.1:7471", as FI_ADDR_STR and fi_tostr() write it.
std::string address_text(const core::SocketAddress& address);
/// False when it is no such text.
bool split_address_text(std::string_view text, std::string& host, std::string& port);
/// Errors: invalid_argument.
core::Result<core::SocketAddress> parse_address_text(std::string_view text);

/// The address of an info's format at `at`; empty when there is none that we know.
core::SocketAddress read_address(std::uint32_t format, const void* at, std::size_t length);

/// The same, of an array, whose elements tell their length: at moves to the next one.
core::SocketAddress next_address(std::uint32_t format, const void*& at);

/// fi_getname(3): *length becomes what the whole address takes. -FI_ETOOSMALL with what fitted.
int write_address(std::uint32_t format, const core::SocketAddress& address, void* out,
                  std::size_t* length);

}  // namespace compat::fi
