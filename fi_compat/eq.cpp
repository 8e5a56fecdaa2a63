// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/eq.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fi_compat/boundary.hpp"
#include "fi_compat/fabric.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr std::uint64_t kEqFlags = FI_WRITE | FI_AFFINITY;  // fi_eq(3), fi_eq_open
constexpr std::size_t kDefaultSize = 1024;                  // events that fi_eq_write() may queue

ssize_t eq_read(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length,
                std::uint64_t flags) {
    return c_boundary([&] { return EventQueue::of(eq).read(event, buffer, length, flags); });
}

ssize_t eq_readerr(fid_eq* eq, fi_eq_err_entry* entry, std::uint64_t flags) {
    return c_boundary([&] { return EventQueue::of(eq).read_error(entry, flags); });
}

ssize_t eq_write(fid_eq* eq, std::uint32_t event, const void* buffer, std::size_t length,
                 std::uint64_t flags) {
    return c_boundary([&]() -> ssize_t {
        if (flags != 0) return -FI_EBADFLAGS;
        return EventQueue::of(eq).write(event, buffer, length);
    });
}

ssize_t eq_sread(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length, int timeout_ms,
                 std::uint64_t flags) {
    return c_boundary(
        [&] { return EventQueue::of(eq).sread(event, buffer, length, timeout_ms, flags); });
}

const char* eq_strerror(fid_eq*, int prov_errno, const void*, char* buffer, std::size_t length) {
    // The queue reports connection events; their prov_errno is an errno.
    const char* text = fi_strerror(prov_errno);
    if (buffer != nullptr && length > 0) std::snprintf(buffer, length, "%s", text);
    return text;
}

int eq_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return EventQueue::of(face).control(command, argument); });
}

