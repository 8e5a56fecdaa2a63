// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/mappings.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

namespace compat::core::soft {
namespace {

struct FileCloser {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
struct Line {
    char* text = nullptr;
    std::size_t capacity = 0;
    ~Line() { std::free(text); }
};

// The kernel prints a newline in a path as \012, and nothing else that way.
std::string unescaped(std::string path) {
    for (auto at = path.find("\\012"); at != std::string::npos; at = path.find("\\012", at + 1))
        path.replace(at, 4, "\n");
    return path;
}

bool parse(const char* line, Mapping& mapping) {
    char rights[5] = "";
    int path_at = 0;
    if (std::sscanf(line,
                    "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",  // NOLINT
                    &mapping.start, &mapping.end, rights, &mapping.offset, &mapping.device_major,
                    &mapping.device_minor, &mapping.inode, &path_at) != 7)
        return false;
    mapping.readable = rights[0] == 'r';
    mapping.writable = rights[1] == 'w';
    mapping.shared = rights[3] == 's';
    mapping.path = unescaped(line + path_at);
    if (!mapping.path.empty() && mapping.path.back() == '\n') mapping.path.pop_back();
    return true;
}

}  // namespace

Result<std::vector<Mapping>> mappings_of(const void* address, std::size_t length) noexcept try {
    const std::unique_ptr<std::FILE, FileCloser> file(std::fopen("/proc/self/maps", "re"));
    if (!file) return failure(Errc::device, errno);
    std::vector<Mapping> found;
    auto next = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = next + length;
    Line line;
    Mapping mapping;
    while (next < end && getline(&line.text, &line.capacity, file.get()) > 0) {
        if (!parse(line.text, mapping) || mapping.end <= next) continue;
        if (mapping.start > next) break;
        next = mapping.end;
        found.push_back(mapping);
    }
    if (next < end) found.clear();
    return found;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

}  // namespace compat::core::soft
