// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/new_failure.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local int t_left = 0;
thread_local int t_paused = 0;
thread_local bool t_failed = false;

void* allocate(std::size_t size) {
    if (t_paused == 0 && t_left > 0 && --t_left == 0) {
        t_failed = true;
        throw std::bad_alloc();
    }
    if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
    throw std::bad_alloc();
}

}  // namespace

namespace compat::test {

void fail_new(int nth) noexcept {
    t_left = nth;
    t_failed = false;
}
bool new_has_failed() noexcept {
    return t_failed;
}
NewFailurePaused::NewFailurePaused() noexcept {
    ++t_paused;
}
NewFailurePaused::~NewFailurePaused() {
    --t_paused;
}

}  // namespace compat::test

void* operator new(std::size_t size) {
    return allocate(size);
}
void* operator new[](std::size_t size) {
    return allocate(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept try {
    return allocate(size);
} catch (const std::bad_alloc&) {
    return nullptr;
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept try {
    return allocate(size);
} catch (const std::bad_alloc&) {
    return nullptr;
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
