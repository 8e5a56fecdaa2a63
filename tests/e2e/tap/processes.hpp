// SPDX-License-Identifier: BSD-3-Clause
// Child programs of a test, each with its standard output in a pipe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/unique_fd.hpp"

namespace compat::test {

class Process {
public:
    /// preload: the value of LD_PRELOAD, none when empty.
    Process(const std::vector<std::string>& command, const std::string& preload);
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process();  ///< kills it when it still runs

    /// The next line of output, without its newline; what there is of it at the end of the output.
    std::string read_line();
    /// Its exit status; 128 + n when signal n ended it.
    int wait();

private:
    pid_t pid_ = -1;
    core::UniqueFd output_;
};

/// A TCP port of 127.0.0.1 that nobody uses just now.
std::string free_port();

}  // namespace compat::test
