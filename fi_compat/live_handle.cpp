// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/live_handle.hpp"

#include <mutex>

namespace compat::fi {
namespace {

constinit std::mutex g_lock;
constinit LiveHandle* g_first = nullptr;

}  // namespace

LiveHandle::LiveHandle(const struct ::fid* handle) noexcept : handle_(handle) {
    const std::lock_guard guard(g_lock);
    next_ = g_first;
    if (next_ != nullptr) next_->previous_ = this;
    g_first = this;
}

LiveHandle::~LiveHandle() {
    const std::lock_guard guard(g_lock);
    (previous_ != nullptr ? previous_->next_ : g_first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
}

bool LiveHandle::contains(const struct ::fid* handle) noexcept {
    const std::lock_guard guard(g_lock);
    for (const LiveHandle* live = g_first; live != nullptr; live = live->next_)
        if (live->handle_ == handle) return true;
    return false;
}

}  // namespace compat::fi
