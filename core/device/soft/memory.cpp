// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/origin.hpp"
#include "core/device/soft/key_pool.hpp"
#include "core/device/soft/mappings.hpp"
#include "core/device/soft/receive_queue.hpp"
#include "core/device/soft/shm/export.hpp"
#include "core/device/soft/user_memory.hpp"
#include "core/device/soft/wait_until.hpp"

namespace compat::core::soft {
namespace {

constexpr std::uint32_t kMaxSrqDepth = 32 * 1024;
constexpr std::uint32_t kMaxSge = 32;

Status check_memory(const MrAttr& attr) noexcept {
    if (attr.length == 0) return {};
    if (attr.address == nullptr) return failure(Errc::access_denied);
    const bool write = attr.access.has(Access::local_write);
    // A NIC's driver looks at every page; this looks at every mapping, and at the pages at both
    // ends.
    const bool inside = pages_of(attr.address, attr.length).count > 2;
    if (!user_memory_allows(attr.address, attr.length, write) ||
        (inside && !mappings_allow(attr.address, attr.length, write))) {
        COMPAT_LOG_ERROR("memory %p length %zu is not mapped or not %s", attr.address, attr.length,
                         write ? "writable" : "readable");
        return failure(Errc::access_denied);
    }
    return {};
}

Status check_attr(const MrAttr& attr, std::uint64_t iova) noexcept {
    const bool remote_change =
        attr.access.has(Access::remote_write) || attr.access.has(Access::remote_atomic);
    if (remote_change && !attr.access.has(Access::local_write))
        return failure(Errc::invalid_argument);
    if (attr.access.has(Access::on_demand)) return failure(Errc::not_supported);
    if (wraps(reinterpret_cast<std::uintptr_t>(attr.address), attr.length) ||
        wraps(iova, attr.length))
        return failure(Errc::invalid_argument);
    return check_memory(attr);
}

enum class Advice : int { prefetch = 0, prefetch_write = 1, prefetch_no_fault = 2 };
constexpr std::uint32_t kAdviseFlush = 1;  // IBV_ADVISE_MR_FLAG_FLUSH: do it now

class SoftMr final : public MemoryRegion {
public:
    SoftMr(std::shared_ptr<KeyTable> table, std::shared_ptr<Region> region, KeyTable::Keys keys,
           bool requested) noexcept
        : table_(std::move(table)), region_(std::move(region)), keys_(keys), requested_(requested) {
        show();
    }
    ~SoftMr() override {
        hide();  // before its key is another's
        table_->erase(keys_, requested_);
        region_->close();
    }

    [[nodiscard]] std::uint32_t lkey() const noexcept override { return keys_.lkey; }
    [[nodiscard]] std::uint32_t rkey() const noexcept override { return keys_.rkey; }
    Status set_observer(RemoteAccessObserver* observer) noexcept override {
        // Peers that reach the memory by themselves tell nobody.
        if (observer != nullptr) hide();
        region_->set_observer(observer);
        if (observer == nullptr) show();
        return {};
    }
    Status advise(std::uint64_t offset, std::size_t length, int advice,
                  std::uint32_t flags) noexcept override;

private:
    void show() noexcept {
        if (origin_.is_parent() || shown_.entry != nullptr) return;
        if (auto* to_peers = shm::Export::of_process())
            shown_ = to_peers->publish(keys_.rkey, requested_, table_->id(), *region_);
    }
    void hide() noexcept {
        if (origin_.is_parent() || shown_.entry == nullptr) return;
        shm::Export::of_process()->withdraw(std::exchange(shown_, {}));
    }

