// SPDX-License-Identifier: BSD-3-Clause
// Which hint an offer fails: the rules of fi_getinfo(3) as one table.
#pragma once

#include <optional>
#include <string>

#include "fi_compat/getinfo_offer.hpp"

namespace compat::fi {

/// The first hint that an offer does not satisfy, and what it would satisfy.
struct Mismatch {
    const char* hint;
    std::string asked;
    std::string offered;
};

std::optional<Mismatch> find_mismatch(const Offer& offer, const fi_info& hints,
                                      std::uint32_t api_version);

/// Whether an address of that family is of the format asked for (FI_FORMAT_UNSPEC: any).
bool format_fits(std::uint32_t addr_format, int family) noexcept;

}  // namespace compat::fi
