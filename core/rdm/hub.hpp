// SPDX-License-Identifier: BSD-3-Clause
// The inside of a connectionless endpoint. One lock, that of its receives, guards all of it.
//
//   hub.cpp        opening and closing, the progress that readers and the progress thread make
//   peers.cpp      the peer table
//   connector.cpp  connections: who asks whom, what a request and its answer say
//   life.cpp       a connection's parts, and its end
//   sender.cpp     posts of the program; their completions
//   receiver.cpp   messages that arrive; what a receive gets of them
//   pull.cpp       rendezvous at the receiver, acknowledgements
//   delivery.cpp   what is read behind writes that shall be in place
//   written.cpp    writes with more data than the device's immediate data can hold
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/origin.hpp"
#include "core/base/trace.hpp"
#include "core/engine/progress_source.hpp"
#include "core/engine/progress_thread.hpp"
#include "core/rdm/connection.hpp"
#include "core/rdm/delivery.hpp"
#include "core/rdm/endpoint.hpp"
#include "core/rdm/pools.hpp"

namespace compat::core::rdm {

/// Completion::flags of what the endpoint itself has posted; no facade has all these bits. The
/// context is a Transfer, or the Connection of a control message.
constexpr std::uint64_t kInternal = UINT64_MAX;
constexpr std::uint64_t kControl = UINT64_MAX - 1;

class Endpoint final : public ProgressSource, public Driven {
public:
    static Result<std::unique_ptr<Endpoint>> open(const RdmAttr& attr) noexcept;
    explicit Endpoint(const RdmAttr& attr) noexcept;
    ~Endpoint() override;

    [[nodiscard]] const SocketAddress& name() const noexcept { return name_; }
    [[nodiscard]] Matcher& matcher() const noexcept { return *matcher_; }
    /// In a child process: its parent has opened the endpoint.
    [[nodiscard]] bool is_parents() const noexcept { return origin_.is_parent(); }

    Status send(AddressIndex to, const Message& message) noexcept;
    template <class AnyOperation>
    Status post(AddressIndex to, AnyOperation operation) noexcept;
    void flush() noexcept;
    Status peek(const MessagePeek& peek) noexcept;
    Status take_claimed(const MessageReceive& receive, bool discard) noexcept;

    // --- progress: of whoever reads the completion queues
    void progress() noexcept override;
    void hand_over() noexcept override;
    // --- and of the progress thread
    [[nodiscard]] std::array<int, 2> channels() const noexcept override {
        return {cm_channel_->fd(), cq_->channel_fd()};
    }
    DriveNext drive() noexcept override;
    /// Takes over when the program has stopped polling.
    DriveNext look() noexcept override;

    // --- for the matcher, with the lock held
    /// A receive takes a message that had to wait.
    void deliver_kept(Unexpected& message, Placement& placement) noexcept;
    /// A multi-receive buffer is the program's again, without a message.
    void report_released(const Posted& posted) noexcept;
    AddressIndex index_of(Peer& peer) noexcept;
    /// Whether a receive that completes at once may be told of: not while the program lets entries
    /// pile up.
    [[nodiscard]] bool may_report() noexcept { return attr_.receive_cq->prepare(1); }

private:
    struct IndexRow {
        PeerRef peer;
        std::uint32_t generation = 0;
    };

    Status start() noexcept;
    [[nodiscard]] bool is_iwarp_nic() const noexcept;
    Status watch() noexcept;
    bool arm() noexcept;
    DriveNext go_on() noexcept;
    /// The program drives the endpoint, as far as is known, but need not go on doing so.
    [[nodiscard]] DriveNext leave_to_program() const noexcept {
        return automatic_ ? DriveNext::look_later : DriveNext::sleep;
    }
    Status listen() noexcept;

    // peers.cpp
    Result<Peer*> peer_at(AddressIndex index) noexcept;
    Result<Peer*> find_slowly(AddressIndex index) noexcept;
    /// The connection to send on; null, and why: would_block, or what makes it impossible.
    Result<Connection*> reach(Peer& peer) noexcept;

