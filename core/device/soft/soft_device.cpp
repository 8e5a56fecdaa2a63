// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/soft_device.hpp"

#include <cstddef>
#include <new>
#include <string_view>

#include "core/base/config.hpp"
#include "core/device/soft/cm.hpp"
#include "core/device/soft/completion.hpp"
#include "core/device/soft/memory.hpp"
#include "core/device/soft/stream.hpp"

namespace compat::core::soft {
namespace {

Limits soft_limits() {
    Limits limits;
    limits.name = "compat0";
    limits.transport = Transport::infiniband;  // its semantics, whatever the wire
    limits.max_qp_wr = 32 * 1024;
    limits.max_sge = 32;
    limits.max_sge_read = 32;
    limits.max_inline = 1024;
    limits.max_message = std::uint64_t{1} << 31;
    limits.max_cqe = 3 * 1024 * 1024;
    limits.max_srq_wr = 32 * 1024;
    limits.max_rd_atomic = kMaxReadDepth;
    limits.imm_bytes = 8;
    limits.atomics = true;
    limits.flush = true;
    limits.atomic_write = true;
    limits.unregistered_local = true;
    limits.requested_keys = true;
    limits.remote_access_events = true;
    limits.imm_without_receive = true;
    limits.placed_when_complete = true;
    // rdma_cm's limits on InfiniBand, so that a program that is right here is right there
    limits.max_connect_data = 56;
    limits.max_accept_data = 196;
    limits.max_reject_data = 148;
    return limits;
}

Options options_of_environment() {
    Options options;
    const std::string_view crc = setting_text(Setting::crc);
    if (crc == "on") options.crc = Crc::on;
    if (crc == "off") options.crc = Crc::off;
    const std::string_view shm = setting_text(Setting::shm);
    options.shm = shm != "0";
    options.map_files = options.shm && shm != "copy";
    options.connect_timeout = std::chrono::milliseconds(setting_number(Setting::connect_timeout));
    return options;
}

/// Makes an object, or says that there is no memory.
template <class Interface, class Object, class... Arguments>
Result<std::unique_ptr<Interface>> make(Arguments&&... arguments) noexcept {
    try {
        return std::unique_ptr<Interface>(new Object(std::forward<Arguments>(arguments)...));
    } catch (const std::bad_alloc&) {
        return failure(Errc::no_memory);
    }
}

class SoftDevice final : public Device {
public:
    [[nodiscard]] const Limits& limits() const noexcept override { return limits_; }
    [[nodiscard]] const Options& options() const noexcept { return options_; }
    [[nodiscard]] ibv_context* native_context() const noexcept override { return nullptr; }

    Result<std::unique_ptr<ProtectionDomain>> allocate_pd() noexcept override {
        return make<ProtectionDomain, SoftPd>();
    }
    Result<std::unique_ptr<CompletionChannel>> create_completion_channel() noexcept override {
        auto channel = SoftChannel::create();
        if (!channel) return failure(channel.error());
        return std::unique_ptr<CompletionChannel>(std::move(*channel));
    }
    Result<std::unique_ptr<CompletionQueue>> create_cq(
        std::uint32_t depth, CompletionChannel* channel) noexcept override {
        if (depth == 0 || depth > limits_.max_cqe) return failure(Errc::invalid_argument);
        return make<CompletionQueue, SoftCq>(depth, static_cast<SoftChannel*>(channel));
    }
    Result<std::unique_ptr<CmChannel>> create_cm_channel() noexcept override {
        return core::create_cm_channel<SoftCmChannel>();
    }
    Result<std::unique_ptr<CmId>> create_cm_id(CmChannel* channel) noexcept override {
        return make<CmId, SoftCmId>(static_cast<SoftCmChannel*>(channel));
    }

private:
    const Limits limits_ = soft_limits();
    const Options options_ = options_of_environment();
};

SoftDevice& the_device() noexcept {
    // Never destroyed: the host may call us from its own exit handlers.
    alignas(SoftDevice) static std::byte place[sizeof(SoftDevice)];
    static SoftDevice& only = *new (place) SoftDevice;
    return only;
}

}  // namespace

Device& device() noexcept {
    return the_device();
}
const Options& options() noexcept {
    return the_device().options();
}

}  // namespace compat::core::soft
