// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/mappings.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

#include "core/base/unique_fd.hpp"

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

// PROCMAP_QUERY of <linux/fs.h>, which is newer than the headers that we build with.
struct MapQuery {
    std::uint64_t size = sizeof(MapQuery);
    std::uint64_t flags = 0;  // 0: the mapping that covers the address
    std::uint64_t address = 0;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t rights = 0;
    std::uint64_t page_size = 0;
    std::uint64_t offset = 0;
    std::uint64_t inode = 0;
    std::uint32_t device_major = 0;
    std::uint32_t device_minor = 0;
    std::uint32_t name_size = 0;  // 0: no name wanted
    std::uint32_t build_id_size = 0;
    std::uint64_t name = 0;
    std::uint64_t build_id = 0;
};
constexpr unsigned long kMapQuery = _IOWR('f', 17, MapQuery);
constexpr std::uint64_t kReadable = 1;
constexpr std::uint64_t kWritable = 2;
constexpr std::uint64_t kShared = 8;

/// mappings_allow() by the kernel's direct answer; nothing where there is none.
std::optional<bool> query_allows(std::uintptr_t next, std::uintptr_t end, std::uint64_t rights) {
    const UniqueFd maps(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (!maps) return std::nullopt;
    while (next < end) {
        MapQuery query;
        query.address = next;
        if (ioctl(maps.get(), kMapQuery, &query) != 0) {
            if (errno == ENOENT) return false;
            return std::nullopt;
        }
        if ((query.rights & rights) != rights) return false;
        next = query.end;
    }
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

std::optional<Mapping> shared_mapping_of(const void* address, std::size_t length) noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    const auto usable = [&](bool shared, std::uint64_t end, std::uint64_t inode) {
        return shared && inode != 0 && start + length <= end;
    };
    MapQuery query;
    query.address = start;
    const UniqueFd maps(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (maps && ioctl(maps.get(), kMapQuery, &query) == 0) {
        if (!usable((query.rights & kShared) != 0, query.end, query.inode)) return std::nullopt;
        Mapping mapping;
        mapping.start = query.start;
        mapping.end = query.end;
        mapping.shared = true;
        mapping.offset = query.offset;
        mapping.device_major = query.device_major;
        mapping.device_minor = query.device_minor;
        mapping.inode = query.inode;
        return mapping;
    }
    const auto mappings = mappings_of(address, length);
    if (!mappings || mappings->size() != 1 ||
        !usable(mappings->front().shared, mappings->front().end, mappings->front().inode))
        return std::nullopt;
    return mappings->front();
}

bool mappings_allow(const void* address, std::size_t length, bool write) noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    if (const auto told =
            query_allows(start, start + length, write ? kReadable | kWritable : kReadable))
        return *told;
    const auto mappings = mappings_of(address, length);
    if (!mappings) return true;
    return !mappings->empty() && std::ranges::all_of(*mappings, [&](const Mapping& mapping) {
        return mapping.readable && (!write || mapping.writable);
    });
}

}  // namespace compat::core::soft
