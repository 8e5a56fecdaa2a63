// SPDX-License-Identifier: BSD-3-Clause
// Event queues: fi_eq(3).
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/core.hpp"
#include "fi_compat/info.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/wait.hpp"

namespace compat::fi {

class EventQueue;
class Fabric;

/// Something an event queue drains while it is read: a core::CmChannel, say. Owned by the queue.
class EventSource {
public:
    virtual ~EventSource() = default;
    [[nodiscard]] virtual int fd() const noexcept = 0;  ///< readable while something waits
    /// Takes what is there, without blocking, and pushes what follows from it. Called with the
    /// queue's source lock held.
    virtual void drain(EventQueue& queue) = 0;
};

class EventQueue final : public Object<EventQueue, fid_eq> {
public:
    static core::Result<EventQueue*> open(Fabric& fabric, const fi_eq_attr& attr, void* context);
    ~EventQueue();

    // --- for the objects that report here -------------------------------------------------------

    class Spare;

    /// FI_NOTIFY, FI_MR_COMPLETE, FI_AV_COMPLETE, FI_JOIN_COMPLETE.
    void push(std::uint32_t event, const fi_eq_entry& entry);
    /// FI_CONNREQ (with info), FI_CONNECTED, FI_SHUTDOWN. data: the peer's private data.
    void push_cm(std::uint32_t event, struct ::fid* source, InfoPtr info,
                 std::span<const std::byte> data, Spare* spare = nullptr);
    void push_error(const fi_eq_err_entry& error);
    /// err: a positive fabric errno. data: such as the private data of a rejection.
    void push_error(struct ::fid* source, void* context, int err, int prov_errno,
                    std::span<const std::byte> data, Spare* spare = nullptr);
    /// Drops what is queued for an object that is being closed.
    void forget(struct ::fid* source) noexcept;

    /// The source that was added under key (a core::Device, say), or null.
    EventSource* find_source(const void* key);
    /// It lives until the queue is closed. Errors: device.
    core::Status add_source(const void* key, std::unique_ptr<EventSource> source);
    /// While held no source is drained: whoever closes an object that a drain could reach (and so a
    /// CmId) does it under this lock. Lock order: this one, then the object's own.
    [[nodiscard]] std::unique_lock<std::mutex> hold_sources() {
        return std::unique_lock(sources_mutex_);
    }

    [[nodiscard]] Fabric& fabric() const noexcept { return *fabric_; }

    // --- the slots of fi_ops_eq -----------------------------------------------------------------

    ssize_t read(std::uint32_t* event, void* buffer, std::size_t length, std::uint64_t flags);
    ssize_t sread(std::uint32_t* event, void* buffer, std::size_t length, int timeout_ms,
                  std::uint64_t flags);
    ssize_t read_error(fi_eq_err_entry* entry, std::uint64_t flags);
    ssize_t write(std::uint32_t event, const void* buffer, std::size_t length);
    int control(int command, void* argument);

private:
    struct Event {
        std::uint32_t number = 0;
        bool is_error = false;
        struct ::fid* source = nullptr;
        InfoPtr info;                    // of FI_CONNREQ: the queue's until somebody has seen it
        std::vector<std::byte> payload;  // what fi_eq_read() copies; of an error: its err_data
        fi_eq_err_entry error{};
    };

    using Events = std::list<Event>;

    EventQueue(Fabric& fabric, const fi_eq_attr& attr, std::unique_ptr<WaitObject> wait,
               void* context);
    /// Of one event.
    void push(Events made) noexcept;
    static Events make(Spare* spare);
    void drain_sources();
    bool is_empty();
    int try_wait();
    void pop_front();
    ssize_t take(std::uint32_t* event, void* buffer, std::size_t length, std::uint64_t flags);
    void give_error(fi_eq_err_entry& entry, Event& event, bool peek);

    Ref<Fabric> fabric_;
    std::uint64_t flags_;
    std::size_t size_;
    std::unique_ptr<WaitObject> wait_;

    std::mutex sources_mutex_;
    std::vector<std::pair<const void*, std::unique_ptr<EventSource>>> sources_;

    std::mutex queue_mutex_;
    Events events_;
    std::vector<std::byte> last_error_data_;  // what err_data points at until the next call
    WaitSetPlace wait_set_;                   // left before anything else goes
};

/// Room for the events that an object cannot do without, whatever memory there is when they come.
class EventQueue::Spare {
public:
    /// Throws std::bad_alloc. data: the most bytes that come with one of them.
    Spare(std::size_t events, std::size_t data);

private:
    friend class EventQueue;
    Events events_;
};

}  // namespace compat::fi
