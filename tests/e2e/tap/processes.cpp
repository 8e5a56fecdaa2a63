// SPDX-License-Identifier: BSD-3-Clause
#include "tests/e2e/tap/processes.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace compat::test {

Process::Process(const std::vector<std::string>& command, const std::string& preload) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    output_.reset(ends[0]);
    const core::UniqueFd child_end(ends[1]);
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(child_end.get(), STDOUT_FILENO);
    if (preload.empty())
        unsetenv("LD_PRELOAD");
    else
        setenv("LD_PRELOAD", preload.c_str(), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
}

Process::~Process() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

std::string Process::read_line() {
    std::string line;
    char next = 0;
    while (read(output_.get(), &next, 1) == 1 && next != '\n') line += next;
    return line;
}

int Process::wait() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return 127;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string free_port() {
    const core::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return "0";
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return std::to_string(ntohs(address.sin_port));
}

}  // namespace compat::test
