// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/persistence.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/soft/mappings.hpp"
#include "core/device/soft/user_memory.hpp"

#ifdef COMPAT_HAVE_PMEM2
#include <libpmem2.h>
#endif

namespace compat::core::soft {
namespace {

// File systems whose pages are all there is: msync(2) succeeds on them and saves nothing.
struct MemoryFileSystem {
    long magic;        // statfs(2)
    const char* name;  // /proc/self/mountinfo
};
constexpr std::array kMemoryFileSystems{
    MemoryFileSystem{TMPFS_MAGIC, "tmpfs"},
    MemoryFileSystem{TMPFS_MAGIC, "devtmpfs"},
    MemoryFileSystem{RAMFS_MAGIC, "ramfs"},
    MemoryFileSystem{HUGETLBFS_MAGIC, "hugetlbfs"},
};

bool lives_in_memory(long magic) {
    return std::any_of(kMemoryFileSystems.begin(), kMemoryFileSystems.end(),
                       [&](const MemoryFileSystem& fs) { return fs.magic == magic; });
}
bool lives_in_memory(std::string_view name) {
    return std::any_of(kMemoryFileSystems.begin(), kMemoryFileSystems.end(),
                       [&](const MemoryFileSystem& fs) { return fs.name == name; });
}

/// libpmem2(7): the operator vouches for the memory, or a test pretends.
bool declared_persistent() {
    const char* granularity = std::getenv("PMEM2_FORCE_GRANULARITY");
    return granularity != nullptr && *granularity != '\0';
}

/// Whether the path still leads to the mapped file. btrfs and overlayfs show another device
/// number in stat(2) than in the mapping, so it counts only where strict asks for it.
bool is_mapped_file(const struct stat& status, const Mapping& mapping, bool strict) {
    if (status.st_ino != mapping.inode) return false;
    return !strict || status.st_dev == makedev(mapping.device_major, mapping.device_minor);
}

/// For a file without a path (deleted, replaced): the type of the mounted file system with its
/// device number. What the kernel mounted for itself (memfd, shared anonymous memory) is not there.
bool mounted_on_disk(const Mapping& mapping) {
    std::FILE* mounts = std::fopen("/proc/self/mountinfo", "re");
    if (mounts == nullptr) return false;
    bool found = false;
    char* line = nullptr;
    std::size_t capacity = 0;
    while (!found && getline(&line, &capacity, mounts) > 0) {
        unsigned device_major = 0;
        unsigned device_minor = 0;
        char type[64] = "";
        const char* after_options = std::strstr(line, " - ");
        if (after_options == nullptr || std::sscanf(after_options, " - %63s", type) != 1 ||
            std::sscanf(line, "%*u %*u %u:%u", &device_major, &device_minor) != 2)
            continue;
        found = device_major == mapping.device_major && device_minor == mapping.device_minor &&
                !lives_in_memory(std::string_view(type));
    }
    std::free(line);
    std::fclose(mounts);
    return found;
}

bool on_durable_file_system(const Mapping& mapping) {
    struct stat status {};
    struct statfs fs {};
    if (stat(mapping.path.c_str(), &status) == 0 && is_mapped_file(status, mapping, false) &&
        statfs(mapping.path.c_str(), &fs) == 0)
        return !lives_in_memory(static_cast<long>(fs.f_type));
    return mounted_on_disk(mapping);
}

class MsyncPersister final : public Persister {
public:
    Status persist(std::byte* address, std::size_t length) noexcept override {
        static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        const auto start = reinterpret_cast<std::uintptr_t>(address) & ~(page - 1);
        const std::size_t bytes = reinterpret_cast<std::uintptr_t>(address) + length - start;
        if (length == 0 || msync(reinterpret_cast<void*>(start), bytes, MS_SYNC) == 0) return {};
        return failure(Errc::device, errno);
    }
};

#ifdef COMPAT_HAVE_PMEM2

/// Descriptors of mapped files, one a file, which are never closed: the program would lose its
/// record locks (fcntl(2)) on a file with the first descriptor of it that anybody here closes.
class KeptFiles {
public:
    /// The file at that path if it is the mapped one; else -1.
    int open(const char* path, const Mapping& mapping) {
        // To look at a file by this descriptor and close it again costs no locks.
        const UniqueFd look(::open(path, O_PATH | O_CLOEXEC));
        struct stat status {};
        if (!look || fstat(look.get(), &status) != 0 || !is_mapped_file(status, mapping, true))
            return -1;
        const std::lock_guard guard(lock_);
        // The program may have closed what is not its own.
        std::erase_if(files_, [](const File& file) { return !is_still(file); });
        for (const File& file : files_)
            if (file.device == status.st_dev && file.inode == status.st_ino) return file.fd;
        files_.reserve(files_.size() + 1);
        char again[32];
        std::snprintf(again, sizeof again, "/proc/self/fd/%d", look.get());
        const int fd = ::open(again, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0) files_.push_back({status.st_dev, status.st_ino, fd});
        return fd;
    }

private:
    struct File {
        dev_t device;
        ino_t inode;
        int fd;
    };
    static bool is_still(const File& file) {
        struct stat status {};
        return fstat(file.fd, &status) == 0 && status.st_dev == file.device &&
               status.st_ino == file.inode;
    }

