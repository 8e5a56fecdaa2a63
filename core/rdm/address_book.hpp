// SPDX-License-Identifier: BSD-3-Clause
// What an address vector stores: short indices for the names of endpoints. Endpoints look peers up
// here on every post, so that reading takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/socket_address.hpp"

namespace compat::core {

using AddressIndex = std::uint64_t;
/// Of a receive: from anybody. Of a completion: the peer is in no address book.
constexpr AddressIndex kNoAddress = UINT64_MAX;

struct SocketAddressHash {
    std::size_t operator()(const SocketAddress& address) const noexcept;
};

class AddressBook {
public:
    AddressBook() = default;
    ~AddressBook();
    AddressBook(const AddressBook&) = delete;
    AddressBook& operator=(const AddressBook&) = delete;

    /// The index of the address: that which it has already, else the lowest free one. An address
    /// inserted n times stays until it was removed n times.
    /// Errors: invalid_argument (empty or wildcard address), no_memory.
    Result<AddressIndex> insert(const SocketAddress& address) noexcept;
    /// Errors: invalid_argument (no such index).
    Status remove(AddressIndex index) noexcept;
    /// Errors: invalid_argument (no such index).
    [[nodiscard]] Result<SocketAddress> lookup(AddressIndex index) const noexcept;
    [[nodiscard]] AddressIndex find(const SocketAddress& address) const noexcept;

    /// Of a row that is in use; changes when the index is given to another address. 0: not in use.
    [[nodiscard]] std::uint32_t generation(AddressIndex index) const noexcept {
        const Row* row = row_of(index);
        return row == nullptr ? 0 : row->generation.load(std::memory_order_acquire);
    }
    /// Changes with every insertion and removal.
    [[nodiscard]] std::uint64_t version() const noexcept {
        return version_.load(std::memory_order_acquire);
    }

private:
    static constexpr std::size_t kChunkRows = 1024;
    static constexpr std::size_t kMaxChunks = 1024;

    struct Row {
        std::atomic<std::uint32_t> generation{0};
        std::uint32_t next_generation = 1;
        std::uint32_t uses = 0;
        SocketAddress address;
    };
    using Chunk = std::array<Row, kChunkRows>;

    [[nodiscard]] Row* row_of(AddressIndex index) const noexcept {
        if (index >= kChunkRows * kMaxChunks) return nullptr;
        Chunk* chunk = chunks_[index / kChunkRows].load(std::memory_order_acquire);
        return chunk == nullptr ? nullptr : &(*chunk)[index % kChunkRows];
    }

    mutable std::mutex mutex_;
    std::array<std::atomic<Chunk*>, kMaxChunks> chunks_{};
    std::unordered_map<SocketAddress, AddressIndex, SocketAddressHash> index_of_;
    std::vector<AddressIndex> free_;  ///< a heap, the lowest in front
    AddressIndex used_ = 0;           ///< rows that were ever in use
    std::atomic<std::uint64_t> version_{0};
};

}  // namespace compat::core
