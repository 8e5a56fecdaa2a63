// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/socket_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "core/base/log.hpp"

namespace compat::core {
namespace {

const sockaddr_in& in4(const sockaddr_storage& storage) {
    return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& in6(const sockaddr_storage& storage) {
    return reinterpret_cast<const sockaddr_in6&>(storage);
}

}  // namespace

Result<SocketAddress> SocketAddress::from(const sockaddr* address, std::size_t length) noexcept {
    if (address == nullptr || length < sizeof(sa_family_t)) return failure(Errc::invalid_argument);
    SocketAddress result;
    const std::size_t needed = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                               : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                                : SIZE_MAX;
    if (length < needed) return failure(Errc::invalid_argument);
    std::memcpy(&result.storage_, address, needed);
    return result;
}

socklen_t SocketAddress::length() const noexcept {
    switch (family()) {
        case AF_INET: return sizeof(sockaddr_in);
        case AF_INET6: return sizeof(sockaddr_in6);
        default: return 0;
    }
}

bool SocketAddress::is_wildcard() const noexcept {
    if (family() == AF_INET) return in4(storage_).sin_addr.s_addr == htonl(INADDR_ANY);
    return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6(storage_).sin6_addr);
}

bool SocketAddress::is_loopback() const noexcept {
    if (family() == AF_INET) return (ntohl(in4(storage_).sin_addr.s_addr) >> 24) == 127;
    return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6(storage_).sin6_addr);
}

std::uint16_t SocketAddress::port() const noexcept {
    // sin_port and sin6_port share their offset
    return empty() ? 0 : ntohs(in4(storage_).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) noexcept {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
}

AddressText SocketAddress::text() const noexcept {
    AddressText out;
    char host[INET6_ADDRSTRLEN] = "?";
    const bool six = family() == AF_INET6;
    const void* bytes = six ? static_cast<const void*>(&in6(storage_).sin6_addr)
                            : static_cast<const void*>(&in4(storage_).sin_addr);
    inet_ntop(family(), bytes, host, sizeof host);
    if (empty())
        std::snprintf(out.text_.data(), out.text_.size(), "none");
    else
        std::snprintf(out.text_.data(), out.text_.size(), six ? "[%s]:%u" : "%s:%u", host,
                      unsigned{port()});
    return out;
}

bool operator==(const SocketAddress& left, const SocketAddress& right) noexcept {
    if (left.family() != right.family() || left.port() != right.port()) return false;
    if (left.family() == AF_INET)
        return in4(left.storage_).sin_addr.s_addr == in4(right.storage_).sin_addr.s_addr;
    return left.family() != AF_INET6 ||
           (IN6_ARE_ADDR_EQUAL(&in6(left.storage_).sin6_addr, &in6(right.storage_).sin6_addr) &&
            in6(left.storage_).sin6_scope_id == in6(right.storage_).sin6_scope_id);
}

bool SocketAddress::same_host(const SocketAddress& other) const noexcept {
    SocketAddress here = *this;
    here.set_port(other.port());
    return here == other;
}

Result<SocketAddress> resolve_address(const char* node, const char* service, Resolve how) noexcept {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    if (how == Resolve::passive) hints.ai_flags = AI_PASSIVE;
    if (how == Resolve::numeric) hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    const int rc = getaddrinfo(node, service, &hints, &found);
    if (rc != 0) {
        COMPAT_LOG_ERROR(
            "cannot resolve %s%s%s: %s; is it an address, or a name that this host can "
            "look up?",
            node ? node : "", service ? ":" : "", service ? service : "", gai_strerror(rc));
        return failure(rc == EAI_MEMORY ? Errc::no_memory : Errc::unreachable);
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
        auto address = SocketAddress::from(one->ai_addr, one->ai_addrlen);
        if (address) return address;
    }
    return failure(Errc::unreachable);
}

}  // namespace compat::core
