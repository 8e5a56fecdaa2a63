// SPDX-License-Identifier: BSD-3-Clause
// The older versions of the exported functions: the same functions for programs with smaller
// structures. Only the shared libraries contain this file: the nodes are in their version script.
#include "fi_compat/exports.hpp"

// GCC's attribute; the name before the "@" is what programs ask for, the function's own stays
// inside.
#define COMPAT_SYMBOL(name, node) \
    extern "C" __attribute__((visibility("default"), symver(name "@" node)))

// One version of the three functions that read or make a struct fi_info. Freeing needs no layout:
// an info was allocated here, and full-size.
#define COMPAT_INFO_FUNCTIONS(suffix, node, layout)                                           \
    COMPAT_SYMBOL("fi_getinfo", node)                                                         \
    int compat_getinfo_##suffix(std::uint32_t version, const char* peer, const char* service, \
                                std::uint64_t flags, const fi_info* hints, fi_info** info) {  \
        return exported_getinfo(layout, version, peer, service, flags, hints, info);          \
    }                                                                                         \
    COMPAT_SYMBOL("fi_dupinfo", node)                                                         \
    fi_info* compat_dupinfo_##suffix(const fi_info* info) {                                   \
        return exported_dupinfo(layout, info);                                                \
    }                                                                                         \
    COMPAT_SYMBOL("fi_freeinfo", node)                                                        \
    void compat_freeinfo_##suffix(fi_info* info) {                                            \
        free_info(info);                                                                      \
    }                                                                                         \
    static_assert(true, "ends the invocation with a semicolon")

namespace compat::fi {

COMPAT_INFO_FUNCTIONS(1_0, "FABRIC_1.0", kLayout10);
COMPAT_INFO_FUNCTIONS(1_1, "FABRIC_1.1", kLayout11);
COMPAT_INFO_FUNCTIONS(1_2, "FABRIC_1.2", kLayout12);
COMPAT_INFO_FUNCTIONS(1_3, "FABRIC_1.3", kLayout13);
COMPAT_INFO_FUNCTIONS(1_7, "FABRIC_1.7", kLayout17);
COMPAT_INFO_FUNCTIONS(1_8, "FABRIC_1.8", kLayout18);

// Its structure has no api_version.
COMPAT_SYMBOL("fi_fabric", "FABRIC_1.0")
int compat_fabric_1_0(const fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
    return exported_fabric(attr, FI_VERSION(1, 0), fabric, context);
}

}  // namespace compat::fi
