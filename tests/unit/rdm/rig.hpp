// SPDX-License-Identifier: BSD-3-Clause
// Connectionless endpoints on the software device, and what a program does with them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/device/registry.hpp"
#include "core/rdm/endpoint.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core {

constexpr auto kPatience = std::chrono::seconds(20);

inline SocketAddress loopback(std::uint16_t port = 0) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons(port);
    return *SocketAddress::from(reinterpret_cast<sockaddr*>(&in), sizeof in);
}

inline void* context_of(std::uintptr_t number) {
    return reinterpret_cast<void*>(number);
}

struct NodeOptions {
    RdmProgress progress = RdmProgress::manual;
    std::uint16_t port = 0;
    std::uint32_t cq_size = 1024;
    std::uint32_t receive_depth = 1024;
    std::size_t max_unexpected = std::size_t{64} << 20;
    AccessFlags remote_access = kRemoteAccess;
    Counter* sends = nullptr;
    Counter* writes = nullptr;
    Counter* receives = nullptr;
    Counter* remote_reads = nullptr;
    Counter* remote_writes = nullptr;
    MessageQueue* shared = nullptr;
};

/// One endpoint with its queues and address vector.
struct Node {
    explicit Node(const NodeOptions& options = {}) {
        device = *device_for_address(loopback(), Direction::local);
        pd = std::move(*device->allocate_pd());
        cq = std::move(*TrackedCq::create(*device, {.size = options.cq_size}));
        RdmAttr attr{.device = device,
                     .pd = pd.get(),
                     .addresses = &book,
                     .address = loopback(options.port),
                     .transmit_cq = cq.get(),
                     .receive_cq = cq.get(),
                     .receives = options.shared,
                     .receive_counter = options.receives,
                     .remote_writes = options.remote_writes,
                     .remote_reads = options.remote_reads,
                     .remote_access = options.remote_access,
                     .progress = options.progress,
                     .transmit_depth = 256,
                     .receive_depth = options.receive_depth,
                     .max_inject_rma = 1024,
                     .max_unexpected = options.max_unexpected};
        attr.counters[static_cast<std::size_t>(OpKind::send)] = options.sends;
        attr.counters[static_cast<std::size_t>(OpKind::write)] = options.writes;
        auto opened = RdmEndpoint::open(attr);
        assert_true(opened.has_value());
        endpoint = std::move(*opened);
    }

    AddressIndex meet(const SocketAddress& address) { return *book.insert(address); }
    AddressIndex meet(const Node& other) { return meet(other.endpoint->name()); }

    /// Takes what there is to read.
    void poll() {
        for (;;) {
            const long count = cq->read(64, [this](std::size_t, const Completion& completion) {
                done.push_back(completion);
            });
            if (count == TrackedCq::kErrorFirst) {
                Completion failed;
                if (cq->read_error(failed)) done.push_back(failed);
                continue;
            }
            if (count <= 0) return;
        }
    }

    Device* device = nullptr;
    AddressBook book;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<TrackedCq> cq;
    std::unique_ptr<RdmEndpoint> endpoint;
    std::vector<Completion> done;
    std::atomic<std::size_t> done_count{0};  ///< for other threads
};

/// Calls step() until it says true.
template <class Step>
bool keep_trying(const Step& step, std::chrono::nanoseconds patience = kPatience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!step())
        if (std::chrono::steady_clock::now() > end) return false;
    return true;
}

/// Posts as a program does that takes would_block for what it is.
template <class Post>
Status insist(const Post& post, std::initializer_list<Node*> nodes) {
    Status status;
    const bool accepted = keep_trying([&] {
        status = post();
        if (status || status.error().code != Errc::would_block) return true;
        for (Node* node : nodes) node->poll();
        return false;
    });
    assert_true(accepted);
    return status;
}

inline MessageReceive receive_into(void* memory, std::size_t length, std::uintptr_t number,
                                   LocalBuffer& storage) {
    storage = {.address = memory, .length = length};
    return {.local = {&storage, length != 0 ? 1U : 0U}, .context = context_of(number)};
}

inline Message message_of(const void* memory, std::size_t length, std::uintptr_t number,
                          LocalBuffer& storage) {
    storage = {.address = const_cast<void*>(memory), .length = length};
    return {.flags = MessageFlag::entry,
            .local = {&storage, length != 0 ? 1U : 0U},
            .length = length,
            .context = context_of(number)};
}

}  // namespace compat::core
