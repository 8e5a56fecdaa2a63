// SPDX-License-Identifier: BSD-3-Clause
// A connection request that was neither accepted nor rejected yet: info.handle of FI_CONNREQ.
#pragma once

#include <rdma/fabric.h>

#include <memory>

#include "core/core.hpp"
#include "fi_compat/cm.hpp"
#include "fi_compat/live_handle.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class PassiveEp;

/// The public face, which has no name upstream.
struct fid_connreq {
    struct ::fid fid;
};

/// Owned by the passive endpoint until somebody takes the identifier out of it.
class ConnReq final : public Object<ConnReq, fid_connreq> {
public:
    ConnReq(PassiveEp& pep, std::unique_ptr<core::CmId> id);

    [[nodiscard]] PassiveEp& pep() const noexcept { return pep_; }
    [[nodiscard]] core::CmId& id() noexcept { return *id_; }
    /// The object is dead afterwards: PassiveEp::forget() it.
    [[nodiscard]] std::unique_ptr<core::CmId> take_id() noexcept { return std::move(id_); }

private:
    class Events final : public CmHandler {
        /// The peer gave up: the program learns of it when it accepts.
        void on_event(core::CmEvent&) override {}
    };

    PassiveEp& pep_;
    Events events_;
    std::unique_ptr<core::CmId> id_;
    LiveHandle live_{base()};
};

}  // namespace compat::fi
