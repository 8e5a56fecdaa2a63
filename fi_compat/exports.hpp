// SPDX-License-Identifier: BSD-3-Clause
// What the exported functions share between their versions.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "fi_compat/info.hpp"

namespace compat::fi {

// fi_getinfo(3), fi_dupinfo(3) and fi_fabric(3) for a program whose structures have that layout.
int exported_getinfo(const InfoLayout& layout, std::uint32_t version, const char* node,
                     const char* service, std::uint64_t flags, const fi_info* hints,
                     fi_info** info) noexcept;
fi_info* exported_dupinfo(const InfoLayout& layout, const fi_info* info) noexcept;
int exported_fabric(const fi_fabric_attr* attr, std::uint32_t api_version, fid_fabric** fabric,
                    void* context) noexcept;

}  // namespace compat::fi
