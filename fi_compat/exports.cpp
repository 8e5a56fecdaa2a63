// SPDX-License-Identifier: BSD-3-Clause
// The exported functions in their newest versions; abi/libfabric.map says which node each has.
#include "fi_compat/exports.hpp"

// All tables that the exported functions lead to: abi/libfabric.abi records what is complete here.
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <strings.h>

#include <cstdio>
#include <string>

#include "fi_compat/boundary.hpp"
#include "fi_compat/fabric.hpp"
#include "fi_compat/fi_log.hpp"
#include "fi_compat/getinfo.hpp"
#include "fi_compat/names.hpp"
#include "fi_compat/tostr.hpp"

namespace compat::fi {

int exported_getinfo(const InfoLayout& layout, std::uint32_t version, const char* node,
                     const char* service, std::uint64_t flags, const fi_info* hints,
                     fi_info** info) noexcept {
    return c_boundary([&] {
        start_logging();
        const InfoPtr known = hints != nullptr ? duplicate_info(*hints, layout) : nullptr;
        return get_info(version, node, service, flags, known.get(), info);
    });
}

fi_info* exported_dupinfo(const InfoLayout& layout, const fi_info* info) noexcept try {
    return (info != nullptr ? duplicate_info(*info, layout) : make_info()).release();
} catch (...) {
    return nullptr;
}

int exported_fabric(const fi_fabric_attr* attr, std::uint32_t api_version, fid_fabric** fabric,
                    void* context) noexcept {
    return c_boundary([&] {
        start_logging();
        if (attr == nullptr || fabric == nullptr) return -FI_EINVAL;
        return open_fabric(*attr, api_version, fabric, context);
    });
}

namespace {

// Programs print it at once; they know that the next call overwrites it.
constinit char g_text[8192];

char* print_to(char* buffer, std::size_t length, const void* data, fi_type type) noexcept try {
    if (data == nullptr || buffer == nullptr || length == 0) return nullptr;
    std::string text;
    append_text(text, data, type);
    std::snprintf(buffer, length, "%s", text.c_str());
    return buffer;
} catch (...) {
    return nullptr;
}

}  // namespace
}  // namespace compat::fi

extern "C" {

using namespace compat::fi;

COMPAT_EXPORT int fi_getinfo(std::uint32_t version, const char* node, const char* service,
                             std::uint64_t flags, const fi_info* hints, fi_info** info) {
    return exported_getinfo(kLayout19, version, node, service, flags, hints, info);
}

COMPAT_EXPORT void fi_freeinfo(fi_info* info) {
    free_info(info);
}

COMPAT_EXPORT fi_info* fi_dupinfo(const fi_info* info) {
    return exported_dupinfo(kLayout19, info);
}

COMPAT_EXPORT int fi_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
    return exported_fabric(attr, attr != nullptr ? attr->api_version : 0, fabric, context);
}

COMPAT_EXPORT int fi_fabric2(fi_info* info, fid_fabric** fabric, std::uint64_t flags,
                             void* context) {
    if (info == nullptr || flags != 0) return -FI_EINVAL;
    return fi_fabric(info->fabric_attr, fabric, context);
}

COMPAT_EXPORT int fi_open(std::uint32_t version, const char* name, void*, std::size_t attr_len,
                          std::uint64_t flags, struct fid** fid, void* context) {
    return c_boundary([&] {
        start_logging();
        if (name == nullptr || fid == nullptr) return -FI_EINVAL;
        if (version > FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)) return -FI_ENOSYS;
        // "mr_cache" is the other name upstream knows; there is no cache here to feed
        if (!same_text(name, "logging")) return -FI_ENOSYS;
        if (attr_len != 0) return -FI_EINVAL;
        if (flags != 0) return -FI_EBADFLAGS;
        return open_logging(fid, context);
    });
}

COMPAT_EXPORT std::uint32_t fi_version(void) {
    return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

COMPAT_EXPORT char* fi_tostr(const void* data, fi_type type) {
    return print_to(g_text, sizeof g_text, data, type);
}

COMPAT_EXPORT char* fi_tostr_r(char* buffer, std::size_t length, const void* data, fi_type type) {
    return print_to(buffer, length, data, type);
}
}
