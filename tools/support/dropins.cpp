// SPDX-License-Identifier: BSD-3-Clause
#include "tools/support/dropins.hpp"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string_view>

namespace compat::tools {

std::string find_dropins() {
    std::array<char, PATH_MAX> self{};
    const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
    if (length <= 0) return {};
    const std::string_view path(self.data(), static_cast<std::size_t>(length));
    const std::string folder(path.substr(0, path.rfind('/')));
    // the build tree has lib/, whatever the installed one will have
    for (const char* libraries : {COMPAT_LIBDIR_FROM_BINDIR, "../lib"}) {
        const std::string candidate = folder + "/" + libraries + "/fabric-compat";
        std::array<char, PATH_MAX> real{};
        if (realpath(candidate.c_str(), real.data()) != nullptr) return real.data();
    }
    return {};
}

}  // namespace compat::tools
