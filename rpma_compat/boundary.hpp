// SPDX-License-Identifier: BSD-3-Clause
// The interface this room implements, and the guard every function of it passes through.
#pragma once

#include <cstring>
#include <new>

#include "core/core.hpp"

// The project hides every symbol but those that upstream's header declares.
#pragma GCC visibility push(default)
#include "include/librpma.h"
#pragma GCC visibility pop

namespace compat::rpma {

constexpr int kSuccess = 0;

/// The number in an enum that came from a program: in C that may be any int, and to read one that
/// is no value of the enum is undefined in C++.
template <class Enum>
int number_of(const Enum& value) noexcept {
    static_assert(sizeof(Enum) == sizeof(int));
    int number = 0;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

template <class Body>
int without_exceptions(Body&& body) noexcept try {
    return body();
} catch (const std::bad_alloc&) {
    return RPMA_E_NOMEM;
} catch (...) {
    return RPMA_E_UNKNOWN;
}

/// Runs the body of an exported function; no exception leaves it. Then the program's log function
/// gets what the core has said meanwhile.
template <class Body>
int c_boundary(Body&& body) noexcept {
    const int result = without_exceptions(body);
    core::deliver_log();
    return result;
}

/// The *_delete functions of objects that need nothing but to be freed.
template <class Object>
int delete_object(Object** object) noexcept {
    if (object == nullptr) return RPMA_E_INVAL;
    delete *object;
    *object = nullptr;
    core::deliver_log();
    return kSuccess;
}

}  // namespace compat::rpma
