// SPDX-License-Identifier: BSD-3-Clause
// How stores to a range of memory become durable, if they can.
#pragma once

#include <cstddef>
#include <memory>

#include "core/base/result.hpp"

namespace compat::core::soft {

class Persister {
public:
    virtual ~Persister() = default;
    virtual Status persist(std::byte* address, std::size_t length) noexcept = 0;
};

/// Looks at what is mapped there: a shared mapping of a file on DAX is persisted by libpmem2's
/// persist function over a mapping of our own, any other shared mapping of a file by msync(2).
/// Null when the range (or a part of it) is private, anonymous, or in a file system that lives in
/// memory and is not declared persistent (PMEM2_FORCE_GRANULARITY declares it).
std::unique_ptr<Persister> find_persister(std::byte* address, std::size_t length) noexcept;

}  // namespace compat::core::soft
