// SPDX-License-Identifier: BSD-3-Clause
#include <new>

#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

using namespace std::chrono_literals;

// A program that never uses the peer again shall not be told of it by an operation of tomorrow.
constexpr auto kFailureIsOld = 2s;

}  // namespace

Result<Peer*> Endpoint::peer_at(AddressIndex index) noexcept {
    if (index < by_index_.size()) {
        const IndexRow& row = by_index_[index];
        const std::uint32_t generation = attr_.addresses->generation(index);
        if (row.generation == generation && generation != 0) return row.peer;
    }
    return find_slowly(index);
}

Result<Peer*> Endpoint::find_slowly(AddressIndex index) noexcept try {
    // The generation first: an address that replaces this one meanwhile has another.
    const std::uint32_t generation = attr_.addresses->generation(index);
    const auto address = attr_.addresses->lookup(index);
    if (!address || generation == 0) return failure(Errc::invalid_argument);
    const auto peer = peer_named(*address);
    if (!peer) return peer;
    if (index >= by_index_.size()) by_index_.resize(index + 1);
    by_index_[index] = {*peer, generation};
    return peer;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Result<Peer*> Endpoint::peer_named(const SocketAddress& name) noexcept try {
    std::unique_ptr<Peer>& row = peers_[name];
    if (!row) {
        row = std::make_unique<Peer>();
        row->name = name;
    }
    return row.get();
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

AddressIndex Endpoint::index_of(Peer& peer) noexcept {
    const std::uint64_t version = attr_.addresses->version();
    if (peer.index_version != version) {
        peer.index = attr_.addresses->find(peer.name);
        peer.index_version = version;
    }
    return peer.index;
}

Result<Connection*> Endpoint::reach(Peer& peer) noexcept {
    if (peer.connection != nullptr) {
        if (peer.connection->state == Connection::State::open) return peer.connection;
        return failure(refuse(Stat::not_connected).error());
    }
    const auto now = Clock::now();
    if (peer.failed) {
        if (now - peer.failed_at < kFailureIsOld) return failure(Errc::unreachable);
        peer.failed = false;
    }
    if (now < peer.retry_at) return failure(refuse(Stat::not_connected).error());
    const Status asked = connect(peer);
    if (!asked) return failure(asked.error());
    return failure(refuse(Stat::not_connected).error());
}

}  // namespace compat::core::rdm
