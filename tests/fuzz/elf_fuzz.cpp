// SPDX-License-Identifier: BSD-3-Clause
// What the launcher reads of a program's file, whatever its bytes are.
#include <string>

#include "tests/fuzz/fuzz.hpp"
#include "tests/support/small_elf.hpp"
#include "tools/support/elf_image.hpp"

namespace compat::fuzz {
namespace {

using tools::ElfImage;

constexpr std::size_t kMaxText = 4096;
constexpr std::string_view kSeeds[] = {
    tools::kSmallElf,
    "7f454c4601010100 0000000000000000 0200 0300 01000000",
    "7f454c4602020100 0000000000000000 0002 0016 00000001",
    "6c69626661627269632e736f2e3100",
};

void require_text(const std::string& text) {
    FUZZ_REQUIRE(text.size() < kMaxText);
    FUZZ_REQUIRE(text.find('\0') == text.npos);
}

void check(const ElfImage& image, std::span<const std::byte> input) {
    FUZZ_REQUIRE(tools::is_elf(input));
    require_text(image.interpreter);
    require_text(image.soname);
    require_text(image.rpath);
    require_text(image.runpath);
    for (const std::string& text : image.needed) require_text(text);
    for (const std::string& text : image.versions) require_text(text);
    for (const tools::VersionNeed& need : image.version_needs)
        for (const std::string& text : need.versions) require_text(text);
    if (!image.interpreter.empty()) FUZZ_REQUIRE(image.is_executable);
    if (!image.needed.empty()) FUZZ_REQUIRE(image.has_dynamic);
}

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(std::span<const std::byte> input) {
    constexpr std::string_view kWord = "libfabric.so";
    std::string reason;
    const auto image = tools::read_elf(input, reason);
    FUZZ_REQUIRE(image.has_value() == reason.empty());
    if (image) check(*image, input);
    for (const std::string& text : tools::texts_with(input, kWord)) {
        FUZZ_REQUIRE(text.find(kWord) != text.npos);
        FUZZ_REQUIRE(text.size() <= 2 * kMaxText + kWord.size());
    }
}

}  // namespace compat::fuzz
