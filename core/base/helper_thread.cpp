// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/helper_thread.hpp"

#include <pthread.h>

#include <csignal>

namespace compat::core {

int start_helper_thread(const char* name, void* (*body)(void*), void* argument) noexcept {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) return error;
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return 0;
}

}  // namespace compat::core