constinit fi_ops kEqFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<EventQueue>,
    .bind = kUnsupported,
    .control = eq_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_eq kEqOps = {
    .size = sizeof(fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

void append(std::vector<std::byte>& payload, const void* data, std::size_t length) {
    const auto* bytes = static_cast<const std::byte*>(data);
    payload.insert(payload.end(), bytes, bytes + length);
}

}  // namespace

EventQueue::EventQueue(Fabric& fabric, const fi_eq_attr& attr, std::unique_ptr<WaitObject> wait,
                       void* user_context)
    : Object(FI_CLASS_EQ, user_context, kEqFiOps),
      fabric_(fabric),
      flags_(attr.flags),
      size_(attr.size != 0 ? attr.size : kDefaultSize),
      wait_(std::move(wait)) {
    ops = &kEqOps;
}

core::Result<EventQueue*> EventQueue::open(Fabric& fabric, const fi_eq_attr& attr,
                                           void* user_context) {
    if ((attr.flags & ~kEqFlags) != 0) return core::failure(core::Errc::invalid_argument);
    const int kind = number_in(attr.wait_obj);
    auto wait = WaitObject::open(kind);
    if (!wait) return core::failure(wait.error());
    std::unique_ptr<EventQueue> queue(new EventQueue(fabric, attr, std::move(*wait), user_context));
    const core::Status placed =
        queue->wait_set_.take(fabric, kind, attr.wait_set, queue->base(), *queue->wait_);
    if (!placed) return core::failure(placed.error());
    return queue.release();
}

EventQueue::~EventQueue() {
    for (const auto& [key, source] : sources_) wait_->remove_source(source->fd());
}

EventQueue::Spare::Spare(std::size_t events, std::size_t data) : events_(events) {
    for (Event& event : events_) event.payload.reserve(sizeof(fi_eq_cm_entry) + data);
}

EventQueue::Events EventQueue::make(Spare* spare) {
    Events made;
    if (spare != nullptr && !spare->events_.empty())
        made.splice(made.end(), spare->events_, spare->events_.begin());
    else
        made.emplace_back();
    return made;
}

void EventQueue::push(Events made) noexcept {
    const std::lock_guard lock(queue_mutex_);
    events_.splice(events_.end(), made);
    wait_->signal();
}

void EventQueue::push(std::uint32_t number, const fi_eq_entry& entry) {
    Events made = make(nullptr);
    made.front().number = number;
    made.front().source = entry.fid;
    append(made.front().payload, &entry, sizeof entry);
    push(std::move(made));
}

void EventQueue::push_cm(std::uint32_t number, struct ::fid* source, InfoPtr info,
                         std::span<const std::byte> data, Spare* spare) {
    Events made = make(spare);
    Event& event = made.front();
    event.number = number;
    event.source = source;
    const fi_eq_cm_entry head{.fid = source, .info = info.get()};
    append(event.payload, &head, sizeof head);
    append(event.payload, data.data(), data.size());
    event.info = std::move(info);
    push(std::move(made));
}

void EventQueue::push_error(struct ::fid* source, void* context, int err, int prov_errno,
                            std::span<const std::byte> data, Spare* spare) {
    Events made = make(spare);
    Event& event = made.front();
    event.is_error = true;
    event.source = source;
    event.error.fid = source;
    event.error.context = context;
    event.error.err = err;
    event.error.prov_errno = prov_errno;
    append(event.payload, data.data(), data.size());
    push(std::move(made));
}

void EventQueue::push_error(const fi_eq_err_entry& error) {
    Events made = make(nullptr);
    made.front().is_error = true;
    made.front().source = error.fid;
    made.front().error = error;
    push(std::move(made));
}

void EventQueue::forget(struct ::fid* source) noexcept {
    const std::lock_guard lock(queue_mutex_);
    std::erase_if(events_, [&](const Event& event) { return event.source == source; });
    if (events_.empty()) wait_->reset();
}

EventSource* EventQueue::find_source(const void* key) {
    const std::lock_guard lock(sources_mutex_);
    const auto found = std::ranges::find(sources_, key, &decltype(sources_)::value_type::first);
    return found != sources_.end() ? found->second.get() : nullptr;
}

core::Status EventQueue::add_source(const void* key, std::unique_ptr<EventSource> source) {
    const std::lock_guard lock(sources_mutex_);
    const int fd = source->fd();
    sources_.emplace_back(key, std::move(source));
    const core::Status added = wait_->add_source(fd);
    if (!added) sources_.pop_back();
    return added;
}

void EventQueue::drain_sources() {
    const std::lock_guard lock(sources_mutex_);
    for (const auto& [key, source] : sources_) source->drain(*this);
}

bool EventQueue::is_empty() {
    const std::lock_guard lock(queue_mutex_);
    return events_.empty();
}

int EventQueue::try_wait() {
    if (is_empty()) drain_sources();
    return is_empty() ? 0 : -FI_EAGAIN;
}

void EventQueue::pop_front() {
    events_.pop_front();
    if (events_.empty()) wait_->reset();
}

ssize_t EventQueue::take(std::uint32_t* event, void* buffer, std::size_t length,
                         std::uint64_t flags) {
    const std::lock_guard lock(queue_mutex_);
    if (events_.empty()) return -FI_EAGAIN;
    Event& front = events_.front();
    if (front.is_error) return -FI_EAVAIL;
    const bool is_cm = front.number >= FI_CONNREQ && front.number <= FI_SHUTDOWN;
    const std::size_t needed = is_cm ? sizeof(fi_eq_cm_entry) : front.payload.size();
    if (length < needed) return -FI_ETOOSMALL;
    const std::size_t copied = std::min(length, front.payload.size());
    if (copied > 0) std::memcpy(buffer, front.payload.data(), copied);
    *event = front.number;
    (void)front.info.release();  // who has seen it frees it, by fi_freeinfo()
    if ((flags & FI_PEEK) == 0) pop_front();
    return static_cast<ssize_t>(copied);
}

ssize_t EventQueue::read(std::uint32_t* event, void* buffer, std::size_t length,
                         std::uint64_t flags) {
    if ((flags & ~FI_PEEK) != 0) return -FI_EBADFLAGS;
    if (event == nullptr || (buffer == nullptr && length != 0)) return -FI_EINVAL;
    if (is_empty()) drain_sources();
    return take(event, buffer, length, flags);
}

ssize_t EventQueue::sread(std::uint32_t* event, void* buffer, std::size_t length, int timeout_ms,
                          std::uint64_t flags) {
    if (!wait_->can_block()) return -FI_ENOSYS;
    const Deadline deadline(timeout_ms);
    for (;;) {
        const ssize_t count = read(event, buffer, length, flags);
        if (count != -FI_EAGAIN || deadline.passed()) return count;
        const core::Status slept = wait_->sleep(deadline.remaining_ms());
        if (!slept) return to_fi(slept.error());
    }
}

void EventQueue::give_error(fi_eq_err_entry& entry, Event& event, bool peek) {
    void* const caller_buffer = entry.err_data;
    const std::size_t caller_size = entry.err_data_size;
    entry = event.error;
    entry.err_data_size = event.payload.size();
    if (fabric_->api_at_least(1, 5) && caller_buffer != nullptr && caller_size > 0) {
        entry.err_data = caller_buffer;
        entry.err_data_size = std::min(caller_size, event.payload.size());
        if (entry.err_data_size > 0)
            std::memcpy(caller_buffer, event.payload.data(), entry.err_data_size);
    } else if (event.payload.empty()) {
        entry.err_data = nullptr;
    } else {
        last_error_data_ = peek ? event.payload : std::move(event.payload);
        entry.err_data = last_error_data_.data();
    }
}

ssize_t EventQueue::read_error(fi_eq_err_entry* entry, std::uint64_t flags) {
    if ((flags & ~FI_PEEK) != 0) return -FI_EBADFLAGS;
    if (entry == nullptr) return -FI_EINVAL;
    if (is_empty()) drain_sources();
    const std::lock_guard lock(queue_mutex_);
    if (events_.empty() || !events_.front().is_error) return -FI_EAGAIN;
    const bool peek = (flags & FI_PEEK) != 0;
    give_error(*entry, events_.front(), peek);
    if (!peek) pop_front();
    return sizeof *entry;
}

ssize_t EventQueue::write(std::uint32_t number, const void* buffer, std::size_t length) {
    if ((flags_ & FI_WRITE) == 0 || (buffer == nullptr && length != 0)) return -FI_EINVAL;
    Events made = make(nullptr);
    made.front().number = number;
    append(made.front().payload, buffer, length);
    {
        const std::lock_guard lock(queue_mutex_);
        if (events_.size() >= size_) return -FI_EAGAIN;
    }
    push(std::move(made));
    return static_cast<ssize_t>(length);
}

int EventQueue::control(int command, void* argument) {
    return command == kControlTryWait ? try_wait() : wait_->control(command, argument);
}

}  // namespace compat::fi
