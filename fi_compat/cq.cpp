// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/cq.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "fi_compat/boundary.hpp"
#include "fi_compat/flag_map.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr std::uint32_t kDefaultSize = 1024;
constexpr std::uint32_t kMaxSize = 1U << 20;
constexpr std::uint32_t kUnknownKeyFault = 1;  // vendor_error of the software device

ssize_t cq_readerr(fid_cq* cq, fi_cq_err_entry* entry, std::uint64_t) {
    return c_boundary([&] { return Cq::of(cq).read_error(entry); });
}

// The condition is a hint for when to wake up; waking with the first entry is always right.
ssize_t cq_sread(fid_cq* cq, void* buffer, std::size_t count, const void*, int timeout_ms) {
    return c_boundary([&] { return Cq::of(cq).sread(buffer, count, nullptr, timeout_ms); });
}

ssize_t cq_sreadfrom(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* sources, const void*,
                     int timeout_ms) {
    return c_boundary([&] { return Cq::of(cq).sread(buffer, count, sources, timeout_ms); });
}

int cq_signal(fid_cq* cq) {
    return c_boundary([&] { return Cq::of(cq).signal(); });
}

const char* cq_strerror(fid_cq*, int prov_errno, const void*, char* buffer, std::size_t length) {
    const char* text = prov_errno_text(prov_errno);
    if (buffer != nullptr && length > 0) std::snprintf(buffer, length, "%s", text);
    return text;
}

int cq_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return Cq::of(face).control(command, argument); });
}

constinit fi_ops kCqFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Cq>,
    .bind = kUnsupported,
    .control = cq_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

void write_entry(const core::Completion& completion, fi_cq_entry& out) {
    out.op_context = completion.context;
}
void write_entry(const core::Completion& completion, fi_cq_msg_entry& out) {
    out = {completion.context, entry_flags(completion), completion.length};
}
void write_entry(const core::Completion& completion, fi_cq_data_entry& out) {
    out = {completion.context, entry_flags(completion), completion.length, completion.buffer,
           completion.imm};
}
void write_entry(const core::Completion& completion, fi_cq_tagged_entry& out) {
    out = {completion.context, entry_flags(completion), completion.length,
           completion.buffer,  completion.imm,          completion.tag};
}

bool is_receive_side(const core::Completion& completion) {
    return completion.kind == core::CompletionKind::receive ||
           completion.kind == core::CompletionKind::remote_write;
}

/// fi_cq_readfrom(3); the peer of a connected endpoint has no address.
fi_addr_t source_of(const core::Completion& completion) {
    return is_receive_side(completion) ? completion.peer : FI_ADDR_NOTAVAIL;
}

ssize_t to_return_of_read(long result) {
    if (result > 0) return result;
    if (result == core::TrackedCq::kErrorFirst) return -FI_EAVAIL;
    return result == core::TrackedCq::kDeviceFailed ? -FI_EIO : -FI_EAGAIN;
}

// One pair of readers a format: an idle poll is a program's most frequent call.

template <class Entry>
ssize_t cq_read(fid_cq* cq, void* buffer, std::size_t count) {
    auto* out = static_cast<Entry*>(buffer);
    return to_return_of_read(Cq::of(cq).queue().read(
        count, [out](std::size_t index, const core::Completion& completion) {
            write_entry(completion, out[index]);
        }));
}

template <class Entry>
ssize_t cq_readfrom(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* sources) {
    auto* out = static_cast<Entry*>(buffer);
    const auto write = [out, sources](std::size_t index, const core::Completion& completion) {
        write_entry(completion, out[index]);
        sources[index] = source_of(completion);
    };
    return to_return_of_read(Cq::of(cq).queue().read(count, write));
}

template <class Entry>
constinit fi_ops_cq kCqOps = {
    .size = sizeof(fi_ops_cq),
    .read = cq_read<Entry>,
    .readfrom = cq_readfrom<Entry>,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

fi_ops_cq& ops_of(fi_cq_format format) {
    switch (format) {
        case FI_CQ_FORMAT_MSG: return kCqOps<fi_cq_msg_entry>;
        case FI_CQ_FORMAT_DATA: return kCqOps<fi_cq_data_entry>;
        case FI_CQ_FORMAT_TAGGED: return kCqOps<fi_cq_tagged_entry>;
        default: return kCqOps<fi_cq_entry>;
    }
}

/// fi_cq_err_entry has no symbol version: only what the program's release had is written.
std::size_t err_entry_length(const Fabric& fabric) {
    if (!fabric.api_at_least(1, 5)) return offsetof(fi_cq_err_entry, err_data_size);
    if (!fabric.api_at_least(1, 20)) return offsetof(fi_cq_err_entry, src_addr);
    return sizeof(fi_cq_err_entry);
}

}  // namespace

Cq::Cq(Domain& domain, std::unique_ptr<core::TrackedCq> queue, std::unique_ptr<WaitObject> wait,
       fi_cq_format format, void* user_context)
    : Object(FI_CLASS_CQ, user_context, kCqFiOps),
      domain_(domain),
      wait_(std::move(wait)),
      waker_(*wait_),
      queue_(std::move(queue)) {
    ops = &ops_of(format);
    queue_->set_waker(&waker_);
}

