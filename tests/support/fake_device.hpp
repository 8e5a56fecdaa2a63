// SPDX-License-Identifier: BSD-3-Clause
// A device that does what the test says: it records what is posted, delivers the completions and
// connection events the test hands it, and fails the calls the test names. It moves no bytes and
// checks no rules of RC; tests/contract is not for it.
//
//     FakeDevice device;
//     device.fail(Call::post_send, 2, {Errc::would_block});   // the second one from now
//     ... facade calls ...
//     device.qps().back()->posted.back().remote_address       // what arrived here
//     device.qps().back()->complete_send(wc);                 // as if the hardware had done it
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.hpp"

namespace compat::test {

/// Every call of device.hpp that can fail.
enum class Call : std::size_t {
    allocate_pd,
    register_memory,
    create_srq,
    create_completion_channel,
    create_cq,
    create_cm_channel,
    create_cm_id,
    advise,
    set_observer,
    srq_post_receive,
    poll,
    request_notify,
    get_completion_event,
    post_send,
    post_receive,
    get_cm_event,
    bind,
    listen,
    resolve,
    create_qp,
    connect,
    accept,
    reject,
    disconnect,
    migrate,
    count_
};

class FakeDevice;
class FakePd;
class FakeMr;
class FakeSrq;
class FakeChannel;
class FakeCq;
class FakeQp;
class FakeCmChannel;
class FakeCmId;

/// A send work request as it was posted, with its scatter list and inline bytes copied.
struct PostedSend {
    core::WorkRequest request;  ///< its sges member is empty
    std::vector<core::Sge> sges;
    std::vector<std::byte> inline_bytes;
};

struct PostedReceive {
    std::uint64_t wr_id = 0;
    std::vector<core::Sge> sges;
};

/// The device's list of its living objects of one kind, in the order of creation.
template <class Object>
class Listed {
public:
    explicit Listed(std::vector<Object*>& list, Object* self);
    ~Listed();
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;

private:
    std::vector<Object*>& list_;
    Object* self_;
};

class FakeMr final : public core::MemoryRegion {
public:
    FakeMr(FakeDevice& device, FakePd& pd, const core::MrAttr& attr);
    ~FakeMr() override;
    [[nodiscard]] std::uint32_t lkey() const noexcept override { return key_; }
    [[nodiscard]] std::uint32_t rkey() const noexcept override { return key_ + kRkeyDistance; }
    core::Status set_observer(core::RemoteAccessObserver* observer) noexcept override;
    core::Status advise(std::uint64_t offset, std::size_t length, int advice,
                        std::uint32_t flags) noexcept override;

    static constexpr std::uint32_t kRkeyDistance = 0x1000;

    struct Advice {
        std::uint64_t offset = 0;
        std::size_t length = 0;
        int advice = 0;
        std::uint32_t flags = 0;
    };

    const core::MrAttr attr;
    core::RemoteAccessObserver* observer = nullptr;
    Advice last_advice;

private:
    FakeDevice& device_;
    FakePd& pd_;
    std::uint32_t key_;
    Listed<FakeMr> listed_;
};

class FakeSrq final : public core::SharedReceiveQueue {
public:
    FakeSrq(FakeDevice& device, FakePd& pd, std::uint32_t depth, std::uint32_t max_sge);
    ~FakeSrq() override;
    core::Status post_receive(const core::ReceiveRequest& request) noexcept override;

    const std::uint32_t depth;
    const std::uint32_t max_sge;
    std::vector<PostedReceive> posted;

private:
    FakeDevice& device_;
    FakePd& pd_;
    Listed<FakeSrq> listed_;
};

class FakePd final : public core::ProtectionDomain {
public:
    explicit FakePd(FakeDevice& device);
    core::Result<std::unique_ptr<core::MemoryRegion>> register_memory(
        const core::MrAttr& attr) noexcept override;
    core::Result<std::unique_ptr<core::SharedReceiveQueue>> create_srq(
        std::uint32_t depth, std::uint32_t max_sge) noexcept override;
    [[nodiscard]] bool in_use() const noexcept override { return children != 0; }

