// SPDX-License-Identifier: BSD-3-Clause
// C and C++: finds an endpoint of this project's.
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    struct fi_info* info = NULL;
    const int rc = fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, NULL, &info);
    if (rc != 0) {
        fprintf(stderr, "%s\n", fi_strerror(-rc));
        return 1;
    }
    int found = 0;
    for (const struct fi_info* at = info; at != NULL; at = at->next)
        if (strcmp(at->fabric_attr->prov_name, "compat") == 0) found = 1;
    fi_freeinfo(info);
    return found ? 0 : 1;
}
