// SPDX-License-Identifier: BSD-3-Clause
#include <new>

#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

using namespace std::chrono_literals;

// A program that never uses the peer again shall not be told of it by an operation of tomorrow.
constexpr auto kFailureIsOld = 2s;
constexpr auto kAwaitProof = 1s;

}  // namespace

Result<Peer*> Endpoint::peer_at(AddressIndex index) noexcept {
    if (index < by_index_.size()) {
        const IndexRow& row = by_index_[index];
        const std::uint32_t generation = attr_.addresses->generation(index);
        if (row.generation == generation && generation != 0) return row.peer.get();
    }
    return find_slowly(index);
}

Result<Peer*> Endpoint::find_slowly(AddressIndex index) noexcept try {
    // The generation first: an address that replaces this one meanwhile has another.
    const std::uint32_t generation = attr_.addresses->generation(index);
    const auto address = attr_.addresses->lookup(index);
    if (!address || generation == 0) return failure(Errc::invalid_argument);
    auto peer = peers_.named(*address);
    if (!peer) return failure(peer.error());
    if (index >= by_index_.size()) by_index_.resize(index + 1);
    IndexRow& row = by_index_[index];
    row = {std::move(*peer), generation};
    return row.peer.get();
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Result<PeerRef> PeerTable::named(const SocketAddress& name) noexcept try {
    Peer& row = rows_.try_emplace(name, *this).first->second;
    row.name = name;
    return PeerRef(row);
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void PeerTable::erase(const Peer& peer) noexcept {
    rows_.erase(rows_.find(peer.name));
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
    const Connection* const own = peer.connection;
    const bool proven = own != nullptr && own->proven;
    if (proven && own->state == Connection::State::open) return peer.connection;
    if (proven) return failure(refuse(Stat::not_connected).error());
    const auto now = Clock::now();
    // Whoever has asked for that connection may have no part in the peer: then we ask ourselves.
    if (own != nullptr && now - own->since < kAwaitProof)
        return failure(refuse(Stat::not_connected).error());
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
