// SPDX-License-Identifier: BSD-3-Clause
#include "tools/support/elf_image.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "tests/fuzz/seed_bytes.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/small_elf.hpp"
#include "tools/support/file_map.hpp"

namespace compat::tools {
namespace {

std::vector<std::byte> small_elf() {
    return fuzz::seed_bytes(kSmallElf);
}

using Texts = std::vector<std::string>;

void every_part_of_a_file_is_read(void**) {
    const std::vector<std::byte> bytes = small_elf();
    std::string reason;
    const auto image = read_elf(bytes, reason);
    assert_true(image.has_value());
    assert_int_equal(image->file_class, ELFCLASS64);
    assert_int_equal(image->data, ELFDATA2LSB);
    assert_int_equal(image->machine, EM_X86_64);
    assert_true(image->has_dynamic);
    assert_true(image->is_executable);
    assert_string_equal(image->interpreter.c_str(), "/lib64/ld-linux-x86-64.so.2");
    assert_string_equal(image->soname.c_str(), "libown.so.2");
    assert_string_equal(image->rpath.c_str(), "/opt/lib");
    assert_string_equal(image->runpath.c_str(), "$ORIGIN/../lib");
    assert_true(image->needed == Texts{"libfabric.so.1"});
    assert_true(image->versions == Texts{"OWN_1"});
    assert_int_equal(image->version_needs.size(), 1);
    assert_string_equal(image->version_needs[0].library.c_str(), "libfabric.so.1");
    assert_true(image->version_needs[0].versions == Texts{"FABRIC_1.0"});
}

void every_shorter_file_is_refused_with_a_reason(void**) {
    const std::vector<std::byte> bytes = small_elf();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        std::string reason;
        assert_false(read_elf(Bytes(bytes).first(length), reason).has_value());
        assert_false(reason.empty());
    }
}

void a_file_of_another_class_is_read_up_to_its_machine(void**) {
    std::vector<std::byte> bytes = small_elf();
    bytes[EI_CLASS] = std::byte{ELFCLASS32};
    bytes.resize(EI_NIDENT + 4);
    std::string reason;
    const auto image = read_elf(bytes, reason);
    assert_true(image.has_value());
    assert_int_equal(image->file_class, ELFCLASS32);
    assert_int_equal(image->machine, EM_X86_64);
    assert_false(image->has_dynamic);
    std::swap(bytes[18], bytes[19]);
    bytes[EI_DATA] = std::byte{ELFDATA2MSB};
    assert_int_equal(read_elf(bytes, reason)->machine, EM_X86_64);
}

void a_wrong_number_anywhere_gets_an_answer(void**) {
    const std::vector<std::byte> bytes = small_elf();
    for (const int value : {0x00, 0x01, 0x7f, 0xff}) {
        for (std::size_t at = 0; at + 4 <= bytes.size(); ++at) {
            std::vector<std::byte> changed = bytes;
            std::memset(changed.data() + at, value, 4);
            std::string reason;
            const bool read = read_elf(changed, reason).has_value();
            assert_true(read == reason.empty());
        }
    }
}

void texts_with_a_word_are_found_whole_and_once(void**) {
    static constexpr char kBytes[] =
        "\1/usr/lib/libfabric.so.1\0libfabric.so\0libfabric.so\0\n%s: libfabric.so.1 is not here";
    const Bytes bytes = std::as_bytes(std::span(kBytes));
    assert_true(
        texts_with(bytes, "libfabric.so") ==
        (Texts{"/usr/lib/libfabric.so.1", "libfabric.so", "%s: libfabric.so.1 is not here"}));
    assert_true(texts_with(bytes, "librpma.so").empty());
    assert_true(texts_with({}, "x").empty());
}

void this_program_reads_itself(void**) {
    const FileMap self("/proc/self/exe");
    assert_true(static_cast<bool>(self));
    std::string reason;
    const auto image = read_elf(self.bytes(), reason);
    assert_true(image.has_value());
    assert_true(image->is_executable);
    assert_true(std::ranges::find(image->needed, "libc.so.6") != image->needed.end());
    const auto libc = std::ranges::find(image->version_needs, "libc.so.6", &VersionNeed::library);
    assert_true(libc != image->version_needs.end());
    assert_true(libc->versions[0].starts_with("GLIBC_"));
    assert_false(static_cast<bool>(FileMap("/proc/self/no-such-file")));
    assert_false(static_cast<bool>(FileMap("/")));
}

}  // namespace
}  // namespace compat::tools

int main() {
    using namespace compat::tools;
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_a_file_is_read),
        cmocka_unit_test(every_shorter_file_is_refused_with_a_reason),
        cmocka_unit_test(a_file_of_another_class_is_read_up_to_its_machine),
        cmocka_unit_test(a_wrong_number_anywhere_gets_an_answer),
        cmocka_unit_test(texts_with_a_word_are_found_whole_and_once),
        cmocka_unit_test(this_program_reads_itself),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
