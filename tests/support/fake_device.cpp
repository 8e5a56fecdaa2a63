// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/fake_device.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "tests/support/new_failure.hpp"

namespace compat::test {

using core::Errc;
using core::failure;
using core::Result;
using core::Status;

namespace {

int open_event_counter() {
    return eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
}

void add_one(int fd) {
    const std::uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one) std::abort();
}

/// Takes one; blocks as the descriptor says.
Status take_one(int fd) {
    std::uint64_t one = 0;
    if (read(fd, &one, sizeof one) == sizeof one) return {};
    if (errno == EAGAIN) return failure(Errc::would_block);
    if (errno == EINTR) return failure(Errc::interrupted);
    return failure(Errc::device, errno);
}

core::WcOpcode completion_opcode(core::Opcode opcode) {
    switch (opcode) {
        case core::Opcode::send:
        case core::Opcode::send_imm: return core::WcOpcode::send;
        case core::Opcode::write:
        case core::Opcode::write_imm: return core::WcOpcode::write;
        case core::Opcode::read: return core::WcOpcode::read;
        case core::Opcode::atomic_cas: return core::WcOpcode::compare_swap;
        case core::Opcode::atomic_fadd: return core::WcOpcode::fetch_add;
        case core::Opcode::atomic_write: return core::WcOpcode::atomic_write;
        case core::Opcode::flush: return core::WcOpcode::flush;
        case core::Opcode::count_: break;
    }
    std::abort();
}

core::Limits default_limits() {
    core::Limits limits;
    limits.name = "fake0";
    limits.max_qp_wr = 1024;
    limits.max_sge = 4;
    limits.max_sge_read = 4;
    limits.max_inline = 64;
    limits.max_message = std::uint64_t{1} << 30;
    limits.max_cqe = 4096;
    limits.max_srq_wr = 1024;
    limits.max_rd_atomic = 16;
    limits.imm_bytes = 4;
    limits.atomics = true;
    limits.flush = true;
    limits.atomic_write = true;
    limits.max_connect_data = 56;
    limits.max_accept_data = 196;
    limits.max_reject_data = 148;
    return limits;
}

PostedReceive copy_of(const core::ReceiveRequest& request) {
    return {.wr_id = request.wr_id, .sges = {request.sges.begin(), request.sges.end()}};
}

PostedSend copy_of(const core::WorkRequest& request) {
    PostedSend copy{
        .request = request, .sges = {request.sges.begin(), request.sges.end()}, .inline_bytes = {}};
    copy.request.sges = {};
    if (!request.flags.has(core::SendFlag::inlined)) return copy;
    for (const core::Sge& sge : request.sges) {
        const auto* const bytes = static_cast<const std::byte*>(sge.address);
        copy.inline_bytes.insert(copy.inline_bytes.end(), bytes, bytes + sge.length);
    }
    return copy;
}

std::vector<std::byte> bytes_of(const std::string& text) {
    const std::span bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

template <class Object>
Listed<Object>::Listed(std::vector<Object*>& list, Object* self) : list_(list), self_(self) {
    list_.push_back(self);
}
template <class Object>
Listed<Object>::~Listed() {
    list_.erase(std::find(list_.begin(), list_.end(), self_));
}

// --- memory -----------------------------------------------------------------------------------

FakeMr::FakeMr(FakeDevice& device, FakePd& pd, const core::MrAttr& given)
    : attr(given),
      device_(device),
      pd_(pd),
      key_(device.next_number()),
      listed_(device.mrs(), this) {
    ++pd_.children;
}
FakeMr::~FakeMr() {
    --pd_.children;
}

Status FakeMr::set_observer(core::RemoteAccessObserver* new_observer) noexcept {
    if (const auto error = device_.enter(Call::set_observer)) return failure(*error);
    observer = new_observer;
    return {};
}

Status FakeMr::advise(std::uint64_t offset, std::size_t length, int advice,
                      std::uint32_t flags) noexcept {
    if (const auto error = device_.enter(Call::advise)) return failure(*error);
    last_advice = {offset, length, advice, flags};
    return {};
}

FakeSrq::FakeSrq(FakeDevice& device, FakePd& pd, std::uint32_t new_depth, std::uint32_t new_max_sge)
    : depth(new_depth),
      max_sge(new_max_sge),
      device_(device),
      pd_(pd),
      listed_(device.srqs(), this) {
    ++pd_.children;
}
FakeSrq::~FakeSrq() {
    --pd_.children;
}

Status FakeSrq::post_receive(const core::ReceiveRequest& request) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::srq_post_receive)) return failure(*error);
    posted.push_back(copy_of(request));
    return {};
}

