// SPDX-License-Identifier: BSD-3-Clause
// One connection of the software device to another host, or to a peer that the same-host path does
// not serve: iWARP (MPA, DDP, RDMAP) over a TCP socket. It carries the work of one QP.
//
// One lock guards a connection. It is taken by the program's threads that post and by whoever runs
// the reactor; the order is connection, then CQ or SRQ, then channel.
//
//   stream.cpp            states, closing, what the QP and the CM call
//   stream_handshake.cpp  TCP connect and the MPA start-up frames
//   stream_transmit.cpp   initiator: send queue entries become messages; Terminates of the peer
//   stream_receive.cpp    socket bytes become segments; what arrives is placed
//   stream_respond.cpp    responder: what reads, atomics and flushes of the peer get back
//   stream_shm.cpp        on one host: requests that need not go through the socket
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/lock.hpp"
#include "core/base/origin.hpp"
#include "core/base/ring.hpp"
#include "core/base/statistics.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/device.hpp"
#include "core/device/soft/cm.hpp"
#include "core/device/soft/memory.hpp"
#include "core/device/soft/placement.hpp"
#include "core/device/soft/qp_end.hpp"
#include "core/device/soft/reactor.hpp"
#include "core/device/soft/shm/direct.hpp"
#include "core/device/soft/shm/export.hpp"
#include "core/device/soft/tx_batch.hpp"
#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/mpa.hpp"

