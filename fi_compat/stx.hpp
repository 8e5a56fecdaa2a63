// SPDX-License-Identifier: BSD-3-Clause
// Shared transmit contexts: fi_stx_context(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include "fi_compat/domain.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

/// A handle, and no more: each connection has a send queue of its own whatever is shared.
class Stx final : public Object<Stx, fid_stx> {
public:
    Stx(Domain& domain, void* context);
    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }

private:
    Ref<Domain> domain_;
};

}  // namespace compat::fi
