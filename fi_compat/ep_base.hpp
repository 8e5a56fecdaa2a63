// SPDX-License-Identifier: BSD-3-Clause
// What all types of endpoints share: fi_endpoint(3). Bindings, flags, limits and options.
#pragma once

#include <rdma/fi_endpoint.h>

#include <array>
#include <memory>
#include <mutex>

#include "core/core.hpp"
#include "fi_compat/cntr.hpp"
#include "fi_compat/cq.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/flag_map.hpp"
#include "fi_compat/info.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/srx.hpp"
#include "fi_compat/stx.hpp"

namespace compat::fi {

class EndpointBase;

/// The tables of a type of endpoint; those of what it may not do are replaced by refusals.
struct EpTables {
    fi_ops_cm& cm;
    fi_ops_msg& msg;
    fi_ops_rma& rma;
    fi_ops_tagged& tagged;
};

/// What the program holds: the endpoint itself or an alias of it, which differ in the flags of the
/// calls that take none.
class EpFace final : public Object<EpFace, fid_ep> {
public:
    EpFace(EndpointBase& endpoint, const EpTables& tables, void* context);
    /// An alias; the original cannot be closed before.
    EpFace(EpFace& original, void* context);

    [[nodiscard]] EndpointBase& endpoint() const noexcept { return endpoint_; }
    [[nodiscard]] std::uint64_t tx_flags() const noexcept { return tx_flags_; }
    [[nodiscard]] std::uint64_t rx_flags() const noexcept { return rx_flags_; }
    void set_tx_flags(std::uint64_t flags) noexcept;
    void set_rx_flags(std::uint64_t flags) noexcept { rx_flags_ = flags; }

    /// The same, translated, of calls without flags; entry is left to the endpoint.
    [[nodiscard]] core::OpFlags plain() const noexcept { return plain_; }
    [[nodiscard]] core::OpFlags injecting() const noexcept {
        core::OpFlags flags = core::OpFlag::inject;
        for (const core::OpFlag level : {core::OpFlag::commit, core::OpFlag::deliver})
            if (plain_.has(level)) flags |= level;
        return flags;
    }
    [[nodiscard]] core::MessageFlags plain_message() const noexcept { return plain_message_; }

private:
    EpFace(EndpointBase& endpoint, fi_ops& table, void* context);

    Ref<EpFace> original_;
    EndpointBase& endpoint_;
    std::uint64_t tx_flags_ = 0;
    std::uint64_t rx_flags_ = 0;
    core::OpFlags plain_;
    core::MessageFlags plain_message_;
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
    std::size_t data_bytes = 0;  ///< of FI_REMOTE_CQ_DATA
};

class EndpointBase {
public:
    virtual ~EndpointBase();
    EndpointBase(const EndpointBase&) = delete;
    EndpointBase& operator=(const EndpointBase&) = delete;

    // --- for the data path ----------------------------------------------------------------------

    [[nodiscard]] const EndpointCaps& caps() const noexcept { return caps_; }
    [[nodiscard]] const EpLimits& limits() const noexcept { return limits_; }
    [[nodiscard]] bool desc_required() const noexcept { return desc_required_; }
    [[nodiscard]] std::uint64_t granted_flags() const noexcept { return granted_flags_; }
    [[nodiscard]] std::uint64_t data_mask() const noexcept { return data_mask_; }
    /// Without FI_SELECTIVE_COMPLETION every operation but the inject calls leaves an entry.
    [[nodiscard]] core::OpFlags with_entry(core::OpFlags flags) const noexcept {
        return flags | always_entry_;
    }
    [[nodiscard]] core::MessageFlags with_entry(core::MessageFlags flags) const noexcept {
        return always_entry_.has(core::OpFlag::entry) ? flags | core::MessageFlag::entry : flags;
    }
    [[nodiscard]] bool receive_entry(std::uint64_t flags) const noexcept {
        return !receive_selective_ || wants_completion(flags);
    }
    /// Whether anybody would learn that a receive has ended.
    [[nodiscard]] bool tells_receives() const noexcept;
    [[nodiscard]] bool shares_receives() const noexcept { return static_cast<bool>(srx_); }

