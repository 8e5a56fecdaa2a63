// SPDX-License-Identifier: BSD-3-Clause
// Connected endpoints (FI_EP_MSG): fi_endpoint(3), fi_cm(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "core/core.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/cntr.hpp"
#include "fi_compat/connreq.hpp"
#include "fi_compat/cq.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/flag_map.hpp"
#include "fi_compat/info.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/srx.hpp"
#include "fi_compat/stx.hpp"

namespace compat::fi {

class Endpoint;

/// What the program holds: the endpoint itself or an alias of it, which differ in the flags of the
/// calls that take none.
class EpFace final : public Object<EpFace, fid_ep> {
public:
    /// original: of an alias, what it is an alias of; it cannot be closed before.
    EpFace(Endpoint& endpoint, EpFace* original, void* context);

    [[nodiscard]] Endpoint& endpoint() const noexcept { return endpoint_; }
    [[nodiscard]] std::uint64_t tx_flags() const noexcept { return tx_flags_; }
    [[nodiscard]] std::uint64_t rx_flags() const noexcept { return rx_flags_; }
    void set_tx_flags(std::uint64_t flags) noexcept;
    void set_rx_flags(std::uint64_t flags) noexcept { rx_flags_ = flags; }

    /// The same, translated, of calls without flags; entry is left to the endpoint.
    [[nodiscard]] core::OpFlags plain() const noexcept { return plain_; }
    [[nodiscard]] core::OpFlags injecting() const noexcept {
        return plain_.has(core::OpFlag::commit) ? core::OpFlag::inject | core::OpFlag::commit
                                                : core::OpFlags(core::OpFlag::inject);
    }

private:
    Ref<EpFace> original_;
    Endpoint& endpoint_;
    std::uint64_t tx_flags_ = 0;
    std::uint64_t rx_flags_ = 0;
    core::OpFlags plain_;
};

/// What a program may ask of an endpoint, as its info says; changed by setopt before it is enabled.
struct EpLimits {
    std::size_t inject_message = 0;
    std::size_t inject_rma = 0;
    std::size_t max_message = 0;
    std::size_t max_rma = 0;
    std::size_t tx_iov = 0;
    std::size_t rx_iov = 0;
    std::size_t rma_iov = 0;
    std::size_t tx_size = 0;
    std::size_t rx_size = 0;
};

class Endpoint final {
public:
    static int open(Domain& domain, const fi_info& info, fid_ep** ep, void* context);
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    // --- the data path: rma.cpp, msg.cpp --------------------------------------------------------

    [[nodiscard]] const EndpointCaps& caps() const noexcept { return caps_; }
    [[nodiscard]] const EpLimits& limits() const noexcept { return limits_; }
    [[nodiscard]] bool desc_required() const noexcept { return desc_required_; }
    [[nodiscard]] std::uint64_t granted_flags() const noexcept { return granted_flags_; }
    [[nodiscard]] std::uint64_t data_mask() const noexcept { return data_mask_; }
    /// Without FI_SELECTIVE_COMPLETION every operation but the inject calls leaves an entry.
    [[nodiscard]] core::OpFlags with_entry(core::OpFlags flags) const noexcept {
        return flags | always_entry_;
    }
    [[nodiscard]] bool receive_entry(std::uint64_t flags) const noexcept {
        return !receive_selective_ || wants_completion(flags);
    }
    ssize_t post(const core::Operation& operation) noexcept {
        if (transmit_open_ == nullptr) [[unlikely]]
            return -FI_EOPBADSTATE;
        const core::Status posted = transmit_open_->post(operation);
        return posted ? 0 : refuse(posted.error());
    }
    [[gnu::always_inline]] ssize_t post(core::SingleOperation operation) noexcept {
        if (transmit_open_ == nullptr) [[unlikely]]
            return -FI_EOPBADSTATE;
        const core::Status posted = transmit_open_->post(operation);
        return posted ? 0 : refuse(posted.error());
    }
    /// A post that was refused still sends off what FI_MORE held back.
    ssize_t refuse(int error) noexcept;
    ssize_t refuse(const core::Error& error) noexcept;
    [[nodiscard]] bool shares_receives() const noexcept { return static_cast<bool>(srx_); }
    /// Null before it is enabled, and when receives go to a shared context.
    [[nodiscard]] core::ReceiveQueue* receives() const noexcept { return receive_open_; }

    // --- control --------------------------------------------------------------------------------

    int bind(struct ::fid* object, std::uint64_t flags);
    int control(EpFace& face, int command, void* argument);
    int cancel(void* context);
    int getopt(int level, int name, void* value, std::size_t* length);
    int setopt(int level, int name, const void* value, std::size_t length);
    ssize_t tx_size_left() noexcept;
    ssize_t rx_size_left() noexcept;

