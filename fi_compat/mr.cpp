// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/mr.hpp"

#include <algorithm>
#include <cstring>

#include "fi_compat/boundary.hpp"
#include "fi_compat/cntr.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

int mr_bind(struct ::fid* face, struct ::fid* object, std::uint64_t flags) {
    return c_boundary([&] { return Mr::of(face).bind(object, flags); });
}

int mr_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return Mr::of(face).control(command, argument); });
}

constinit fi_ops kMrFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Mr>,
    .bind = mr_bind,
    .control = mr_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

const std::byte* end_of(const iovec& segment) {
    return static_cast<const std::byte*>(segment.iov_base) + segment.iov_len;
}

/// Segments that lie one behind the other become one.
std::vector<iovec> join(std::span<const iovec> segments) {
    std::vector<iovec> joined;
    for (const iovec& segment : segments) {
        if (!joined.empty() && end_of(joined.back()) == segment.iov_base)
            joined.back().iov_len += segment.iov_len;
        else
            joined.push_back(segment);
    }
    return joined;
}

}  // namespace

Mr::Mr(Domain& domain, const fi_mr_attr& attr)
    : Object(FI_CLASS_MR, attr.context, kMrFiOps),
      domain_(domain),
      base_address_(domain.mr_mode().virtual_address
                        ? reinterpret_cast<std::uintptr_t>(attr.mr_iov[0].iov_base)
                        : 0),
      remote_(has_remote_access(attr.access)) {
    mem_desc = face();
    key = FI_KEY_NOTAVAIL;
}

Mr::~Mr() {
    if (!counters_.empty()) static_cast<void>(observe(nullptr));
}

int Mr::open(Domain& domain, const fi_mr_attr& attr, std::uint64_t flags, fid_mr** out) {
    if (!only_bits(flags, kMrFlags)) return -FI_EBADFLAGS;
    const bool shaped = attr.mr_iov != nullptr && attr.iov_count != 0 && attr.offset == 0 &&
                        attr.iov_count <= core::kMaxSegments && attr.base_mr == nullptr &&
                        only_bits(attr.access, kMrAccess);
    if (!shaped) return -FI_EINVAL;
    const bool chooses_key = has_remote_access(attr.access) && !domain.mr_mode().provider_keys;
    if (chooses_key && attr.requested_key > domain.max_key()) return -FI_EKEYREJECTED;
    std::unique_ptr<Mr> region(new Mr(domain, attr));
    const int registered =
        region->register_segments(std::span(attr.mr_iov, attr.iov_count), attr, flags);
    if (registered != 0) return registered;
    *out = region.release()->face();
    return 0;
}

int Mr::register_segments(std::span<const iovec> segments, const fi_mr_attr& attr,
                          std::uint64_t flags) {
    segments_ = join(segments);
    // A remote key stands for one range of addresses.
    if (segments_.size() > 1 && remote_) return -FI_ENOSYS;
    core::AccessFlags access = to_access(attr.access);
    if (reads_into(attr.access) && domain_->limits().read_sink_needs_remote_write)
        access |= core::Access::remote_write;
    // Peers may ask whether what they wrote is visible, as rpma_flush() does: it tells them no
    // more.
    if (remote_ && domain_->limits().flush) access |= core::Access::flush_visible;
    if (is_persistent(flags)) access |= core::Access::flush_persistent;
    const MrMode& mode = domain_->mr_mode();
    // Without FI_MR_LOCAL a descriptor is a hint: programs pass that of a region without the right
    // for what they do locally (fi_mr(3), FI_MR_LOCAL).
    const bool local_rights = mode.local_keys || !domain_->limits().unregistered_local;
    for (const iovec& segment : segments_) {
        core::MrAttr request{
            .address = segment.iov_base, .length = segment.iov_len, .access = access};
        if (remote_ && !mode.virtual_address) request.iova = 0;
        if (remote_ && !mode.provider_keys)
            request.requested_rkey = static_cast<std::uint32_t>(attr.requested_key);
        auto region = domain_->pd().register_memory(request);
        if (!region) return to_fi(region.error());
        ends_.push_back(
            {end_of(segment), local_rights ? (*region)->lkey() : core::kUnregisteredLkey});
        regions_.push_back(std::move(*region));
    }
    keys_.lkey = ends_.front().lkey;
    if (ends_.size() > 1) {
        std::ranges::sort(ends_, {}, &LocalKeys::Segment::end);
        keys_.more = ends_;
    }
    if (remote_) key = mode.provider_keys ? regions_.front()->rkey() : attr.requested_key;
    return 0;
}

