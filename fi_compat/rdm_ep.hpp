// SPDX-License-Identifier: BSD-3-Clause
// Connectionless endpoints (FI_EP_RDM): fi_endpoint(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>

#include "core/core.hpp"
#include "fi_compat/av.hpp"
#include "fi_compat/ep_base.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/err_map.hpp"

namespace compat::fi {

class RdmEp final : public EndpointBase {
public:
    static int open(Domain& domain, const fi_info& info, fid_ep** ep, void* context);

    // --- the data path: rma.cpp, rdm_msg.cpp. Before it is enabled: -FI_EOPBADSTATE.
    // --------------

    ssize_t post(fi_addr_t peer, const core::Operation& operation) noexcept {
        return engine_ ? to_result(engine_->post(peer, operation)) : -FI_EOPBADSTATE;
    }
    ssize_t post(fi_addr_t peer, core::SingleOperation operation) noexcept {
        return engine_ ? to_result(engine_->post(peer, operation)) : -FI_EOPBADSTATE;
    }
    ssize_t send(fi_addr_t peer, const core::Message& message) noexcept {
        return engine_ ? to_result(engine_->send(peer, message)) : -FI_EOPBADSTATE;
    }
    ssize_t receive(const core::MessageReceive& receive) noexcept {
        return engine_ ? to_result(engine_->receive(receive)) : -FI_EOPBADSTATE;
    }
    ssize_t peek(const core::MessagePeek& peek) noexcept {
        return engine_ ? to_result(engine_->peek(peek)) : -FI_EOPBADSTATE;
    }
    ssize_t take_claimed(const core::MessageReceive& receive, bool discard) noexcept {
        return engine_ ? to_result(engine_->take_claimed(receive, discard)) : -FI_EOPBADSTATE;
    }
    /// A post that was refused still sends off what FI_MORE held back.
    ssize_t refuse(ssize_t error) noexcept;

    // --- control --------------------------------------------------------------------------------

    int cancel(void* context) override;
    ssize_t tx_size_left() noexcept override;
    ssize_t rx_size_left() noexcept override;
    int set_name(const void* address, std::size_t length) override;
    int get_name(void* address, std::size_t* length) override;

private:
    RdmEp(Domain& domain, const fi_info& info, void* context);
    static ssize_t to_result(const core::Status& status) noexcept {
        return status ? 0 : to_fi(status.error());
    }

    // With mutex_ held:
    int bind_own(struct ::fid* object, std::uint64_t flags) override;
    [[nodiscard]] int check_own_bindings() const override;
    core::Status start() override;
    void set_min_multiple(std::size_t length) noexcept override;

    core::SocketAddress source_;
    Ref<EventQueue> eq_;
    Ref<Av> av_;
    std::unique_ptr<core::RdmEndpoint> engine_;
};

// The tables of an endpoint, by what it may do.
extern fi_ops_rma kRdmRmaOps;        // rma.cpp
extern fi_ops_msg kRdmMsgOps;        // rdm_msg.cpp
extern fi_ops_tagged kRdmTaggedOps;  // rdm_msg.cpp

}  // namespace compat::fi
