// SPDX-License-Identifier: BSD-3-Clause
// The generated memory keys of this process.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "core/base/result.hpp"

namespace compat::core::soft {

inline constexpr unsigned kKeyIndexBits = 24;
inline constexpr unsigned kKeyGenerationBits = 8;
static_assert(kKeyIndexBits + kKeyGenerationBits == 32);

constexpr std::uint32_t key_index(std::uint32_t key) {
    return key >> kKeyGenerationBits;
}
constexpr auto key_generation(std::uint32_t key) {
    return static_cast<std::uint8_t>(key);
}

/// Any thread.
class KeyPool {
public:
    /// index_base and first_generation: where to begin, any value.
    KeyPool(std::uint32_t index_base, std::uint32_t first_generation) noexcept
        : index_base_(index_base), first_generation_(first_generation) {}

    /// Never 0, and not the same key again for the next 255 uses of its index.
    /// Errors: no_memory (all indices in use).
    Result<std::uint32_t> take();
    void give_back(std::uint32_t key) noexcept;

private:
    std::uint32_t key_of(std::uint32_t ordinal) noexcept;

    const std::uint32_t index_base_;
    const std::uint32_t first_generation_;
    std::mutex lock_;
    std::vector<std::uint8_t> generations_;  ///< by ordinal: how many have been there before
    std::deque<std::uint32_t> free_;         ///< ordinals, longest unused first
};

/// The one of this process; begins at random. The first call throws when there is no memory.
KeyPool& process_key_pool();

}  // namespace compat::core::soft
