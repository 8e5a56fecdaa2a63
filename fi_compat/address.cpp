// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/address.hpp"

#include <rdma/fi_errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace compat::fi {
namespace {

constexpr std::string_view kIn = "fi_sockaddr_in://";
constexpr std::string_view kIn6 = "fi_sockaddr_in6://";
constexpr std::array kSchemes{kIn, kIn6};

/// The scheme that text begins with; empty for none.
std::string_view scheme_of(std::string_view text) {
    const auto* found = std::ranges::find_if(
        kSchemes, [text](std::string_view scheme) { return text.starts_with(scheme); });
    return found != kSchemes.end() ? *found : std::string_view();
}

std::size_t length_of(sa_family_t family) {
    return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

core::SocketAddress or_empty(const core::Result<core::SocketAddress>& address) {
    return address ? *address : core::SocketAddress();
}

/// fi_av(3) wants an array of char*; programs that pass on what fi_getname() gave have the texts
/// themselves, one behind the other. No pointer looks like a scheme.
core::SocketAddress next_text(const void*& at) {
    const auto* text = static_cast<const char*>(at);
    if (std::strncmp(text, kIn.data(), 3) == 0) {
        at = text + std::strlen(text) + 1;
    } else {
        const auto* const* pointers = static_cast<const char* const*>(at);
        text = *pointers;
        at = pointers + 1;
    }
    return text != nullptr ? or_empty(parse_address_text(text)) : core::SocketAddress();
}

}  // namespace

std::string address_text(const core::SocketAddress& address) {
    const std::string_view scheme = address.family() == AF_INET6 ? kIn6 : kIn;
    return std::string(scheme) + address.text().c_str();
}

bool split_address_text(std::string_view text, std::string& host, std::string& port) {
    const std::string_view scheme = scheme_of(text);
    const auto colon = text.rfind(':');
    if (scheme.empty() || colon < scheme.size()) return false;
    host = text.substr(scheme.size(), colon - scheme.size());
    port = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return true;
}

core::Result<core::SocketAddress> parse_address_text(std::string_view text) {
    std::string host;
    std::string port;
    if (!split_address_text(text, host, port)) return core::failure(core::Errc::invalid_argument);
    return core::resolve_address(host.c_str(), port.c_str(), core::Resolve::numeric);
}

core::SocketAddress read_address(std::uint32_t format, const void* at, std::size_t length) {
    if (at == nullptr || length == 0) return {};
    if (format != FI_ADDR_STR)
        return or_empty(core::SocketAddress::from(static_cast<const sockaddr*>(at), length));
    const auto* text = static_cast<const char*>(at);
    return or_empty(parse_address_text({text, strnlen(text, length)}));
}

core::SocketAddress next_address(std::uint32_t format, const void*& at) {
    if (format == FI_ADDR_STR) return next_text(at);
    sa_family_t family = AF_UNSPEC;
    std::memcpy(&family, static_cast<const std::byte*>(at) + offsetof(sockaddr, sa_family),
                sizeof family);
    const std::size_t length = format == FI_SOCKADDR_IN6 ? sizeof(sockaddr_in6) : length_of(family);
    alignas(sockaddr_storage) std::array<std::byte, sizeof(sockaddr_in6)> copy{};
    std::memcpy(copy.data(), at, length);
    at = static_cast<const std::byte*>(at) + length;
    return read_address(format, copy.data(), length);
}

int write_address(std::uint32_t format, const core::SocketAddress& address, void* out,
                  std::size_t* length) {
    if (length == nullptr || (out == nullptr && *length != 0)) return -FI_EINVAL;
    const std::string text = format == FI_ADDR_STR ? address_text(address) : std::string();
    const void* const source =
        text.empty() ? static_cast<const void*>(address.get()) : text.c_str();
    const std::size_t needed = text.empty() ? address.length() : text.size() + 1;
    const std::size_t copied = std::min(needed, *length);
    if (copied != 0) std::memcpy(out, source, copied);
    *length = needed;
    return copied == needed ? 0 : -FI_ETOOSMALL;
}

}  // namespace compat::fi