    const Origin origin_;
    std::shared_ptr<KeyTable> table_;
    std::shared_ptr<Region> region_;
    KeyTable::Keys keys_;
    bool requested_;
    shm::Shown shown_;
};

Status SoftMr::advise(std::uint64_t offset, std::size_t length, int advice,
                      std::uint32_t flags) noexcept {
    const bool in_range = offset <= region_->length() && length <= region_->length() - offset;
    const bool known = advice >= static_cast<int>(Advice::prefetch) &&
                       advice <= static_cast<int>(Advice::prefetch_no_fault);
    const bool write = advice == static_cast<int>(Advice::prefetch_write);
    if (!in_range || !known || (flags & ~kAdviseFlush) != 0 ||
        (write && !region_->access().has(Access::local_write)))
        return failure(Errc::invalid_argument);
    if (length == 0) return {};
    const Pages pages = pages_of(region_->base() + offset, length);
    const bool now = (flags & kAdviseFlush) != 0;
    const bool fault = now && advice != static_cast<int>(Advice::prefetch_no_fault);
    const int populate = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    // Advice: the accesses that follow work as well without it, so its failure is none of ours.
    (void)madvise(reinterpret_cast<void*>(pages.first), pages.count * page_size(),
                  fault ? populate : MADV_WILLNEED);
    return {};
}

}  // namespace

Region::Region(const MrAttr& attr, std::uint64_t first_iova)
    : base_(static_cast<std::byte*>(attr.address)),
      length_(attr.length),
      iova_(first_iova),
      access_(attr.access) {}

Status Region::persist(std::byte* address, std::size_t length) noexcept {
    if (!persister_) return failure(Errc::not_supported);
    return persister_->persist(address, length);
}

void Region::find_persistence() noexcept {
    persister_ = find_persister(base_, length_);
}

void Region::notify(Opcode opcode, std::uint64_t bytes) noexcept {
    if (!observed()) return;
    const std::shared_lock guard(observer_lock_);
    if (RemoteAccessObserver* observer = observer_.load(std::memory_order_relaxed))
        observer->remote_access(opcode, bytes);
}

void Region::set_observer(RemoteAccessObserver* observer) noexcept {
    const std::unique_lock guard(observer_lock_);
    observer_.store(observer, std::memory_order_release);
}

void Region::close() noexcept {
    pins_.fetch_or(kClosed, std::memory_order_acq_rel);
    wait_until([this] { return pins_.load(std::memory_order_acquire) == kClosed; });
    persister_.reset();
}

Result<KeyTable::Keys> KeyTable::insert(std::shared_ptr<Region> region,
                                        std::optional<std::uint32_t> requested_rkey) {
    const std::unique_lock guard(lock_);
    if (requested_rkey) {
        const Entry* entry = find_entry(*requested_rkey);
        const bool generated = entry != nullptr && !entry->rkey_is_requested;
        if (generated || requested_.contains(*requested_rkey)) return failure(Errc::no_key);
    }
    const auto key = generate_key();
    if (!key) return failure(key.error());
    try {
        if (requested_rkey) requested_.emplace(*requested_rkey, region);
        set_entry(*key, std::move(region), requested_rkey.has_value());
    } catch (const std::bad_alloc&) {
        if (requested_rkey) requested_.erase(*requested_rkey);
        process_key_pool().give_back(*key);
        throw;
    }
    ++size_;
    return Keys{*key, requested_rkey.value_or(*key)};
}

/// A key that no program has requested in this PD: otherwise an lkey could name two regions.
Result<std::uint32_t> KeyTable::generate_key() {
    for (;;) {
        auto key = process_key_pool().take();
        if (!key || !requested_.contains(*key)) return key;
        process_key_pool().give_back(*key);
    }
}

void KeyTable::set_entry(std::uint32_t key, std::shared_ptr<Region> region,
                         bool rkey_is_requested) {
    auto& page = pages_[key_index(key) >> kPageBits];
    if (!page) page = std::make_unique<Page>();
    (*page)[key_index(key) % page->size()] = {std::move(region), key_generation(key),
                                              rkey_is_requested};
}

void KeyTable::erase(const Keys& keys, bool requested) noexcept {
    std::shared_ptr<Region> last;  // ends without the lock
    {
        const std::unique_lock guard(lock_);
        const auto page = pages_.find(key_index(keys.lkey) >> kPageBits);
        last = std::move((*page->second)[key_index(keys.lkey) % page->second->size()].region);
        if (requested) requested_.erase(keys.rkey);
        --size_;
    }
    process_key_pool().give_back(keys.lkey);
}

const KeyTable::Entry* KeyTable::find_entry(std::uint32_t key) const noexcept {
    const auto page = pages_.find(key_index(key) >> kPageBits);
    if (page == pages_.end()) return nullptr;
    const Entry& entry = (*page->second)[key_index(key) % page->second->size()];
    return entry.region && entry.generation == key_generation(key) ? &entry : nullptr;
}

Region* KeyTable::find_remote(std::uint32_t rkey) const noexcept {
    if (!requested_.empty()) {
        const auto found = requested_.find(rkey);
        if (found != requested_.end()) return found->second.get();
    }
    const Entry* entry = find_entry(rkey);
    return entry != nullptr && !entry->rkey_is_requested ? entry->region.get() : nullptr;
}

Fault KeyTable::pin_known(std::uint32_t key, bool remote, Pin& pin) const noexcept {
    const std::shared_lock guard(lock_);  // keeps the region until it is pinned
    Region* region = nullptr;
    if (remote)
        region = find_remote(key);
    else if (const Entry* entry = find_entry(key))
        region = entry->region.get();
    if (region == nullptr || !region->pin()) return Fault::unknown_key;
    pin = Pin(region, nullptr);
    return Fault::none;
}

Fault KeyTable::pin_remote(std::uint32_t rkey, std::uint64_t iova, std::uint64_t length,
                           Access right, Pin& pin) const noexcept {
    pin.release();
    if (length == 0) return Fault::none;
    Pin found;
    if (const Fault fault = pin_known(rkey, true, found); fault != Fault::none) return fault;
    Region& region = *found.region();
    if (wraps(iova, length)) return Fault::address_wrap;
    const std::uint64_t offset = iova - region.iova();
    if (iova < region.iova() || !region.in_range(offset, length)) return Fault::out_of_range;
    if (!region.access().has(right)) return Fault::no_right;
    found.set_address(region.base() + offset);
    pin = std::move(found);
    return Fault::none;
}

Fault KeyTable::pin_local(const Sge& sge, bool writes, Pin& pin) const noexcept {
    auto* address = static_cast<std::byte*>(sge.address);
    pin = Pin(nullptr, address);
    if (sge.length == 0 || sge.lkey == kUnregisteredLkey) return Fault::none;
    Pin found;
    if (const Fault fault = pin_known(sge.lkey, false, found); fault != Fault::none) return fault;
    const Fault fault = found.region()->check_local(sge, writes);
    if (fault != Fault::none) return fault;
    found.set_address(address);
    pin = std::move(found);
    return Fault::none;
}

Fault KnownRegion::find(const KeyTable& keys, const Sge& sge, bool writes, Pin& pin) noexcept {
    const Fault fault = keys.pin_local(sge, writes, pin);
    if (fault == Fault::none && pin.region() != nullptr) {
        region_ = pin.region()->shared_from_this();
        lkey_ = sge.lkey;
    }
    return fault;
}

std::uint32_t KeyTable::new_id() noexcept {
    static constinit std::atomic<std::uint32_t> last{0};
    return (last.fetch_add(1, std::memory_order_relaxed) + 1) & 0xffffffU;
}

std::size_t KeyTable::size() const noexcept {
    const std::shared_lock guard(lock_);
    return size_;
}

Result<std::unique_ptr<MemoryRegion>> SoftPd::register_memory(const MrAttr& attr) noexcept try {
    const std::uint64_t iova = attr.iova.value_or(reinterpret_cast<std::uintptr_t>(attr.address));
    if (const Status good = check_attr(attr, iova); !good) return failure(good.error());
    auto region = std::make_shared<Region>(attr, iova);
    if (attr.access.has(Access::flush_persistent)) region->find_persistence();
    const auto keys = keys_->insert(region, attr.requested_rkey);
    if (!keys) return failure(keys.error());
    const bool requested = attr.requested_rkey.has_value();
    try {
        return std::make_unique<SoftMr>(keys_, region, *keys, requested);
    } catch (const std::bad_alloc&) {
        keys_->erase(*keys, requested);
        throw;
    }
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

Result<std::unique_ptr<SharedReceiveQueue>> SoftPd::create_srq(std::uint32_t depth,
                                                               std::uint32_t max_sge) noexcept try {
    if (depth == 0 || depth > kMaxSrqDepth || max_sge > kMaxSge)
        return failure(Errc::invalid_argument);
    return std::make_unique<SoftSrq>(depth, max_sge, children_);
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

bool SoftPd::in_use() const noexcept {
    return keys_->size() != 0 || children_->load(std::memory_order_acquire) != 0;
}

}  // namespace compat::core::soft
