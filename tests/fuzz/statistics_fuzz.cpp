// SPDX-License-Identifier: BSD-3-Clause
// The page on which another process counts, as a tool reads it: against a naive reader. What does
// not begin as a page of ours, the input makes one: the first byte chooses.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/base/statistics.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using namespace core;
using Input = std::span<const std::byte>;

constexpr std::uint32_t kProcess = 77;

template <class Number>
Number number_at(Input bytes, std::size_t offset) {
    Number number{};
    std::memcpy(&number, bytes.data() + offset, sizeof number);
    return number;
}

/// The sum of one cell over all blocks.
std::uint64_t naive_sum(Input page, std::size_t blocks, std::size_t cell) {
    std::uint64_t sum = 0;
    for (std::size_t block = 0; block < blocks; ++block)
        sum += number_at<std::uint64_t>(
            page, kStatisticsHeaderBytes + block * sizeof(StatBlock) + cell * sizeof sum);
    return sum;
}

void check(Input page) {
    StatTotals totals;
    const bool sound = sum_statistics(page, kProcess, totals);
    if (!sound) {
        FUZZ_REQUIRE(std::ranges::all_of(totals.cells, [](auto cell) { return cell == 0; }));
        FUZZ_REQUIRE(!totals.incomplete);
        return;
    }
    const auto header = number_at<StatisticsHeader>(page, 0);
    FUZZ_REQUIRE(header.magic == kStatisticsMagic && header.process == kProcess);
    FUZZ_REQUIRE(page.size() >= kStatisticsHeaderBytes + header.blocks * sizeof(StatBlock));
    for (std::size_t cell = 0; cell < kStats; ++cell)
        FUZZ_REQUIRE(totals.cells[cell] == naive_sum(page, header.blocks, cell));
    FUZZ_REQUIRE(totals.incomplete == (header.incomplete != 0));
}

// a whole header, of one block and of far too many; the block is cut short
constexpr std::string_view kSeeds[] = {
    "01 0043465354415431 00 4d000000 01000000 10000000 00000000",
    "01 ffffffffffffffff 4d000000 ffffffff 10000000 01000000 0102030405060708",
    "00 0043465354415431 4d000000 01000000 10000000 00000000",
    "03 0000000000000000 00000000 02000000 00000000 01000000 ffffffffffffffff 0100000000000000",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input input) {
    if (input.empty()) return;
    const auto choice = std::to_integer<unsigned>(input.front());
    std::vector<std::byte> page(input.begin() + 1, input.end());
    if ((choice & 2) != 0) page.resize(page.size() + kStatisticsHeaderBytes + sizeof(StatBlock));
    if ((choice & 1) != 0 && page.size() >= sizeof(StatisticsHeader)) {
        StatisticsHeader header = number_at<StatisticsHeader>(page, 0);
        header.magic = kStatisticsMagic;
        header.process = kProcess;
        header.cells = kStats;
        if ((choice & 4) != 0) header.blocks %= 8;
        std::memcpy(page.data(), &header, sizeof header);
    }
    // in a block of exactly its size, so that a read past the end is seen
    const std::vector<std::byte> exact(page.begin(), page.end());
    check(exact);
}

}  // namespace compat::fuzz