    // --- control --------------------------------------------------------------------------------

    int bind(struct ::fid* object, std::uint64_t flags);
    int control(EpFace& face, int command, void* argument);
    int getopt(int level, int name, void* value, std::size_t* length);
    int setopt(int level, int name, const void* value, std::size_t length);
    virtual int cancel(void* context) = 0;
    virtual ssize_t tx_size_left() noexcept = 0;
    virtual ssize_t rx_size_left() noexcept = 0;

    virtual int set_name(const void* address, std::size_t length) = 0;
    virtual int get_name(void* address, std::size_t* length) = 0;

    [[nodiscard]] EpFace& face() noexcept { return face_; }
    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }

protected:
    EndpointBase(Domain& domain, const fi_info& info, const EpLimits& limits,
                 const EpTables& tables, void* context);
    static EpLimits limits_of(const fi_info& info, const core::Limits& device);

    // With mutex_ held:
    int enable();
    /// The type's own bindings. Errors: -FI_EINVAL for what it does not know.
    virtual int bind_own(struct ::fid* object, std::uint64_t flags) = 0;
    [[nodiscard]] virtual int check_own_bindings() const = 0;
    virtual core::Status start() = 0;
    virtual void set_min_multiple(std::size_t length) noexcept = 0;

    [[nodiscard]] core::Counter* counter(Counted counted) const noexcept;
    core::Status attach_counters();
    /// Not while the program lets entries pile up.
    [[nodiscard]] bool may_cancel() noexcept { return receive_queue_->prepare(1); }
    /// What fi_cancel(3) answers, and the entry it leaves.
    int finish_cancel(const core::Result<core::Completion>& cancelled);

    static constexpr std::size_t kDefaultMinMultiReceive = 64;  // as upstream's sockets provider

    Ref<Domain> domain_;
    EndpointCaps caps_;
    EpLimits limits_;
    std::uint64_t granted_flags_;
    std::uint64_t data_mask_;
    bool desc_required_;
    bool receive_selective_ = false;
    bool enabled_ = false;
    core::OpFlags always_entry_ = core::OpFlag::entry;

    std::mutex mutex_;
    EpFace face_;

    Ref<Cq> transmit_cq_;
    Ref<Cq> receive_cq_;
    Ref<Stx> stx_;
    Ref<Srx> srx_;
    core::TrackedCq* transmit_queue_ = nullptr;  ///< since it is enabled
    core::TrackedCq* receive_queue_ = nullptr;
    std::size_t min_multi_receive_ = kDefaultMinMultiReceive;

private:
    struct BoundCounter {
        Ref<Cntr> counter;
        core::TrackedCq* queue = nullptr;  ///< attached to
    };

    int bind_cq(Cq& cq, std::uint64_t flags);
    int bind_counter(Cntr& counter, std::uint64_t flags);
    int bind_stx(Stx& stx, std::uint64_t flags);
    int bind_srx(Srx& srx, std::uint64_t flags);
    [[nodiscard]] int check_queues() const;
    [[nodiscard]] bool counts_transmits() const noexcept;
    core::Result<core::TrackedCq*> queue_of(const Ref<Cq>& cq);
    core::Status find_queues();
    core::Status attach_counter(Counted counted, core::TrackedCq& queue);

    int make_alias(EpFace& face, const struct fi_alias* request);
    static int get_ops_flags(const EpFace& face, std::uint64_t* flags);
    int set_ops_flags(EpFace& face, std::uint64_t flags) const;
    [[nodiscard]] std::size_t* option(int name) noexcept;

    std::array<BoundCounter, static_cast<std::size_t>(Counted::count_)> counters_;
    std::unique_ptr<core::TrackedCq> own_queue_;  ///< where no CQ is bound: for counters
};

}  // namespace compat::fi
