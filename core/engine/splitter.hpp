// SPDX-License-Identifier: BSD-3-Clause
// Cuts one operation into work requests that the device takes: one remote range, a bounded number
// of SGEs and of bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/engine/operation.hpp"
#include "core/model/types.hpp"

namespace compat::core {

/// A byte that the peer lets us read, and where it goes. What has been read was read behind every
/// write before it: these are in place.
struct DeliveryProbe {
    std::uint64_t remote_address = 0;
    std::uint32_t rkey = 0;
    Sge sink{};  ///< of no bytes: there is none, a write's completion says as much already
};

struct SplitLimits {
    std::uint32_t max_sge = 1;  ///< sends, writes
    std::uint32_t max_sge_read = 1;
    std::uint64_t max_message = 0;  ///< bytes in one work request
    DeliveryProbe probe{};          ///< of operations with OpFlag::deliver
};

/// Keeps its place between calls, so that a very long operation can be posted piece by piece. The
/// operation's spans and the limits must outlive it.
class Splitter {
public:
    Splitter() = default;
    Splitter(const Operation& operation, const SplitLimits& limits) noexcept;

    [[nodiscard]] bool finished() const noexcept { return phase_ == Phase::finished; }
    /// The next work request, without wr_id and signaled flag; its SGEs are written to storage,
    /// which has room for kMaxSegments. Not to be called when finished().
    WorkRequest next(const Operation& operation, std::span<Sge, kMaxSegments> storage) noexcept;

    /// How many next() calls one operation takes.
    static std::size_t count(const Operation& operation, const SplitLimits& limits) noexcept;

private:
    enum class Phase : std::uint8_t { transfer, flush, probe, finished };

    std::uint64_t room(const Operation& operation) const noexcept;
    std::size_t fill(const Operation& operation, std::span<Sge, kMaxSegments> storage,
                     std::uint64_t room) noexcept;
    WorkRequest next_transfer(const Operation& operation,
                              std::span<Sge, kMaxSegments> storage) noexcept;
    WorkRequest next_flush(const Operation& operation) noexcept;
    WorkRequest next_probe(std::span<Sge, kMaxSegments> storage) noexcept;
    void after_transfer(const Operation& operation) noexcept;
    std::uint64_t skip_alike(const Operation& operation) noexcept;

    const DeliveryProbe* probe_ = nullptr;
    std::uint64_t max_message_ = 0;
    std::uint64_t left_ = 0;         ///< bytes not yet cut
    std::uint64_t local_done_ = 0;   ///< bytes of the current buffer
    std::uint64_t remote_done_ = 0;  ///< bytes of the current range
    std::uint32_t max_sge_ = 1;
    std::uint16_t local_at_ = 0;
    std::uint16_t remote_at_ = 0;
    Phase phase_ = Phase::finished;
};

}  // namespace compat::core
