// SPDX-License-Identifier: BSD-3-Clause
// The start-up frames of MPA: what a stranger's first bytes may do.
#include <algorithm>
#include <array>

#include "core/device/soft/wire/mpa.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using namespace core::soft::wire;
using Input = std::span<const std::byte>;

bool same(const StartFrame& left, const StartFrame& right) {
    return left.reply == right.reply && left.markers == right.markers && left.crc == right.crc &&
           left.rejected == right.rejected && left.revision == right.revision &&
           left.extension == right.extension && left.enhanced == right.enhanced &&
           left.peer_to_peer == right.peer_to_peer && left.rtr_send == right.rtr_send &&
           left.rtr_write == right.rtr_write && left.rtr_read == right.rtr_read &&
           left.ird == right.ird && left.ord == right.ord &&
           std::ranges::equal(left.private_data, right.private_data);
}

// The flag byte may lose bits that mean nothing; every other byte must come back.
void require_same_bytes(Input original, Input again) {
    constexpr std::size_t kFlags = 16;
    FUZZ_REQUIRE(original.size() == again.size());
    FUZZ_REQUIRE(std::ranges::equal(original.first(kFlags), again.first(kFlags)));
    FUZZ_REQUIRE((again[kFlags] & ~original[kFlags]) == std::byte{0});
    FUZZ_REQUIRE(std::ranges::equal(original.subspan(kFlags + 1), again.subspan(kFlags + 1)));
}

void check_complete(Input input, const StartFrameResult& result, bool expect_reply) {
    FUZZ_REQUIRE(result.consumed >= kStartFrameBytes && result.consumed <= input.size());
    FUZZ_REQUIRE(result.consumed <= kMaxStartFrameBytes);
    std::array<std::byte, kMaxStartFrameBytes> buffer{};
    const std::size_t written = encode_start_frame(result.frame, buffer);
    FUZZ_REQUIRE(written == result.consumed);
    const Input again = Input(buffer).first(written);
    require_same_bytes(input.first(result.consumed), again);
    const StartFrameResult second = parse_start_frame(again, expect_reply);
    FUZZ_REQUIRE(second.status == Parse::complete && same(second.frame, result.frame));
}

// However a stream is cut: less never says more than the whole, and never something else.
void check_prefixes(Input input, const StartFrameResult& whole, bool expect_reply) {
    const std::size_t longest = std::min(input.size(), kMaxStartFrameBytes);
    for (std::size_t length = 0; length < longest; ++length) {
        const StartFrameResult part = parse_start_frame(input.first(length), expect_reply);
        if (part.status == Parse::malformed) FUZZ_REQUIRE(whole.status == Parse::malformed);
        if (part.status == Parse::complete) FUZZ_REQUIRE(whole.status == Parse::complete);
        if (whole.status == Parse::complete)
            FUZZ_REQUIRE((part.status == Parse::complete) == (length >= whole.consumed));
    }
}

constexpr std::string_view kSeeds[] = {
    "4d504120494420526571204672616d65 51 02 0006 8080 c010 6869",
    "4d504120494420526570204672616d65 12 02 0004 8010 bfff",
    "4d504120494420526571204672616d65 c0 01 0003 616263",
    "4d504120494420526571204672616d65 10 02 0004 0080 0080",
    "4d504120494420526570204672616d65 20 02 0002 6e6f",
    "4d504120494420526571204672616d65 00 02 0000 000e c140",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input input) {
    for (const bool expect_reply : {false, true}) {
        const StartFrameResult result = parse_start_frame(input, expect_reply);
        FUZZ_REQUIRE((result.reason != nullptr) == (result.status == Parse::malformed));
        if (result.status == Parse::complete)
            check_complete(input, result, expect_reply);
        else
            FUZZ_REQUIRE(result.consumed == 0);
        check_prefixes(input, result, expect_reply);
    }
}

}  // namespace compat::fuzz