    int set_name(const void* address, std::size_t length);
    int get_name(void* address, std::size_t* length);
    int get_peer(void* address, std::size_t* length);
    int connect(const void* address, const void* data, std::size_t length);
    int accept(const void* data, std::size_t length);
    int shutdown(std::uint64_t flags);

    [[nodiscard]] EpFace& face() noexcept { return face_; }
    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }

private:
    /// Of a connection: that it stands, and how it ended. The device may go as well.
    static constexpr std::size_t kEvents = 3;
    static constexpr std::size_t kDefaultMinMultiReceive = 64;  // as upstream's sockets provider
    enum class State : std::uint8_t {
        idle,
        enabled,
        connecting,
        connected,
        shutting_down,
        shut_down
    };
    class Events final : public CmHandler {
    public:
        explicit Events(Endpoint& endpoint) noexcept : endpoint_(endpoint) {}
        void on_event(core::CmEvent& event) override { endpoint_.on_event(event); }

    private:
        Endpoint& endpoint_;
    };
    struct BoundCounter {
        Ref<Cntr> counter;
        core::TrackedCq* queue = nullptr;  ///< attached to, since enable
    };

    Endpoint(Domain& domain, const fi_info& info, void* context);
    int inherit(fid_t handle);

    int bind_eq(EventQueue& eq, std::uint64_t flags);
    int bind_cq(Cq& cq, std::uint64_t flags);
    int bind_counter(Cntr& counter, std::uint64_t flags);
    int bind_stx(Stx& stx, std::uint64_t flags);
    int bind_srx(Srx& srx, std::uint64_t flags);
    [[nodiscard]] core::Counter* counter(Counted counted) const noexcept;
    [[nodiscard]] bool counts_transmits() const noexcept;

    // With mutex_ held:
    int enable();
    int check_bindings() const;
    core::Status create_queues();
    core::Result<core::TrackedCq*> queue_of(const Ref<Cq>& cq);
    core::Status create_transmit();
    core::Status create_receive();
    core::Status attach_counters();
    core::Status attach_counter(Counted counted, core::TrackedCq& queue);
    core::Status create_qp();
    core::Status prepare_id(core::CmChannel& channel);
    core::Status start_connecting(core::CmChannel& channel, const core::SocketAddress& peer,
                                  std::span<const std::byte> data);
    int fail_connecting(const core::Error& error);

    void on_event(core::CmEvent& event);
    void on_failure(int err, std::span<const std::byte> data);
    void report(std::uint32_t event, std::span<const std::byte> data = {});
    void on_disconnect();

    int make_alias(EpFace& face, const struct fi_alias* request);
    static int get_ops_flags(const EpFace& face, std::uint64_t* flags);
    int set_ops_flags(EpFace& face, std::uint64_t flags) const;
    [[nodiscard]] std::size_t* option(int name) noexcept;
    [[nodiscard]] core::SocketAddress local_address() const;

    Ref<Domain> domain_;
    EndpointCaps caps_;
    EpLimits limits_;
    std::uint64_t granted_flags_;
    std::uint64_t data_mask_;
    bool desc_required_;
    bool consumes_receives_;  ///< immediate data of writes takes a posted receive
    bool receive_selective_ = false;
    core::OpFlags always_entry_ = core::OpFlag::entry;
    core::TransmitQueue* transmit_open_ = nullptr;
    core::ReceiveQueue* receive_open_ = nullptr;

    std::mutex mutex_;  ///< state and connection
    State state_ = State::idle;
    core::SocketAddress source_;
    core::SocketAddress destination_;
    core::SocketAddress peer_;  ///< that it connects to
    EpFace face_;

    Ref<EventQueue> eq_;
    std::optional<EventQueue::Spare> spare_events_;
    Ref<Cq> transmit_cq_;
    Ref<Cq> receive_cq_;
    Ref<Stx> stx_;
    Ref<Srx> srx_;
    std::array<BoundCounter, static_cast<std::size_t>(Counted::count_)> counters_;
    core::RemoteCounters remote_counters_;
    std::unique_ptr<core::TrackedCq> own_queue_;  ///< where no CQ is bound: for counters
    core::TrackedCq* transmit_queue_ = nullptr;
    core::TrackedCq* receive_queue_ = nullptr;
    std::size_t min_multi_receive_ = kDefaultMinMultiReceive;

    Events events_{*this};
    bool accepts_ = false;        ///< it answers a connection request
    Ref<EventQueue> drained_by_;  ///< the queue whose channel has the identifier
    std::unique_ptr<core::CmId> id_;
    std::unique_ptr<core::TransmitQueue> transmit_;
    std::unique_ptr<core::ReceiveQueue> receive_;
    std::unique_ptr<core::TrackedQp> qp_;
};

// The tables of an endpoint, by what it may do.
extern fi_ops_rma kRmaOps;  // rma.cpp
extern fi_ops_msg kMsgOps;  // msg.cpp
extern fi_ops_cm kEpCmOps;  // ep_cm.cpp

}  // namespace compat::fi
