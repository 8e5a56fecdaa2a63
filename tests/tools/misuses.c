// SPDX-License-Identifier: BSD-3-Clause
// Registers memory for no use at all, and says what comes of it.
#include <librpma.h>
#include <stdio.h>

int main(void) {
    static char memory[64];
    struct ibv_context* device = NULL;
    struct rpma_peer* peer = NULL;
    struct rpma_mr_local* region = NULL;
    if (rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &device) != 0)
        return 2;
    if (rpma_peer_new(device, &peer) != 0) return 2;
    const int code = rpma_mr_reg(peer, memory, sizeof memory, 0, &region);
    fprintf(stderr, "rpma_mr_reg: %s\n", rpma_err_2str(code));
    rpma_peer_delete(&peer);
    return code == RPMA_E_INVAL ? 1 : 0;
}
