// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, memory regions and the keys by which they are reached.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "core/device/device.hpp"
#include "core/device/soft/persistence.hpp"

namespace compat::core::soft {

/// Why an access is refused; vendor_error of the completion at the initiator.
enum class Fault : std::uint8_t {
    none,
    unknown_key,
    out_of_range,
    no_right,
    address_wrap,
    unmapped,  ///< the program has taken the memory away from under its region
    count_
};

/// Whether it goes beyond the end of all addresses.
constexpr bool wraps(std::uint64_t start, std::uint64_t length) noexcept {
    return start + length < start;
}

/// The part of a region that an access needs. Whoever wants to come back to it after its pin has
/// gone takes shared_from_this(), and pins it again.
class Region : public std::enable_shared_from_this<Region> {
public:
    Region(const MrAttr& attr, std::uint64_t first_iova);

    [[nodiscard]] std::byte* base() const noexcept { return base_; }
    [[nodiscard]] std::size_t length() const noexcept { return length_; }
    [[nodiscard]] std::uint64_t iova() const noexcept { return iova_; }
    [[nodiscard]] AccessFlags access() const noexcept { return access_; }

    /// Makes [address, address + length) durable. Errors: not_supported (not persistent memory, or
    /// not registered for it), device.
    Status persist(std::byte* address, std::size_t length) noexcept;
    /// Finds out how; called once at registration when the access flags ask for it.
    void find_persistence() noexcept;

    [[nodiscard]] bool observed() const noexcept {
        return observer_.load(std::memory_order_acquire) != nullptr;
    }
    void notify(Opcode opcode, std::uint64_t bytes) noexcept;  ///< calls the observer, if any
    /// Waits for a notification that is being delivered.
    void set_observer(RemoteAccessObserver* observer) noexcept;

    /// Fails once close() has begun. A pinned region stays in memory: close() comes before its end.
    [[nodiscard]] bool pin() noexcept {
        if ((pins_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
        unpin();
        return false;
    }
    void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_release); }
    /// What pin_local() says of one that is pinned.
    [[nodiscard]] Fault check_local(const Sge& sge, bool writes) const noexcept {
        const auto start = reinterpret_cast<std::uintptr_t>(sge.address);
        const auto base = reinterpret_cast<std::uintptr_t>(base_);
        if (wraps(start, sge.length)) return Fault::address_wrap;
        if (start < base || !in_range(start - base, sge.length)) return Fault::out_of_range;
        return writes && !access_.has(Access::local_write) ? Fault::no_right : Fault::none;
    }
    /// offset: of the access in the region; garbage when it begins before the region.
    [[nodiscard]] bool in_range(std::uint64_t offset, std::uint64_t length) const noexcept {
        return offset <= length_ && length <= length_ - offset;
    }
    /// No pin succeeds any more; returns when the last one is gone. What is left is the object.
    void close() noexcept;

private:
    static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;

    std::byte* base_;
    std::size_t length_;
    std::uint64_t iova_;
    AccessFlags access_;
    std::atomic<std::uint32_t> pins_{0};  ///< the top bit is set once closed
    std::atomic<RemoteAccessObserver*> observer_{nullptr};
    std::shared_mutex observer_lock_;  ///< shared while it is called
    std::unique_ptr<Persister> persister_;
};

/// A checked access: the memory stays registered while this lives. Keep it for one copy, never
/// across a wait: deregistration waits for it.
class Pin {
public:
    Pin() = default;
    /// region: pinned already, or null.
    Pin(Region* region, std::byte* address) noexcept : region_(region), address_(address) {}
    Pin(Pin&& other) noexcept
        : region_(std::exchange(other.region_, nullptr)),
          address_(std::exchange(other.address_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
        std::swap(region_, other.region_);
        std::swap(address_, other.address_);
        other.release();
        return *this;
    }
    ~Pin() { release(); }

    [[nodiscard]] std::byte* address() const noexcept { return address_; }
    void set_address(std::byte* address) noexcept { address_ = address; }
    /// Null for unregistered local memory and for accesses of zero bytes.
    [[nodiscard]] Region* region() const noexcept { return region_; }
    void release() noexcept {
        if (Region* region = std::exchange(region_, nullptr)) region->unpin();
        address_ = nullptr;
    }

private:
    Region* region_ = nullptr;
    std::byte* address_ = nullptr;
};

/// The pins of one piece of work. None is made before it is needed: almost all have one.
template <std::size_t kMost>
class Pins {
public:
    Pins() noexcept {}
    Pins(const Pins&) = delete;
    ~Pins() {
        while (count_ != 0) std::destroy_at(&pins_[--count_]);
    }
    /// No more than kMost.
    Pin& add() noexcept { return *std::construct_at(&pins_[count_++]); }
    const Pin& operator[](std::size_t at) const noexcept { return pins_[at]; }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }

private:
    union {
        Pin pins_[kMost];
    };
    std::size_t count_ = 0;
};

/// All regions of a protection domain. Any thread.
///
/// A generated key is 24 bits of index and 8 bits of generation. Indices are handed out once for
/// the whole process, so that a key of another PD is unknown here instead of another region, and
/// begin at a random place, so that a key of an earlier process is (almost surely) unknown, too.
class KeyTable {
public:
    struct Keys {
        std::uint32_t lkey;
        std::uint32_t rkey;
    };
    /// Errors: no_key (requested one is taken), no_memory (2^24 regions).
    Result<Keys> insert(std::shared_ptr<Region> region,
                        std::optional<std::uint32_t> requested_rkey);
    void erase(const Keys& keys, bool requested) noexcept;