core::Result<Cq*> Cq::open(Domain& domain, const fi_cq_attr& attr, void* user_context) {
    const auto within = [](int number, int last) { return number >= 0 && number <= last; };
    const bool known = within(number_in(attr.format), FI_CQ_FORMAT_TAGGED) &&
                       within(number_in(attr.wait_cond), FI_CQ_COND_THRESHOLD);
    if (!known || !only_bits(attr.flags, kCqFlags) || attr.size > kMaxSize)
        return core::failure(core::Errc::invalid_argument);
    const int wait_kind = number_in(attr.wait_obj);
    auto wait = WaitObject::open(wait_kind);
    if (!wait) return core::failure(wait.error());
    const auto size = attr.size == 0 ? kDefaultSize : static_cast<std::uint32_t>(attr.size);
    auto queue = core::TrackedCq::create(domain.device(),
                                         {.size = size, .automatic = !domain.manual_progress()});
    if (!queue) return core::failure(queue.error());
    const core::Status watched = (*wait)->add_source((*queue)->channel_fd());
    if (!watched) return core::failure(watched.error());
    std::unique_ptr<Cq> cq(
        new Cq(domain, std::move(*queue), std::move(*wait), attr.format, user_context));
    const core::Status placed =
        cq->wait_set_.take(domain.fabric(), wait_kind, attr.wait_set, cq->base(), *cq->wait_);
    if (!placed) return core::failure(placed.error());
    return cq.release();
}

Cq::~Cq() {
    wait_->remove_source(queue_->channel_fd());
}

ssize_t Cq::read(void* buffer, std::size_t count, fi_addr_t* sources) noexcept {
    return sources == nullptr ? ops->read(face(), buffer, count)
                              : ops->readfrom(face(), buffer, count, sources);
}

int Cq::try_wait() noexcept {
    if (!wait_->can_block()) return -FI_ENOSYS;
    wait_->reset();
    return queue_->arm() ? 0 : -FI_EAGAIN;
}

ssize_t Cq::sread(void* buffer, std::size_t count, fi_addr_t* sources, int timeout_ms) noexcept {
    if (!wait_->can_block()) return -FI_ENOSYS;
    const Deadline deadline(timeout_ms);
    sleepers_.fetch_add(1);
    ssize_t result = 0;
    for (;;) {
        result = read(buffer, count, sources);
        if (result != -FI_EAGAIN) break;
        if (signaled_.exchange(false) || deadline.passed()) break;
        if (try_wait() == -FI_EAGAIN) continue;
        if (signaled_.load()) continue;
        const core::Status slept = wait_->sleep(deadline.remaining_ms());
        if (!slept) {
            result = to_fi(slept.error());
            break;
        }
    }
    // This thread may have taken the event that announced what the others sleep for.
    if (sleepers_.fetch_sub(1) > 1) wait_->signal();
    return result;
}

ssize_t Cq::read_error(fi_cq_err_entry* entry) noexcept {
    if (entry == nullptr) return -FI_EINVAL;
    core::Completion completion;
    if (!queue_->read_error(completion)) return -FI_EAGAIN;
    fi_cq_err_entry out{};
    out.op_context = completion.context;
    out.flags = entry_flags(completion);
    out.len = completion.length;
    out.buf = completion.buffer;
    out.data = completion.imm;
    out.tag = completion.tag;
    out.olen = completion.excess;
    out.err = wc_fi_errno(completion.status, is_receive_side(completion));
    out.prov_errno = wc_prov_errno(completion.status);
    out.src_addr = FI_ADDR_NOTAVAIL;
    const bool unknown_key = domain_->tells_faults() &&
                             completion.status == core::WcStatus::remote_access_error &&
                             completion.vendor_error == kUnknownKeyFault;
    if (unknown_key) out.err = FI_ENOKEY;
    // There is no err_data; a buffer that the caller brought for it stays the caller's.
    if (domain_->fabric().api_at_least(1, 5) && entry->err_data_size != 0)
        out.err_data = entry->err_data;
    std::memcpy(entry, &out, err_entry_length(domain_->fabric()));
    return 1;
}

int Cq::signal() noexcept {
    if (!wait_->can_block()) return -FI_ENOSYS;
    signaled_.store(true);
    wait_->signal();
    return 0;
}

int Cq::control(int command, void* argument) noexcept {
    return command == kControlTryWait ? try_wait() : wait_->control(command, argument);
}

bool Cq::poll() noexcept {
    queue_->progress();
    return queue_->has_entries();
}

int open_cq(Domain& domain, const fi_cq_attr& attr, fid_cq** cq, void* context) {
    const auto opened = Cq::open(domain, attr, context);
    if (!opened) return to_fi(opened.error());
    *cq = (*opened)->face();
    return 0;
}

}  // namespace compat::fi
