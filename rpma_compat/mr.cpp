// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/mr.hpp"

#include <endian.h>

#include <cstring>

#include "rpma_compat/err_map.hpp"
#include "rpma_compat/flag_map.hpp"
#include "rpma_compat/log.hpp"
#include "rpma_compat/peer.hpp"

using namespace compat;
using namespace compat::rpma;

namespace {

// What a peer reads: address, length, rkey, usage; little endian, no padding. Longer descriptors
// are good, what follows is ignored.
constexpr std::size_t kAddressAt = 0;
constexpr std::size_t kLengthAt = 8;
constexpr std::size_t kRkeyAt = 16;
constexpr std::size_t kUsageAt = 20;
constexpr std::size_t kDescriptorSize = 21;

void put64(std::byte* target, std::uint64_t value) {
    value = htole64(value);
    std::memcpy(target, &value, sizeof value);
}
void put32(std::byte* target, std::uint32_t value) {
    value = htole32(value);
    std::memcpy(target, &value, sizeof value);
}
std::uint64_t get64(const std::byte* source) {
    std::uint64_t value = 0;
    std::memcpy(&value, source, sizeof value);
    return le64toh(value);
}
std::uint32_t get32(const std::byte* source) {
    std::uint32_t value = 0;
    std::memcpy(&value, source, sizeof value);
    return le32toh(value);
}

core::Result<std::unique_ptr<core::MemoryRegion>> register_region(rpma_peer& peer, void* ptr,
                                                                  std::size_t size, int usage) {
    const core::Limits& limits = peer.device->limits();
    core::MrAttr attr{
        .address = ptr,
        .length = size,
        .access = to_access(usage, limits.read_sink_needs_remote_write, limits.flush)};
    auto region = peer.pd->register_memory(attr);
    // File System DAX: memory that cannot be pinned may still be paged in on demand.
    if (region || refined(region.error()) != core::Errc::not_supported || !limits.on_demand_paging)
        return region;
    attr.access |= core::Access::on_demand;
    return peer.pd->register_memory(attr);
}

}  // namespace

int rpma_mr_reg(rpma_peer* peer, void* ptr, size_t size, int usage, rpma_mr_local** mr_ptr) {
    return c_boundary([&] {
        if (peer == nullptr || ptr == nullptr || size == 0 || mr_ptr == nullptr)
            return RPMA_E_INVAL;
        if (usage == 0 || (usage & ~all_usages()) != 0) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_WARNING,
                            "the usage says nothing or what there is not: RPMA_MR_USAGE_* say what "
                            "the region is for");
            return RPMA_E_INVAL;
        }
        auto mr = std::make_unique<rpma_mr_local>();
        auto region = register_region(*peer, ptr, size, usage);
        if (!region) return COMPAT_RPMA_FAILED(provider, "ibv_reg_mr", region.error());
        mr->region = std::move(*region);
        mr->lkey = mr->region->lkey();
        mr->address = ptr;
        mr->length = size;
        mr->usage = usage;
        *mr_ptr = mr.release();
        return kSuccess;
    });
}

int rpma_mr_dereg(rpma_mr_local** mr_ptr) {
    return delete_object(mr_ptr);
}

int rpma_mr_get_descriptor(const rpma_mr_local* mr, void* desc) {
    if (mr == nullptr || desc == nullptr) return RPMA_E_INVAL;
    auto* const bytes = static_cast<std::byte*>(desc);
    put64(bytes + kAddressAt, reinterpret_cast<std::uintptr_t>(mr->address));
    put64(bytes + kLengthAt, mr->length);
    put32(bytes + kRkeyAt, mr->region->rkey());
    bytes[kUsageAt] = static_cast<std::byte>(mr->usage);
    return kSuccess;
}

int rpma_mr_get_descriptor_size(const rpma_mr_local* mr, size_t* desc_size) {
    if (mr == nullptr || desc_size == nullptr) return RPMA_E_INVAL;
    *desc_size = kDescriptorSize;
    return kSuccess;
}

int rpma_mr_get_ptr(const rpma_mr_local* mr, void** ptr) {
    if (mr == nullptr || ptr == nullptr) return RPMA_E_INVAL;
    *ptr = mr->address;
    return kSuccess;
}

int rpma_mr_get_size(const rpma_mr_local* mr, size_t* size) {
    if (mr == nullptr || size == nullptr) return RPMA_E_INVAL;
    *size = mr->length;
    return kSuccess;
}

int rpma_mr_advise(rpma_mr_local* mr, size_t offset, size_t len, int advice, uint32_t flags) {
    return c_boundary([&] {
        if (mr == nullptr) return RPMA_E_INVAL;  // upstream crashes
        const core::Status advised = mr->region->advise(offset, len, advice, flags);
        if (!advised) return COMPAT_RPMA_FAILED(advise, "ibv_advise_mr", advised.error());
        return kSuccess;
    });
}

int rpma_mr_remote_from_descriptor(const void* desc, size_t desc_size, rpma_mr_remote** mr_ptr) {
    return c_boundary([&] {
        if (desc == nullptr || mr_ptr == nullptr) return RPMA_E_INVAL;
        if (desc_size < kDescriptorSize) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "region descriptor of %zu bytes, need %zu",
                            desc_size, kDescriptorSize);
            return RPMA_E_INVAL;
        }
        const auto* const bytes = static_cast<const std::byte*>(desc);
        const auto usage = std::to_integer<std::uint8_t>(bytes[kUsageAt]);
        if (usage == 0) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "region descriptor without any usage");
            return RPMA_E_INVAL;
        }
        auto mr = std::make_unique<rpma_mr_remote>();
        mr->address = get64(bytes + kAddressAt);
        mr->length = get64(bytes + kLengthAt);
        mr->rkey = get32(bytes + kRkeyAt);
        mr->usage = usage;
        COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_DEBUG,
                        "remote region address 0x%llx length %llu rkey 0x%x usage 0x%x",
                        static_cast<unsigned long long>(mr->address),
                        static_cast<unsigned long long>(mr->length), mr->rkey, usage);
        *mr_ptr = mr.release();
        return kSuccess;
    });
}

int rpma_mr_remote_get_size(const rpma_mr_remote* mr, size_t* size) {
    if (mr == nullptr || size == nullptr) return RPMA_E_INVAL;
    *size = mr->length;
    return kSuccess;
}

int rpma_mr_remote_get_flush_type(const rpma_mr_remote* mr, int* flush_type) {
    if (mr == nullptr || flush_type == nullptr) return RPMA_E_INVAL;
    *flush_type = mr->usage & kFlushUsages;
    return kSuccess;
}

int rpma_mr_remote_delete(rpma_mr_remote** mr_ptr) {
    return delete_object(mr_ptr);
}
