// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/endpoint.hpp"

#include <new>

#include "core/rdm/hub.hpp"

namespace compat::core {

RdmEndpoint::RdmEndpoint(std::unique_ptr<rdm::Endpoint> inside) noexcept
    : inside_(std::move(inside)) {}

RdmEndpoint::~RdmEndpoint() {
    // A child process has no part in its parent's connections, and their locks may be held for
    // ever.
    if (inside_->is_parents()) static_cast<void>(inside_.release());
}

Result<std::unique_ptr<RdmEndpoint>> RdmEndpoint::open(const RdmAttr& attr) noexcept {
    auto inside = rdm::Endpoint::open(attr);
    if (!inside) return failure(inside.error());
    std::unique_ptr<RdmEndpoint> endpoint(new (std::nothrow) RdmEndpoint(std::move(*inside)));
    if (!endpoint) return failure(Errc::no_memory);
    return endpoint;
}

SocketAddress RdmEndpoint::name() const noexcept {
    return inside_->name();
}
Status RdmEndpoint::send(AddressIndex to, const Message& message) noexcept {
    return inside_->send(to, message);
}
Status RdmEndpoint::post(AddressIndex to, const Operation& operation) noexcept {
    return inside_->post(to, operation);
}
Status RdmEndpoint::post(AddressIndex to, SingleOperation operation) noexcept {
    return inside_->post(to, operation);
}
void RdmEndpoint::flush() noexcept {
    inside_->flush();
}
Status RdmEndpoint::receive(const MessageReceive& receive) noexcept {
    return inside_->matcher().post(receive);
}
Status RdmEndpoint::peek(const MessagePeek& peek) noexcept {
    return inside_->peek(peek);
}
Status RdmEndpoint::take_claimed(const MessageReceive& receive, bool discard) noexcept {
    return inside_->take_claimed(receive, discard);
}
MessageQueue& RdmEndpoint::receives() noexcept {
    return inside_->matcher();
}

}  // namespace compat::core
