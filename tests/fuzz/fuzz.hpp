// SPDX-License-Identifier: BSD-3-Clause
// What a fuzz target is: a program that defines fuzz_one() and seeds(). Under clang libFuzzer calls
// it (fuzzer_main.cpp); in every other build a fixed sequence of mutations does
// (mutating_main.cpp).
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

namespace compat::fuzz {

/// Returns if all is well; ends the program by FUZZ_REQUIRE (or a sanitizer) if not.
void fuzz_one(std::span<const std::byte> input);

/// Inputs to start from, in hexadecimal, spaces allowed.
std::span<const std::string_view> seeds();

}  // namespace compat::fuzz

#define FUZZ_REQUIRE(condition)                                                          \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                \
        }                                                                                \
    } while (0)
