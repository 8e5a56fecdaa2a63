// SPDX-License-Identifier: BSD-3-Clause
// What connectionless endpoints take from their peers: private data and message headers.
#include <algorithm>
#include <array>

#include "core/rdm/wire.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using namespace core::rdm;
using Input = std::span<const std::byte>;

void check_hello(Input input) {
    const auto hello = parse_hello(input);
    if (!hello) return;
    FUZZ_REQUIRE(!hello->name.empty() && hello->name.port() != 0);
    FUZZ_REQUIRE(hello->data_buffers != 0 && hello->control_buffers != 0);
    FUZZ_REQUIRE(hello->buffer_length >= kBufferLength);
    const auto again = parse_hello(encode(*hello));
    FUZZ_REQUIRE(again && again->name == hello->name && again->instance == hello->instance);
    FUZZ_REQUIRE(again->extra == hello->extra && again->data_buffers == hello->data_buffers);
    FUZZ_REQUIRE(!parse_hello(input.first(kHelloLength - 1)));
}

void check_refusal(Input input) {
    const auto refusal = parse_refusal(input);
    if (refusal) FUZZ_REQUIRE(parse_refusal(encode(*refusal)) == refusal);
}

void check_header(Input input) {
    constexpr std::size_t kUnused = 3;
    const auto header = parse_header(input);
    if (!header) return;
    std::array<std::byte, kHeaderLength> again{};
    encode(*header, again);
    again[kUnused] = input[kUnused];
    FUZZ_REQUIRE(std::ranges::equal(again, input.first(kHeaderLength)));
    const bool follows = header->kind == MessageKind::eager;
    if (follows) FUZZ_REQUIRE(header->length == input.size() - kHeaderLength);
    std::uint64_t total = 0;
    if (header->kind == MessageKind::rendezvous) {
        for (std::size_t at = 0; at < header->source_count; ++at) {
            const core::RemoteRange source = source_at(input, at);
            FUZZ_REQUIRE(source.length != 0 && source.length <= header->length - total);
            total += source.length;
        }
        FUZZ_REQUIRE(total == header->length);
    }
}

constexpr std::string_view kSeeds[] = {
    "66637264 01 04 1c24 7f000001 000000000000000000000000 1122334455667788 00000020 00000008 "
    "00001028",
    "66637264 01 86 1c24 00000000000000000000000000000001 1122334455667788 00000020 00000008 "
    "00001028",
    "66637264 01 02 0000",
    "00 03 00 00 00000020 00000008 00000001 0000000000000005 00000000000000ff 0000000000000004 "
    "61626364",
    "01 05 02 00 00000020 00000008 00000002 0000000000000005 0000000000000000 0000000000002710 "
    "00007f0000001000 0000000000001388 00000005 00007f0000003000 0000000000001388 00000006",
    "02 08 00 00 00000021 00000009 00000002 0000000000000000 0000000000000000 0000000000000000",
    "03 00 00 00 00000030 00000009 00000000 0000000000000000 0000000000000000 0000000000000000",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input input) {
    check_hello(input);
    check_refusal(input);
    check_header(input);
}

}  // namespace compat::fuzz
