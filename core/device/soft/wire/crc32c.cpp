// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/wire/crc32c.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/device/soft/wire/bytes.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#include <nmmintrin.h>
#endif

namespace compat::core::soft::wire {
namespace {

using Bytes = std::span<const std::byte>;
using Table = std::array<std::uint32_t, 256>;

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected

constexpr std::uint32_t append_zero_byte(std::uint32_t crc) {
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    return crc;
}

// kSlices[n][b]: byte b followed by n zero bytes, so that eight bytes are looked up at once.
constexpr std::size_t kSliceCount = 8;
constexpr std::array<Table, kSliceCount> make_slices() {
    std::array<Table, kSliceCount> slices{};
    for (std::uint32_t value = 0; value < 256; ++value) {
        std::uint32_t crc = value;
        for (Table& slice : slices) slice[value] = crc = append_zero_byte(crc);
    }
    return slices;
}
constexpr std::array<Table, kSliceCount> kSlices = make_slices();

std::uint32_t take_byte(std::uint32_t crc, std::byte next) noexcept {
    return (crc >> 8) ^ kSlices[0][(crc ^ std::to_integer<std::uint32_t>(next)) & 0xFF];
}

template <std::size_t... index>
std::uint32_t look_up(std::uint64_t eight, std::index_sequence<index...>) noexcept {
    return (kSlices[kSliceCount - 1 - index][(eight >> (8 * index)) & 0xFF] ^ ...);
}

std::uint32_t take_eight(std::uint32_t crc, const std::byte* next) noexcept {
    const std::uint64_t little_endian = __builtin_bswap64(load_be<std::uint64_t>(next));
    return look_up(little_endian ^ crc, std::make_index_sequence<kSliceCount>{});
}

#ifdef __x86_64__

// The CRC instruction takes three cycles and can start every cycle: three chains side by side, put
// together at the end by appending to each the zero bytes that stand for the chains after it.
// Appending n zero bytes is linear over GF(2): a 32 by 32 bit matrix, one column a bit.
using Matrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t multiply(const Matrix& matrix, std::uint32_t vector) {
    std::uint32_t result = 0;
    for (std::size_t bit = 0; vector != 0; ++bit, vector >>= 1)
        if ((vector & 1) != 0) result ^= matrix[bit];
    return result;
}

constexpr Matrix square(const Matrix& matrix) {
    Matrix result{};
    for (std::size_t bit = 0; bit < 32; ++bit) result[bit] = multiply(matrix, matrix[bit]);
    return result;
}

using ShiftTables = std::array<Table, 4>;  // one for each byte of the CRC

template <std::size_t zero_bytes>
constexpr ShiftTables make_shift() {
    static_assert((zero_bytes & (zero_bytes - 1)) == 0, "reached by squaring");
    Matrix matrix{};
    for (std::size_t bit = 0; bit < 32; ++bit)
        matrix[bit] = append_zero_byte(std::uint32_t{1} << bit);
    for (std::size_t reached = 1; reached < zero_bytes; reached *= 2) matrix = square(matrix);
    ShiftTables tables{};
    for (std::size_t position = 0; position < 4; ++position)
        for (std::uint32_t value = 0; value < 256; ++value)
            tables[position][value] = multiply(matrix, value << (8 * position));
    return tables;
}

template <std::size_t zero_bytes>
constexpr ShiftTables kShift = make_shift<zero_bytes>();

template <std::size_t zero_bytes>
std::uint32_t append_zeros(std::uint64_t crc) noexcept {
    const ShiftTables& shift = kShift<zero_bytes>;
    return shift[0][crc & 0xFF] ^ shift[1][(crc >> 8) & 0xFF] ^ shift[2][(crc >> 16) & 0xFF] ^
           shift[3][(crc >> 24) & 0xFF];
}

std::uint64_t load_native(const std::byte* from) noexcept {
    std::uint64_t value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

template <std::size_t stride>
__attribute__((target("sse4.2"))) std::uint64_t three_chains(std::uint64_t crc,
                                                             Bytes& data) noexcept {
    while (data.size() >= 3 * stride) {
        const std::byte* next = data.data();
        std::uint64_t second = 0;
        std::uint64_t third = 0;
        for (const std::byte* end = next + stride; next != end; next += 8) {
            crc = _mm_crc32_u64(crc, load_native(next));
            second = _mm_crc32_u64(second, load_native(next + stride));
            third = _mm_crc32_u64(third, load_native(next + 2 * stride));
        }
        crc = append_zeros<stride>(crc) ^ second;
        crc = append_zeros<stride>(crc) ^ third;
        data = data.subspan(3 * stride);
    }
    return crc;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(Bytes data,
                                                             std::uint32_t previous) noexcept {
    std::uint64_t crc = ~previous;
    crc = three_chains<4096>(crc, data);
    crc = three_chains<256>(crc, data);
    for (; data.size() >= 8; data = data.subspan(8))
        crc = _mm_crc32_u64(crc, load_native(data.data()));
    auto narrow = static_cast<std::uint32_t>(crc);
    for (const std::byte next : data)
        narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(next));
    return ~narrow;
}

bool has_sse42() noexcept {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_2) != 0;
}

// Chosen at the first call: nothing of ours may run when the library is loaded.
using Function = std::uint32_t (*)(Bytes, std::uint32_t) noexcept;
std::uint32_t choose_and_run(Bytes data, std::uint32_t previous) noexcept;
constinit std::atomic<Function> chosen{choose_and_run};

std::uint32_t choose_and_run(Bytes data, std::uint32_t previous) noexcept {
    const Function function = has_sse42() ? crc32c_sse42 : crc32c_portable;
    chosen.store(function, std::memory_order_relaxed);
    return function(data, previous);
}

#endif

}  // namespace

std::uint32_t crc32c_portable(Bytes data, std::uint32_t previous) noexcept {
    std::uint32_t crc = ~previous;
    for (; data.size() >= kSliceCount; data = data.subspan(kSliceCount))
        crc = take_eight(crc, data.data());
    for (const std::byte next : data) crc = take_byte(crc, next);
    return ~crc;
}

std::uint32_t crc32c(Bytes data, std::uint32_t previous) noexcept {
#ifdef __x86_64__
    return chosen.load(std::memory_order_relaxed)(data, previous);
#else
    return crc32c_portable(data, previous);
#endif
}

}  // namespace compat::core::soft::wire
