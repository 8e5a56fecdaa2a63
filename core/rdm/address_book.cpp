// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/address_book.hpp"

#include <algorithm>
#include <functional>
#include <new>
#include <string_view>

namespace compat::core {

std::size_t SocketAddressHash::operator()(const SocketAddress& address) const noexcept {
    // Only what == compares: the port, and the host without flow labels.
    std::string_view host;
    if (address.family() == AF_INET) {
        const auto& in = *reinterpret_cast<const sockaddr_in*>(address.get());
        host = {reinterpret_cast<const char*>(&in.sin_addr), sizeof in.sin_addr};
    } else if (address.family() == AF_INET6) {
        const auto& in6 = *reinterpret_cast<const sockaddr_in6*>(address.get());
        host = {reinterpret_cast<const char*>(&in6.sin6_addr), sizeof in6.sin6_addr};
    }
    return std::hash<std::string_view>()(host) * 31 + address.port();
}

AddressBook::~AddressBook() {
    for (auto& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

Result<AddressIndex> AddressBook::insert(const SocketAddress& address) noexcept try {
    if (address.empty() || address.is_wildcard()) return failure(Errc::invalid_argument);
    const std::lock_guard lock(mutex_);
    if (const auto known = index_of_.find(address); known != index_of_.end()) {
        ++row_of(known->second)->uses;
        return known->second;
    }
    const AddressIndex index = free_.empty() ? used_ : free_.front();
    if (index == kChunkRows * kMaxChunks) return failure(Errc::no_memory);
    if (row_of(index) == nullptr)
        chunks_[index / kChunkRows].store(new Chunk, std::memory_order_release);
    free_.reserve(used_ + 1);  // so that remove() cannot fail
    index_of_.emplace(address, index);
    if (free_.empty()) {
        ++used_;
    } else {
        std::pop_heap(free_.begin(), free_.end(), std::greater<>());
        free_.pop_back();
    }
    Row& row = *row_of(index);
    row.address = address;
    row.uses = 1;
    row.generation.store(row.next_generation, std::memory_order_release);
    if (++row.next_generation == 0) row.next_generation = 1;
    version_.fetch_add(1, std::memory_order_release);
    return index;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Status AddressBook::remove(AddressIndex index) noexcept {
    const std::lock_guard lock(mutex_);
    Row* row = row_of(index);
    if (row == nullptr || row->uses == 0) return failure(Errc::invalid_argument);
    if (--row->uses != 0) return {};
    row->generation.store(0, std::memory_order_release);
    index_of_.erase(row->address);
    free_.push_back(index);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
    version_.fetch_add(1, std::memory_order_release);
    return {};
}

Result<SocketAddress> AddressBook::lookup(AddressIndex index) const noexcept {
    const std::lock_guard lock(mutex_);
    const Row* row = row_of(index);
    if (row == nullptr || row->uses == 0) return failure(Errc::invalid_argument);
    return row->address;
}

AddressIndex AddressBook::find(const SocketAddress& address) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto known = index_of_.find(address);
    return known == index_of_.end() ? kNoAddress : known->second;
}

}  // namespace compat::core
