// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/key_pool.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <new>

namespace compat::core::soft {
namespace {

constexpr std::uint32_t kIndices = std::uint32_t{1} << kKeyIndexBits;
constexpr std::uint32_t kGenerations = (std::uint32_t{1} << kKeyGenerationBits) - 1;  // 1 to 255
// An index rests while so many others are free, however fast a program registers and deregisters.
constexpr std::size_t kResting = 1024;

std::uint32_t random_word() noexcept {
    std::uint32_t word = 0;
    if (getrandom(&word, sizeof word, GRND_NONBLOCK) == sizeof word) return word;
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    return static_cast<std::uint32_t>(now) ^ (static_cast<std::uint32_t>(getpid()) << 16);
}

}  // namespace

Result<std::uint32_t> KeyPool::take() {
    const std::lock_guard guard(lock_);
    const bool unused_left = generations_.size() < kIndices;
    if (free_.size() > kResting || (!unused_left && !free_.empty())) {
        const std::uint32_t ordinal = free_.front();
        free_.pop_front();
        return key_of(ordinal);
    }
    if (!unused_left) return failure(Errc::no_memory);
    generations_.push_back(0);
    return key_of(static_cast<std::uint32_t>(generations_.size() - 1));
}

std::uint32_t KeyPool::key_of(std::uint32_t ordinal) noexcept {
    const std::uint32_t index = (index_base_ + ordinal) % kIndices;
    const std::uint32_t used = generations_[ordinal]++;
    // Generation 0 is left out: with index 0 it would make kUnregisteredLkey.
    const std::uint32_t generation = 1 + (first_generation_ + used) % kGenerations;
    return index << kKeyGenerationBits | generation;
}

void KeyPool::give_back(std::uint32_t key) noexcept {
    const std::lock_guard guard(lock_);
    const std::uint32_t ordinal = (key_index(key) - index_base_) % kIndices;
    try {
        free_.push_back(ordinal);
    } catch (const std::bad_alloc&) {
        // The index is lost; there are sixteen million others.
    }
}

KeyPool& process_key_pool() {
    static KeyPool& pool = *new KeyPool(random_word(), random_word());
    return pool;
}

}  // namespace compat::core::soft