FakePd::FakePd(FakeDevice& device) : device_(device), listed_(device.pds(), this) {}

Result<std::unique_ptr<core::MemoryRegion>> FakePd::register_memory(
    const core::MrAttr& attr) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::register_memory)) return failure(*error);
    return std::make_unique<FakeMr>(device_, *this, attr);
}

Result<std::unique_ptr<core::SharedReceiveQueue>> FakePd::create_srq(
    std::uint32_t depth, std::uint32_t max_sge) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::create_srq)) return failure(*error);
    return std::make_unique<FakeSrq>(device_, *this, depth, max_sge);
}

// --- completions ------------------------------------------------------------------------------

FakeChannel::FakeChannel(FakeDevice& device)
    : device_(device), fd_(open_event_counter()), listed_(device.channels(), this) {}
FakeChannel::~FakeChannel() {
    close(fd_);
}

Result<core::CompletionQueue*> FakeChannel::get_event() noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::get_completion_event)) return failure(*error);
    while (held) std::this_thread::yield();
    if (const Status taken = take_one(fd_); !taken) return failure(taken.error());
    const std::lock_guard lock(mutex_);
    core::CompletionQueue* const queue = events_.front();
    events_.pop_front();
    return queue;
}

void FakeChannel::raise(core::CompletionQueue* queue) {
    {
        const std::lock_guard lock(mutex_);
        events_.push_back(queue);
    }
    add_one(fd_);
}

std::size_t FakeChannel::pending() const {
    const std::lock_guard lock(mutex_);
    return events_.size();
}

FakeCq::FakeCq(FakeDevice& device, std::uint32_t new_depth, FakeChannel* new_channel)
    : depth(new_depth), channel(new_channel), device_(device), listed_(device.cqs(), this) {}

Result<std::size_t> FakeCq::poll(std::span<core::WorkCompletion> wcs) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::poll)) return failure(*error);
    std::unique_lock lock(mutex_);
    const std::size_t count = std::min(wcs.size(), completions_.size());
    std::copy_n(completions_.begin(), count, wcs.begin());
    completions_.erase(completions_.begin(),
                       completions_.begin() + static_cast<std::ptrdiff_t>(count));
    lock.unlock();
    if (count == 0 && after_empty_poll) std::exchange(after_empty_poll, nullptr)();
    return count + overstated;
}

Status FakeCq::request_notify(bool) noexcept {
    if (const auto error = device_.enter(Call::request_notify)) return failure(*error);
    const std::lock_guard lock(mutex_);
    armed_ = true;
    return {};
}

bool FakeCq::has_completions() const noexcept {
    const std::lock_guard lock(mutex_);
    return !shy && !completions_.empty();
}

void FakeCq::push(const core::WorkCompletion& wc) {
    bool raise = false;
    {
        const std::lock_guard lock(mutex_);
        completions_.push_back(wc);
        raise = armed_ && channel != nullptr;
        armed_ = false;
    }
    if (raise) channel->raise(this);
}

bool FakeCq::armed() const {
    const std::lock_guard lock(mutex_);
    return armed_;
}

// --- queue pairs ------------------------------------------------------------------------------

FakeQp::FakeQp(FakeDevice& device, const core::QpAttr& given)
    : attr(given), device_(device), number_(device.next_number()), listed_(device.qps(), this) {
    ++static_cast<FakePd*>(attr.pd)->children;
}
FakeQp::~FakeQp() {
    --static_cast<FakePd*>(attr.pd)->children;
}

Status FakeQp::post_send(std::span<const core::WorkRequest> requests,
                         std::size_t* posted_count) noexcept {
    const NewFailurePaused paused;
    std::size_t count = 0;
    Status status;
    for (const core::WorkRequest& request : requests) {
        if (const auto error = device_.enter(Call::post_send)) {
            status = failure(*error);
            break;
        }
        posted.push_back(copy_of(request));
        ++count;
        if (device_.auto_complete && request.flags.has(core::SendFlag::signaled))
            complete_send({.wr_id = request.wr_id, .opcode = completion_opcode(request.opcode)});
    }
    if (posted_count != nullptr) *posted_count = count;
    return status;
}

