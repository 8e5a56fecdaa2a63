// SPDX-License-Identifier: BSD-3-Clause
// librpma's descriptors: what a peer's bytes may do when a program decodes them.
#include <algorithm>
#include <array>
#include <cstdint>

#include "rpma_compat/boundary.hpp"
#include "rpma_compat/mr.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using Input = std::span<const std::byte>;

constexpr std::size_t kRegionBytes = 21;
constexpr std::size_t kUsageAt = 20;
constexpr std::size_t kPeerBytes = 1;
constexpr int kFlushUsages = 0x30;

std::uint64_t little_endian(Input bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i > 0; --i)
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
    return value;
}

template <class Object>
Object* untouched() {
    static char somewhere;
    return reinterpret_cast<Object*>(&somewhere);
}

void check_region(const rpma_mr_remote* region, Input input) {
    std::size_t size = 0;
    int flush_type = -1;
    FUZZ_REQUIRE(rpma_mr_remote_get_size(region, &size) == 0);
    FUZZ_REQUIRE(rpma_mr_remote_get_flush_type(region, &flush_type) == 0);
    const int usage = std::to_integer<int>(input[kUsageAt]);
    FUZZ_REQUIRE(region->address == little_endian(input.first(8)));
    FUZZ_REQUIRE(size == little_endian(input.subspan(8, 8)));
    FUZZ_REQUIRE(region->rkey == little_endian(input.subspan(16, 4)));
    FUZZ_REQUIRE(region->usage == usage);
    FUZZ_REQUIRE(flush_type == (usage & kFlushUsages));
}

void fuzz_region(Input input) {
    rpma_mr_remote* region = untouched<rpma_mr_remote>();
    const int rc = rpma_mr_remote_from_descriptor(input.data(), input.size(), &region);
    const bool good = input.size() >= kRegionBytes && input[kUsageAt] != std::byte{0};
    FUZZ_REQUIRE(rc == (good ? 0 : RPMA_E_INVAL));
    if (!good) {
        FUZZ_REQUIRE(region == untouched<rpma_mr_remote>());
        return;
    }
    check_region(region, input);
    FUZZ_REQUIRE(rpma_mr_remote_delete(&region) == 0 && region == nullptr);
}

void check_peer(const rpma_peer_cfg* cfg, bool expected) {
    bool direct_write = !expected;
    std::array<std::uint8_t, kPeerBytes + 1> again{0xaa, 0xaa};
    FUZZ_REQUIRE(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &direct_write) == 0);
    FUZZ_REQUIRE(direct_write == expected);
    FUZZ_REQUIRE(rpma_peer_cfg_get_descriptor(cfg, again.data()) == 0);
    FUZZ_REQUIRE(again[0] == (expected ? 1 : 0) && again[1] == 0xaa);
}

void fuzz_peer(Input input) {
    rpma_peer_cfg* cfg = untouched<rpma_peer_cfg>();
    const int rc = rpma_peer_cfg_from_descriptor(input.data(), input.size(), &cfg);
    const bool good = input.size() >= kPeerBytes;
    FUZZ_REQUIRE(rc == (good ? 0 : RPMA_E_INVAL));
    if (!good) {
        FUZZ_REQUIRE(cfg == untouched<rpma_peer_cfg>());
        return;
    }
    check_peer(cfg, input[0] != std::byte{0});
    FUZZ_REQUIRE(rpma_peer_cfg_delete(&cfg) == 0 && cfg == nullptr);
}

void discard(rpma_log_level, const char*, int, const char*, const char*, ...) {}

// address, length, rkey, usage; the last one with a peer configuration behind it
constexpr std::string_view kSeeds[] = {
    "0050341200 7f0000 0010000000000000 cdab0000 01",
    "ffffffffffffffff ffffffffffffffff ffffffff ff",
    "0000000000000000 0000000000000000 00000000 00",
    "0000000000000000 0100000000000000 2a000000 20 01",
    "00",
    "02",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input input) {
    // a refusal is logged; here it is the usual case
    rpma_log_set_function(discard);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG);
    fuzz_region(input);
    fuzz_peer(input);
    for (std::size_t from = 1; from < input.size() && from <= kRegionBytes + 1; ++from)
        fuzz_peer(input.subspan(from));  // programs send one behind the other
}

}  // namespace compat::fuzz
