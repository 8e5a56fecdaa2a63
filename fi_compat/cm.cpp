// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/cm.hpp"

#include <algorithm>
#include <cstring>

#include "fi_compat/address.hpp"
#include "fi_compat/boundary.hpp"

namespace compat::fi {
namespace {

class CmSource final : public EventSource {
public:
    explicit CmSource(std::unique_ptr<core::CmChannel> channel) : channel_(std::move(channel)) {}

    [[nodiscard]] int fd() const noexcept override { return channel_->fd(); }
    [[nodiscard]] core::CmChannel& channel() noexcept { return *channel_; }

    void drain(EventQueue&) override {
        while (auto event = channel_->get_event())
            static_cast<CmHandler*>(event->id->context())->on_event(*event);
    }

private:
    std::unique_ptr<core::CmChannel> channel_;
};

}  // namespace

core::Result<core::CmChannel*> cm_channel(EventQueue& eq, core::Device& device) {
    if (EventSource* known = eq.find_source(&device))
        return &static_cast<CmSource*>(known)->channel();
    auto channel = device.create_cm_channel();
    if (!channel) return core::failure(channel.error());
    if (const core::Status set = core::set_nonblocking((*channel)->fd()); !set)
        return core::failure(set.error());
    auto source = std::make_unique<CmSource>(std::move(*channel));
    core::CmChannel* const made = &source->channel();
    const core::Status added = eq.add_source(&device, std::move(source));
    if (!added) return core::failure(added.error());
    return made;
}

core::Result<std::unique_ptr<core::CmId>> make_cm_id(core::Device& device, core::CmChannel* channel,
                                                     CmHandler& handler) {
    auto id = device.create_cm_id(channel);
    if (id) (*id)->set_context(&handler);
    return id;
}

core::SocketAddress source_of(const fi_info& info) {
    return read_address(info.addr_format, info.src_addr, info.src_addrlen);
}

core::SocketAddress destination_of(const fi_info& info) {
    return read_address(info.addr_format, info.dest_addr, info.dest_addrlen);
}

core::Result<core::SocketAddress> to_address(const void* address) noexcept {
    const auto* generic = static_cast<const sockaddr*>(address);
    if (generic == nullptr) return core::failure(core::Errc::invalid_argument);
    const std::size_t length =
        generic->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    return core::SocketAddress::from(generic, length);
}

std::size_t cm_data_size(const core::Limits& limits) noexcept {
    const std::size_t on_wire =
        std::min<std::size_t>({limits.max_connect_data, limits.max_accept_data,
                               limits.max_reject_data, CmData::kFrameBytes + UINT8_MAX});
    return on_wire - std::min(on_wire, CmData::kFrameBytes);
}

int CmData::assign(const void* data, std::size_t length, const core::Limits& limits) noexcept {
    if (length > cm_data_size(limits) || (data == nullptr && length != 0)) return -FI_EINVAL;
    bytes_.front() = static_cast<std::byte>(length);
    if (length != 0) std::memcpy(bytes_.data() + kFrameBytes, data, length);
    size_ = kFrameBytes + length;
    return 0;
}

std::span<const std::byte> CmData::unframe(std::span<const std::byte> received) noexcept {
    if (received.empty()) return {};
    const auto length = std::to_integer<std::size_t>(received.front());
    received = received.subspan(kFrameBytes);
    return received.first(std::min(length, received.size()));
}

}  // namespace compat::fi
