// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tools/support/file_map.hpp"

namespace compat::tools {
namespace {

const std::string kLink = std::string("/memfd:") + core::kStatisticsName;

class Search {
public:
    explicit Search(std::uint32_t process)
        : process_(process), folder_("/proc/" + std::to_string(process)) {}

    std::optional<core::StatTotals> run(std::string& reason) {
        if (access(folder_.c_str(), F_OK) != 0) {
            reason = "there is no such process";
            return std::nullopt;
        }
        look_at_descriptors();
        if (!found_) look_at_mappings();
        if (found_) return totals_;
        reason = error_ != 0 ? std::strerror(error_)
                             : "it does not use the libraries, or has made no queue yet";
        return std::nullopt;
    }

private:
    void add(Bytes page) {
        core::StatTotals more;
        if (!core::sum_statistics(page, process_, more)) return;
        found_ = true;
        for (std::size_t at = 0; at < core::kStats; ++at) totals_.cells[at] += more.cells[at];
        totals_.incomplete |= more.incomplete;
    }

    /// Any user who may look at the process may do this.
    void look_at_descriptors() {
        const std::string path = folder_ + "/fd";
        DIR* const folder = opendir(path.c_str());
        if (folder == nullptr) {
            error_ = errno;
            return;
        }
        while (const dirent* entry = readdir(folder)) {
            const std::string link = path + "/" + entry->d_name;
            std::array<char, PATH_MAX> target{};
            if (readlink(link.c_str(), target.data(), target.size() - 1) <= 0) continue;
            if (!std::string_view(target.data()).starts_with(kLink)) continue;
            const FileMap page(link);
            add(page.bytes());
        }
        closedir(folder);
    }

    /// A program may have closed all descriptors it did not know. Needs the right to trace it.
    void look_at_mappings() {
        FILE* const maps = std::fopen((folder_ + "/maps").c_str(), "re");
        if (maps == nullptr) return;
        std::array<char, PATH_MAX + 128> line{};
        while (std::fgets(line.data(), line.size(), maps) != nullptr) {
            unsigned long begin = 0;
            unsigned long end = 0;
            if (std::strstr(line.data(), kLink.c_str()) != nullptr &&
                std::sscanf(line.data(), "%lx-%lx", &begin, &end) == 2 && begin < end)
                look_at_memory(begin, end - begin);
        }
        std::fclose(maps);
    }

    void look_at_memory(unsigned long address, std::size_t length) {
        const int memory = open((folder_ + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
        if (memory < 0) {
            error_ = errno;
            return;
        }
        std::vector<std::byte> page(length);
        const ssize_t got = pread(memory, page.data(), length, static_cast<off_t>(address));
        if (got > 0) add(Bytes(page).first(static_cast<std::size_t>(got)));
        close(memory);
    }

    std::uint32_t process_;
    std::string folder_;
    core::StatTotals totals_{};
    bool found_ = false;
    int error_ = 0;
};

}  // namespace

std::optional<core::StatTotals> read_statistics(std::uint32_t process, std::string& reason) {
    return Search(process).run(reason);
}

}  // namespace compat::tools
