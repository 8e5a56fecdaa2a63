// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

struct rpma_peer_cfg {
    std::atomic<bool> direct_write_to_pmem{false};
};
