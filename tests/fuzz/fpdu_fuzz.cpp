// SPDX-License-Identifier: BSD-3-Clause
// A stream of FPDUs, cut anywhere: the parser that asks for what it needs against a naive one that
// sees everything. The first input byte chooses the CRC and how the stream is cut.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/device/soft/wire/crc32c.hpp"
#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/mpa.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using namespace core::soft::wire;
using Input = std::span<const std::byte>;

struct Outcome {
    std::vector<Input> ulpdus;
    bool broken = false;    // a CRC did not fit
    std::size_t taken = 0;  // bytes of whole FPDUs

    friend bool operator==(const Outcome& left, const Outcome& right) {
        return left.broken == right.broken && left.taken == right.taken &&
               std::ranges::equal(left.ulpdus, right.ulpdus, [](Input one, Input other) {
                   return std::ranges::equal(one, other);
               });
    }
};

// By the words of RFC 5044, byte by byte.
Outcome read_naively(Input stream, bool with_crc) {
    Outcome outcome;
    while (stream.size() - outcome.taken >= 2) {
        const Input rest = stream.subspan(outcome.taken);
        const std::size_t length =
            std::to_integer<std::size_t>(rest[0]) * 256 + std::to_integer<std::size_t>(rest[1]);
        std::size_t covered = 2 + length;
        while (covered % 4 != 0) ++covered;
        if (rest.size() < covered + 4) break;
        std::uint32_t received = 0;
        for (std::size_t index = 0; index < 4; ++index)
            received |= std::to_integer<std::uint32_t>(rest[covered + index]) << (8 * index);
        if (with_crc && received != crc32c_portable(rest.first(covered))) {
            outcome.broken = true;
            break;
        }
        outcome.ulpdus.push_back(rest.subspan(2, length));
        outcome.taken += covered + 4;
    }
    return outcome;
}

// As the receiver does: bytes arrive in pieces, each FPDU is taken once enough are there.
Outcome read_in_pieces(Input stream, bool with_crc, std::size_t piece) {
    Outcome outcome;
    for (std::size_t arrived = 0; arrived < stream.size();) {
        arrived = std::min(stream.size(), arrived + piece);
        for (;;) {
            const Input rest = stream.subspan(outcome.taken, arrived - outcome.taken);
            const FpduResult fpdu = parse_fpdu(rest, with_crc);
            if (fpdu.status == Parse::need_more) {
                FUZZ_REQUIRE(fpdu.needed > rest.size() && fpdu.needed <= kMaxFpduBytes);
                break;
            }
            if (fpdu.status == Parse::malformed) {
                outcome.broken = true;
                return outcome;
            }
            FUZZ_REQUIRE(fpdu.consumed == fpdu_bytes(fpdu.ulpdu.size()));
            outcome.ulpdus.push_back(fpdu.ulpdu);
            outcome.taken += fpdu.consumed;
        }
    }
    return outcome;
}

// What was taken, sealed again, must be taken again.
void seal_and_read_again(const Outcome& outcome) {
    for (const Input ulpdu : outcome.ulpdus) {
        std::vector<std::byte> buffer(fpdu_bytes(ulpdu.size()), std::byte{0xEE});
        std::copy(ulpdu.begin(), ulpdu.end(), buffer.begin() + kFpduLengthBytes);
        FUZZ_REQUIRE(seal_fpdu(buffer, ulpdu.size(), true) == buffer.size());
        const FpduResult again = parse_fpdu(buffer, true);
        FUZZ_REQUIRE(again.status == Parse::complete && std::ranges::equal(again.ulpdu, ulpdu));
        (void)parse_segment(again.ulpdu);
    }
}

constexpr std::string_view kSeeds[] = {
    "01 000e c140 00000000 0000000000000000 a30572ab 000e c140 00000000 0000000000000000 a30572ab",
    "06 0005 0102030405 00 00000000 0000 0000 00000000 0001 ff 00 00000000",
    "0c 0012 4143 00000000 00000000 00000001 00000000 00000000",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input input) {
    if (input.empty()) return;
    const bool with_crc = (input[0] & std::byte{1}) != std::byte{0};
    const std::size_t piece = 1 + std::to_integer<std::size_t>(input[0] >> 1);
    const Input stream = input.subspan(1);
    const Outcome expected = read_naively(stream, with_crc);
    FUZZ_REQUIRE(read_in_pieces(stream, with_crc, piece) == expected);
    FUZZ_REQUIRE(read_in_pieces(stream, with_crc, stream.size() + 1) == expected);
    seal_and_read_again(expected);
}

}  // namespace compat::fuzz
