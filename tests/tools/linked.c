// SPDX-License-Identifier: BSD-3-Clause
// Linked to librpma.so.0, by a declaration alone.
#include "maps.h"

const char* rpma_err_2str(int ret);

int main(void) {
    if (rpma_err_2str(0) == NULL) return 1;
    print_mapped("/librpma.so");
    return 0;
}
