// SPDX-License-Identifier: BSD-3-Clause
// The descriptors of this process. Other threads open and close theirs meanwhile: they are looked
// at by name, as /proc has them.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <optional>

namespace compat::core::soft::shm {

struct DirectoryCloser {
    void operator()(DIR* directory) const noexcept { closedir(directory); }
};

/// Whether look(directory, name, status) says so of any; nothing where they cannot be listed.
template <class Look>
std::optional<bool> any_descriptor(const Look& look) {
    const std::unique_ptr<DIR, DirectoryCloser> directory(opendir("/proc/self/fd"));
    if (!directory) return std::nullopt;
    const int all = dirfd(directory.get());
    while (const dirent* entry = readdir(directory.get())) {
        struct stat status {};
        if (fstatat(all, entry->d_name, &status, 0) == 0 && look(all, entry->d_name, status))
            return true;
    }
    return false;
}

}  // namespace compat::core::soft::shm
