// SPDX-License-Identifier: BSD-3-Clause
// The peers of an endpoint: those that its program has addressed, and those that came by
// themselves. Under the lock of the endpoint's receives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "core/base/result.hpp"
#include "core/base/socket_address.hpp"
#include "core/rdm/address_book.hpp"
#include "core/rdm/resolution.hpp"

namespace compat::core::rdm {

using Clock = std::chrono::steady_clock;

struct Connection;
class PeerTable;

struct Peer {
    explicit Peer(PeerTable& own_table) noexcept : table(own_table) {}

    PeerTable& table;
    SocketAddress name;
    Connection* connection = nullptr;        ///< to send on; perhaps it does not stand yet
    std::shared_ptr<Resolution> resolution;  ///< before the connection is asked for
    Clock::time_point retry_at{};            ///< not before, unless the peer asks
    std::uint32_t refusals = 0;              ///< in a row
    bool failed = false;                     ///< nobody was told yet
    Clock::time_point failed_at{};
    std::uint32_t awaiting_peer = 0;   ///< messages that wait for an acknowledgement
    std::size_t unexpected_bytes = 0;  ///< of its messages that are kept on the heap
    AddressIndex index = kNoAddress;   ///< in the address book, as of that version
    std::uint64_t index_version = UINT64_MAX;
    std::uint32_t uses = 0;  ///< PeerRefs
};

/// Keeps a row of the table: what refers to a peer for longer than a call has one.
class PeerRef {
public:
    PeerRef() = default;
    explicit PeerRef(Peer& peer) noexcept : peer_(&peer) { ++peer.uses; }
    PeerRef(PeerRef&& other) noexcept : peer_(std::exchange(other.peer_, nullptr)) {}
    PeerRef& operator=(PeerRef&& other) noexcept {
        std::swap(peer_, other.peer_);
        return *this;
    }
    PeerRef(const PeerRef&) = delete;
    PeerRef& operator=(const PeerRef&) = delete;
    ~PeerRef();

    [[nodiscard]] Peer* get() const noexcept { return peer_; }
    [[nodiscard]] Peer& operator*() const noexcept { return *peer_; }

private:
    Peer* peer_ = nullptr;
};

/// Peers come and go for as long as the endpoint lives: a row that nothing refers to is no more.
class PeerTable {
public:
    /// The row of that name, a new one if need be. Errors: no_memory.
    Result<PeerRef> named(const SocketAddress& name) noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

private:
    friend class PeerRef;
    void erase(const Peer& peer) noexcept;

    std::unordered_map<SocketAddress, Peer, SocketAddressHash> rows_;
};

inline PeerRef::~PeerRef() {
    if (peer_ != nullptr && --peer_->uses == 0) peer_->table.erase(*peer_);
}

}  // namespace compat::core::rdm
