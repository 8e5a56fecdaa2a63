// SPDX-License-Identifier: BSD-3-Clause
#pragma GCC diagnostic ignored "-Wcast-function-type"  // to the type of any function, in C style
#include "tests/abi/rpma_user.c"
