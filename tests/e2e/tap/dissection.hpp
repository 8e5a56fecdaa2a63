// SPDX-License-Identifier: BSD-3-Clause
// What tshark makes of a capture: an opinion on our bytes that does not come from our own parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/tap/capture.hpp"

namespace compat::test {

struct StartFrameSeen {
    Side from = Side::client;
    bool is_reply = false;
    bool markers = false;
    bool crc = false;
    bool rejected = false;
    unsigned reserved = 0;  ///< low five bits of the flags: S and those below it
    unsigned revision = 0;
    std::size_t private_bytes = 0;
    std::size_t fpdus_before = 0;  ///< of both sides
};

struct FpduSeen {
    Side from = Side::client;
    unsigned long packet = 0;
    std::size_t ulpdu_bytes = 0;
    bool crc_checked = false;
    bool crc_good = false;
    std::size_t segments = 0;  ///< DDP segments that were found in it: one, if all is well
    bool tagged = false;
    bool last = false;
    unsigned ddp_version = 0;
    unsigned ddp_reserved = 0;
    unsigned rdmap_version = 0;
    unsigned rdmap_reserved = 0;
    unsigned opcode = 0;
    std::uint32_t queue = 0;
    std::uint32_t msn = 0;
    std::uint32_t message_offset = 0;
    std::uint64_t read_bytes = 0;   ///< of a Read Request
    std::uint64_t request_id = 0;   ///< of an Atomic Request
    std::uint64_t response_id = 0;  ///< of an Atomic Response
};

/// One TCP connection.
struct Conversation {
    std::vector<StartFrameSeen> start_frames;
    std::vector<FpduSeen> fpdus;
    std::size_t payload_bytes[2] = {0, 0};  ///< TCP payload, by side
};

struct ExpertLine {
    std::string severity;  ///< "Errors", "Warns"; the lesser ones are left out
    std::string protocol;
    std::string summary;
};

struct Dissection {
    std::map<unsigned long, Conversation> conversations;  ///< by tshark's number of the TCP stream
    std::vector<ExpertLine> experts;
    std::vector<unsigned long> malformed;      ///< packets
    std::vector<unsigned long> bad_checksums;  ///< packets
};

/// True when tshark is installed.
bool have_tshark();
/// Runs tshark over a capture that CaptureFile wrote. Ends the program when that fails.
Dissection dissect(const std::string& capture);

}  // namespace compat::test
