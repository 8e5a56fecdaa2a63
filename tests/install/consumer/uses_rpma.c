// SPDX-License-Identifier: BSD-3-Clause
// C and C++: opens the device that owns 127.0.0.1.
#include <librpma.h>
#include <stdio.h>

int main(void) {
    struct ibv_context* device = NULL;
    struct rpma_peer* peer = NULL;
    int rc = rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &device);
    if (rc == 0) rc = rpma_peer_new(device, &peer);
    if (rc == 0) rc = rpma_peer_delete(&peer);
    if (rc != 0) fprintf(stderr, "%s\n", rpma_err_2str(rc));
    return rc == 0 ? 0 : 1;
}
