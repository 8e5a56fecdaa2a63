// SPDX-License-Identifier: BSD-3-Clause
// Counts what peers do through a connection, without the reads by which they fetch our messages.
#pragma once

#include "core/engine/counter.hpp"

namespace compat::core::rdm {

/// For the regions of messages. A device tells the region's observer first, then the QP's, in one
/// thread.
class MessageSource final : public RemoteAccessObserver {
public:
    void remote_access(Opcode opcode, std::uint64_t bytes) noexcept override;
    /// Whether this thread's last access was to a message; forgets it.
    static bool take_access() noexcept;
};

class Observer final : public RemoteAccessObserver {
public:
    void set(Counter* writes, Counter* reads) noexcept { counters_.set(writes, reads); }
    [[nodiscard]] bool empty() const noexcept { return counters_.empty(); }
    void remote_access(Opcode opcode, std::uint64_t bytes) noexcept override {
        if (!MessageSource::take_access()) counters_.remote_access(opcode, bytes);
    }

private:
    RemoteCounters counters_;
};

}  // namespace compat::core::rdm
