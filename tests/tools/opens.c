// SPDX-License-Identifier: BSD-3-Clause
// Opens LIBRARY with dlopen.
#include <dlfcn.h>

#include "maps.h"

int main(void) {
    if (dlopen(LIBRARY, RTLD_NOW) == NULL) return 1;
    print_mapped("/librpma.so");
    return 0;
}
