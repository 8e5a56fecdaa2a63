// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace compat::core {

/// The same pointer, but the compiler does not know it. Members named through it after a call are
/// found from the object; else it would compute their addresses before the call and keep each in a
/// register that has to be saved.
template <class Object>
inline Object* opaque(Object* object) noexcept {
    asm("" : "+r"(object));
    return object;
}

}  // namespace compat::core