    int children = 0;

private:
    FakeDevice& device_;
    Listed<FakePd> listed_;
};

class FakeChannel final : public core::CompletionChannel {
public:
    explicit FakeChannel(FakeDevice& device);
    ~FakeChannel() override;
    [[nodiscard]] int fd() const noexcept override { return fd_; }
    core::Result<core::CompletionQueue*> get_event() noexcept override;

    /// An event that no completion stands behind.
    void raise(core::CompletionQueue* queue);
    [[nodiscard]] std::size_t pending() const;
    /// While true, get_event() takes nothing: its caller is about to sleep.
    std::atomic<bool> held = false;

private:
    FakeDevice& device_;
    int fd_;
    mutable std::mutex mutex_;
    std::deque<core::CompletionQueue*> events_;
    Listed<FakeChannel> listed_;
};

class FakeCq final : public core::CompletionQueue {
public:
    FakeCq(FakeDevice& device, std::uint32_t depth, FakeChannel* channel);
    core::Result<std::size_t> poll(std::span<core::WorkCompletion> wcs) noexcept override;
    core::Status request_notify(bool solicited_only) noexcept override;
    [[nodiscard]] bool has_completions() const noexcept override;

    /// Adds a completion, and raises an event if the queue is armed.
    void push(const core::WorkCompletion& wc);
    [[nodiscard]] bool armed() const;

    const std::uint32_t depth;
    FakeChannel* const channel;
    /// has_completions() says no, as hardware does; poll() still knows.
    bool shy = false;
    /// The device goes on: called once, by the next poll() that has found nothing.
    std::function<void()> after_empty_poll;
    /// poll() claims to have given this many more than it did.
    std::size_t overstated = 0;

private:
    FakeDevice& device_;
    mutable std::mutex mutex_;
    std::deque<core::WorkCompletion> completions_;
    bool armed_ = false;
    Listed<FakeCq> listed_;
};

class FakeQp final : public core::QueuePair {
public:
    FakeQp(FakeDevice& device, const core::QpAttr& attr);
    ~FakeQp() override;
    [[nodiscard]] std::uint32_t number() const noexcept override { return number_; }
    core::Status post_send(std::span<const core::WorkRequest> requests,
                           std::size_t* posted_count) noexcept override;
    core::Status post_receive(const core::ReceiveRequest& request) noexcept override;
    core::Status set_observer(core::RemoteAccessObserver* observer) noexcept override;
    void fail() noexcept override { failed = true; }

    /// To the send CQ or the receive CQ, with this QP's number.
    void complete_send(core::WorkCompletion wc);
    void complete_receive(core::WorkCompletion wc);

    const core::QpAttr attr;
    std::vector<PostedSend> posted;
    std::vector<PostedReceive> posted_receives;
    core::RemoteAccessObserver* observer = nullptr;
    bool failed = false;

private:
    FakeDevice& device_;
    std::uint32_t number_;
    Listed<FakeQp> listed_;
};

class FakeCmChannel final : public core::CmChannel {
public:
    explicit FakeCmChannel(FakeDevice& device);
    ~FakeCmChannel() override;
    [[nodiscard]] int fd() const noexcept override { return fd_; }
    core::Result<core::CmEvent> get_event() noexcept override;

private:
    friend class FakeCmId;
    void push(core::CmEvent event);
    void move_events(core::CmId* id, FakeCmChannel& target);
    void drop_events(core::CmId* id);

    FakeDevice& device_;
    int fd_;
    mutable std::mutex mutex_;
    std::deque<core::CmEvent> events_;
    Listed<FakeCmChannel> listed_;
};

class FakeCmId final : public core::CmId {
public:
    FakeCmId(FakeDevice& device, FakeCmChannel* channel);
    ~FakeCmId() override;
    core::Status bind(const core::SocketAddress& local) noexcept override;
    core::Status listen(int new_backlog) noexcept override;
    core::Status resolve(const core::SocketAddress& local, const core::SocketAddress& peer,
                         int new_timeout_ms) noexcept override;
    core::Result<std::unique_ptr<core::QueuePair>> create_qp(
        const core::QpAttr& attr) noexcept override;
    core::Status connect(const core::ConnectionParameters& parameters) noexcept override;
    core::Status accept(const core::ConnectionParameters& parameters) noexcept override;
    core::Status reject(std::span<const std::byte> data) noexcept override;
    core::Status disconnect() noexcept override;
    core::Status migrate(core::CmChannel& channel) noexcept override;
    [[nodiscard]] core::SocketAddress local_address() const noexcept override { return local; }
    [[nodiscard]] core::SocketAddress peer_address() const noexcept override { return peer; }

