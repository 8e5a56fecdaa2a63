// SPDX-License-Identifier: BSD-3-Clause
// Which process an object belongs to.
#pragma once

namespace compat::core {

/// How many fork()s lie between the first process and this one, counted since the first call.
unsigned fork_generation() noexcept;

/// getpid(2) without the system call.
int process_id() noexcept;

/// In which process an object was made. What a child inherits shares sockets, event counts and
/// epoll sets with the parent's original and must leave them alone; and its locks may be held by
/// threads that do not exist in the child.
class Origin {
public:
    [[nodiscard]] bool is_parent() const noexcept { return generation_ != fork_generation(); }

private:
    unsigned generation_ = fork_generation();
};

}  // namespace compat::core
