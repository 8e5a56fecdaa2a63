// SPDX-License-Identifier: BSD-3-Clause
// Connection management as endpoints see it: events of the device's identifiers, drained by the
// event queue that the program reads.
#pragma once

#include <rdma/fi_cm.h>

#include <memory>

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

inline std::span<const std::byte> to_bytes(const void* data, std::size_t length) {
    return {static_cast<const std::byte*>(data), length};
}

}  // namespace compat::fi
