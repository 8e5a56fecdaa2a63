// SPDX-License-Identifier: BSD-3-Clause
// Passive endpoints: fi_passive_ep(3), fi_listen(3), fi_reject(3).
#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>
#include <mutex>
#include <vector>

#include "core/core.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/connreq.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/fabric.hpp"
#include "fi_compat/info.hpp"
#include "fi_compat/live_handle.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class PassiveEp final : public Object<PassiveEp, fid_pep> {
public:
    static int open(Fabric& fabric, const fi_info& info, fid_pep** pep, void* context);
    ~PassiveEp();

    int bind(struct ::fid* object, std::uint64_t flags);
    int control(int command, void* argument) noexcept;
    int getopt(int level, int name, void* value, std::size_t* length) noexcept;
    int set_name(const void* address, std::size_t length);
    int get_name(void* address, std::size_t* length) noexcept;
    int listen();
    int reject(fid_t handle, const void* data, std::size_t length);

    /// An active endpoint inherits the address: the bound identifier, or null when it is gone. Not
    /// for one that listens.
    std::unique_ptr<core::CmId> take_id() noexcept;
    /// A request that has been answered, or whose identifier was taken; its queue's sources held.
    void forget(ConnReq& request) noexcept;
    void drop(ConnReq& request) noexcept;  ///< rejects it
    /// Where events of requests are drained.
    [[nodiscard]] EventQueue& eq() const noexcept { return *eq_; }
    [[nodiscard]] Fabric& fabric() const noexcept { return *fabric_; }

private:
    /// Events of the listener; apart, so that the object begins with its public face.
    class Events final : public CmHandler {
    public:
        explicit Events(PassiveEp& pep) noexcept : pep_(pep) {}
        void on_event(core::CmEvent& event) override { pep_.on_event(event); }

    private:
        PassiveEp& pep_;
    };

    PassiveEp(Fabric& fabric, core::Device& device, InfoPtr info, void* context);
    core::Status bind_address(const core::SocketAddress& address);
    void on_event(core::CmEvent& event);
    InfoPtr describe(ConnReq& request) const;

    Ref<Fabric> fabric_;
    core::Device& device_;
    InfoPtr info_;
    Ref<EventQueue> eq_;
    Events events_{*this};
    int backlog_ = 0;
    bool listening_ = false;
    std::unique_ptr<core::CmId> id_;
    std::mutex requests_mutex_;
    std::vector<std::unique_ptr<ConnReq>> requests_;
    LiveHandle live_{base()};
};

}  // namespace compat::fi
