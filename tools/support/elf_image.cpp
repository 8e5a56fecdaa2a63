// SPDX-License-Identifier: BSD-3-Clause
#include "tools/support/elf_image.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

namespace compat::tools {
namespace {

constexpr std::size_t kMaxEntries = 65536;  ///< of any list
constexpr std::size_t kMaxText = 4096;      ///< the longest path or name

// The loader of a process reads files of its own kind only, and so do we.
using Header = std::conditional_t<sizeof(void*) == 8, Elf64_Ehdr, Elf32_Ehdr>;
using Segment = std::conditional_t<sizeof(void*) == 8, Elf64_Phdr, Elf32_Phdr>;
using Dynamic = std::conditional_t<sizeof(void*) == 8, Elf64_Dyn, Elf32_Dyn>;
using Need = Elf64_Verneed;  // the version records are the same in both classes
using NeedVersion = Elf64_Vernaux;
using Definition = Elf64_Verdef;
using DefinitionName = Elf64_Verdaux;
constexpr std::uint8_t kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr std::uint8_t kOwnData =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

/// What is wrong with a file.
struct Malformed {
    const char* what;
};

template <class Object>
Object object_at(Bytes file, std::uint64_t offset, const char* what) {
    static_assert(std::is_trivially_copyable_v<Object>);
    if (offset > file.size() || file.size() - offset < sizeof(Object)) throw Malformed{what};
    Object object;
    std::memcpy(&object, file.data() + offset, sizeof object);
    return object;
}

std::string text_at(Bytes file, std::uint64_t offset, const char* what) {
    if (offset >= file.size()) throw Malformed{what};
    const char* const text = reinterpret_cast<const char*>(file.data()) + offset;
    const std::size_t longest = std::min<std::size_t>(file.size() - offset, kMaxText);
    const std::size_t length = strnlen(text, longest);
    if (length == longest) throw Malformed{what};
    return {text, length};
}

class Reader {
public:
    explicit Reader(Bytes file) : file_(file) {}

    ElfImage read() {
        read_identity();
        if (image_.file_class != kOwnClass || image_.data != kOwnData) return image_;
        read_segments();
        if (dynamic_) read_dynamic(*dynamic_);
        return image_;
    }

private:
    void read_identity() {
        if (!is_elf(file_)) throw Malformed{"no ELF file"};
        image_.file_class = std::to_integer<std::uint8_t>(file_[EI_CLASS]);
        image_.data = std::to_integer<std::uint8_t>(file_[EI_DATA]);
        // e_type and e_machine are at the same place in all four kinds
        const auto pair = object_at<std::array<std::uint16_t, 2>>(file_, EI_NIDENT, "ELF header");
        image_.machine = image_.data == kOwnData
                             ? pair[1]
                             : static_cast<std::uint16_t>(pair[1] << 8 | pair[1] >> 8);
    }

    void read_segments() {
        const auto header = object_at<Header>(file_, 0, "ELF header");
        image_.is_executable = header.e_type == ET_EXEC;
        if (header.e_phnum != 0 && header.e_phentsize != sizeof(Segment))
            throw Malformed{"size of program headers"};
        for (std::size_t at = 0; at < header.e_phnum; ++at) {
            const std::uint64_t offset = header.e_phoff + at * sizeof(Segment);
            const auto segment = object_at<Segment>(file_, offset, "program headers");
            if (segment.p_type == PT_LOAD) loads_.push_back(segment);
            if (segment.p_type == PT_DYNAMIC) dynamic_ = segment;
            if (segment.p_type == PT_INTERP)
                image_.interpreter = text_at(file_, segment.p_offset, "name of the loader");
        }
        image_.has_dynamic = dynamic_.has_value();
        if (!image_.interpreter.empty()) image_.is_executable = true;
    }

    /// Where in the file the byte is that is loaded to an address.
    [[nodiscard]] std::uint64_t offset_of(std::uint64_t address) const {
        for (const Segment& load : loads_)
            if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz)
                return load.p_offset + (address - load.p_vaddr);
        throw Malformed{"an address that no segment has"};
    }