namespace compat::core::soft {

/// Reads and atomics in flight that we take and have, in either direction.
inline constexpr std::uint32_t kMaxReadDepth = 128;
/// The RNR retry count that means without end.
inline constexpr std::uint8_t kRetryForEver = 7;

class Stream final : public Source,
                     public ReceiveWaiter,
                     public std::enable_shared_from_this<Stream> {
public:
    Stream() = default;

    // --- the connection manager's calls
    /// Where events go. For a request that came in it is set once its identifier exists.
    void set_port(std::shared_ptr<EventPort> port) noexcept;
    void set_peer(const SocketAddress& local, const SocketAddress& peer, int timeout_ms) noexcept;
    /// Passive side: reads the request of a socket just accepted; raises connect_request there. The
    /// ticket is given back when the request has been answered, or has gone.
    Status read_request(UniqueFd socket, std::shared_ptr<EventPort> listener,
                        std::shared_ptr<const void> ticket) noexcept;
    Status connect(UniqueFd bound, const ConnectionParameters& parameters) noexcept;
    Status accept(const ConnectionParameters& parameters) noexcept;
    Status reject(std::span<const std::byte> private_data) noexcept;
    Status disconnect() noexcept;
    /// The identifier is gone.
    void abandon() noexcept;
    [[nodiscard]] SocketAddress local_address() noexcept;
    [[nodiscard]] SocketAddress peer_address() noexcept;

    // --- the QP's calls
    Status attach(std::unique_ptr<QpEnd> qp) noexcept;
    /// The connection ends, if it has not yet; nothing of the program's memory is touched after it.
    void detach() noexcept;
    Status post_send(std::span<const WorkRequest> requests, std::size_t* posted) noexcept;
    /// Counts it, too.
    Status post_plain(Opcode opcode, const PlainRequest& request) noexcept;
    Status post_receive(const ReceiveRequest& request) noexcept;
    Status cancel_receive(std::uint64_t wr_id) noexcept;
    void set_observer(RemoteAccessObserver* observer) noexcept;
    void fail_qp() noexcept;

    void on_ready(std::uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    void on_flush() noexcept override;
    void receive_posted() noexcept override;

private:
    enum class State : std::uint8_t {
        idle,             // nothing yet, or an address only
        connecting,       // TCP
        requesting,       // our request is out, the reply is not here
        reading_request,  // passive: waiting for the request
        requested,        // passive: the program decides
        accepted,         // passive: our reply is out, the first message is not here
        open,
        draining,   // disconnect() was called, requests posted before still leave
        lingering,  // our side is shut, the peer's end of stream is awaited
        closed,
    };

    // A request of ours on queue 1 whose response is awaited, in order.
    struct Awaited {
        enum class Kind : std::uint8_t { read, atomic, flush, acknowledgement };
        Kind kind = Kind::read;
        std::uint32_t id = 0;              // sink STag or request id
        SendQueue::Sequence sequence = 0;  // whose it is; acknowledgement: covers all before
        std::uint64_t expected = 0;        // bytes of a read response
    };

    // A response that we owe the peer.
    struct Owed {
        wire::RdmapOpcode opcode = wire::RdmapOpcode::read_response;
        std::uint32_t id = 0;  // sink STag or request id
        std::uint64_t sink = 0;
        std::uint64_t value = 0;  // atomic: original; flush: status
        std::uint32_t source_key = 0;
        std::uint64_t source = 0;
        std::uint32_t left = 0;  // bytes of a read still to send
        bool started = false;
        wire::Header request;  // for a Terminate, with the messages taken before it
        std::uint32_t messages_before = 0;
    };

    // The rest of a large segment that the socket delivers straight into memory.
    struct Direct {
        wire::TaggedHeader header;
        std::uint32_t left = 0;     // payload bytes that have not arrived
        std::uint32_t trailer = 0;  // padding and CRC field behind them
    };

    // The Send that is arriving.
    struct Arriving {
        TakenReceive receive;
        std::uint64_t capacity = 0;
        std::uint64_t length = 0;
    };

    static constexpr std::size_t kStagingBytes = 128 * 1024;
    static_assert(kStagingBytes > wire::kMaxFpduBytes, "a whole FPDU must fit");

    // The peer broke a rule; what we owed it before that still leaves.
    struct Parting {
        wire::TerminateCode code;
        wire::Header offender;
        std::uint32_t messages_before = 0;
    };

    // Stands before each ULPDU in parked_.
    struct ParkedHeader {
        std::uint32_t length = 0;  // of the ULPDU
        std::uint32_t messages_before = 0;
    };
    struct Parked {
        wire::Segment segment;
        std::uint32_t messages_before = 0;
        std::size_t end = 0;  // behind it in parked_
    };
    static constexpr std::size_t kParkedBytes = 1024 * 1024;

    static constexpr auto kNotPosting = std::numeric_limits<SendQueue::Sequence>::max();

    // Where the builder is in the entry at build_next_.
    enum class Part : std::uint8_t { begin, payload, immediate };

    // --- states and closing (stream.cpp)
    /// The connection is a parent process's. Asked before lock_ is taken.
    [[nodiscard]] bool inherited() const noexcept { return origin_.is_parent(); }
    [[nodiscard]] bool connected() const noexcept;  // posts are taken and sent
    [[nodiscard]] bool alive() const noexcept;      // connected, or draining
    void progress() noexcept;
    Status post_locked(std::span<const WorkRequest> requests, std::size_t* posted) noexcept;
    Status post_plain_slowly(const PlainRequest& plain) noexcept;
    void close_socket() noexcept;
    void shut() noexcept;
    void end(Failure first_outstanding) noexcept;
    void leave() noexcept;
    void drain() noexcept;
    void drain_before_detach(std::unique_lock<Lock>& guard) noexcept;
    void raise(CmEventType type, std::span<const std::byte> data = {}) noexcept;
    void fail_connecting(CmEventType type, const char* why) noexcept;
    void update_interest() noexcept;
    void arm(Clock::duration in) noexcept;
    void disarm() noexcept;
    void set_alarm() noexcept;
    void watch_peer() noexcept;
    void serve(std::uint32_t epoll_events) noexcept;

    // --- start-up (stream_handshake.cpp)
    Status open_connection(UniqueFd bound) noexcept;
    void on_tcp_connected() noexcept;
    bool send_start_frame(const wire::StartFrame& frame) noexcept;
    void on_start_frame_bytes() noexcept;
    void on_reply(const wire::StartFrame& frame) noexcept;
    void on_request(const wire::StartFrame& frame) noexcept;
    void begin_rdma(bool crc, bool own_peer) noexcept;
    void send_ready_to_receive(const wire::StartFrame& reply) noexcept;
    void emit_empty_write() noexcept;
    void repeat_ready_to_receive() noexcept;
    void on_first_message() noexcept;
    [[nodiscard]] bool wants_crc() const noexcept;

    // --- initiator (stream_transmit.cpp)
    void pump() noexcept;
    void pump_posted() noexcept;
    void build() noexcept;
    [[nodiscard]] bool between_messages() const noexcept;
    [[nodiscard]] bool built_all() const noexcept;
    [[nodiscard]] bool owes_acknowledgement_only() const noexcept;
    bool build_entry() noexcept;
    bool build_messages(SendEntry& entry) noexcept;
    bool build_payload(SendEntry& entry) noexcept;
    bool build_request(SendEntry& entry) noexcept;
    bool build_immediate(SendEntry& entry, bool announces_send) noexcept;
    bool build_acknowledgement() noexcept;
    [[nodiscard]] std::uint32_t new_request_id() noexcept;
    bool build_notice() noexcept;
    void on_notice(std::uint32_t taken) noexcept;
    [[nodiscard]] bool answers(const SendEntry& entry) const noexcept;
    [[nodiscard]] bool may_start(SendEntry& entry) noexcept;
    [[nodiscard]] bool wants_acknowledgement() const noexcept;
    [[nodiscard]] bool unsent() const noexcept;
    void fail_at(SendQueue::Sequence sequence, Failure failure) noexcept;
    void complete_sends() noexcept;
    Fault emit(wire::TaggedHeader header, std::span<const Payload> pieces) noexcept;
    Fault emit(wire::UntaggedHeader header, std::span<const Payload> pieces) noexcept;
    void count_message(bool last, std::uint32_t* msn) noexcept;
    [[nodiscard]] SendQueue::Sequence find_offender(const wire::Terminate& message) noexcept;
    void on_terminate(std::span<const std::byte> content) noexcept;
    void terminate(wire::TerminateCode code, const wire::Header& offender,
                   std::uint32_t messages_before) noexcept;

    // --- on one host (stream_shm.cpp)
    void introduce() noexcept;
    bool build_presence() noexcept;
    bool take_presence(std::span<const std::byte> content) noexcept;
    bool carry_directly(SendEntry& entry) noexcept;
    bool carry_at_once(Opcode opcode, const PlainRequest& request) noexcept;
    void open_slot() noexcept;
    void close_slot() noexcept;
    [[nodiscard]] bool slot_busy() const noexcept;
    void await_slot() noexcept;
    void return_slot() noexcept;

    // --- receiving (stream_receive.cpp)
    enum class Read : std::uint8_t {
        some,     // and the socket may have more
        last,     // it had less than there was room for
        drained,  // nothing
        ended,
        lost
    };
    void pull() noexcept;
    Read read_some() noexcept;
    bool take_direct() noexcept;
    void refuse_direct(Fault fault) noexcept;
    bool take_staged() noexcept;
    bool take_fpdus() noexcept;
    bool place_write(const wire::TaggedHeader& header, std::span<const std::byte> payload,
                     std::uint64_t segment_length) noexcept;
    bool store_placements() noexcept;
    bool begin_direct(std::span<const std::byte> staged, std::size_t ulpdu) noexcept;
    bool take_or_park(const wire::Segment& segment, std::span<const std::byte> ulpdu) noexcept;
    bool park(std::span<const std::byte> ulpdu) noexcept;
    [[nodiscard]] bool waiting() const noexcept { return parked_begin_ != parked_.size(); }
    [[nodiscard]] Parked first_parked() const noexcept;
    bool take_parked() noexcept;
    void on_receive_deadline() noexcept;
    bool take_segment(const wire::Segment& segment) noexcept;
    bool take_tagged(const wire::TaggedHeader& header, std::span<const std::byte> payload,
                     std::uint64_t segment_length) noexcept;
    bool finish_tagged(const wire::TaggedHeader& header) noexcept;
    bool take_untagged(const wire::Segment& segment) noexcept;
    bool take_send(const wire::Segment& segment) noexcept;
    bool place_send(std::span<const std::byte> payload) noexcept;
    bool take_immediate(const wire::Segment& segment) noexcept;
    bool take_request(const wire::Segment& segment) noexcept;
    bool take_response(const wire::Segment& segment) noexcept;
    bool take_flush_response(std::span<const std::byte> content) noexcept;
    bool take_receive(TakenReceive& receive) noexcept;
    bool wait_for_receive() noexcept;
    Fault pin_target(const wire::TaggedHeader& header, std::uint64_t length, Pin& pin) noexcept;
    Fault pin_sink(std::uint64_t offset, std::uint64_t length, Pin& pin,
                   std::uint64_t& contiguous) noexcept;
    bool on_response(Awaited::Kind kind, std::uint32_t id) noexcept;
    bool fail_awaited(Fault fault) noexcept;
    bool refuse(Fault fault, bool of_write) noexcept;
    bool violate(wire::TerminateCode code) noexcept;
    void part() noexcept;
    void end_of_stream(bool lost) noexcept;

    // --- responder (stream_respond.cpp)
    bool owe(Owed response) noexcept;
    bool take_read_request(std::span<const std::byte> content) noexcept;
    bool take_atomic_request(std::span<const std::byte> content) noexcept;
    bool take_flush_request(std::span<const std::byte> content) noexcept;
    bool build_response() noexcept;
    bool build_read_response(Owed& response) noexcept;
    void paid() noexcept;
    /// The program has been told of the receive of the message being taken.
    void delivered() noexcept {
        rx_delivered_ = rx_before_ + 1;
        untold_ = true;
    }

    Lock lock_;
    State state_ = State::idle;
    std::shared_ptr<EventPort> port_;
    std::shared_ptr<EventPort> listener_;  // passive, until the request is handed over
    std::shared_ptr<const void> ticket_;   // passive, until the request is answered
    CmEvents spare_events_ = CmEvents(2);  // how the start ended, and disconnected
    bool disconnect_raised_ = false;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point repeat_at_ =
        Clock::time_point::max();  // unless the first message is answered
    Clock::duration repeat_after_{};
    bool watching_peer_ = false;  // a deadline for looking after the peer's host is set
    UniqueFd socket_;
    std::uint32_t interest_ = 0;  // epoll events that are registered
    SocketAddress local_;
    SocketAddress peer_;
    Clock::duration resolve_timeout_{};
    const Origin origin_;

    // what was agreed
    std::vector<std::byte> private_data_;  // of our request, until it is sent
    wire::StartFrame request_;             // passive: what the peer wants (without private data)
    bool crc_ = false;
    bool own_peer_ = false;
    bool may_transmit_ = false;  // passive: not before the peer's first message
    bool unanswered_ = false;    // active: nothing shows that the peer reads what we send
    bool swallow_send_ = false;  // passive: the first message is a zero-length Send
    std::uint32_t ord_ = kMaxReadDepth;
    std::uint32_t ird_ = kMaxReadDepth;
    std::uint8_t rnr_retry_count_ = 7;
    std::size_t max_payload_ = 0;  // bytes in one segment

    std::unique_ptr<QpEnd> qp_;

    // on one host
    bool same_host_ = false;
    bool presence_due_ = false;
    bool peer_ended_ = false;  // its side of the stream is over: it reaches for nothing any more
    shm::Loan loan_;
    std::unique_ptr<shm::Direct> to_peer_;

    // transmit
    std::unique_ptr<TxBatch> batch_;
    bool socket_full_ = false;  // the batch waits for it, not for company
    Part part_ = Part::begin;
    SendQueue::Sequence build_next_ = 0;
    SendQueue::Sequence drain_end_ = 0;
    SendQueue::Sequence posting_from_ = kNotPosting;  // first of the post that runs right now
    SendQueue::Sequence signaled_end_ = 0;       // behind the newest that wants acknowledgement
    SendQueue::Sequence acknowledge_asked_ = 0;  // all before are covered by a request on its way
    std::size_t built_since_asked_ = 0;          // bytes, with a charge for each request
    std::uint32_t acknowledgements_out_ = 0;
    std::optional<SendQueue::Sequence> failing_;  // it failed here; earlier ones are still out
    Failure failing_with_;
    Ring<Awaited> awaited_;
    Ring<Owed> owed_;
    std::uint32_t next_request_id_ = wire::kNoRequest + 1;
    bool notice_due_ = false;
    std::array<std::uint32_t, wire::kQueueCount> tx_msn_;
    std::uint32_t tx_messages_ = 0;

    // receive
    std::unique_ptr<std::byte[]> staging_;
    std::size_t staged_begin_ = 0;
    std::size_t staged_end_ = 0;
    Placements placements_;  // never across a read of the socket
    std::optional<Direct> direct_;
    bool large_before_ = false;  // the last segment was one: the next is likely to be
    std::optional<Arriving> arriving_;
    bool blocked_ = false;  // nothing is read
    // A message waits for a receive to be posted, and behind it what came later but for answers.
    std::vector<std::byte> parked_;
    std::size_t parked_begin_ = 0;
    bool receive_missing_ = false;  // why take_segment() returned false
    bool rnr_timer_runs_ = false;   // for the first parked message
    Statistics statistics_;
    std::optional<Parting> parting_;
    std::optional<std::uint64_t> immediate_of_send_;
    std::uint64_t write_length_ = 0;  // of the write message that is arriving or came last
    bool write_ended_ = true;
    std::uint64_t write_end_ = 0;     // behind its last byte
    std::uint64_t read_arrived_ = 0;  // bytes of the read response that is arriving
    std::array<std::uint32_t, wire::kQueueCount> rx_msn_;
    std::uint32_t rx_messages_ = 0;  // that have arrived
    // The program has been told of receives up to there, the peer not yet of all of them.
    std::uint32_t rx_delivered_ = 0;
    bool untold_ = false;
    // Of the segment being taken, for a Terminate:
    wire::Header rx_header_;
    std::uint32_t rx_before_ = 0;  // messages that arrived before its own
};

}  // namespace compat::core::soft
