// SPDX-License-Identifier: BSD-3-Clause
// What keeps child processes away from the data path without a question in it.
#pragma once

namespace compat::core::verbs {

/// In a child process inherit() is called for each that was inherited, before the program goes on.
/// From then on it must lead all calls to where inherited() is asked.
class Inheritable {
public:
    Inheritable(const Inheritable&) = delete;
    Inheritable& operator=(const Inheritable&) = delete;

    // pthread_atfork(3): the list is whole while the process divides.
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

protected:
    Inheritable() noexcept;
    ~Inheritable();

private:
    /// Not pure: another thread may fork while the object is made or destroyed.
    virtual void inherit() noexcept {}

    Inheritable* previous_ = nullptr;
    Inheritable* next_;
};

}  // namespace compat::core::verbs
