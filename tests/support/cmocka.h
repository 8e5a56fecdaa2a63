/* SPDX-License-Identifier: BSD-3-Clause */
/* CMocka for C, after the headers that it expects; C++ has cmocka.hpp. */
#ifndef COMPAT_TESTS_CMOCKA_H
#define COMPAT_TESTS_CMOCKA_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