    void read_dynamic(const Segment& segment) {
        std::vector<Dynamic> entries;
        for (std::uint64_t at = 0; at + sizeof(Dynamic) <= segment.p_filesz;
             at += sizeof(Dynamic)) {
            const auto entry = object_at<Dynamic>(file_, segment.p_offset + at, "dynamic section");
            if (entry.d_tag == DT_NULL || entries.size() == kMaxEntries) break;
            entries.push_back(entry);
            if (entry.d_tag == DT_STRTAB) strings_ = entry.d_un.d_ptr;
            if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0)
                image_.is_executable = true;
        }
        const auto value_of = [&](auto tag) -> std::uint64_t {
            const auto found = std::ranges::find(entries, tag, &Dynamic::d_tag);
            return found != entries.end() ? found->d_un.d_val : 0;
        };
        for (const Dynamic& entry : entries) read_entry(entry);
        read_needs(value_of(DT_VERNEED), value_of(DT_VERNEEDNUM));
        read_definitions(value_of(DT_VERDEF), value_of(DT_VERDEFNUM));
    }

    void read_entry(const Dynamic& entry) {
        switch (entry.d_tag) {
            case DT_NEEDED: image_.needed.push_back(string(entry.d_un.d_val)); break;
            case DT_SONAME: image_.soname = string(entry.d_un.d_val); break;
            case DT_RPATH: image_.rpath = string(entry.d_un.d_val); break;
            case DT_RUNPATH: image_.runpath = string(entry.d_un.d_val); break;
            default: break;
        }
    }

    [[nodiscard]] std::string string(std::uint64_t offset) const {
        return text_at(file_, offset_of(strings_) + offset, "a name");
    }

    void read_needs(std::uint64_t address, std::uint64_t count) {
        if (address == 0) return;
        std::uint64_t at = offset_of(address);
        for (std::uint64_t n = 0; n < std::min<std::uint64_t>(count, kMaxEntries); ++n) {
            const auto need = object_at<Need>(file_, at, "needed versions");
            VersionNeed& own =
                image_.version_needs.emplace_back(VersionNeed{string(need.vn_file), {}});
            std::uint64_t next = at + need.vn_aux;
            for (unsigned v = 0; v < need.vn_cnt; ++v) {
                const auto version = object_at<NeedVersion>(file_, next, "needed versions");
                // without a weak one the loader goes on
                if ((version.vna_flags & VER_FLG_WEAK) == 0)
                    own.versions.push_back(string(version.vna_name));
                if (version.vna_next == 0) break;
                next += version.vna_next;
                count_entry();
            }
            if (need.vn_next == 0) break;
            at += need.vn_next;
            count_entry();
        }
    }

    void read_definitions(std::uint64_t address, std::uint64_t count) {
        if (address == 0) return;
        std::uint64_t at = offset_of(address);
        for (std::uint64_t n = 0; n < std::min<std::uint64_t>(count, kMaxEntries); ++n) {
            const auto definition = object_at<Definition>(file_, at, "defined versions");
            const auto name =
                object_at<DefinitionName>(file_, at + definition.vd_aux, "defined versions");
            // the first one is the file itself
            if ((definition.vd_flags & VER_FLG_BASE) == 0)
                image_.versions.push_back(string(name.vda_name));
            if (definition.vd_next == 0) break;
            at += definition.vd_next;
            count_entry();
        }
    }

    /// Lists may share their records in a file that was made to; the sum is bounded too.
    void count_entry() {
        if (++entries_ > kMaxEntries) throw Malformed{"too many versions"};
    }

    Bytes file_;
    ElfImage image_;
    std::vector<Segment> loads_;
    std::optional<Segment> dynamic_;
    std::uint64_t strings_ = 0;
    std::size_t entries_ = 0;
};

}  // namespace

bool is_elf(Bytes file) noexcept {
    return file.size() > EI_NIDENT && std::memcmp(file.data(), ELFMAG, SELFMAG) == 0;
}

std::optional<ElfImage> read_elf(Bytes file, std::string& reason) try {
    return Reader(file).read();
} catch (const Malformed& malformed) {
    reason = malformed.what;
    return std::nullopt;
}

std::vector<std::string> texts_with(Bytes file, std::string_view word) {
    std::vector<std::string> texts;
    const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
    const auto is_text = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; };
    for (std::size_t at = all.find(word); at != all.npos; at = all.find(word, at + word.size())) {
        std::size_t begin = at;
        while (begin > 0 && at - begin < kMaxText && is_text(all[begin - 1])) --begin;
        std::size_t end = at + word.size();
        while (end < all.size() && end - at < kMaxText && is_text(all[end])) ++end;
        std::string text(all.substr(begin, end - begin));
        if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
    }
    return texts;
}

}  // namespace compat::tools
