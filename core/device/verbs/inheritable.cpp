// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/inheritable.hpp"

#include <mutex>

namespace compat::core::verbs {
namespace {

constinit std::mutex g_lock;  // the last to be taken
constinit Inheritable* g_first = nullptr;

}  // namespace

Inheritable::Inheritable() noexcept {
    const std::lock_guard guard(g_lock);
    next_ = g_first;
    if (next_ != nullptr) next_->previous_ = this;
    g_first = this;
}

Inheritable::~Inheritable() {
    const std::lock_guard guard(g_lock);
    (previous_ != nullptr ? previous_->next_ : g_first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
}

void Inheritable::before_fork() noexcept {
    g_lock.lock();
}

void Inheritable::after_fork_in_parent() noexcept {
    g_lock.unlock();
}

void Inheritable::after_fork_in_child() noexcept {
    for (Inheritable* one = g_first; one != nullptr; one = one->next_) one->inherit();
    g_lock.unlock();
}

}  // namespace compat::core::verbs
