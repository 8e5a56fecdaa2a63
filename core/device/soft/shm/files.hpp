// SPDX-License-Identifier: BSD-3-Clause
// The owner's side of mapped copies: the files behind the regions that it shows.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/device/soft/shm/layout.hpp"

namespace compat::core::soft::shm {

/// A range of a file; id 0: none.
struct Backing {
    std::uint64_t id = 0;
    std::uint64_t offset = 0;
};

/// Held by descriptors of the kind that can be closed without the program losing its record locks
/// (O_PATH); a file whose descriptor the program has closed already is found by its path only.
class Files {
public:
    explicit Files(std::span<SharedFile> shown) noexcept : shown_(shown) {}
    /// What is mapped at an address; none where peers cannot map the same.
    Backing acquire(const void* address, std::size_t length) noexcept;
    void release(std::uint64_t id) noexcept;

private:
    struct Held {
        UniqueFd file;
        dev_t device = 0;
        ino_t inode = 0;
        std::size_t uses = 0;
    };
    std::uint64_t hold(std::size_t place, UniqueFd file, dev_t device, ino_t inode) noexcept;

    const std::span<SharedFile> shown_;
    std::mutex lock_;
    std::vector<Held> held_;  ///< by place
    std::uint64_t next_count_ = 1;
};

}  // namespace compat::core::soft::shm