Status FakeQp::post_receive(const core::ReceiveRequest& request) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::post_receive)) return failure(*error);
    posted_receives.push_back(copy_of(request));
    return {};
}

Status FakeQp::set_observer(core::RemoteAccessObserver* new_observer) noexcept {
    if (const auto error = device_.enter(Call::set_observer)) return failure(*error);
    observer = new_observer;
    return {};
}

void FakeQp::complete_send(core::WorkCompletion wc) {
    wc.qp_num = number_;
    static_cast<FakeCq*>(attr.send_cq)->push(wc);
}

void FakeQp::complete_receive(core::WorkCompletion wc) {
    wc.qp_num = number_;
    wc.receive_side = true;
    static_cast<FakeCq*>(attr.receive_cq)->push(wc);
}

// --- connections ------------------------------------------------------------------------------

FakeCmChannel::FakeCmChannel(FakeDevice& device)
    : device_(device), fd_(open_event_counter()), listed_(device.cm_channels(), this) {}
FakeCmChannel::~FakeCmChannel() {
    close(fd_);
}

Result<core::CmEvent> FakeCmChannel::get_event() noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::get_cm_event)) return failure(*error);
    if (const Status taken = take_one(fd_); !taken) return failure(taken.error());
    const std::lock_guard lock(mutex_);
    core::CmEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

void FakeCmChannel::push(core::CmEvent event) {
    {
        const std::lock_guard lock(mutex_);
        events_.push_back(std::move(event));
    }
    add_one(fd_);
}

void FakeCmChannel::move_events(core::CmId* id, FakeCmChannel& target) {
    std::deque<core::CmEvent> kept;
    const std::lock_guard lock(mutex_);
    for (core::CmEvent& event : events_) {
        if (event.id != id) {
            kept.push_back(std::move(event));
            continue;
        }
        static_cast<void>(take_one(fd_));
        target.push(std::move(event));
    }
    events_ = std::move(kept);
}

void FakeCmChannel::drop_events(core::CmId* id) {
    std::deque<core::CmEvent> dropped;  // destroyed after the lock is gone: ids inside call back
    const std::lock_guard lock(mutex_);
    const auto first =
        std::stable_partition(events_.begin(), events_.end(),
                              [id](const core::CmEvent& event) { return event.id != id; });
    for (auto event = first; event != events_.end(); ++event) {
        static_cast<void>(take_one(fd_));
        dropped.push_back(std::move(*event));
    }
    events_.erase(first, events_.end());
}

FakeCmId::FakeCmId(FakeDevice& device, FakeCmChannel* channel)
    : device_(device), channel_(channel), listed_(device.cm_ids(), this) {}

FakeCmId::~FakeCmId() {
    if (channel_ != nullptr) channel_->drop_events(this);
}

Status FakeCmId::bind(const core::SocketAddress& address) noexcept {
    if (const auto error = device_.enter(Call::bind)) return failure(*error);
    local = address;
    return {};
}

Status FakeCmId::listen(int new_backlog) noexcept {
    if (const auto error = device_.enter(Call::listen)) return failure(*error);
    backlog = new_backlog;
    return {};
}

Status FakeCmId::resolve(const core::SocketAddress& from, const core::SocketAddress& to,
                         int new_timeout_ms) noexcept {
    if (const auto error = device_.enter(Call::resolve)) return failure(*error);
    local = from;
    peer = to;
    timeout_ms = new_timeout_ms;
    return {};
}

Result<std::unique_ptr<core::QueuePair>> FakeCmId::create_qp(const core::QpAttr& attr) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::create_qp)) return failure(*error);
    return std::make_unique<FakeQp>(device_, attr);
}

void FakeCmId::remember(const core::ConnectionParameters& given) {
    const NewFailurePaused paused;
    parameters = given;
    parameters.private_data = {};
    private_data = text_of(given.private_data);
}

Status FakeCmId::connect(const core::ConnectionParameters& given) noexcept {
    if (const auto error = device_.enter(Call::connect)) return failure(*error);
    remember(given);
    connected = true;
    return {};
}

Status FakeCmId::accept(const core::ConnectionParameters& given) noexcept {
    if (const auto error = device_.enter(Call::accept)) return failure(*error);
    remember(given);
    accepted = true;
    return {};
}

Status FakeCmId::reject(std::span<const std::byte> data) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::reject)) return failure(*error);
    private_data = text_of(data);
    rejected = true;
    return {};
}

