// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/getinfo_route.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "fi_compat/address.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/getinfo_hints.hpp"

namespace compat::fi {
namespace {

struct Interface {
    std::string name;
    core::SocketAddress address;
    unsigned prefix = 0;  ///< bits of the network part
};

/// The bytes of an address itself, in network order.
std::span<const std::uint8_t> address_bytes(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        const auto& in = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
        return {reinterpret_cast<const std::uint8_t*>(&in), sizeof in};
    }
    const auto& in6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return {in6.s6_addr, sizeof in6};
}

unsigned count_bits(std::span<const std::uint8_t> mask) {
    unsigned bits = 0;
    for (const std::uint8_t byte : mask) bits += static_cast<unsigned>(std::popcount(byte));
    return bits;
}

bool in_network(const core::SocketAddress& address, const Interface& interface) {
    if (address.family() != interface.address.family()) return false;
    const auto left = address_bytes(address.get());
    const auto right = address_bytes(interface.address.get());
    for (unsigned bit = 0; bit < interface.prefix; ++bit) {
        const unsigned mask = 0x80U >> (bit % 8);
        if ((left[bit / 8] & mask) != (right[bit / 8] & mask)) return false;
    }
    return true;
}

/// "192.0.2.0/24"
std::string network_text(const Interface& interface) {
    std::array<std::uint8_t, sizeof(in6_addr)> network{};
    const auto bytes = address_bytes(interface.address.get());
    for (unsigned bit = 0; bit < interface.prefix; ++bit) {
        const unsigned mask = 0x80U >> (bit % 8);
        network[bit / 8] = static_cast<std::uint8_t>(network[bit / 8] | (bytes[bit / 8] & mask));
    }
    char text[INET6_ADDRSTRLEN] = "?";
    inet_ntop(interface.address.family(), network.data(), text, sizeof text);
    return std::string(text) + "/" + std::to_string(interface.prefix);
}

bool is_link_local(const core::SocketAddress& address) {
    return address.family() == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

/// What programs that take the first answer get first.
int preference(const core::SocketAddress& address) {
    return (address.is_loopback() ? 4 : 0) + (address.family() == AF_INET6 ? 1 : 0) +
           (is_link_local(address) ? 1 : 0);
}

std::vector<Interface> list_interfaces() {
    std::vector<Interface> interfaces;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return interfaces;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if ((one->ifa_flags & IFF_UP) == 0 || one->ifa_addr == nullptr) continue;
        const auto address = core::SocketAddress::from(one->ifa_addr, sizeof(sockaddr_storage));
        if (!address) continue;
        const unsigned prefix =
            one->ifa_netmask != nullptr ? count_bits(address_bytes(one->ifa_netmask)) : 0;
        interfaces.push_back({one->ifa_name, *address, prefix});
    }
    std::ranges::stable_sort(
        interfaces, {}, [](const Interface& interface) { return preference(interface.address); });
    return interfaces;
}

/// The interface that owns an address; all of 127.0.0.0/8 is the loopback's.
const Interface* owner_of(const core::SocketAddress& address, std::span<const Interface> all) {
    for (const Interface& interface : all) {
        if (interface.address.same_host(address)) return &interface;
        if (address.is_loopback() && interface.address.is_loopback() &&
            in_network(address, interface))
            return &interface;
    }
    return nullptr;
}

/// Where the kernel would send from; connecting a datagram socket sends nothing.
std::optional<core::SocketAddress> local_towards(const core::SocketAddress& destination) {
    core::SocketAddress probe = destination;
    if (probe.port() == 0) probe.set_port(9);
    const int fd = socket(probe.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return std::nullopt;
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    auto* const own = reinterpret_cast<sockaddr*>(&storage);
    const bool known =
        connect(fd, probe.get(), probe.length()) == 0 && getsockname(fd, own, &length) == 0;
    close(fd);
    if (!known) return std::nullopt;
    auto address = core::SocketAddress::from(own, length);
    if (!address) return std::nullopt;
    address->set_port(0);
    return *address;
}

int family_of(std::uint32_t addr_format) {
    return addr_format == FI_SOCKADDR_IN    ? AF_INET
           : addr_format == FI_SOCKADDR_IN6 ? AF_INET6
                                            : AF_UNSPEC;
}

/// getaddrinfo() takes the number of a port modulo 65536.
bool is_no_port(const char* service) {
    constexpr unsigned long kMaxPort = 65535;
    if (service == nullptr || *service == '\0') return false;
    char* end = nullptr;
    const unsigned long port = std::strtoul(service, &end, 10);
    return *end == '\0' && port > kMaxPort;
}

std::vector<core::SocketAddress> look_up(const RouteRequest& request, std::string& why_none) {
    std::string host;
    std::string port;
    const char* node = request.node;
    const char* service = request.service;
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_family = family_of(request.hints != nullptr ? request.hints->addr_format : 0);
    if ((request.flags & FI_SOURCE) != 0) wanted.ai_flags |= AI_PASSIVE;
    if ((request.flags & FI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
    if (node != nullptr && split_address_text(node, host, port)) {
        node = host.c_str();
        service = port.c_str();
        wanted.ai_flags |= AI_NUMERICHOST;
    }
    std::vector<core::SocketAddress> addresses;
    addrinfo* list = nullptr;
    const int rc = is_no_port(service) ? EAI_SERVICE : getaddrinfo(node, service, &wanted, &list);
    if (rc != 0) {
        why_none = std::string("cannot resolve ") + (node ? node : "") + ":" +
                   (service ? service : "") + ": " + gai_strerror(rc) +
                   "; node must be an address or a name that the host can look up, service a port";
        return addresses;
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
        const auto address = core::SocketAddress::from(one->ai_addr, one->ai_addrlen);
        if (address && std::ranges::find(addresses, *address) == addresses.end())
            addresses.push_back(*address);
    }
    std::ranges::stable_sort(addresses, {}, [](const core::SocketAddress& address) {
        return address.family() == AF_INET6;
    });
    return addresses;
}

class Finder {
public:
    Finder(const RouteRequest& request, std::string& why_none)
        : request_(request), why_none_(why_none), interfaces_(list_interfaces()) {}

    std::vector<Route> find() {
        const fi_info* hints = request_.hints;
        core::SocketAddress source;
        core::SocketAddress destination;
        if (hints != nullptr) {
            source = source_of(*hints);
            destination = destination_of(*hints);
        }
        const bool is_source = (request_.flags & FI_SOURCE) != 0;
        const bool names_peer = !is_source && request_.node != nullptr;
        if (is_source) {
            for (const auto& address : look_up(request_, why_none_)) add(address, destination);
        } else if (names_peer) {
            for (const auto& address : look_up(request_, why_none_)) add(source, address);
        } else {
            add(source, destination);
        }
        return std::move(routes_);
    }

private:
    void add(const core::SocketAddress& source, const core::SocketAddress& destination) {
        if (source.empty() && !destination.empty()) return add_towards(destination);
        if (source.empty() || source.is_wildcard()) return add_everywhere(source, destination);
        const Interface* owner = owner_of(source, interfaces_);
        if (owner != nullptr)
            push(source, destination, source, *owner);
        else
            why_none_ = std::string(source.text().c_str()) +
                        " is not an address of this host; it has" + own_addresses();
    }

    std::string own_addresses() const {
        std::string text;
        for (const Interface& interface : interfaces_)
            text += std::string(" ") + interface.address.text().c_str();
        return text;
    }

    void add_towards(const core::SocketAddress& destination) {
        const auto local = local_towards(destination);
        const Interface* owner = local ? owner_of(*local, interfaces_) : nullptr;
        if (owner != nullptr)
            push(*local, destination, *local, *owner);
        else
            why_none_ = std::string("no way to ") + destination.text().c_str();
    }

    /// No address (or any): one route per interface.
    void add_everywhere(const core::SocketAddress& source, const core::SocketAddress& destination) {
        for (const Interface& interface : interfaces_) {
            if (!source.empty() && source.family() != interface.address.family()) continue;
            push(source.empty() ? interface.address : source, destination, interface.address,
                 interface);
        }
        if (interfaces_.empty()) why_none_ = "no network interface is up";
    }

    void push(const core::SocketAddress& source, const core::SocketAddress& destination,
              const core::SocketAddress& local, const Interface& interface) {
        const std::uint32_t format = request_.hints != nullptr ? request_.hints->addr_format : 0;
        if (format_fits(format, source.family()))
            routes_.push_back(
                {source, destination, local, interface.name, network_text(interface),
                 destination.empty() || owner_of(destination, interfaces_) != nullptr});
        else if (routes_.empty())
            why_none_ = "no address of the format that hints->addr_format asks for";
    }

    const RouteRequest& request_;
    std::string& why_none_;
    std::vector<Interface> interfaces_;
    std::vector<Route> routes_;
};

}  // namespace

std::vector<Route> find_routes(const RouteRequest& request, std::string& why_none) {
    return Finder(request, why_none).find();
}

}  // namespace compat::fi
