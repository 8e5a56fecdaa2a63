// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/stx.hpp"

#include "fi_compat/boundary.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constinit fi_ops kStxFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Stx>,
    .bind = kUnsupported,
    .control = kUnsupported,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

}  // namespace

Stx::Stx(Domain& domain, void* user_context)
    : Object(FI_CLASS_STX_CTX, user_context, kStxFiOps), domain_(domain) {
    ops = &kNoEpOps;
}

int open_shared_transmit(Domain& domain, const fi_tx_attr*, fid_stx** stx, void* context) {
    *stx = (new Stx(domain, context))->face();
    return 0;
}

}  // namespace compat::fi