core::Status Mr::observe(core::RemoteAccessObserver* observer) noexcept {
    for (const auto& region : regions_)
        if (core::Status set = region->set_observer(observer); !set) return set;
    return {};
}

int Mr::bind(struct ::fid* object, std::uint64_t flags) {
    switch (object->fclass) {
        case FI_CLASS_CNTR: return bind_counter(Cntr::of(object), flags);
        case FI_CLASS_EP: return flags == 0 ? 0 : -FI_EBADFLAGS;  // good for all endpoints anyway
        default: return -FI_EINVAL;
    }
}

int Mr::bind_counter(Cntr& counter, std::uint64_t flags) {
    if (!domain_->rma_event()) return -FI_ENOSYS;
    if (flags == 0 || !only_bits(flags, FI_REMOTE_WRITE | FI_REMOTE_READ)) return -FI_EBADFLAGS;
    if (&counter.domain() != domain_.get()) return -FI_EINVAL;
    Ref<Cntr> write(any_bit(flags, FI_REMOTE_WRITE) ? Ref<Cntr>(counter) : Ref<Cntr>());
    Ref<Cntr> read(any_bit(flags, FI_REMOTE_READ) ? Ref<Cntr>(counter) : Ref<Cntr>());
    if ((write && write_counter_) || (read && read_counter_)) return -FI_EINVAL;
    // The device must not look at the pair while it changes.
    if (!counters_.empty())
        if (const core::Status set = observe(nullptr); !set) return to_fi(set.error());
    if (write) write_counter_ = std::move(write);
    if (read) read_counter_ = std::move(read);
    counters_.set(write_counter_ ? &write_counter_->counter() : nullptr,
                  read_counter_ ? &read_counter_->counter() : nullptr);
    return to_return(observe(&counters_));
}

int Mr::raw_attr(struct fi_mr_raw_attr* raw) const noexcept {
    if (raw == nullptr || raw->key_size == nullptr) return -FI_EINVAL;
    if (raw->flags != 0) return -FI_EBADFLAGS;
    const bool fits = *raw->key_size >= sizeof key && raw->raw_key != nullptr;
    *raw->key_size = sizeof key;
    if (!fits) return -FI_ETOOSMALL;
    std::memcpy(raw->raw_key, &key, sizeof key);
    if (raw->base_addr != nullptr) *raw->base_addr = base_address_;
    return 0;
}

/// fi_mr_refresh(3): a device that can look again at the page table is told to; the software device
/// always does. For any other the region would have to be registered anew.
int Mr::refresh(const fi_mr_modify* modify) noexcept {
    if (modify == nullptr) return -FI_EINVAL;
    if (modify->flags != 0) return -FI_EBADFLAGS;
    if (!domain_->limits().on_demand_paging && !domain_->follows_mappings()) return -FI_ENOSYS;
    const fi_mr_attr& attr = modify->attr;
    const auto ranges = attr.mr_iov != nullptr ? std::span(attr.mr_iov, attr.iov_count)
                                               : std::span<const iovec>(segments_);
    for (const iovec& range : ranges)
        if (const int refreshed = refresh(range); refreshed != 0) return refreshed;
    return 0;
}

int Mr::refresh(const iovec& range) noexcept {
    constexpr int kPrefetch = 0;  // IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
    const auto contains = [&range](const iovec& segment) {
        return range.iov_base >= segment.iov_base && end_of(range) <= end_of(segment);
    };
    const auto segment = std::ranges::find_if(segments_, contains);
    if (segment == segments_.end()) return -FI_EINVAL;
    if (!domain_->limits().on_demand_paging) return 0;
    const auto offset = static_cast<const std::byte*>(range.iov_base) -
                        static_cast<const std::byte*>(segment->iov_base);
    const auto index = static_cast<std::size_t>(segment - segments_.begin());
    return to_return(
        regions_[index]->advise(static_cast<std::uint64_t>(offset), range.iov_len, kPrefetch, 0));
}

int Mr::control(int command, void* argument) noexcept {
    switch (command) {
        case FI_ENABLE: return 0;  // usable since its registration
        case FI_GET_RAW_MR: return raw_attr(static_cast<struct fi_mr_raw_attr*>(argument));
        case FI_REFRESH: return refresh(static_cast<const fi_mr_modify*>(argument));
        default: return -FI_ENOSYS;
    }
}

int register_region(Domain& domain, const fi_mr_attr& attr, std::uint64_t flags, fid_mr** mr) {
    return Mr::open(domain, attr, flags, mr);
}

}  // namespace compat::fi
