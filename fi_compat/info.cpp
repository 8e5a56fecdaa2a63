// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/info.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "fi_compat/address.hpp"

namespace compat::fi {
namespace {

void* allocate(std::size_t size) {
    void* memory = std::calloc(1, std::max<std::size_t>(size, 1));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

template <class Structure>
Structure* allocate() {
    return static_cast<Structure*>(allocate(sizeof(Structure)));
}

/// A full-size structure of which the first `known` bytes come from the original.
template <class Structure>
Structure* copy_known(const Structure* original, std::size_t known) {
    if (original == nullptr) return nullptr;
    auto* copy = allocate<Structure>();
    std::memcpy(static_cast<void*>(copy), original, std::min(known, sizeof(Structure)));
    return copy;
}

/// A copy of size bytes; null of null or of nothing.
template <class Type>
Type* copy_bytes(const Type* original, std::size_t size) {
    if (original == nullptr || size == 0) return nullptr;
    void* copy = allocate(size);
    std::memcpy(copy, original, size);
    return static_cast<Type*>(copy);
}

char* copy_text(const char* text) {
    return copy_bytes(text, text != nullptr ? std::strlen(text) + 1 : 0);
}

/// FI_AV_AUTH_KEY is a size that stands for a key held elsewhere.
std::uint8_t* copy_key(const std::uint8_t* key, std::size_t size) {
    return size == FI_AV_AUTH_KEY ? nullptr : copy_bytes(key, size);
}

void copy_address(void*& copy, std::size_t& copied, const void* address, std::size_t length) {
    if (address == nullptr || length == 0) return;
    copy = allocate(length);
    std::memcpy(copy, address, length);
    copied = length;
}

// Full-size structures without the original's pointers; those follow one by one, so that a failure
// half-way frees only what is ours.

void copy_ep_attr(fi_ep_attr*& copy, const fi_ep_attr* original, std::size_t known) {
    copy = copy_known(original, known);
    if (copy == nullptr) return;
    const std::uint8_t* key = std::exchange(copy->auth_key, nullptr);
    copy->auth_key = copy_key(key, copy->auth_key_size);
}

void copy_domain_attr(fi_domain_attr*& copy, const fi_domain_attr* original, std::size_t known) {
    copy = copy_known(original, known);
    if (copy == nullptr) return;
    const char* name = std::exchange(copy->name, nullptr);
    const std::uint8_t* key = std::exchange(copy->auth_key, nullptr);
    copy->name = copy_text(name);
    copy->auth_key = copy_key(key, copy->auth_key_size);
}

void copy_fabric_attr(fi_fabric_attr*& copy, const fi_fabric_attr* original, std::size_t known) {
    copy = copy_known(original, known);
    if (copy == nullptr) return;
    const char* name = std::exchange(copy->name, nullptr);
    const char* prov_name = std::exchange(copy->prov_name, nullptr);
    copy->name = copy_text(name);
    copy->prov_name = copy_text(prov_name);
}

fid_nic* copy_nic(fid_nic* original) {
    if (original == nullptr || original->fid.ops == nullptr) return nullptr;
    fid_nic* copy = nullptr;
    const bool can = FI_CHECK_OP(original->fid.ops, fi_ops, control);
    if (!can || original->fid.ops->control(&original->fid, FI_DUP, &copy) != 0) return nullptr;
    return copy;
}

void close_nic(fid_nic* nic) {
    if (nic != nullptr && FI_CHECK_OP(nic->fid.ops, fi_ops, close)) nic->fid.ops->close(&nic->fid);
}

void free_one(fi_info* info) {
    std::free(info->src_addr);
    std::free(info->dest_addr);
    std::free(info->tx_attr);
    std::free(info->rx_attr);
    if (info->ep_attr != nullptr) std::free(info->ep_attr->auth_key);
    std::free(info->ep_attr);
    if (info->domain_attr != nullptr) {
        std::free(info->domain_attr->name);
        std::free(info->domain_attr->auth_key);
    }
    std::free(info->domain_attr);
    if (info->fabric_attr != nullptr) {
        std::free(info->fabric_attr->name);
        std::free(info->fabric_attr->prov_name);
    }
    std::free(info->fabric_attr);
    close_nic(info->nic);
    std::free(info);
}

void set_address(std::uint32_t format, void*& member, std::size_t& length,
                 const core::SocketAddress& address) {
    std::size_t needed = 0;
    if (!address.empty()) write_address(format, address, nullptr, &needed);
    void* const bytes = needed != 0 ? allocate(needed) : nullptr;
    if (bytes != nullptr) write_address(format, address, bytes, &needed);
    std::free(std::exchange(member, bytes));
    length = needed;
}

}  // namespace

void free_info(fi_info* info) noexcept {
    while (info != nullptr) free_one(std::exchange(info, info->next));
}

InfoPtr make_info() {
    InfoPtr info(allocate<fi_info>());
    info->tx_attr = allocate<fi_tx_attr>();
    info->rx_attr = allocate<fi_rx_attr>();
    info->ep_attr = allocate<fi_ep_attr>();
    info->domain_attr = allocate<fi_domain_attr>();
    info->fabric_attr = allocate<fi_fabric_attr>();
    return info;
}

InfoPtr duplicate_info(const fi_info& original, const InfoLayout& layout) {
    fi_info known{};
    std::memcpy(static_cast<void*>(&known), &original, std::min(layout.info, sizeof known));

    InfoPtr copy(allocate<fi_info>());
    copy->caps = known.caps;
    copy->mode = known.mode;
    copy->addr_format = known.addr_format;
    copy->handle = known.handle;
    copy->tx_attr = copy_known(known.tx_attr, layout.tx_attr);
    copy->rx_attr = copy_known(known.rx_attr, layout.rx_attr);
    copy_ep_attr(copy->ep_attr, known.ep_attr, layout.ep_attr);
    copy_domain_attr(copy->domain_attr, known.domain_attr, layout.domain_attr);
    copy_fabric_attr(copy->fabric_attr, known.fabric_attr, layout.fabric_attr);
    copy->nic = copy_nic(known.nic);
    copy_address(copy->src_addr, copy->src_addrlen, known.src_addr, known.src_addrlen);
    copy_address(copy->dest_addr, copy->dest_addrlen, known.dest_addr, known.dest_addrlen);
    return copy;
}

void set_text(char*& member, const char* text) {
    std::free(std::exchange(member, copy_text(text)));
}

void set_source(fi_info& info, const core::SocketAddress& address) {
    set_address(info.addr_format, info.src_addr, info.src_addrlen, address);
}

void set_destination(fi_info& info, const core::SocketAddress& address) {
    set_address(info.addr_format, info.dest_addr, info.dest_addrlen, address);
}

}  // namespace compat::fi
