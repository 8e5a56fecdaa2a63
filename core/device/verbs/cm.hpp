// SPDX-License-Identifier: BSD-3-Clause
// Connection management of RDMA devices: identifiers.
#pragma once

#include <atomic>

#include "core/device/cm_events.hpp"
#include "core/device/device.hpp"
#include "core/device/verbs/handles.hpp"
#include "core/device/verbs/hub.hpp"

namespace compat::core::verbs {

class VerbsQp;

class VerbsCmId final : public CmId {
public:
    static Result<std::unique_ptr<VerbsCmId>> create(ibv_context& context, const Limits& limits,
                                                     CmEventQueue* channel) noexcept;
    ~VerbsCmId() override;

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

    [[nodiscard]] rdma_cm_id* native() const noexcept { return id_.get(); }

    /// The connection has failed. From any thread, under any lock.
    void end_soon() noexcept {
        end_wanted_.store(true, std::memory_order_release);
        hub().wake();
    }

    // With the hub's lock held.

    /// What could not be handed over goes to left_over, or back if it is a request for nobody.
    IdHandle handle(const rdma_cm_event& event, CmEvents& left_over) noexcept;
    /// True while requests that were posted before a disconnect are under way.
    bool look_after(Clock::time_point now) noexcept;
    /// Ends the connection, if there is one, and fails the queue pair.
    void end() noexcept;
    /// The queue pair is being destroyed. Waits for what was posted before a disconnect.
    void release_qp(const VerbsQp& qp, HubLock& lock) noexcept;

private:
    enum class State : std::uint8_t {
        idle,
        resolving,
        resolved,
        bound,
        listening,
        requested,  ///< a peer waits for the program's answer
        connecting,
        accepted,
        connected,
        failed,  ///< never connected, and no more
        ended,
    };

    VerbsCmId(ibv_context& context, const Limits& limits, CmEventQueue* channel, IdHandle id,
              State state);
    static Result<std::unique_ptr<VerbsCmId>> take_over(ibv_context& context, const Limits& limits,
                                                        IdHandle id, State state,
                                                        CmEventQueue* channel) noexcept;
    [[nodiscard]] bool is_connection() const noexcept {
        return state_ == State::accepted || state_ == State::connected;
    }
    [[nodiscard]] rdma_conn_param to_native(const ConnectionParameters& parameters) const noexcept;
    Status await_resolution(HubLock& lock, int timeout_ms) noexcept;
    void resolved(int error) noexcept;
    IdHandle handle_request(const rdma_cm_event& event, CmEvents& left_over) noexcept;
    void established(const rdma_cm_event& event) noexcept;
    void start_failed(CmEventType type, const rdma_cm_event& event) noexcept;
    void raise(CmEventType type, const rdma_conn_param* data = nullptr) noexcept;
    void disconnect_native() noexcept;

    ibv_context& context_;
    const Limits& limits_;
    const std::shared_ptr<EventPort> port_;
    IdHandle id_;
    std::atomic<bool> end_wanted_{false};

    // Under the hub's lock.
    State state_;
    int resolve_error_ = 0;
    VerbsQp* qp_ = nullptr;
    bool draining_ = false;
    bool disconnect_again_ = false;  ///< when it stands
    int disconnect_tries_ = 0;       ///< left, after one that failed
    Clock::time_point drain_end_;
    CmEvents spare_events_ = CmEvents(3);  // how the start ended, disconnected, device_removed
};

}  // namespace compat::core::verbs
