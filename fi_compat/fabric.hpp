// SPDX-License-Identifier: BSD-3-Clause
// The fabric object: fi_fabric(3).
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <string>

#include "core/core.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/provider.hpp"

namespace compat::fi {

class Fabric final : public Object<Fabric, fid_fabric> {
public:
    Fabric(const Provider& provider, const char* name, std::uint32_t api_word, void* context);

    [[nodiscard]] const Provider& provider() const noexcept { return provider_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// The version the application was written for: structures without a symbol version have the
    /// size of that release.
    [[nodiscard]] std::uint32_t api_version() const noexcept { return fid_fabric::api_version; }
    [[nodiscard]] bool api_at_least(unsigned major, unsigned minor) const noexcept {
        return fi::api_at_least(api_version(), major, minor);
    }

private:
    const Provider& provider_;
    std::string name_;
};

/// fi_fabric(3). Errors: -FI_EINVAL, -FI_ENODEV.
int open_fabric(const fi_fabric_attr& attr, std::uint32_t api_version, fid_fabric** fabric,
                void* context);

// What the fabric's table hands to other files.
int open_domain(Fabric& fabric, fi_info* info, std::uint64_t flags, fid_domain** domain,
                void* context);                                                    // domain.cpp
int open_passive_ep(Fabric& fabric, fi_info* info, fid_pep** pep, void* context);  // passive_ep.cpp

}  // namespace compat::fi
