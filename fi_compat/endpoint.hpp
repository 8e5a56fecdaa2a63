// SPDX-License-Identifier: BSD-3-Clause
// Connected endpoints (FI_EP_MSG): fi_endpoint(3), fi_cm(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>
#include <optional>

#include "core/core.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/connreq.hpp"
#include "fi_compat/ep_base.hpp"
#include "fi_compat/eq.hpp"

namespace compat::fi {

class Endpoint final : public EndpointBase {
public:
    static int open(Domain& domain, const fi_info& info, fid_ep** ep, void* context);
    ~Endpoint() override;

    // --- the data path: rma.cpp, msg.cpp; a connection has one peer, whatever the address
    // ---------

    ssize_t post(fi_addr_t, const core::Operation& operation) noexcept {
        if (transmit_open_ == nullptr) [[unlikely]]
            return -FI_EOPBADSTATE;
        const core::Status posted = transmit_open_->post(operation);
        return posted ? 0 : refuse(posted.error());
    }
    [[gnu::always_inline]] ssize_t post(fi_addr_t, core::SingleOperation operation) noexcept {
        if (transmit_open_ == nullptr) [[unlikely]]
            return -FI_EOPBADSTATE;
        return transmit_open_->post(operation,
                                    [this](const core::Error& error) { return refuse(error); });
    }
    /// A post that was refused still sends off what FI_MORE held back.
    ssize_t refuse(int error) noexcept;
    ssize_t refuse(const core::Error& error) noexcept;
    /// Null before it is enabled, and when receives go to a shared context.
    [[nodiscard]] core::ReceiveQueue* receives() const noexcept { return receive_open_; }

    // --- control --------------------------------------------------------------------------------

    int cancel(void* context) override;
    ssize_t tx_size_left() noexcept override;
    ssize_t rx_size_left() noexcept override;

    int set_name(const void* address, std::size_t length) override;
    int get_name(void* address, std::size_t* length) override;
    int get_peer(void* address, std::size_t* length);
    int connect(const void* address, const void* data, std::size_t length);
    int accept(const void* data, std::size_t length);
    int shutdown(std::uint64_t flags);

private:
    /// Of a connection: that it stands, and how it ended. The device may go as well.
    static constexpr std::size_t kEvents = 3;
    enum class State : std::uint8_t {
        unconnected,
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

    Endpoint(Domain& domain, const fi_info& info, void* context);
    int inherit(fid_t handle);
    int bind_eq(EventQueue& eq, std::uint64_t flags);

    // With mutex_ held:
    int bind_own(struct ::fid* object, std::uint64_t flags) override;
    [[nodiscard]] int check_own_bindings() const override;
    core::Status start() override;
    void set_min_multiple(std::size_t length) noexcept override;
    core::Status create_transmit();
    core::Status create_receive();
    core::Status create_qp();
    /// 0, or why it cannot start to connect or accept now.
    int check_unconnected();
    core::Status prepare_id(core::CmChannel& channel);
    core::Status start_connecting(core::CmChannel& channel, const core::SocketAddress& peer,
                                  std::span<const std::byte> data);
    int fail_connecting(const core::Error& error);

    void on_event(core::CmEvent& event);
    void on_failure(int err, std::span<const std::byte> data);
    void report(std::uint32_t event, std::span<const std::byte> data = {});
    void on_disconnect();
    [[nodiscard]] core::SocketAddress local_address() const;

    core::TransmitQueue* transmit_open_ = nullptr;
    core::ReceiveQueue* receive_open_ = nullptr;
    bool consumes_receives_;  ///< immediate data of writes takes a posted receive
    State state_ = State::unconnected;
    core::SocketAddress source_;
    core::SocketAddress destination_;
    core::SocketAddress peer_;  ///< that it connects to
    core::RemoteCounters remote_counters_;

    Ref<EventQueue> eq_;
    std::optional<EventQueue::Spare> spare_events_;
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