    /// A peer's access. Zero-length accesses pass unchecked (RFC 5040: STag and TO of those are not
    /// looked at) and give an empty pin.
    Fault pin_remote(std::uint32_t rkey, std::uint64_t iova, std::uint64_t length, Access right,
                     Pin& pin) const noexcept;
    /// Our own access; kUnregisteredLkey passes unchecked, as do zero bytes.
    Fault pin_local(const Sge& sge, bool writes, Pin& pin) const noexcept;

    [[nodiscard]] std::size_t size() const noexcept;
    /// Tells the PDs of this process apart, in 24 bits.
    [[nodiscard]] std::uint32_t id() const noexcept { return id_; }

private:
    static std::uint32_t new_id() noexcept;

    struct Entry {
        std::shared_ptr<Region> region;  ///< null: free, or another table's
        std::uint8_t generation = 0;
        bool rkey_is_requested = false;  ///< then the generated key is an lkey only
    };
    static constexpr unsigned kPageBits = 8;
    using Page = std::array<Entry, std::size_t{1} << kPageBits>;

    Result<std::uint32_t> generate_key();
    void set_entry(std::uint32_t key, std::shared_ptr<Region> region, bool rkey_is_requested);
    Fault pin_known(std::uint32_t key, bool remote, Pin& pin) const noexcept;
    const Entry* find_entry(std::uint32_t key) const noexcept;
    Region* find_remote(std::uint32_t rkey) const noexcept;

    const std::uint32_t id_ = new_id();
    mutable std::shared_mutex lock_;
    std::size_t size_ = 0;
    std::unordered_map<std::uint32_t, std::unique_ptr<Page>> pages_;  ///< by index >> kPageBits
    std::unordered_map<std::uint32_t, std::shared_ptr<Region>> requested_;
};

/// The local region that was used last: to use it again takes no look into the table. The owner
/// serialises.
class KnownRegion {
public:
    /// KeyTable::pin_local() of a table that is always the same.
    Fault pin(const KeyTable& keys, const Sge& sge, bool writes, Pin& pin) noexcept {
        // A key whose region can still be pinned belongs to no other one.
        if (sge.lkey != lkey_ || !region_ || !region_->pin()) [[unlikely]]
            return find(keys, sge, writes, pin);
        pin = Pin(region_.get(), static_cast<std::byte*>(sge.address));
        const Fault fault = region_->check_local(sge, writes);
        if (fault != Fault::none) pin.release();
        return fault;
    }

private:
    Fault find(const KeyTable& keys, const Sge& sge, bool writes, Pin& pin) noexcept;

    std::uint32_t lkey_ = kUnregisteredLkey;
    std::shared_ptr<Region> region_;
};

class SoftPd final : public ProtectionDomain {
public:
    Result<std::unique_ptr<MemoryRegion>> register_memory(const MrAttr& attr) noexcept override;
    Result<std::unique_ptr<SharedReceiveQueue>> create_srq(std::uint32_t depth,
                                                           std::uint32_t max_sge) noexcept override;
    [[nodiscard]] bool in_use() const noexcept override;

    /// Shared, because a connection may outlive a PD that its program freed too early.
    [[nodiscard]] const std::shared_ptr<KeyTable>& keys() const noexcept { return keys_; }
    /// Counts QPs and SRQs for in_use().
    [[nodiscard]] const std::shared_ptr<std::atomic<int>>& children() const noexcept {
        return children_;
    }

private:
    std::shared_ptr<KeyTable> keys_ = std::make_shared<KeyTable>();
    std::shared_ptr<std::atomic<int>> children_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace compat::core::soft
