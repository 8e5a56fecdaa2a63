// SPDX-License-Identifier: BSD-3-Clause
// CMocka for C++: its header has no C++ guard and defines a macro called fail.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}
#undef fail
