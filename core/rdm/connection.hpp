// SPDX-License-Identifier: BSD-3-Clause
// One connection to a peer, and what is on its way on it. Under the lock of the endpoint's
// receives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/engine/tracked_qp.hpp"
#include "core/rdm/matcher.hpp"
#include "core/rdm/observer.hpp"
#include "core/rdm/peer.hpp"

namespace compat::core::rdm {

// Buffers that are posted for the peer. It may send kDataBuffers messages before the program has
// taken one, kControlBuffers acknowledgements whatever the program does, and what only gives
// permissions at any time: at most two of each kind are under way (one is sent when half of the
// buffers have become free), and the one that opens the connection.
constexpr std::uint32_t kDataBuffers = 32;
constexpr std::uint32_t kControlBuffers = 8;
constexpr std::uint32_t kPermitBuffers = 5;
constexpr std::uint32_t kBuffers = kDataBuffers + kControlBuffers + kPermitBuffers;

/// Permissions for one kind of messages, counted from the start of the connection; they wrap.
struct Permits {
    std::uint32_t buffers = 0;    ///< of ours
    std::uint32_t granted = 0;    ///< how many the peer may send, in all
    std::uint32_t announced = 0;  ///< and knows of
    std::uint32_t allowed = 0;    ///< how many we may send
    std::uint32_t sent = 0;

    void start(std::uint32_t own_buffers) noexcept { buffers = granted = announced = own_buffers; }
    [[nodiscard]] bool may_send() const noexcept { return allowed != sent; }
    [[nodiscard]] bool is_due() const noexcept { return (granted - announced) * 2 >= buffers; }
    /// A peer cannot take permissions back.
    void learn(std::uint32_t permit) noexcept {
        if (static_cast<std::int32_t>(permit - allowed) > 0) allowed = permit;
    }
};

/// A receive buffer of a connection.
struct Buffer {
    Connection* connection = nullptr;
    std::byte* data = nullptr;
    Unexpected parked;  ///< of the message that stays in it
};

using Regions = std::array<std::unique_ptr<MemoryRegion>, kMaxSegments>;

/// What a rendezvous needs at the receiver.
struct Pull {
    Placement placement;
    Header header;
    std::array<RemoteRange, kMaxSegments> sources;
    Regions sinks;  ///< where the device wants keys for local memory
};

/// An operation on its way, or an acknowledgement that could not go out yet.
struct Transfer : Linked<Transfer> {
    enum class Kind : std::uint8_t { free, message, rma, pull, acknowledge, written };
    static constexpr std::uint8_t kAwaitsDevice = 1;
    static constexpr std::uint8_t kAwaitsPeer = 2;
    static constexpr std::uint8_t kAwaitsWrite = 4;  ///< written: before what tells of it

    std::uint32_t number = 0;  ///< in the pool
    Kind kind = Kind::free;
    std::uint8_t awaits = 0;
    OpKind op = OpKind::send;
    bool entry = false;
    bool waiting = false;                       ///< in Connection::waiting
    bool failed = false;                        ///< acknowledge: the bytes could not be read
    std::uint32_t id = 0;                       ///< acknowledge: the peer's
    std::uint64_t imm = 0;                      ///< written
    WcStatus write_status = WcStatus::success;  ///< written: of the write
    Connection* connection = nullptr;
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::uint64_t length = 0;
    std::uint64_t traced = 0;  ///< its number in the endpoint's trace; 0: none
    std::byte* slot = nullptr;
    std::unique_ptr<Regions> regions;  ///< of the program's memory, for the time of the transfer
    std::unique_ptr<Pull> pull;
};

struct Connection : Linked<Connection> {
    enum class State : std::uint8_t {
        connecting,  ///< our request is out
        accepting,   ///< our answer is out
        open,
        draining,  ///< broken; what was posted comes back
        gone       ///< only messages in its buffers are left
    };

    Connection(Endpoint& own_endpoint, Peer& own_peer)
        : endpoint(own_endpoint), peer_ref(own_peer), peer(own_peer) {}

    Endpoint& endpoint;
    PeerRef peer_ref;
    Peer& peer;
    State state = State::connecting;
    Clock::time_point since = Clock::now();
    /// We have asked the peer for it, or something has come over it. Of others all that is known is
    /// that somebody on the peer's host sent a request.
    bool proven = false;
    bool stands = false;           ///< of one that we accepted: the device says so
    std::uint64_t doubted_in = 0;  ///< the sweep in which it was to give way; 0: never
    Permits data;
    Permits control;
    std::uint32_t posted = 0;  ///< buffers with the device
    bool owes_permit = false;  ///< there was no room to tell the peer what it may send
    std::uint32_t untold = 0;  ///< writes of which the peer shall hear before anything else
    std::uint32_t stayed = 0;  ///< buffers with messages that no receive has taken
    List<Transfer> transfers;
    List<Transfer> waiting;  ///< acknowledgements and pulls that could not go out
    // In the order in which they are made.
    Observer observer;
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<Buffer[]> buffers;
    std::unique_ptr<CmId> id;
    std::unique_ptr<TransmitQueue> transmit;
    std::unique_ptr<ReceiveQueue> receive;
    std::unique_ptr<TrackedQp> qp;
};

}  // namespace compat::core::rdm
