// SPDX-License-Identifier: BSD-3-Clause
// The receive side of one connection, or of many that share it (SRQ): remembers what was posted.
//
// Receives go to the device at once. They are held back while there is no QP yet, and behind a
// buffer for several messages: of that one only a single work request can be with the device, since
// the place of a message follows from the length of the one before, and what was posted later must
// not overtake it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/lock.hpp"
#include "core/base/trace.hpp"
#include "core/device/device.hpp"
#include "core/engine/completion.hpp"
#include "core/engine/counter.hpp"
#include "core/engine/operation.hpp"

namespace compat::core {

class TrackedCq;

/// One receive, as a facade hands it over.
struct Receive {
    std::span<const LocalBuffer> local;  ///< none of zero bytes; copied by the post
    void* context = nullptr;
    std::uint64_t entry_flags = 0;
    bool entry = true;      ///< a success completion is wanted
    bool multiple = false;  ///< one buffer for several messages
};

/// What the completions of one QP need to know about it beyond the receive queue.
struct ReceivePort {
    Counter* counter = nullptr;
    std::uint64_t write_flags = 0;  ///< Completion::flags of CompletionKind::remote_write
    std::uint64_t peer = 0;         ///< Completion::peer
};

class ReceiveQueue {
public:
    /// Errors: invalid_argument (depth 0), no_memory.
    static Result<std::unique_ptr<ReceiveQueue>> create(
        std::uint32_t depth, std::uint32_t max_sge, StatScope scope = StatScope::program) noexcept;

    /// From here on receives go to the device, those held back first.
    /// Errors: those of the device's post_receive().
    Status open(QueuePair& qp) noexcept;
    Status open(SharedReceiveQueue& srq) noexcept;
    /// Where messages complete, once a QP: behind a buffer for several messages receives wait for
    /// these completions. Errors: no_memory.
    Status attach(TrackedCq& cq) noexcept;
    void detach(TrackedCq& cq) noexcept;
    /// The device has forgotten all receives; those held back are forgotten too.
    void close() noexcept;

    /// A multi-receive buffer is released when fewer bytes than this are left.
    void set_min_multiple(std::uint64_t length) noexcept;
    [[nodiscard]] std::uint64_t min_multiple() noexcept;

    /// Errors: would_block (depth), invalid_argument (too many buffers), those of the device.
    Status post(const Receive& receive) noexcept;
    /// Withdraws the oldest receive with that context and makes its completion (flushed). Errors:
    /// invalid_argument (there is none, or a message has taken it); busy (the device has it and
    /// cannot give it back: it completes).
    Result<Completion> cancel(void* context) noexcept;
    [[nodiscard]] std::size_t free_slots() noexcept;

    /// For a trace; before open().
    void set_peer(const SocketAddress& peer) noexcept {
        if (trace_) trace_->set_peer(peer);
    }

    /// For TrackedCq: port is that of the QP, null if unknown.
    template <class Sink>
    static void complete(const WorkCompletion& wc, const ReceivePort* port, Sink& sink) noexcept;

private:
    enum class State : std::uint8_t { free, held, posted };
    struct Record {
        ReceiveQueue* owner = nullptr;
        void* context = nullptr;
        std::uint64_t flags = 0;
        std::uint64_t number = 0;   ///< in posting order
        std::byte* base = nullptr;  ///< of a multi-receive: where the next message goes
        std::uint64_t left = 0;     ///< of a multi-receive: bytes from there
        Record* next = nullptr;     ///< of the free or the held list
        std::uint32_t lkey = 0;
        std::uint16_t sge_count = 0;
        State state = State::free;
        bool entry = false;
        bool multiple = false;
    };

    ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge, StatScope scope) noexcept;
    [[nodiscard]] std::span<Sge> sges_of(const Record& record) noexcept;

    // With the lock held:
    void fill(Record& record, const Receive& receive) noexcept;
    Status post_to_device(Record& record) noexcept;
    [[nodiscard]] bool is_open() const noexcept { return qp_ != nullptr || srq_ != nullptr; }
    Status post_held() noexcept;
    Status go_on() noexcept;
    void hold(Record& record) noexcept;
    void update_chain() noexcept;
    void free(Record& record) noexcept;
    void trace_post(const Receive& receive, std::uint64_t number, std::uint64_t bytes,
                    std::uint64_t at) noexcept;
    /// The end of a receive that was posted.
    void finish(Record& record, const char* status, std::uint64_t length) noexcept;
    Record* find(void* context) noexcept;
    void unhold(Record& record) noexcept;
    Status cancel_on_device(const Record& record) noexcept;

    Completion take(Record& record, const WorkCompletion& wc, bool& wanted) noexcept;
    void take_multiple(Record& record, const WorkCompletion& wc, Completion& out) noexcept;

    Lock lock_;
    std::uint32_t depth_;
    std::uint32_t max_sge_;
    QueuePair* qp_ = nullptr;
    SharedReceiveQueue* srq_ = nullptr;
    std::unique_ptr<Record[]> records_;
    std::unique_ptr<Sge[]> sges_;  ///< max_sge_ a record
    Record* free_ = nullptr;
    Record* held_first_ = nullptr;
    Record* held_last_ = nullptr;
    std::uint32_t free_count_ = 0;
    std::uint64_t next_number_ = 1;
    std::uint64_t min_multiple_ = 64;
    bool multiple_posted_ = false;
    bool chained_ = false;  ///< the CQs know that receives depend on progress
    std::vector<TrackedCq*> cqs_;
    std::unique_ptr<Trace> trace_;  ///< null: none is wanted
    Statistics statistics_;
};

template <class Sink>
void ReceiveQueue::complete(const WorkCompletion& wc, const ReceivePort* port,
                            Sink& sink) noexcept {
    Record& record = *reinterpret_cast<Record*>(static_cast<std::uintptr_t>(wc.wr_id));
    bool wanted = true;
    Completion completion = record.owner->take(record, wc, wanted);
    const bool good = completion.status == WcStatus::success;
    if (port != nullptr) {
        completion.peer = port->peer;
        const bool written = completion.kind == CompletionKind::remote_write;
        if (written) completion.flags = port->write_flags;
        if (port->counter != nullptr && !written) {
            if (good)
                port->counter->tick(completion.length);
            else
                port->counter->add_errors(1);
        }
    }
    if (wanted || !good)
        sink.emit(completion);
    else if (port != nullptr && port->counter != nullptr)
        sink.count(completion.status);
}

}  // namespace compat::core
