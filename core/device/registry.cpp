// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/registry.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/soft/soft_device.hpp"

namespace compat::core {
namespace {

/// The kernel's word on whether an address is ours, or is reached: bind or connect of a datagram
/// socket sends nothing.
int try_address(const SocketAddress& address, Direction direction) {
    const UniqueFd socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno;
    SocketAddress probe = address;
    if (direction == Direction::local) probe.set_port(0);
    if (direction == Direction::remote && probe.port() == 0) probe.set_port(9);
    const int rc = direction == Direction::local
                       ? ::bind(socket.get(), probe.get(), probe.length())
                       : ::connect(socket.get(), probe.get(), probe.length());
    return rc == 0 ? 0 : errno;
}

}  // namespace

std::span<Device* const> all_devices() noexcept {
    static const std::array<Device*, 1> devices{&soft::device()};
    return devices;
}

Result<Device*> device_for_address(const SocketAddress& address, Direction direction) noexcept {
    if (std::string_view(setting_text(Setting::device)) == "verbs") {
        COMPAT_LOG_ERROR("no RDMA device for %s: this build has no verbs device",
                         address.text().c_str());
        return failure(Errc::no_device, ENODEV);
    }
    if (const int error = try_address(address, direction); error != 0) {
        const bool local = direction == Direction::local;
        COMPAT_LOG_ERROR("%s is not %s, errno %d", address.text().c_str(),
                         local ? "an address of this host" : "reachable", error);
        return failure(local ? Errc::no_device : Errc::unreachable, error);
    }
    return all_devices().front();
}

}  // namespace compat::core
