// SPDX-License-Identifier: BSD-3-Clause
#include "tools/launcher/loader_trace.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "tools/support/file_map.hpp"

extern char** environ;

namespace compat::tools {
namespace {

std::string read_all(int fd) {
    std::string text;
    std::array<char, 4096> part;
    for (;;) {
        const ssize_t got = read(fd, part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
}

/// What a command writes, and its status; empty and -1 when it does not start.
int output_of(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              std::string& text) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::vector<char*> variables;
    for (const std::string& word : environment)
        variables.push_back(const_cast<char*>(word.c_str()));
    variables.push_back(nullptr);

    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    pid_t child = -1;
    const int error = posix_spawn(&child, command[0].c_str(), &actions, nullptr, arguments.data(),
                                  variables.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) text = read_all(ends[0]);
    close(ends[0]);
    if (error != 0) return -1;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::string> environment_with(const std::string& library_path,
                                          const std::string& preload) {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string_view text(*variable);
        if (!text.starts_with("LD_")) variables.emplace_back(text);
    }
    if (!library_path.empty()) variables.push_back("LD_LIBRARY_PATH=" + library_path);
    if (!preload.empty()) variables.push_back("LD_PRELOAD=" + preload);
    return variables;
}

/// "\tlibm.so.6 => /lib/libm.so.6 (0x00007f…)", "\t/lib/x.so (0x…)"
void add_line(std::string_view line, std::vector<Loaded>& objects) {
    constexpr std::string_view kArrow = " => ";
    if (!line.starts_with('\t')) return;
    line.remove_prefix(1);
    line = line.substr(0, line.rfind(" (0x"));
    const std::size_t arrow = line.find(kArrow);
    const std::string_view name = line.substr(0, arrow);
    const std::string_view path = arrow == line.npos ? name : line.substr(arrow + kArrow.size());
    objects.push_back({std::string(name), std::string(path)});
}

}  // namespace

std::string own_loader() {
    const FileMap self("/proc/self/exe");
    std::string reason;
    const auto image = read_elf(self.bytes(), reason);
    return image ? image->interpreter : std::string();
}

bool trace(const std::string& loader, const std::string& path, const std::string& library_path,
           const std::string& preload, std::vector<Loaded>& objects) {
    std::string text;
    const int status =
        output_of({loader, "--list", path}, environment_with(library_path, preload), text);
    objects.clear();
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        add_line(std::string_view(text).substr(begin, end - begin), objects);
        begin = end + 1;
    }
    if (!objects.empty()) return true;
    if (status == 0) return true;
    // "PROGRAM: error while loading shared libraries: libx.so: cannot open shared object file: …"
    constexpr std::string_view kPreamble = "error while loading shared libraries: ";
    const std::size_t preamble = text.find(kPreamble);
    if (preamble != text.npos) text.erase(0, preamble + kPreamble.size());
    objects.push_back({text.substr(0, text.find('\n')), ""});
    return false;
}

}  // namespace compat::tools
