// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/origin.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "core/base/log.hpp"

namespace compat::core {
namespace {

constinit std::atomic<unsigned> g_fork_generation{0};
constinit std::atomic<int> g_process_id{0};

void after_fork_in_child() {
    g_process_id.store(0, std::memory_order_relaxed);
    g_fork_generation.fetch_add(1, std::memory_order_relaxed);
}

bool watch_forks() noexcept {
    const int rc = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    if (rc != 0) COMPAT_LOG_ERROR("cannot notice fork(), errno %d", rc);
    return rc == 0;
}

}  // namespace

unsigned fork_generation() noexcept {
    // Not when the library is loaded: a program that never comes here is left alone.
    [[maybe_unused]] static const bool watched = watch_forks();
    return g_fork_generation.load(std::memory_order_relaxed);
}

int process_id() noexcept {
    int pid = g_process_id.load(std::memory_order_relaxed);
    if (pid != 0) [[likely]]
        return pid;
    (void)fork_generation();  // from now on a child forgets it
    pid = getpid();
    g_process_id.store(pid, std::memory_order_relaxed);
    return pid;
}

}  // namespace compat::core
