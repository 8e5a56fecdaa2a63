// SPDX-License-Identifier: BSD-3-Clause
// Flush and atomic write for every device: native where Limits says so, else by what RC ordering
// gives. One object a connection.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/device.hpp"

namespace compat::core {

/// What all one-sided operations of a connection have in common.
struct RemoteTarget {
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
};

class ExtendedOps {
public:
    /// Errors: those of ProtectionDomain::register_memory(). Without memory it throws, as new does.
    static Result<std::unique_ptr<ExtendedOps>> create(ProtectionDomain& pd, const Limits& limits);
    ~ExtendedOps();
    ExtendedOps(const ExtendedOps&) = delete;
    ExtendedOps& operator=(const ExtendedOps&) = delete;

    /// One send queue slot and at most one completion.
    ///
    /// Emulated, it is a read of the 8 bytes at the target: RC executes it after the earlier
    /// writes, and the device answers it when they have left the NIC. length and type are not
    /// looked at, the 8 bytes must lie in the region, and the completion is WcOpcode::read.
    /// Errors: those of QueuePair::post_send().
    Status post_flush(QueuePair& qp, std::uint64_t wr_id, SendFlags flags, RemoteTarget target,
                      std::uint64_t length, FlushType type) noexcept;

    /// 8 bytes, copied during the call. One send queue slot and at most one completion.
    ///
    /// Emulated, it is an inline write (WcOpcode::write) with a fence, so that it waits for an
    /// emulated flush before it; that the target never sees half of it is then up to its hardware.
    /// So is one to an address that is not aligned: librpma takes it (only the offset into the
    /// region has to be aligned), and with most NICs it is such a write. The QP needs max_inline
    /// of 8. Errors: those of QueuePair::post_send().
    Status post_atomic_write(QueuePair& qp, std::uint64_t wr_id, SendFlags flags,
                             RemoteTarget target, const void* source) noexcept;

private:
    ExtendedOps(bool native_flush, bool native_atomic_write) noexcept;
    Status add_read_sink(ProtectionDomain& pd, const Limits& limits);

    bool native_flush_;
    bool native_atomic_write_;
    void* page_ = nullptr;  ///< where emulated flushes read to
    std::unique_ptr<MemoryRegion> sink_;
};

}  // namespace compat::core
