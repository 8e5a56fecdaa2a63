// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "core/core.hpp"

struct rpma_peer {
    compat::core::Device* device;
    std::unique_ptr<compat::core::ProtectionDomain> pd;
};