    // connector.cpp
    Status connect(Peer& peer) noexcept;
    Result<std::unique_ptr<CmId>> find(Peer& peer) noexcept;
    Status ask(Peer& peer, std::unique_ptr<CmId> id) noexcept;
    void take_cm_events() noexcept;
    void on_event(CmEvent& event) noexcept;
    void on_request(CmEvent& event) noexcept;
    void refuse(CmId& request, Refusal refusal) noexcept;
    bool admit(Peer& peer, const Hello& said, bool extra, CmId& request) noexcept;
    bool make_place(const Peer& peer) noexcept;
    bool give_way(Connection* idle) noexcept;
    [[nodiscard]] SocketAddress source_towards(const SocketAddress& peer) const noexcept;
    Status accept(Peer& peer, const Hello& said, std::unique_ptr<CmId> request) noexcept;
    void prove(Connection& connection) noexcept;
    void on_established(Connection& connection, CmEvent& event) noexcept;
    void on_refused(Connection& connection, const CmEvent& event) noexcept;
    void on_failed(Connection& connection) noexcept;
    [[nodiscard]] Hello hello(bool extra) const noexcept;
    void take_offer(Connection& connection, const Hello& said) noexcept;

    // life.cpp
    Result<Connection*> make_connection(Peer& peer, std::unique_ptr<CmId> id) noexcept;
    Status furnish(Connection& connection) noexcept;
    Status post_buffer(Connection& connection, Buffer& buffer) noexcept;
    void drain(Connection& connection) noexcept;
    void reap() noexcept;
    void let_go(Connection& connection) noexcept;
    void bury(Connection& connection) noexcept;
    void forget_messages(Connection& connection) noexcept;
    void remove(Connection& connection) noexcept;
    void detach_peer(Connection& connection) noexcept;
    void close_all() noexcept;

    // sender.cpp
    template <class Try>
    Status with_progress(const Try& attempt) noexcept;
    Status try_send(AddressIndex to, const Message& message) noexcept;
    template <class AnyOperation>
    Status try_post(AddressIndex to, AnyOperation& operation) noexcept;
    Status send_on(Connection& connection, const Message& message) noexcept;
    Status post_message(Transfer& transfer, const Message& message, Header& header) noexcept;
    Status describe(Transfer& transfer, const Message& message, Header& header) noexcept;
    Status complete_unreachable(Peer& peer, OpKind kind, bool entry, void* context,
                                std::uint64_t flags) noexcept;
    template <class AnyOperation>
    Status post_to(Peer& peer, AnyOperation& operation) noexcept;
    Status send_to(Peer& peer, const Message& message) noexcept;
    void trace_post(std::uint64_t at, const Peer& peer, OpKind kind, TracedPost post) noexcept;
    void trace_end(Transfer& transfer, const char* status) noexcept;
    /// Why a post cannot be accepted now.
    Status refuse(Stat why) noexcept {
        refused_for_ = why;
        return failure(Errc::would_block);
    }
    bool needs_record(OpFlags flags, OpKind kind) const noexcept;
    template <class AnyOperation>
    Status register_local(Transfer& transfer, AnyOperation& operation,
                          std::array<LocalBuffer, kMaxSegments>& local) noexcept;
    Status register_into(Regions& regions, std::span<LocalBuffer> buffers,
                         AccessFlags access) noexcept;
    [[nodiscard]] bool reserve(bool entry) noexcept;
    void release(bool entry) noexcept;
    Transfer* begin(Connection& connection, Transfer::Kind kind, OpKind op, bool entry) noexcept;
    void abandon(Transfer& transfer) noexcept;
    Transfer* take_transfer(Connection& connection, Transfer::Kind kind) noexcept;
    void drop_transfer(Transfer& transfer) noexcept;
    void on_posted(Transfer& transfer, WcStatus status, std::uint32_t vendor_error) noexcept;
    void complete(Transfer& transfer, WcStatus status, std::uint32_t vendor_error) noexcept;
    void push(TrackedCq& cq, const Completion& completion) noexcept;
    [[nodiscard]] Counter* counter(OpKind kind) const noexcept {
        return attr_.counters[static_cast<std::size_t>(kind)];
    }

