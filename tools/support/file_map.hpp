// SPDX-License-Identifier: BSD-3-Clause
// A file's bytes, read-only.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tools/support/elf_image.hpp"

namespace compat::tools {

class FileMap {
public:
    explicit FileMap(const std::string& path) {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) return;
        struct stat status {};
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
            size_ = static_cast<std::size_t>(status.st_size);
            void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
            if (mapped != MAP_FAILED) address_ = static_cast<const std::byte*>(mapped);
        }
        close(fd);
    }
    ~FileMap() {
        if (address_ != nullptr) munmap(const_cast<std::byte*>(address_), size_);
    }
    FileMap(const FileMap&) = delete;
    FileMap& operator=(const FileMap&) = delete;

    [[nodiscard]] explicit operator bool() const { return address_ != nullptr; }
    [[nodiscard]] Bytes bytes() const { return {address_, address_ != nullptr ? size_ : 0}; }

private:
    const std::byte* address_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace compat::tools