    std::mutex lock_;
    std::vector<File> files_;
};

KeptFiles& kept_files() {
    static KeptFiles& files = *new KeptFiles;  // never destroyed
    return files;
}

/// The program may have the file open still, under another name or none.
int open_by_descriptor(const Mapping& mapping) {
    DIR* directory = opendir("/proc/self/fd");
    if (directory == nullptr) return -1;
    int fd = -1;
    while (const dirent* entry = readdir(directory)) {
        char* end = nullptr;
        const auto number = static_cast<int>(std::strtol(entry->d_name, &end, 10));
        struct stat status {};
        if (*end != '\0' || fstat(number, &status) != 0 || !is_mapped_file(status, mapping, true))
            continue;
        char path[32];
        std::snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        fd = kept_files().open(path, mapping);
        break;
    }
    closedir(directory);
    return fd;
}

/// Whether the program mapped the range with MAP_SYNC: only then does a flush of the CPU caches
/// save what the file system knows about newly allocated blocks.
bool mapped_sync(const Mapping& mapping) {
    std::FILE* details = std::fopen("/proc/self/smaps", "re");
    if (details == nullptr) return false;
    bool inside = false;
    bool sync = false;
    char* line = nullptr;
    std::size_t capacity = 0;
    while (getline(&line, &capacity, details) > 0) {
        unsigned long start = 0;
        unsigned long end = 0;
        if (std::sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            if (inside) break;
            inside = start <= mapping.start && mapping.start < end;
        } else if (inside && std::strncmp(line, "VmFlags:", 8) == 0) {
            sync = std::strstr(line, " sf") != nullptr;
        }
    }
    std::free(line);
    std::fclose(details);
    return sync;
}

struct ConfigDeleter {
    void operator()(pmem2_config* config) const noexcept { pmem2_config_delete(&config); }
};
struct SourceDeleter {
    void operator()(pmem2_source* source) const noexcept { pmem2_source_delete(&source); }
};
struct MapDeleter {
    void operator()(pmem2_map* map) const noexcept { pmem2_map_delete(&map); }
};
template <class Object, class Deleter>
struct Pmem2Handle : std::unique_ptr<Object, Deleter> {
    template <class New, class... Arguments>
    bool create(New* function, Arguments... arguments) noexcept {
        Object* object = nullptr;
        const bool good = function(&object, arguments...) == 0;
        this->reset(object);
        return good;
    }
};
using Config = Pmem2Handle<pmem2_config, ConfigDeleter>;
using Source = Pmem2Handle<pmem2_source, SourceDeleter>;
using Map = std::unique_ptr<pmem2_map, MapDeleter>;

/// Flushes CPU caches by the program's own addresses: the caches do not care through which mapping
/// a line was written. The libpmem2 mapping of the file only says how, and that it is allowed.
class CachePersister final : public Persister {
public:
    explicit CachePersister(Map map) noexcept
        : map_(std::move(map)), persist_(pmem2_get_persist_fn(map_.get())) {}
    Status persist(std::byte* address, std::size_t length) noexcept override {
        // A CPU flushes no line of memory that is gone; msync(2) would say so by itself.
        if (!user_memory_allows(address, length, false)) return failure(Errc::device, EFAULT);
        persist_(address, length);
        return {};
    }

private:
    Map map_;
    pmem2_persist_fn persist_;
};

/// A mapping of libpmem2's own over the file; null unless its granularity is CACHE_LINE or finer.
/// Not pmem2_map_from_existing(): it fails for a range that the program mapped with libpmem2.
Map map_with_cache_granularity(const Mapping& mapping) {
    int fd = kept_files().open(mapping.path.c_str(), mapping);
    if (fd < 0) fd = open_by_descriptor(mapping);
    Config config;
    Source source;
    pmem2_map* map = nullptr;
    if (fd < 0 || !config.create(pmem2_config_new) || !source.create(pmem2_source_from_fd, fd) ||
        pmem2_config_set_required_store_granularity(config.get(), PMEM2_GRANULARITY_CACHE_LINE) !=
            0 ||
        pmem2_map_new(&map, config.get(), source.get()) != 0)
        return {};
    return Map(map);
}

std::unique_ptr<Persister> find_cache_persister(const std::vector<Mapping>& mappings) {
    // All parts must allow it; then the function of any of them serves all.
    Map map;
    for (const Mapping& mapping : mappings) {
        if (!declared_persistent() && !mapped_sync(mapping)) return nullptr;
        map = map_with_cache_granularity(mapping);
        if (!map) return nullptr;
    }
    return std::make_unique<CachePersister>(std::move(map));
}

#else

std::unique_ptr<Persister> find_cache_persister(const std::vector<Mapping>&) {
    return nullptr;
}

#endif

}  // namespace

std::unique_ptr<Persister> find_persister(std::byte* address, std::size_t length) noexcept try {
    const auto mappings = mappings_of(address, length);
    if (!mappings || mappings->empty()) return nullptr;
    for (const Mapping& mapping : *mappings) {
        const bool shared_file = mapping.shared && mapping.inode != 0;
        if (!shared_file || (!declared_persistent() && !on_durable_file_system(mapping))) {
            COMPAT_LOG_INFO("memory at %p is not persistent: mapping of '%s'",
                            static_cast<void*>(address), mapping.path.c_str());
            return nullptr;
        }
    }
    if (auto persister = find_cache_persister(*mappings)) return persister;
    return std::make_unique<MsyncPersister>();
} catch (const std::bad_alloc&) {
    return nullptr;
}

}  // namespace compat::core::soft
