// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/shm/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <new>
#include <utility>

#include "core/device/soft/mappings.hpp"
#include "core/device/soft/shm/descriptors.hpp"

namespace compat::core::soft::shm {
namespace {

bool is_mapped_file(const struct stat& status, const Mapping& mapping) {
    return S_ISREG(status.st_mode) && status.st_ino == mapping.inode &&
           status.st_dev == makedev(mapping.device_major, mapping.device_minor);
}

bool is_mapped_file(const UniqueFd& file, const Mapping& mapping) {
    struct stat status {};
    return fstat(file.get(), &status) == 0 && is_mapped_file(status, mapping);
}

/// The program has it open still, as a rule; memory without a path (memfd_create(2)) must be.
UniqueFd open_by_descriptor(const Mapping& mapping) {
    UniqueFd found;
    static_cast<void>(any_descriptor([&](int all, const char* name, const struct stat& status) {
        if (!is_mapped_file(status, mapping)) return false;
        UniqueFd file(openat(all, name, O_PATH | O_CLOEXEC));
        if (!file || !is_mapped_file(file, mapping)) return false;
        found = std::move(file);
        return true;
    }));
    return found;
}

UniqueFd open_by_path(const void* address, std::size_t length) {
    const auto mappings = mappings_of(address, length);
    if (!mappings || mappings->size() != 1) return {};
    UniqueFd file(open(mappings->front().path.c_str(), O_PATH | O_CLOEXEC));
    return file && is_mapped_file(file, mappings->front()) ? std::move(file) : UniqueFd();
}

}  // namespace

Backing Files::acquire(const void* address, std::size_t length) noexcept try {
    const auto mapping = shared_mapping_of(address, length);
    if (!mapping) return {};
    const std::uint64_t offset =
        mapping->offset + (reinterpret_cast<std::uintptr_t>(address) - mapping->start);
    const dev_t device = makedev(mapping->device_major, mapping->device_minor);
    const std::lock_guard guard(lock_);
    std::size_t place = held_.size();
    for (std::size_t i = 0; i < held_.size(); ++i) {
        Held& held = held_[i];
        if (held.uses == 0) {
            place = i;
        } else if (held.device == device && held.inode == mapping->inode) {
            ++held.uses;
            return {shown_[i].id, offset};
        }
    }
    if (place == shown_.size()) return {};
    UniqueFd file = open_by_descriptor(*mapping);
    if (!file) file = open_by_path(address, length);
    if (!file) return {};
    if (place == held_.size()) held_.emplace_back();
    return {hold(place, std::move(file), device, mapping->inode), offset};
} catch (const std::bad_alloc&) {
    return {};
}

std::uint64_t Files::hold(std::size_t place, UniqueFd file, dev_t device, ino_t inode) noexcept {
    SharedFile& shown = shown_[place];
    shown.id = next_count_++ << 32 | place;
    shown.device = device;
    shown.inode = inode;
    shown.descriptor = static_cast<std::uint32_t>(file.get());
    held_[place] = {std::move(file), device, inode, 1};
    return shown.id;
}

void Files::release(std::uint64_t id) noexcept {
    if (id == 0) return;
    const std::lock_guard guard(lock_);
    Held& held = held_[place_of_file(id)];
    if (--held.uses != 0) return;
    // The program may have closed what is not its own, and have the number again.
    struct stat status {};
    const bool ours = fstat(held.file.get(), &status) == 0 && status.st_dev == held.device &&
                      status.st_ino == held.inode;
    if (ours)
        held.file.reset();
    else
        (void)held.file.release();
}

}  // namespace compat::core::soft::shm