    // receiver.cpp
    void on_buffer(Buffer& buffer, std::uint64_t length) noexcept;
    void on_remote_write(Connection& connection, const Completion& completion) noexcept;
    void on_message(const Arrival& arrival, Buffer& buffer) noexcept;
    void on_acknowledge(Connection& connection, const Header& header) noexcept;
    [[nodiscard]] bool may_keep(const Peer& peer, std::size_t length) const noexcept;
    void keep(const Arrival& arrival, Buffer& buffer) noexcept;
    void dispose(Unexpected& message) noexcept;
    void discard(Unexpected& message) noexcept;
    static Completion tell(const Unexpected& message, void* context, std::uint64_t flags) noexcept;
    void free_data_buffer(Connection& connection, Buffer& buffer) noexcept;
    void deliver(const Arrival& arrival, Placement& placement) noexcept;
    void deliver_eager(const Arrival& arrival, Placement& placement) noexcept;
    void finish_receive(Placement& placement, const Header& header, Peer& peer,
                        WcStatus status) noexcept;

    // pull.cpp
    void start_pull(const Arrival& arrival, Placement& placement) noexcept;
    Status post_pull(Transfer& transfer) noexcept;
    void finish_pull(Transfer& transfer, WcStatus status) noexcept;
    void acknowledge(Connection& connection, std::uint32_t id, bool failed) noexcept;
    Status send_control(Connection& connection, Header header,
                        Transfer* tracked = nullptr) noexcept;
    Status post_acknowledge(Connection& connection, std::uint32_t id, bool failed) noexcept;
    void announce(Connection& connection) noexcept;
    void wait(Transfer& transfer) noexcept;
    void stop_waiting(Transfer& transfer) noexcept;
    void retry_waiting() noexcept;
    void retry_waiting(Connection& connection) noexcept;

    // written.cpp
    [[nodiscard]] bool is_told(Opcode opcode, std::uint64_t imm) const noexcept;
    void tell_written(Transfer& transfer) noexcept;
    Status post_written(Transfer& transfer) noexcept;
    void on_written(Connection& connection, const Header& header) noexcept;

    // hub.cpp
    long run(int max_rounds) noexcept;
    void note_arrival(Connection& connection) noexcept;
    void take(const Completion& completion) noexcept;
    void take_error(const Completion& completion) noexcept;
    void note_program() noexcept { polls_.fetch_add(1, std::memory_order_relaxed); }

    const Origin origin_;
    const RdmAttr attr_;
    const Limits& limits_;
    const bool automatic_;
    std::uint64_t instance_ = 0;
    SocketAddress name_;
    std::unique_ptr<MessageQueue> own_receives_;
    Matcher* matcher_ = nullptr;

    std::atomic<std::uint32_t> polls_{0};
    std::uint32_t polls_seen_ = 0;          ///< by the progress thread
    std::atomic<bool> handed_over_{false};  ///< the progress thread drives it
    std::atomic<bool> has_thread_{false};
    bool is_source_ = false;

    MessageSource message_source_;
    Delivery delivery_;
    SlotPool slots_;
    TransferPool transfers_;
    std::size_t unexpected_bytes_ = 0;
    std::uint32_t waiting_count_ = 0;  ///< things that could not be posted
    std::uint32_t leaving_count_ = 0;  ///< connections that drain or are gone
    std::uint64_t sweeps_ = 1;         ///< how often all that had arrived was taken
    Statistics statistics_;            ///< of posts; the program's CQs count how they end
    Stat refused_for_ = Stat::queue_full;
    const std::unique_ptr<Trace> trace_ = Trace::create();  ///< null: none is wanted
    std::uint64_t traced_ = 0;                              ///< the newest operation's number
    PeerTable peers_;
    std::vector<IndexRow> by_index_;
    // Children before parents at the end.
    std::unique_ptr<TrackedCq> cq_;
    std::unique_ptr<CmChannel> cm_channel_;
    std::unique_ptr<CmId> listener_;
    List<Connection> connections_;
};

}  // namespace compat::core::rdm
