// SPDX-License-Identifier: BSD-3-Clause
// An IPv4 or IPv6 address with port, as the socket calls and rdma_cm take it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "core/base/result.hpp"

namespace compat::core {

/// An address in print, "127.0.0.1:7204", "[::1]:7204" or "none". Takes no memory, so that noexcept
/// functions may log it.
class AddressText {
public:
    [[nodiscard]] const char* c_str() const noexcept { return text_.data(); }

private:
    friend class SocketAddress;
    std::array<char, INET6_ADDRSTRLEN + sizeof "[]:65535"> text_{};
};

class SocketAddress {
public:
    SocketAddress() = default;
    /// Errors: invalid_argument unless it is a complete sockaddr_in or sockaddr_in6.
    static Result<SocketAddress> from(const sockaddr* address, std::size_t length) noexcept;

    [[nodiscard]] const sockaddr* get() const noexcept {
        return reinterpret_cast<const sockaddr*>(&storage_);
    }
    [[nodiscard]] socklen_t length() const noexcept;  ///< bytes; 0 when empty
    [[nodiscard]] sa_family_t family() const noexcept { return storage_.ss_family; }
    [[nodiscard]] bool empty() const noexcept { return family() == AF_UNSPEC; }
    [[nodiscard]] bool is_wildcard() const noexcept;  ///< 0.0.0.0 or ::
    [[nodiscard]] bool is_loopback() const noexcept;
    [[nodiscard]] std::uint16_t port() const noexcept;  ///< host order
    void set_port(std::uint16_t port) noexcept;         ///< host order
    [[nodiscard]] AddressText text() const noexcept;

    friend bool operator==(const SocketAddress& left, const SocketAddress& right) noexcept;
    /// The same but for the port.
    [[nodiscard]] bool same_host(const SocketAddress& other) const noexcept;

private:
    sockaddr_storage storage_{};
};

enum class Resolve : std::uint8_t {
    active,   ///< node is where to connect to
    passive,  ///< node is where to listen; an empty node is the wildcard
    numeric,  ///< node is a literal: no look-up (active)
};

/// getaddrinfo(3) for stream sockets; node and service may be null, not both.
/// Errors: unreachable (device_errno is 0, the reason is logged), no_memory.
Result<SocketAddress> resolve_address(const char* node, const char* service, Resolve how) noexcept;

}  // namespace compat::core
