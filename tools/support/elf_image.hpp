// SPDX-License-Identifier: BSD-3-Clause
// What the dynamic loader reads of an ELF file, without binutils. The bytes are foreign: anything
// may stand there, and nothing is believed before its place is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compat::tools {

using Bytes = std::span<const std::byte>;

/// The symbol versions that a file wants of a library.
struct VersionNeed {
    std::string library;
    std::vector<std::string> versions;
};

struct ElfImage {
    std::uint8_t file_class = 0;  ///< ELFCLASS32 or ELFCLASS64
    std::uint8_t data = 0;        ///< ELFDATA2LSB or ELFDATA2MSB
    std::uint16_t machine = 0;    ///< EM_X86_64
    // The rest is read of files of this program's own class and byte order.
    bool has_dynamic = false;    ///< the loader has something to do
    bool is_executable = false;  ///< a program, position-independent or not; else a library
    std::string interpreter;     ///< the loader that the kernel starts; empty: none
    std::string soname;
    std::string rpath;    ///< searched before LD_LIBRARY_PATH, unless there is a runpath
    std::string runpath;  ///< searched after it
    std::vector<std::string> needed;
    std::vector<VersionNeed> version_needs;
    std::vector<std::string> versions;  ///< that the file defines

    /// Whether the two are for the same kind of machine.
    [[nodiscard]] bool same_machine(const ElfImage& other) const {
        return file_class == other.file_class && data == other.data && machine == other.machine;
    }
};

bool is_elf(Bytes file) noexcept;

/// Nothing when the file is no ELF file or contradicts itself; reason then says where.
std::optional<ElfImage> read_elf(Bytes file, std::string& reason);

/// The null-terminated texts of the file that have the word in them, each once.
std::vector<std::string> texts_with(Bytes file, std::string_view word);

}  // namespace compat::tools
