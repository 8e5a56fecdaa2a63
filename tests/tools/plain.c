// SPDX-License-Identifier: BSD-3-Clause
// A program that has nothing to do with us.
#include "maps.h"

int main(void) {
    print_mapped("rpma.so");
    return 0;
}
