// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/registry.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <string_view>
#include <vector>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/verbs/verbs_device.hpp"

namespace compat::core {
namespace {

bool is_allowed(std::string_view kind) noexcept {
    const std::string_view setting = setting_text(Setting::device);
    return setting == kind || (setting != "verbs" && setting != "soft");
}

/// The kernel's word on whether an address is ours, or is reached, and by which of ours: bind or
/// connect of a datagram socket sends nothing. Errors: no_device, unreachable.
Result<SocketAddress> local_end(const SocketAddress& address, Direction direction) noexcept {
    const bool local = direction == Direction::local;
    const UniqueFd socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    SocketAddress probe = address;
    if (local) probe.set_port(0);
    if (!local && probe.port() == 0) probe.set_port(9);
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    auto* const own_address = reinterpret_cast<sockaddr*>(&own);
    const auto reach = local ? ::bind : ::connect;
    if (socket && reach(socket.get(), probe.get(), probe.length()) == 0 &&
        ::getsockname(socket.get(), own_address, &length) == 0)
        return SocketAddress::from(own_address, length);
    const int error = errno;
    COMPAT_LOG_ERROR("%s is not %s, errno %d", address.text().c_str(),
                     local ? "an address of this host" : "reachable", error);
    return failure(local ? Errc::no_device : Errc::unreachable, error);
}

using Devices = std::vector<Device*>;

Devices list_devices() noexcept try {
    Devices devices;
    if (is_allowed("verbs")) {
        const auto found = verbs::devices();
        devices.assign(found.begin(), found.end());
    }
    if (is_allowed("soft")) devices.push_back(&soft::device());
    return devices;
} catch (const std::bad_alloc&) {
    return {};
}

}  // namespace

std::span<Device* const> all_devices() noexcept {
    alignas(Devices) static std::byte place[sizeof(Devices)];
    static const Devices& devices = *new (place) Devices(list_devices());
    return devices;
}

Result<Device*> device_for_address(const SocketAddress& address, Direction direction) noexcept {
    const auto own = local_end(address, direction);
    if (!own) return failure(own.error());
    if (is_allowed("verbs"))
        if (Device* const owner = verbs::owner_of(*own)) return owner;
    if (is_allowed("soft")) return &soft::device();
    COMPAT_LOG_ERROR("no RDMA device for %s", address.text().c_str());
    return failure(Errc::no_device, ENODEV);
}

}  // namespace compat::core
