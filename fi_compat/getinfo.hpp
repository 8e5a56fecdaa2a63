// SPDX-License-Identifier: BSD-3-Clause
// Discovery: fi_getinfo(3). A candidate is a provider name on a device with an endpoint type
// (getinfo_offer) at an address (getinfo_route); the hints take some of them away (getinfo_hints).
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "fi_compat/info.hpp"

namespace compat::fi {

/// hints is a full-size structure or null. Errors: -FI_ENODATA (nothing matches), -FI_ENOSYS (a
/// version after ours), -FI_EINVAL, -FI_EBADFLAGS.
int get_info(std::uint32_t api_version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info);

}  // namespace compat::fi