Status FakeCmId::disconnect() noexcept {
    if (const auto error = device_.enter(Call::disconnect)) return failure(*error);
    ++disconnects;
    return {};
}

Status FakeCmId::migrate(core::CmChannel& channel) noexcept {
    const NewFailurePaused paused;
    if (const auto error = device_.enter(Call::migrate)) return failure(*error);
    auto& target = static_cast<FakeCmChannel&>(channel);
    if (channel_ != nullptr) channel_->move_events(this, target);
    for (core::CmEvent& event : waiting_) target.push(std::move(event));
    waiting_.clear();
    channel_ = &target;
    return {};
}

void FakeCmId::queue(core::CmEvent event) {
    if (channel_ != nullptr)
        channel_->push(std::move(event));
    else
        waiting_.push_back(std::move(event));
}

void FakeCmId::deliver(core::CmEventType type, const std::string& data) {
    queue({.type = type, .id = this, .request = nullptr, .private_data = bytes_of(data)});
}

void FakeCmId::deliver_request(const std::string& data) {
    queue({.type = core::CmEventType::connect_request,
           .id = this,
           .request = std::make_unique<FakeCmId>(device_, channel_),
           .private_data = bytes_of(data)});
}

// --- the device -------------------------------------------------------------------------------

FakeDevice::FakeDevice() : current_limits(default_limits()) {}
FakeDevice::~FakeDevice() = default;

void FakeDevice::arm(std::optional<Call> call, int nth, core::Error error) {
    const std::lock_guard lock(mutex_);
    failure_ = Failure{.call = call, .left = nth, .error = error};
    has_failed_ = false;
}

void FakeDevice::fail(Call call, int nth, core::Error error) {
    arm(call, nth, error);
}

void FakeDevice::fail_any(int nth, core::Error error) {
    arm(std::nullopt, nth, error);
}

void FakeDevice::fail_nothing() {
    const std::lock_guard lock(mutex_);
    failure_.reset();
}

bool FakeDevice::has_failed() const {
    const std::lock_guard lock(mutex_);
    return has_failed_;
}

int FakeDevice::calls(Call call) const {
    const std::lock_guard lock(mutex_);
    return calls_[static_cast<std::size_t>(call)];
}

std::optional<core::Error> FakeDevice::enter(Call call) {
    const std::lock_guard lock(mutex_);
    ++calls_[static_cast<std::size_t>(call)];
    if (!failure_ || (failure_->call && *failure_->call != call)) return std::nullopt;
    if (--failure_->left > 0) return std::nullopt;
    has_failed_ = true;
    const core::Error error = failure_->error;
    failure_.reset();
    return error;
}

std::size_t FakeDevice::live() const {
    return pds_.size() + mrs_.size() + srqs_.size() + channels_.size() + cqs_.size() + qps_.size() +
           cm_channels_.size() + cm_ids_.size();
}

Result<std::unique_ptr<core::ProtectionDomain>> FakeDevice::allocate_pd() noexcept {
    const NewFailurePaused paused;
    if (const auto error = enter(Call::allocate_pd)) return failure(*error);
    return std::make_unique<FakePd>(*this);
}

Result<std::unique_ptr<core::CompletionChannel>> FakeDevice::create_completion_channel() noexcept {
    const NewFailurePaused paused;
    if (const auto error = enter(Call::create_completion_channel)) return failure(*error);
    return std::make_unique<FakeChannel>(*this);
}

Result<std::unique_ptr<core::CompletionQueue>> FakeDevice::create_cq(
    std::uint32_t depth, core::CompletionChannel* channel) noexcept {
    const NewFailurePaused paused;
    if (const auto error = enter(Call::create_cq)) return failure(*error);
    if (depth == 0) return failure(Errc::invalid_argument);
    return std::make_unique<FakeCq>(*this, depth, static_cast<FakeChannel*>(channel));
}

Result<std::unique_ptr<core::CmChannel>> FakeDevice::create_cm_channel() noexcept {
    const NewFailurePaused paused;
    if (const auto error = enter(Call::create_cm_channel)) return failure(*error);
    return std::make_unique<FakeCmChannel>(*this);
}

Result<std::unique_ptr<core::CmId>> FakeDevice::create_cm_id(core::CmChannel* channel) noexcept {
    const NewFailurePaused paused;
    if (const auto error = enter(Call::create_cm_id)) return failure(*error);
    return std::make_unique<FakeCmId>(*this, static_cast<FakeCmChannel*>(channel));
}

}  // namespace compat::test
