// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/matcher.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>

#include "core/engine/traced.hpp"
#include "core/rdm/hub.hpp"

namespace compat::core {

Result<std::unique_ptr<MessageQueue>> MessageQueue::create(std::uint32_t depth) noexcept {
    if (depth == 0) return failure(Errc::invalid_argument);
    std::unique_ptr<rdm::Matcher> matcher(new (std::nothrow) rdm::Matcher(depth));
    if (!matcher) return failure(Errc::no_memory);
    if (const Status prepared = matcher->prepare(); !prepared) return failure(prepared.error());
    return std::unique_ptr<MessageQueue>(std::move(matcher));
}

namespace rdm {
namespace {

constexpr const char* kTracedName = "receive";

}  // namespace

Status Matcher::prepare() noexcept {
    records_.reset(new (std::nothrow) Posted[depth_]);
    locals_.reset(new (std::nothrow) LocalBuffer[std::size_t{depth_} * kMaxSegments]);
    if (!records_ || !locals_) return failure(Errc::no_memory);
    for (std::uint32_t at = 0; at < depth_; ++at) {
        records_[at].local = locals_.get() + std::size_t{at} * kMaxSegments;
        free(records_[at]);
    }
    return {};
}

Matcher::~Matcher() {
    for (std::uint32_t at = 0; records_ && at < depth_; ++at) trace_end(records_[at]);
}

void Matcher::trace_post(Posted& posted) noexcept {
    if (!trace_) return;
    posted.traced = ++traced_;
    posted.status = Trace::kDropped;
    posted.received = 0;
    const FlagText flags(
        {{posted.entry, "entry"}, {posted.match.tagged, "tagged"}, {posted.multiple, "multiple"}});
    TracedPost post{.operation = kTracedName,
                    .bytes = posted.room,
                    .flags = flags.c_str(),
                    .context = posted.context};
    describe_local(post, std::span(posted.local, posted.local_count));
    trace_->post(posted.traced, Trace::now(), kTracedName, post);
}

void Matcher::trace_end(Posted& posted) noexcept {
    if (posted.traced == 0) return;
    trace_->end(posted.traced, kTracedName, posted.status, posted.received);
    posted.traced = 0;
}

void Matcher::free(Posted& posted) noexcept {
    trace_end(posted);
    free_.push(posted);
    ++free_count_;
}

std::size_t Matcher::free_slots() noexcept {
    const std::lock_guard guard(*this);
    return free_count_;
}

void Matcher::set_min_multiple(std::uint64_t length) noexcept {
    const std::lock_guard guard(*this);
    min_multiple_ = length;
}

void Matcher::fill(Posted& posted, const MessageReceive& receive) noexcept {
    posted.match = receive.match;
    posted.context = receive.context;
    posted.flags = receive.entry_flags;
    posted.local_count = static_cast<std::uint16_t>(receive.local.size());
    posted.entry = receive.entry;
    posted.multiple = receive.multiple && !receive.local.empty();
    posted.touched = false;
    posted.exhausted = false;
    posted.outstanding = 0;
    posted.room = 0;
    std::copy(receive.local.begin(), receive.local.end(), posted.local);
    for (const LocalBuffer& buffer : receive.local)
        if (__builtin_add_overflow(posted.room, buffer.length, &posted.room))
            posted.room = std::numeric_limits<decltype(posted.room)>::max();
}

Result<Posted*> Matcher::take_record(const MessageReceive& receive) noexcept {
    if (receive.local.size() > kMaxSegments || (receive.multiple && receive.local.size() > 1))
        return failure(Errc::invalid_argument);
    Posted* const posted = free_.pop();
    if (posted == nullptr) return failure(hold_back().error());
    --free_count_;
    fill(*posted, receive);
    statistics_->post(Stat::receives, posted->room);
    trace_post(*posted);
    return posted;
}

Status Matcher::post(const MessageReceive& receive) noexcept {
    const std::lock_guard guard(*this);
    Unexpected* const waiting = find_message(receive.match);
    if (waiting != nullptr && !waiting->arrival.endpoint->may_report()) return hold_back();
    const auto posted = take_record(receive);
    if (!posted) return failure(posted.error());
    match_kept(**posted, waiting);
    return {};
}

/// Takes the messages that came before the receive, message first; what is left of it goes to the
/// list.
void Matcher::match_kept(Posted& posted, Unexpected* message) noexcept {
    const bool multiple = posted.multiple;
    for (; message != nullptr; message = find_message(posted.match)) {
        Endpoint& endpoint = *message->arrival.endpoint;
        if (multiple && !make_room(posted, message->arrival.header.length, endpoint)) return;
        unlink(*message);
        Placement placement;
        place(posted, message->arrival.header.length, placement);
        if (multiple && posted.room < min_multiple_) posted.exhausted = true;
        const bool last = !multiple || posted.exhausted;
        endpoint.deliver_kept(*message, placement);
        if (last) return;
    }
    posted_[queue_of(posted.match.tagged)].push(posted);
}

bool Matcher::accepts(const MessageMatch& match, const Arrival& arrival) noexcept {
    if (match.tagged && ((match.tag ^ arrival.header.tag) & ~match.ignore) != 0) return false;
    return match.from == kNoAddress || match.from == arrival.endpoint->index_of(*arrival.peer);
}

bool Matcher::find_receive(const Arrival& arrival, Placement& out) noexcept {
    List<Posted>& list = posted_[queue_of(arrival.header.flags.has(HeaderFlag::tagged))];
    for (Posted* at = list.first(); at != nullptr;) {
        Posted& posted = *at;
        at = list.next(posted);
        if (!accepts(posted.match, arrival)) continue;
        if (!posted.multiple) {
            list.remove(posted);
            place(posted, arrival.header.length, out);
            return true;
        }
        if (posted.touched && posted.room < arrival.header.length) list.remove(posted);
        if (!make_room(posted, arrival.header.length, *arrival.endpoint)) continue;
        place(posted, arrival.header.length, out);
        if (posted.room < min_multiple_) {
            posted.exhausted = true;
            list.remove(posted);
        }
        return true;
    }
    return false;
}

/// False when the rest of a multiple is too short: then it takes nothing more. A message that is
/// too long for a whole buffer is cut.
bool Matcher::make_room(Posted& posted, std::uint64_t length, Endpoint& endpoint) noexcept {
    if (!posted.touched || length <= posted.room) return true;
    posted.exhausted = true;
    if (posted.outstanding == 0) {
        endpoint.report_released(posted);
        posted.status = wc_status_text(WcStatus::success);
        free(posted);
    }
    return false;
}

void Matcher::place(Posted& posted, std::uint64_t length, Placement& out) noexcept {
    out.posted = &posted;
    ++posted.outstanding;
    out.start = posted.local_count != 0 ? posted.local[0].address : nullptr;
    out.local_count = posted.local_count;
    out.room = posted.room;
    std::copy_n(posted.local, posted.local_count, out.local.begin());
    if (!posted.multiple) return;
    const std::uint64_t used = std::min(length, posted.room);
    out.local[0].length = used;
    out.room = used;
    if (used == 0) out.local_count = 0;
    LocalBuffer& rest = posted.local[0];
    rest.address = static_cast<std::byte*>(rest.address) + used;
    rest.length -= used;
    posted.room -= used;
    posted.touched = true;
}

bool Matcher::release(Posted& posted) noexcept {
    if (--posted.outstanding != 0) return false;
    if (posted.multiple && !posted.exhausted) return false;
    free(posted);
    return posted.multiple;
}

void Matcher::keep(Unexpected& message) noexcept {
    kept_[queue_of(message.arrival.header.flags.has(HeaderFlag::tagged))].push(message);
}

Unexpected* Matcher::find_message(const MessageMatch& match) noexcept {
    List<Unexpected>& list = kept_[queue_of(match.tagged)];
    for (Unexpected* at = list.first(); at != nullptr; at = list.next(*at))
        if (accepts(match, at->arrival)) return at;
    return nullptr;
}

void Matcher::unlink(Unexpected& message) noexcept {
    kept_[queue_of(message.arrival.header.flags.has(HeaderFlag::tagged))].remove(message);
}

void Matcher::claim(Unexpected& message, void* context) noexcept {
    unlink(message);
    message.claimed = true;
    message.claimed_by = context;
    claimed_.push(message);
}

/// Removed from the list.
Unexpected* Matcher::find_claimed(void* context) noexcept {
    for (Unexpected* at = claimed_.first(); at != nullptr; at = claimed_.next(*at)) {
        if (at->claimed_by != context) continue;
        claimed_.remove(*at);
        return at;
    }
    return nullptr;
}

Result<Completion> Matcher::cancel(void* context) noexcept {
    const std::lock_guard guard(*this);
    for (List<Posted>& list : posted_) {
        for (Posted* at = list.first(); at != nullptr; at = list.next(*at)) {
            Posted& posted = *at;
            if (posted.context != context) continue;
            list.remove(posted);
            const Completion out{.context = posted.context,
                                 .flags = posted.flags,
                                 .kind = CompletionKind::receive,
                                 .status = WcStatus::flushed,
                                 .buffer_released = posted.multiple && posted.outstanding == 0};
            posted.status = wc_status_text(WcStatus::flushed);
            // What is on its way into a multiple gives the record back.
            posted.exhausted = true;
            if (posted.outstanding == 0) free(posted);
            return out;
        }
    }
    return failure(Errc::invalid_argument);
}

}  // namespace rdm
}  // namespace compat::core
