// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rpma_compat/conn_parts.hpp"

struct rpma_conn_req {
    rpma_peer* peer = nullptr;
    compat::rpma::ConnParts parts;
    bool incoming = false;
    compat::core::Statistics statistics;
};
