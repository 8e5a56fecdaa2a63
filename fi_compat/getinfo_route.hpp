// SPDX-License-Identifier: BSD-3-Clause
// Addresses of discovery: where an endpoint would be, and whom it would talk to.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/core.hpp"

namespace compat::fi {

struct Route {
    core::SocketAddress source;       ///< ours; its port may be 0
    core::SocketAddress destination;  ///< empty: none was given
    core::SocketAddress local;        ///< the interface's address: ours, when source is a wildcard
    std::string interface;            ///< "eth0"
    std::string network;              ///< "192.0.2.0/24"
    bool same_host;                   ///< the destination, if there is one, is an address of ours
};

struct RouteRequest {
    const char* node;
    const char* service;
    std::uint64_t flags;  ///< FI_SOURCE, FI_NUMERICHOST
    const fi_info* hints;
};

/// The ways that fit the request (fi_getinfo(3), node, service and the hints' addresses): one per
/// interface and family when no address is given. IPv4 before IPv6, this host's loopback last.
/// Empty when there is none; why_none then says so.
std::vector<Route> find_routes(const RouteRequest& request, std::string& why_none);

}  // namespace compat::fi
