// SPDX-License-Identifier: BSD-3-Clause
// Connection management as endpoints see it: events of the device's identifiers, drained by the
// event queue that the program reads.
#pragma once

#include <rdma/fi_cm.h>

#include <array>
#include <memory>
#include <span>

#include "core/core.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/info.hpp"

namespace compat::fi {

/// Whoever owns a core::CmId; its context points here. Called with the queue's sources held.
class CmHandler {
public:
    virtual void on_event(core::CmEvent& event) = 0;

protected:
    ~CmHandler() = default;
};

/// The channel of a device on an event queue; made on first use. Errors: no_memory, device.
core::Result<core::CmChannel*> cm_channel(EventQueue& eq, core::Device& device);

/// A new identifier whose events go to handler. channel may be null until migrate().
core::Result<std::unique_ptr<core::CmId>> make_cm_id(core::Device& device, core::CmChannel* channel,
                                                     CmHandler& handler);

/// The local or the remote address of an info; empty when there is none or it is no IP address.
core::SocketAddress source_of(const fi_info& info);
core::SocketAddress destination_of(const fi_info& info);

/// An address that a program passed without its length.
core::Result<core::SocketAddress> to_address(const void* address) noexcept;

/// The longest private data that every step of a connection takes (FI_OPT_CM_DATA_SIZE).
std::size_t cm_data_size(const core::Limits& limits) noexcept;

/// A program's private data as they travel, on every device: behind one byte, their length.
/// InfiniBand pads them with zeros, and libfabric's verbs provider does the same.
class CmData {
public:
    static constexpr std::size_t kFrameBytes = 1;

    /// Errors: -FI_EINVAL (more than cm_data_size(), or a length without data).
    int assign(const void* data, std::size_t length, const core::Limits& limits) noexcept;
    [[nodiscard]] std::span<const std::byte> on_wire() const noexcept {
        return std::span(bytes_).first(size_);
    }
    /// What a peer's program has sent; no more than has come, whatever the byte in front says.
    static std::span<const std::byte> unframe(std::span<const std::byte> received) noexcept;

private:
    std::array<std::byte, kFrameBytes + UINT8_MAX> bytes_;
    std::size_t size_ = 0;
};

}  // namespace compat::fi
