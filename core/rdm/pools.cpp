// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/pools.hpp"

#include <new>

namespace compat::core::rdm {

std::byte* SlotPool::take() noexcept {
    if (free_.empty() && !grow()) return nullptr;
    std::byte* const slot = free_.back();
    free_.pop_back();
    return slot;
}

void SlotPool::give_back(std::byte* slot) noexcept {
    free_.push_back(slot);  // grow() has made room for all slots
}

bool SlotPool::grow() noexcept try {
    if (chunks_.size() * kChunkSlots >= max_slots_) return false;
    Chunk chunk;
    constexpr std::size_t kLength = kChunkSlots * kBufferLength;
    chunk.memory.reset(new std::byte[kLength]);
    if (pd_ != nullptr) {
        auto region = pd_->register_memory({.address = chunk.memory.get(), .length = kLength});
        if (!region) return false;
        chunk.region = std::move(*region);
    }
    free_.reserve((chunks_.size() + 1) * kChunkSlots);
    std::byte* const first = chunk.memory.get();
    chunks_.push_back(std::move(chunk));
    for (std::uint32_t at = kChunkSlots; at != 0; --at)
        free_.push_back(first + std::size_t{at - 1} * kBufferLength);
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

std::uint32_t SlotPool::lkey_of(const std::byte* slot) const noexcept {
    if (pd_ == nullptr) return kUnregisteredLkey;
    for (const Chunk& chunk : chunks_) {
        const std::byte* const first = chunk.memory.get();
        if (slot >= first && slot < first + kChunkSlots * kBufferLength)
            return chunk.region->lkey();
    }
    return kUnregisteredLkey;
}

Transfer* TransferPool::take() noexcept {
    if (free_.empty() && !grow()) return nullptr;
    return free_.pop();
}

void TransferPool::give_back(Transfer& transfer) noexcept {
    transfer.kind = Transfer::Kind::free;
    transfer.awaits = 0;
    transfer.connection = nullptr;
    transfer.slot = nullptr;
    transfer.regions.reset();
    transfer.pull.reset();
    free_.push(transfer);
}

bool TransferPool::grow() noexcept try {
    std::unique_ptr<Transfer[]> chunk(new Transfer[kChunk]);
    Transfer* const first = chunk.get();
    const auto base = static_cast<std::uint32_t>(chunks_.size()) * kChunk;
    chunks_.push_back(std::move(chunk));
    for (std::uint32_t at = 0; at < kChunk; ++at) {
        first[at].number = base + at;
        free_.push(first[at]);
    }
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

Transfer* TransferPool::find(std::uint32_t number) noexcept {
    if (number / kChunk >= chunks_.size()) return nullptr;
    Transfer& transfer = chunks_[number / kChunk][number % kChunk];
    return transfer.kind == Transfer::Kind::free ? nullptr : &transfer;
}

}  // namespace compat::core::rdm
