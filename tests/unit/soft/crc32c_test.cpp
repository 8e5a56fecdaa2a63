// SPDX-License-Identifier: BSD-3-Clause
// CRC32c against published vectors and against ISA-L. ISA-L's crc32_iscsi() leaves the two
// inversions to its caller.
#include "core/device/soft/wire/crc32c.hpp"

#include <isa-l/crc.h>

#include "tests/unit/soft/wire_frame.hpp"

namespace {

using namespace compat::core::soft::wire;
using namespace compat::test;

using Function = std::uint32_t (*)(std::span<const std::byte>, std::uint32_t) noexcept;
constexpr Function kFunctions[] = {crc32c, crc32c_portable};

constexpr std::size_t kMost = 40000;
alignas(64) std::array<std::byte, kMost> data;

std::uint32_t oracle(std::span<const std::byte> bytes) {
    // ISA-L asks for a pointer to non-const and does not write through it.
    auto* start = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    return ~crc32_iscsi(start, static_cast<int>(bytes.size()), ~0U);
}

int fill_data(void**) {
    Random random(1);
    random.fill(data);
    return 0;
}

void published_check_values_come_out(void**) {
    const Frame digits = ascii("123456789");
    Frame zeros;
    zeros.size = 32;
    Frame ones;
    Frame rising;
    Frame falling;
    for (unsigned value = 0; value < 32; ++value) {
        ones.bytes.at(value) = std::byte{0xFF};
        rising.bytes.at(value) = std::byte(value);
        falling.bytes.at(value) = std::byte(31 - value);
    }
    ones.size = rising.size = falling.size = 32;
    for (const Function function : kFunctions) {
        assert_int_equal(function(digits.view(), 0), 0xE3069283);
        assert_int_equal(function(zeros.view(), 0), 0x8A9136AA);  // RFC 3720 appendix B.4
        assert_int_equal(function(ones.view(), 0), 0x62A8AB43);
        assert_int_equal(function(rising.view(), 0), 0x46DD794E);
        assert_int_equal(function(falling.view(), 0), 0x113FDB5C);
    }
}

void nothing_has_crc_zero_and_changes_nothing(void**) {
    for (const Function function : kFunctions) {
        assert_int_equal(function({}, 0), 0);
        assert_int_equal(function({}, 0x12345678), 0x12345678);
    }
}

void every_length_up_to_1700_at_every_alignment_equals_isal(void**) {
    for (std::size_t start = 0; start < 8; ++start)
        for (std::size_t length = 0; length <= 1700; ++length) {
            const auto bytes = std::span<const std::byte>(data).subspan(start, length);
            const std::uint32_t expected = oracle(bytes);
            for (const Function function : kFunctions)
                assert_int_equal(function(bytes, 0), expected);
        }
}

void lengths_around_the_switch_of_strides_equal_isal(void**) {
    constexpr std::size_t kEdges[] = {768, 1536, 3 * 4096, 3 * 4096 + 768, 6 * 4096, 9 * 4096};
    for (const std::size_t edge : kEdges)
        for (std::size_t length = edge - 20; length <= edge + 20; ++length) {
            const auto bytes = std::span<const std::byte>(data).subspan(3, length);
            for (const Function function : kFunctions)
                assert_int_equal(function(bytes, 0), oracle(bytes));
        }
}

void parts_put_together_have_the_crc_of_the_whole(void**) {
    const auto whole = std::span<const std::byte>(data).first(20000);
    const std::uint32_t expected = oracle(whole);
    Random random(2);
    for (int round = 0; round < 200; ++round) {
        const std::size_t first = random.below(whole.size() + 1);
        const std::size_t second = first + random.below(whole.size() - first + 1);
        for (const Function function : kFunctions) {
            std::uint32_t crc = function(whole.first(first), 0);
            crc = function(whole.subspan(first, second - first), crc);
            crc = function(whole.subspan(second), crc);
            assert_int_equal(crc, expected);
        }
    }
}

void each_flipped_bit_changes_the_crc(void**) {
    const auto bytes = std::span(data).first(100);
    const std::uint32_t before = crc32c(bytes);
    for (std::byte& each : bytes)
        for (unsigned bit = 0; bit < 8; ++bit) {
            each ^= std::byte(1U << bit);
            assert_int_not_equal(crc32c(bytes), before);
            each ^= std::byte(1U << bit);
        }
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(published_check_values_come_out),
        cmocka_unit_test(nothing_has_crc_zero_and_changes_nothing),
        cmocka_unit_test(every_length_up_to_1700_at_every_alignment_equals_isal),
        cmocka_unit_test(lengths_around_the_switch_of_strides_equal_isal),
        cmocka_unit_test(parts_put_together_have_the_crc_of_the_whole),
        cmocka_unit_test(each_flipped_bit_changes_the_crc),
    };
    return cmocka_run_group_tests(tests, fill_data, nullptr);
}
