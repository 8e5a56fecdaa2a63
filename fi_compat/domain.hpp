// SPDX-License-Identifier: BSD-3-Clause
// The domain object: fi_domain(3). A device and a protection domain on it.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <memory>

#include "core/core.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/fabric.hpp"
#include "fi_compat/flag_map.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class Domain final : public Object<Domain, fid_domain> {
public:
    Domain(Fabric& fabric, core::Device& device, std::unique_ptr<core::ProtectionDomain> pd,
           const fi_info& info, void* context);

    [[nodiscard]] Fabric& fabric() const noexcept { return *fabric_; }
    [[nodiscard]] core::Device& device() const noexcept { return device_; }
    [[nodiscard]] const core::Limits& limits() const noexcept { return device_.limits(); }
    [[nodiscard]] core::ProtectionDomain& pd() const noexcept { return *pd_; }
    [[nodiscard]] const MrMode& mr_mode() const noexcept { return mr_mode_; }
    [[nodiscard]] std::uint32_t address_format() const noexcept { return address_format_; }
    [[nodiscard]] std::uint64_t max_key() const noexcept { return max_key_; }
    [[nodiscard]] bool rma_event() const noexcept { return rma_event_; }
    /// Whether its endpoints have no connections, and their receives are matched by us.
    [[nodiscard]] bool connectionless() const noexcept { return connectionless_; }
    [[nodiscard]] bool manual_progress() const noexcept { return manual_progress_; }
    /// Whether vendor_error of a completion tells why the target refused.
    [[nodiscard]] bool tells_faults() const noexcept { return device_.native_context() == nullptr; }

    /// Whether what is mapped at an address counts at the time of each access, as with a CPU.
    [[nodiscard]] bool follows_mappings() const noexcept {
        return device_.native_context() == nullptr;
    }

    int bind(struct ::fid* object, std::uint64_t flags) noexcept;
    int control(int command, void* argument) noexcept;

private:
    Ref<Fabric> fabric_;
    core::Device& device_;
    std::unique_ptr<core::ProtectionDomain> pd_;
    MrMode mr_mode_;
    std::uint32_t address_format_;
    std::uint64_t max_key_;
    bool rma_event_;
    bool connectionless_;
    bool manual_progress_;
    Ref<EventQueue> eq_;
};

// What the domain's tables hand to other files.
int open_av(Domain& domain, fi_av_attr& attr, fid_av** av, void* context);        // av.cpp
int open_cq(Domain& domain, const fi_cq_attr& attr, fid_cq** cq, void* context);  // cq.cpp
int open_counter(Domain& domain, const fi_cntr_attr& attr, fid_cntr** cntr, void* context);
int open_endpoint(Domain& domain, fi_info* info, fid_ep** ep, void* context);      // endpoint.cpp
int open_poll_set(Domain& domain, const fi_poll_attr& attr, fid_poll** poll_set);  // poll.cpp
int open_shared_transmit(Domain& domain, const fi_tx_attr* attr, fid_stx** stx, void* context);
int open_shared_receive(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context);
int register_region(Domain& domain, const fi_mr_attr& attr, std::uint64_t flags,
                    fid_mr** mr);  // mr.cpp

}  // namespace compat::fi
