// SPDX-License-Identifier: BSD-3-Clause
// What must hold for every iWARP conversation of ours, judged from tshark's dissection.
#pragma once

#include <string>
#include <vector>

#include "tests/e2e/tap/dissection.hpp"

namespace compat::test {

/// One sentence for each rule that is broken; empty when the capture is as it must be.
std::vector<std::string> broken_rules(const Dissection& dissection);

/// "client: 3 write, 1 read request" and the same for the server, over all conversations.
std::string summary(const Dissection& dissection, Side from);

/// How many FPDUs of that opcode the side sent, over all conversations.
std::size_t count_opcode(const Dissection& dissection, Side from, unsigned opcode);

/// All conversations agreed on CRC (at least one conversation, and each with C set by either side).
bool all_with_crc(const Dissection& dissection);

/// The number for a name in opcode_text(), or 16 when there is none.
unsigned opcode_number(std::string_view name);

}  // namespace compat::test
