/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that includes the installed header alone and links the library: rpma_user.cpp is the
 * same as C++. All functions are there. */
#include <librpma.h>

/* what the program itself needs */
#include <stdio.h>
#include <string.h>

typedef void any_function(void);

struct function {
    const char* name;
    any_function* address;
};

#define FUNCTION(name) {#name, (any_function*)&name},
static const struct function functions[] = {
#include "rpma_functions.h"
};

int main(void) {
    const size_t count = sizeof functions / sizeof functions[0];
    for (size_t i = 0; i < count; ++i) {
        if (functions[i].address != NULL) continue;
        printf("%s is missing\n", functions[i].name);
        return 1;
    }
    struct rpma_peer_cfg* cfg = NULL;
    if (rpma_peer_cfg_new(&cfg) != 0 || rpma_peer_cfg_delete(&cfg) != 0 || cfg != NULL) return 1;
    return count == 84 && strcmp(rpma_err_2str(RPMA_E_NOMEM), "Out of memory") == 0 ? 0 : 1;
}