    /// Queues an event of this id; it waits while the id has no channel.
    void deliver(core::CmEventType type, const std::string& private_data = {});
    /// For a listener: queues a connect_request with a new id.
    void deliver_request(const std::string& private_data = {});

    core::SocketAddress local;
    core::SocketAddress peer;
    int backlog = -1;
    int timeout_ms = -1;
    bool connected = false;
    bool accepted = false;
    bool rejected = false;
    int disconnects = 0;
    core::ConnectionParameters parameters;  ///< its private_data member is empty
    std::string private_data;               ///< sent with connect, accept or reject

private:
    void remember(const core::ConnectionParameters& given);
    void queue(core::CmEvent event);

    FakeDevice& device_;
    FakeCmChannel* channel_;
    std::deque<core::CmEvent> waiting_;
    Listed<FakeCmId> listed_;
};

class FakeDevice final : public core::Device {
public:
    FakeDevice();
    ~FakeDevice() override;

    /// The nth call of its kind from now on fails once (1: the next).
    void fail(Call call, int nth, core::Error error);
    /// The nth call of any kind from now on fails once.
    void fail_any(int nth, core::Error error);
    /// Takes back the last fail() or fail_any(), if it did not come true yet.
    void fail_nothing();
    /// Whether the last fail() or fail_any() came true.
    [[nodiscard]] bool has_failed() const;
    /// Calls of this kind so far.
    [[nodiscard]] int calls(Call call) const;
    /// Objects that are alive, of all kinds.
    [[nodiscard]] std::size_t live() const;

    /// Signaled requests complete with success as they are posted.
    bool auto_complete = false;
    /// What limits() says; a test may change it.
    core::Limits current_limits;

    [[nodiscard]] auto& pds() { return pds_; }
    [[nodiscard]] auto& mrs() { return mrs_; }
    [[nodiscard]] auto& srqs() { return srqs_; }
    [[nodiscard]] auto& channels() { return channels_; }
    [[nodiscard]] auto& cqs() { return cqs_; }
    [[nodiscard]] auto& qps() { return qps_; }
    [[nodiscard]] auto& cm_channels() { return cm_channels_; }
    [[nodiscard]] auto& cm_ids() { return cm_ids_; }

    /// Counts the call; the error it has to return, if any.
    std::optional<core::Error> enter(Call call);
    std::uint32_t next_number() { return ++last_number_; }

    [[nodiscard]] const core::Limits& limits() const noexcept override { return current_limits; }
    [[nodiscard]] ibv_context* native_context() const noexcept override { return nullptr; }
    core::Result<std::unique_ptr<core::ProtectionDomain>> allocate_pd() noexcept override;
    core::Result<std::unique_ptr<core::CompletionChannel>> create_completion_channel() noexcept
        override;
    core::Result<std::unique_ptr<core::CompletionQueue>> create_cq(
        std::uint32_t depth, core::CompletionChannel* channel) noexcept override;
    core::Result<std::unique_ptr<core::CmChannel>> create_cm_channel() noexcept override;
    core::Result<std::unique_ptr<core::CmId>> create_cm_id(
        core::CmChannel* channel) noexcept override;

private:
    struct Failure {
        std::optional<Call> call;  ///< none: any
        int left = 0;
        core::Error error{core::Errc::device};
    };

    void arm(std::optional<Call> call, int nth, core::Error error);

    mutable std::mutex mutex_;  ///< of what enter() looks at
    std::array<int, static_cast<std::size_t>(Call::count_)> calls_{};
    std::optional<Failure> failure_;
    bool has_failed_ = false;
    std::uint32_t last_number_ = 0x10;

    std::vector<FakePd*> pds_;
    std::vector<FakeMr*> mrs_;
    std::vector<FakeSrq*> srqs_;
    std::vector<FakeChannel*> channels_;
    std::vector<FakeCq*> cqs_;
    std::vector<FakeQp*> qps_;
    std::vector<FakeCmChannel*> cm_channels_;
    std::vector<FakeCmId*> cm_ids_;
};

}  // namespace compat::test
