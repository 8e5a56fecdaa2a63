// SPDX-License-Identifier: BSD-3-Clause
// Connection management of the software device: event channels, identifiers, listeners.
#pragma once

#include <mutex>

#include "core/base/unique_fd.hpp"
#include "core/device/cm_events.hpp"
#include "core/device/device.hpp"
#include "core/device/soft/reactor.hpp"

namespace compat::core::soft {

class Stream;

class SoftCmChannel final : public CmEventQueue {
public:
    using CmEventQueue::CmEventQueue;
    Result<CmEvent> get_event() noexcept override;
};

/// A TCP listener: accepts, reads each request and raises connect_request.
class Listener final : public Source, public std::enable_shared_from_this<Listener> {
public:
    Listener(UniqueFd socket, std::shared_ptr<EventPort> port);
    Status start(int backlog) noexcept;
    /// No more requests; those not yet handed over are dropped.
    void stop() noexcept;
    void on_ready(std::uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;

private:
    void pause(Clock::duration length) noexcept;

    UniqueFd socket_;
    std::shared_ptr<EventPort> port_;
    const Origin origin_;
    /// Each connection that its program has not answered has a copy.
    const std::shared_ptr<const int> requests_ = std::make_shared<int>();
    std::mutex lock_;
    bool stopped_ = false;
};

class SoftCmId final : public CmId {
public:
    explicit SoftCmId(SoftCmChannel* channel);
    /// Of a request that came in.
    static std::unique_ptr<SoftCmId> of_request(std::shared_ptr<Stream> stream);
    ~SoftCmId() override;

    Status bind(const SocketAddress& local) noexcept override;
    Status listen(int backlog) noexcept override;
    Status resolve(const SocketAddress& local, const SocketAddress& peer,
                   int timeout_ms) noexcept override;
    Result<std::unique_ptr<QueuePair>> create_qp(const QpAttr& attr) noexcept override;
    Status connect(const ConnectionParameters& parameters) noexcept override;
    Status accept(const ConnectionParameters& parameters) noexcept override;
    Status reject(std::span<const std::byte> private_data) noexcept override;
    Status disconnect() noexcept override;
    Status migrate(CmChannel& channel) noexcept override;
    [[nodiscard]] SocketAddress local_address() const noexcept override;
    [[nodiscard]] SocketAddress peer_address() const noexcept override;

    /// Of a request that nobody takes: its stream looks after itself.
    void release_stream() noexcept { stream_.reset(); }

private:
    SoftCmId(SoftCmChannel* channel, std::shared_ptr<Stream> stream);

    std::shared_ptr<EventPort> port_;
    UniqueFd bound_;  ///< after bind(), until listen() or connect() takes it
    std::shared_ptr<Listener> listener_;
    SocketAddress listening_at_;
    std::shared_ptr<Stream> stream_;
};

/// A non-blocking TCP socket with the options that every connection has. Errors: device.
Result<UniqueFd> open_socket(const SocketAddress& address) noexcept;
SocketAddress local_address_of(int socket) noexcept;
SocketAddress peer_address_of(int socket) noexcept;

}  // namespace compat::core::soft
