// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/verbs/verbs_device.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "core/device/verbs/cm.hpp"
#include "core/device/verbs/completion.hpp"
#include "core/device/verbs/limits.hpp"
#include "core/device/verbs/memory.hpp"

namespace compat::core::verbs {
namespace {

/// A result for the interface from one for the class.
template <class Interface, class Object>
Result<std::unique_ptr<Interface>> as(Result<std::unique_ptr<Object>> made) noexcept {
    if (!made) return failure(made.error());
    return std::unique_ptr<Interface>(std::move(*made));
}

class VerbsDevice final : public Device {
public:
    VerbsDevice(ibv_context& context, Limits limits) noexcept
        : context_(context), limits_(std::move(limits)) {}

    [[nodiscard]] const Limits& limits() const noexcept override { return limits_; }
    [[nodiscard]] ibv_context* native_context() const noexcept override { return &context_; }

    Result<std::unique_ptr<ProtectionDomain>> allocate_pd() noexcept override {
        if (inherited()) return failure(Errc::device, EPERM);
        return as<ProtectionDomain>(VerbsPd::create(context_, limits_));
    }
    Result<std::unique_ptr<CompletionChannel>> create_completion_channel() noexcept override {
        if (inherited()) return failure(Errc::device, EPERM);
        return as<CompletionChannel>(VerbsChannel::create(context_));
    }
    Result<std::unique_ptr<CompletionQueue>> create_cq(
        std::uint32_t depth, CompletionChannel* channel) noexcept override {
        return as<CompletionQueue>(
            VerbsCq::create(context_, limits_, depth, static_cast<VerbsChannel*>(channel)));
    }
    Result<std::unique_ptr<CmChannel>> create_cm_channel() noexcept override {
        return core::create_cm_channel<CmEventQueue>();
    }
    Result<std::unique_ptr<CmId>> create_cm_id(CmChannel* channel) noexcept override {
        return as<CmId>(VerbsCmId::create(context_, limits_, static_cast<CmEventQueue*>(channel)));
    }

private:
    ibv_context& context_;
    const Limits limits_;
};

using Devices = std::vector<Device*>;

void add_device(Devices& devices, ibv_context& context) {
    auto limits = query_limits(context);
    if (!limits) {
        COMPAT_LOG_WARNING("RDMA device %s does not work, errno %d",
                           api().ibv_get_device_name(context.device), limits.error().device_errno);
        return;
    }
    devices.reserve(devices.size() + 1);
    devices.push_back(new VerbsDevice(context, std::move(*limits)));
}

/// librdmacm opens every device once for the whole process, and closes none.
Devices find_devices() noexcept try {
    Devices devices;
    if (!load_api()) return devices;
    int count = 0;
    const std::unique_ptr<ibv_context*, VerbsDeleter<&Api::rdma_free_devices>> contexts(
        api().rdma_get_devices(&count));
    for (int i = 0; contexts && i < count; ++i) add_device(devices, *contexts.get()[i]);
    return devices;
} catch (const std::bad_alloc&) {
    COMPAT_LOG_ERROR("no memory for RDMA devices");
    return {};
}

}  // namespace

std::span<Device* const> devices() noexcept {
    // Never destroyed: the host may call us from its own exit handlers.
    alignas(Devices) static std::byte place[sizeof(Devices)];
    static const Devices& found = *new (place) Devices(find_devices());
    return found;
}

Device* owner_of(const SocketAddress& address) noexcept {
    const auto all = devices();
    if (all.empty() || inherited()) return nullptr;
    if (address.is_wildcard()) return all.front();
    rdma_cm_id* made = nullptr;
    if (api().rdma_create_id(nullptr, &made, nullptr, RDMA_PS_TCP) != 0) return nullptr;
    const IdHandle id(made);
    SocketAddress probe = address;
    probe.set_port(0);
    if (api().rdma_bind_addr(id.get(), const_cast<sockaddr*>(probe.get())) != 0) return nullptr;
    const auto owner = std::ranges::find(all, id->verbs, &Device::native_context);
    return owner != all.end() ? *owner : nullptr;
}

}  // namespace compat::core::verbs
