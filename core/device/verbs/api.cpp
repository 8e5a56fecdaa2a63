// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/api.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>

#include "core/base/log.hpp"
#include "core/device/verbs/inheritable.hpp"

namespace compat::core::verbs {

constinit Api g_api;
constinit std::atomic<bool> g_inherited{false};

namespace {

constexpr const char* kVerbs = "libibverbs.so.1";
constexpr const char* kRdmaCm = "librdmacm.so.1";

/// A process that has no use for them is spared the libraries: no device, and nobody else in the
/// process has loaded them either.
bool worth_loading() noexcept {
    if (void* loaded = dlopen(kVerbs, RTLD_LAZY | RTLD_NOLOAD)) {
        dlclose(loaded);
        return true;
    }
    DIR* const devices = opendir("/sys/class/infiniband");
    if (devices == nullptr) return false;
    bool found = false;
    while (const dirent* one = readdir(devices)) found |= one->d_name[0] != '.';
    closedir(devices);
    return found;
}

/// Never closed: what they start lives as long as the process.
void* open_library(const char* name) noexcept {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) COMPAT_LOG_NOTICE("no RDMA devices: %s", dlerror());
    return library;
}

template <class Function>
bool find(void* library, const char* name, Function*& function) noexcept {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) COMPAT_LOG_WARNING("no RDMA devices: %s", dlerror());
    return function != nullptr;
}

void after_fork_in_child() {
    g_inherited.store(true, std::memory_order_relaxed);
    Inheritable::after_fork_in_child();
}

bool load() noexcept {
    if (!worth_loading()) return false;
    void* const verbs_library = open_library(kVerbs);
    void* const cm_library = verbs_library != nullptr ? open_library(kRdmaCm) : nullptr;
    if (cm_library == nullptr) return false;
    bool complete = true;
#define COMPAT_FIND_VERBS(function) complete &= find(verbs_library, #function, g_api.function);
#define COMPAT_FIND_RDMACM(function) complete &= find(cm_library, #function, g_api.function);
    COMPAT_VERBS_FUNCTIONS(COMPAT_FIND_VERBS)
    COMPAT_RDMACM_FUNCTIONS(COMPAT_FIND_RDMACM)
#undef COMPAT_FIND_VERBS
#undef COMPAT_FIND_RDMACM
    return complete && pthread_atfork(Inheritable::before_fork, Inheritable::after_fork_in_parent,
                                      after_fork_in_child) == 0;
}

}  // namespace

bool load_api() noexcept {
    static const bool loaded = load();
    return loaded;
}

}  // namespace compat::core::verbs
