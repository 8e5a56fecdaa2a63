// SPDX-License-Identifier: BSD-3-Clause
// Connectionless endpoints: one endpoint reaches any number of peers, over connections that it
// makes when they are needed. docs/decisions/0006-connectionless-endpoints.md
//
//     AddressBook book;                       // the address vector
//     auto endpoint = RdmEndpoint::open({.device = &device, .pd = &pd, .addresses = &book, ...});
//     const auto peer = book.insert(address);
//     (*endpoint)->send(*peer, message);      // would_block until the connection stands: repeat
//
// Every accepted operation gives exactly one completion in the queues of RdmAttr: an entry, or an
// error. Nobody has to know which connection it took.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/device/device.hpp"
#include "core/engine/counter.hpp"
#include "core/engine/operation.hpp"
#include "core/engine/tracked_cq.hpp"
#include "core/rdm/address_book.hpp"
#include "core/rdm/message.hpp"

namespace compat::core {

namespace rdm {
class Endpoint;
}

/// Receives of one endpoint, or of several that share them. It outlives its endpoints.
class MessageQueue {
public:
    /// depth: receives that may be posted at a time. Errors: invalid_argument (0), no_memory.
    static Result<std::unique_ptr<MessageQueue>> create(std::uint32_t depth) noexcept;
    virtual ~MessageQueue() = default;

    /// Errors: would_block (depth), invalid_argument (too many buffers; several for a multiple).
    virtual Status post(const MessageReceive& receive) noexcept = 0;
    /// Withdraws the oldest receive with that context and makes its completion (flushed).
    /// Errors: invalid_argument (there is none, or a message has taken it).
    virtual Result<Completion> cancel(void* context) noexcept = 0;
    /// A multi-receive buffer is released when fewer bytes than this are left.
    virtual void set_min_multiple(std::uint64_t length) noexcept = 0;
    [[nodiscard]] virtual std::size_t free_slots() noexcept = 0;
};

enum class RdmProgress : std::uint8_t {
    automatic,  ///< messages are matched while the program does other things
    manual      ///< only while it reads or sleeps on completion queues or counters, or posts
};

struct RdmAttr {
    Device* device = nullptr;
    ProtectionDomain* pd = nullptr;
    const AddressBook* addresses = nullptr;
    SocketAddress address;  ///< to listen at; port 0: any
    TrackedCq* transmit_cq = nullptr;
    TrackedCq* receive_cq = nullptr;
    MessageQueue* receives = nullptr;  ///< shared by several endpoints; null: one of its own
    std::array<Counter*, static_cast<std::size_t>(OpKind::count_)> counters{};
    Counter* receive_counter = nullptr;
    Counter* remote_writes = nullptr;  ///< these two need Limits::remote_access_events
    Counter* remote_reads = nullptr;
    /// What peers may do by RMA, as QpAttr::access; reading messages is none of it.
    AccessFlags remote_access = kRemoteAccess;
    RdmProgress progress = RdmProgress::automatic;
    std::uint32_t transmit_depth = 0;  ///< operations on their way, to each peer
    std::uint32_t receive_depth = 0;   ///< without `receives`
    std::size_t max_inject_rma = 0;
    std::uint64_t remote_write_flags = 0;  ///< Completion::flags of CompletionKind::remote_write
    /// Bytes of messages that came before their receives and are kept outside of the connections'
    /// buffers. Beyond it senders are held back.
    std::size_t max_unexpected = std::size_t{64} << 20;
};

class RdmEndpoint {
public:
    /// What messages may be, whatever the device.
    static constexpr std::size_t kMaxInjectMessage = 4096;
    static constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 40;

    /// Listens, and takes connections from now on.
    /// Errors: those of CmId::bind() and listen(); no_memory; device.
    static Result<std::unique_ptr<RdmEndpoint>> open(const RdmAttr& attr) noexcept;
    /// Sends off what was posted, then ends all connections. What had not completed is dropped
    /// silently, nothing of it touches the program's memory any more.
    ~RdmEndpoint();

    /// The address at which peers reach it.
    [[nodiscard]] SocketAddress name() const noexcept;

    // Errors of all posts: would_block: the connection does not stand yet, or the peer takes no
    // more at present, or a queue is full; progress changes that, so repeat. invalid_argument: no
    // such address, limits. An operation to a peer that cannot be reached completes with
    // WcStatus::retry_exceeded; one posted later tries again.

    Status send(AddressIndex to, const Message& message) noexcept;
    /// RMA and atomics, one-sided: as TransmitQueue::post().
    Status post(AddressIndex to, const Operation& operation) noexcept;
    Status post(AddressIndex to, SingleOperation operation) noexcept;
    /// Sends off what OpFlag::more held back.
    void flush() noexcept;

    Status receive(const MessageReceive& receive) noexcept;
    /// Its completion comes at once.
    Status peek(const MessagePeek& peek) noexcept;
    /// Receives what peek() claimed with receive.context. Errors: invalid_argument (nothing is).
    Status take_claimed(const MessageReceive& receive, bool discard) noexcept;
    /// The receives: for cancel() and the like.
    [[nodiscard]] MessageQueue& receives() noexcept;

private:
    explicit RdmEndpoint(std::unique_ptr<rdm::Endpoint> inside) noexcept;

    std::unique_ptr<rdm::Endpoint> inside_;
};

}  // namespace compat::core
