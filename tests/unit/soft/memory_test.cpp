// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "core/device/soft/key_pool.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core::soft {
namespace {

constexpr AccessFlags kAll = AccessFlags(Access::local_write) | Access::remote_write |
                             Access::remote_read | Access::remote_atomic;
constexpr std::size_t kLength = 4096;

class CountingObserver final : public RemoteAccessObserver {
public:
    void remote_access(Opcode, std::uint64_t bytes) noexcept override {
        ++calls;
        total += bytes;
    }
    std::atomic<int> calls{0};
    std::atomic<std::uint64_t> total{0};
};

struct Fixture {
    alignas(kLength) std::array<std::byte, kLength> memory{};
    SoftPd pd;
    SoftPd other_pd;
    std::vector<std::unique_ptr<MemoryRegion>> regions;
    std::vector<std::pair<void*, std::size_t>> mappings;
    std::vector<std::thread> threads;
    CountingObserver observer;
};

int setup(void** state) {
    *state = new Fixture;
    return 0;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    for (std::thread& thread : fixture->threads)
        if (thread.joinable()) thread.join();
    fixture->regions.clear();
    for (const auto& [address, length] : fixture->mappings) munmap(address, length);
    delete fixture;
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

std::byte* map_pages(Fixture& fixture, std::size_t pages, int protection) {
    const std::size_t length = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* address = mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(address != MAP_FAILED);
    fixture.mappings.emplace_back(address, length);
    return static_cast<std::byte*>(address);
}

MrAttr attr_of(Fixture& fixture, AccessFlags access = kAll) {
    MrAttr attr;
    attr.address = fixture.memory.data();
    attr.length = fixture.memory.size();
    attr.access = access;
    return attr;
}

MemoryRegion& add(Fixture& fixture, SoftPd& pd, const MrAttr& attr) {
    auto region = pd.register_memory(attr);
    assert_true(region.has_value());
    fixture.regions.push_back(std::move(*region));
    return *fixture.regions.back();
}

void assert_refused(SoftPd& pd, const MrAttr& attr, Errc code) {
    const auto region = pd.register_memory(attr);
    assert_false(region.has_value());
    assert_int_equal(region.error().code, code);
    assert_false(pd.in_use());
}

Fault remote(SoftPd& pd, std::uint32_t rkey, std::uint64_t iova, std::uint64_t length,
             Access right = Access::remote_write) {
    Pin pin;
    return pd.keys()->pin_remote(rkey, iova, length, right, pin);
}

Fault local(SoftPd& pd, std::uint32_t lkey, void* address, std::uint32_t length, bool writes) {
    Pin pin;
    return pd.keys()->pin_local({address, length, lkey}, writes, pin);
}

std::uint64_t iova_of(const Fixture& fixture) {
    return reinterpret_cast<std::uintptr_t>(fixture.memory.data());
}

// --- registration

void null_and_unmapped_memory_is_denied(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr = attr_of(fixture);
    attr.address = nullptr;
    assert_refused(fixture.pd, attr, Errc::access_denied);
    std::byte* pages = map_pages(fixture, 3, PROT_READ | PROT_WRITE);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    munmap(pages + page, page);
    attr.address = pages;
    for (const std::size_t length : {page + 1, 2 * page, 3 * page}) {
        attr.length = length;
        assert_refused(fixture.pd, attr, Errc::access_denied);
    }
    attr.length = page;
    add(fixture, fixture.pd, attr);
}

void memory_without_the_right_is_denied_at_either_end(void** state) {
    Fixture& fixture = of(state);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const int protection : {PROT_READ, PROT_NONE}) {
        for (const std::size_t where : {0U, 2U}) {
            std::byte* pages = map_pages(fixture, 3, PROT_READ | PROT_WRITE);
            assert_int_equal(mprotect(pages + where * page, page, protection), 0);
            MrAttr attr;
            attr.address = pages;
            attr.length = 3 * page;
            attr.access = Access::local_write;
            assert_refused(fixture.pd, attr, Errc::access_denied);
        }
    }
}

void read_only_memory_can_be_registered_for_reading(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr;
    attr.address = map_pages(fixture, 1, PROT_READ);
    attr.length = 100;
    attr.access = Access::remote_read;
    add(fixture, fixture.pd, attr);
    attr.address = const_cast<char*>("a string literal");
    attr.length = 8;
    add(fixture, fixture.pd, attr);
}

void registration_changes_no_byte(void** state) {
    Fixture& fixture = of(state);
    std::byte* pages = map_pages(fixture, 2, PROT_READ | PROT_WRITE);
    std::memset(pages, 0x5a, kLength);
    MrAttr attr;
    attr.address = pages;
    attr.length = kLength;
    attr.access = kAll;
    add(fixture, fixture.pd, attr);
    for (std::size_t i = 0; i < kLength; ++i) assert_int_equal(pages[i], 0x5a);
}

void registration_does_not_populate_the_region(void** state) {
    Fixture& fixture = of(state);
    constexpr std::size_t kPages = 64;
    MrAttr attr;
    attr.address = map_pages(fixture, kPages, PROT_READ | PROT_WRITE);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    madvise(attr.address, kPages * page, MADV_NOHUGEPAGE);
    attr.length = kPages * page;
    attr.access = kAll;
    add(fixture, fixture.pd, attr);
    std::array<unsigned char, kPages> resident{};
    assert_int_equal(mincore(attr.address, attr.length, resident.data()), 0);
    int count = 0;
    for (const unsigned char one : resident) count += one & 1;
    assert_in_range(count, 0, 2);
}

void file_that_ends_before_the_region_is_denied(void** state) {
    Fixture& fixture = of(state);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const int fd = memfd_create("short", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, static_cast<off_t>(page)), 0);
    void* address = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(address != MAP_FAILED);
    fixture.mappings.emplace_back(address, 2 * page);
    MrAttr attr;
    attr.address = address;
    attr.length = 2 * page;
    attr.access = kAll;
    assert_refused(fixture.pd, attr, Errc::access_denied);
    attr.length = page;
    add(fixture, fixture.pd, attr);
}

void region_that_wraps_is_invalid(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr = attr_of(fixture);
    attr.length = SIZE_MAX;
    assert_refused(fixture.pd, attr, Errc::invalid_argument);
    attr.length = kLength;
    attr.iova = UINT64_MAX - 100;
    assert_refused(fixture.pd, attr, Errc::invalid_argument);
}

void remote_changes_need_local_write(void** state) {
    Fixture& fixture = of(state);
    for (const Access right : {Access::remote_write, Access::remote_atomic})
        assert_refused(fixture.pd, attr_of(fixture, Access::remote_read | right),
                       Errc::invalid_argument);
}

void on_demand_is_not_supported(void** state) {
    Fixture& fixture = of(state);
    assert_refused(fixture.pd, attr_of(fixture, kAll | Access::on_demand), Errc::not_supported);
}

void region_of_length_zero_exists_but_no_access_passes(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr = attr_of(fixture);
    attr.length = 0;
    attr.address = nullptr;
    const MemoryRegion& region = add(fixture, fixture.pd, attr);
    assert_int_equal(remote(fixture.pd, region.rkey(), 0, 1), Fault::out_of_range);
    assert_int_equal(local(fixture.pd, region.lkey(), fixture.memory.data(), 1, false),
                     Fault::out_of_range);
}

void pd_is_in_use_while_a_child_lives(void** state) {
    Fixture& fixture = of(state);
    assert_false(fixture.pd.in_use());
    add(fixture, fixture.pd, attr_of(fixture));
    assert_true(fixture.pd.in_use());
    fixture.regions.clear();
    assert_false(fixture.pd.in_use());
    auto srq = fixture.pd.create_srq(1, 1);
    assert_true(srq.has_value());
    assert_true(fixture.pd.in_use());
    srq->reset();
    assert_false(fixture.pd.in_use());
    assert_false(fixture.pd.create_srq(0, 1).has_value());
}

// --- keys

void keys_are_distinct_in_all_pds_and_never_zero(void** state) {
    Fixture& fixture = of(state);
    std::set<std::uint32_t> keys;
    for (int i = 0; i < 500; ++i) {
        for (SoftPd* pd : {&fixture.pd, &fixture.other_pd}) {
            const MemoryRegion& region = add(fixture, *pd, attr_of(fixture));
            assert_int_equal(region.lkey(), region.rkey());
            assert_int_not_equal(region.lkey(), kUnregisteredLkey);
            assert_true(keys.insert(region.lkey()).second);
        }
    }
}

void key_of_another_pd_is_unknown(void** state) {
    Fixture& fixture = of(state);
    const MemoryRegion& region = add(fixture, fixture.other_pd, attr_of(fixture));
    add(fixture, fixture.pd, attr_of(fixture));
    assert_int_equal(remote(fixture.pd, region.rkey(), iova_of(fixture), 1), Fault::unknown_key);
    assert_int_equal(local(fixture.pd, region.lkey(), fixture.memory.data(), 1, false),
                     Fault::unknown_key);
}

void key_of_a_deregistered_region_stays_unknown(void** state) {
    Fixture& fixture = of(state);
    for (int i = 0; i < 3000; ++i) {
        auto region = fixture.pd.register_memory(attr_of(fixture));
        const std::uint32_t key = (*region)->rkey();
        region->reset();
        add(fixture, fixture.pd, attr_of(fixture));
        assert_int_equal(remote(fixture.pd, key, iova_of(fixture), 1), Fault::unknown_key);
    }
}

void requested_rkey_is_the_only_name_for_peers(void** state) {
    Fixture& fixture = of(state);
    for (const std::uint32_t rkey : {0U, 1U, 0xdeadbeefU}) {
        MrAttr attr = attr_of(fixture);
        attr.requested_rkey = rkey;
        const MemoryRegion& region = add(fixture, fixture.pd, attr);
        assert_int_equal(region.rkey(), rkey);
        assert_int_not_equal(region.lkey(), rkey);
        assert_int_equal(remote(fixture.pd, rkey, iova_of(fixture), 1), Fault::none);
        assert_int_equal(remote(fixture.pd, region.lkey(), iova_of(fixture), 1),
                         Fault::unknown_key);
        assert_int_equal(local(fixture.pd, region.lkey(), fixture.memory.data(), 1, true),
                         Fault::none);
    }
}

void requested_rkey_that_is_taken_is_refused_in_this_pd_only(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr = attr_of(fixture);
    attr.requested_rkey = 42;
    add(fixture, fixture.pd, attr);
    assert_int_equal(fixture.pd.register_memory(attr).error().code, Errc::no_key);
    add(fixture, fixture.other_pd, attr);
    const MemoryRegion& generated = add(fixture, fixture.pd, attr_of(fixture));
    attr.requested_rkey = generated.rkey();
    assert_int_equal(fixture.pd.register_memory(attr).error().code, Errc::no_key);
    add(fixture, fixture.other_pd, attr);
}

void requested_rkey_is_free_again_after_deregistration(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr = attr_of(fixture);
    attr.requested_rkey = 42;
    add(fixture, fixture.pd, attr);
    fixture.regions.clear();
    assert_int_equal(remote(fixture.pd, 42, iova_of(fixture), 1), Fault::unknown_key);
    add(fixture, fixture.pd, attr);
}

void generated_key_avoids_a_requested_one(void**) {
    KeyPool pool(0, 0);
    const auto first = pool.take();
    const auto second = pool.take();
    assert_int_not_equal(*first, *second);
    assert_int_not_equal(*first, 0);
}

void pool_repeats_a_key_only_after_all_generations(void**) {
    KeyPool pool(0xffffff, 7);  // the indices wrap at once
    std::set<std::uint32_t> keys;
    for (int i = 0; i < 250 * 1024; ++i) {
        const auto key = pool.take();
        assert_int_not_equal(*key, 0);
        assert_true(keys.insert(*key).second);
        pool.give_back(*key);
    }
}

void key_check_costs_the_same_with_very_many_regions(void** state) {
    Fixture& fixture = of(state);
    const MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    const auto rkey = region.rkey();
    const auto best_of_many = [&] {
        auto best = std::chrono::steady_clock::duration::max();
        for (int round = 0; round < 20; ++round) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < 2000; ++i)
                assert_int_equal(remote(fixture.pd, rkey, iova_of(fixture), 8), Fault::none);
            best = std::min(best, std::chrono::steady_clock::now() - start);
        }
        return best;
    };
    const auto few = best_of_many();
    MrAttr attr = attr_of(fixture);
    attr.length = 0;
    for (int i = 0; i < 120'000; ++i) add(fixture, fixture.pd, attr);
    assert_true(best_of_many() < 4 * few + std::chrono::microseconds(200));
}

// --- access

void remote_access_is_checked_in_every_respect(void** state) {
    Fixture& fixture = of(state);
    const MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    const std::uint64_t base = iova_of(fixture);
    struct Case {
        std::uint64_t iova;
        std::uint64_t length;
        Fault fault;
    };
    const Case cases[] = {
        {base, kLength, Fault::none},
        {base + kLength - 1, 1, Fault::none},
        {base, kLength + 1, Fault::out_of_range},
        {base + kLength, 1, Fault::out_of_range},
        {base - 1, 1, Fault::out_of_range},
        {base - 1, kLength, Fault::out_of_range},
        {0, 1, Fault::out_of_range},
        {base, UINT64_MAX - base, Fault::out_of_range},
        {base, UINT64_MAX - base + 1, Fault::address_wrap},
        {base, UINT64_MAX, Fault::address_wrap},
        {UINT64_MAX, 2, Fault::address_wrap},
    };
    for (const Case& one : cases) {
        Pin pin;
        assert_int_equal(fixture.pd.keys()->pin_remote(region.rkey(), one.iova, one.length,
                                                       Access::remote_write, pin),
                         one.fault);
        assert_true((pin.region() != nullptr) == (one.fault == Fault::none));
        if (one.fault == Fault::none)
            assert_ptr_equal(pin.address(), fixture.memory.data() + (one.iova - base));
    }
}

void each_right_is_asked_for_by_itself(void** state) {
    Fixture& fixture = of(state);
    const Access rights[] = {Access::remote_write, Access::remote_read, Access::remote_atomic,
                             Access::flush_visible, Access::flush_persistent};
    for (const Access given : rights) {
        const MemoryRegion& region =
            add(fixture, fixture.pd, attr_of(fixture, Access::local_write | given));
        for (const Access asked : rights)
            assert_int_equal(remote(fixture.pd, region.rkey(), iova_of(fixture), 1, asked),
                             asked == given ? Fault::none : Fault::no_right);
    }
}

void zero_length_remote_access_passes_unchecked(void** state) {
    Fixture& fixture = of(state);
    Pin pin;
    assert_int_equal(fixture.pd.keys()->pin_remote(1, 0, 0, Access::remote_write, pin),
                     Fault::none);
    assert_null(pin.region());
}

void iova_shifts_what_peers_see_and_not_what_we_see(void** state) {
    Fixture& fixture = of(state);
    for (const std::uint64_t iova :
         {std::uint64_t{0}, std::uint64_t{0x1000}, std::uint64_t{UINT64_MAX - kLength}}) {
        MrAttr attr = attr_of(fixture);
        attr.iova = iova;
        const MemoryRegion& region = add(fixture, fixture.pd, attr);
        Pin pin;
        assert_int_equal(fixture.pd.keys()->pin_remote(region.rkey(), iova + 8, kLength - 8,
                                                       Access::remote_write, pin),
                         Fault::none);
        assert_ptr_equal(pin.address(), fixture.memory.data() + 8);
        pin.release();
        assert_int_equal(remote(fixture.pd, region.rkey(), iova + kLength, 1),
                         iova + kLength == UINT64_MAX ? Fault::address_wrap : Fault::out_of_range);
        assert_int_equal(local(fixture.pd, region.lkey(), fixture.memory.data(), kLength, true),
                         Fault::none);
    }
}

void local_access_is_checked_in_every_respect(void** state) {
    Fixture& fixture = of(state);
    std::byte* base = fixture.memory.data();
    const MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    const MemoryRegion& constant = add(fixture, fixture.pd, attr_of(fixture, Access::remote_read));
    const std::uint32_t key = region.lkey();
    assert_int_equal(local(fixture.pd, key, base, kLength, true), Fault::none);
    assert_int_equal(local(fixture.pd, key, base, kLength + 1, true), Fault::out_of_range);
    assert_int_equal(local(fixture.pd, key, base - 1, 1, true), Fault::out_of_range);
    assert_int_equal(local(fixture.pd, key, base + kLength, 1, true), Fault::out_of_range);
    assert_int_equal(local(fixture.pd, key, reinterpret_cast<void*>(UINTPTR_MAX), 2, true),
                     Fault::address_wrap);
    assert_int_equal(local(fixture.pd, key + 1, base, 1, true), Fault::unknown_key);
    assert_int_equal(local(fixture.pd, constant.lkey(), base, 1, false), Fault::none);
    assert_int_equal(local(fixture.pd, constant.lkey(), base, 1, true), Fault::no_right);
    assert_int_equal(local(fixture.pd, 12345, base, 0, true), Fault::none);
}

void unregistered_local_memory_passes_without_a_region(void** state) {
    Fixture& fixture = of(state);
    Pin pin;
    assert_int_equal(
        fixture.pd.keys()->pin_local({fixture.memory.data(), 8, kUnregisteredLkey}, true, pin),
        Fault::none);
    assert_null(pin.region());
    assert_ptr_equal(pin.address(), fixture.memory.data());
}

Fault pin_known(KnownRegion& known, SoftPd& pd, const Sge& sge, bool writes = false) {
    Pin pin;
    const Fault fault = known.pin(*pd.keys(), sge, writes, pin);
    assert_true(fault == Fault::none || pin.region() == nullptr);
    return fault;
}

void known_region_is_checked_like_any_other(void** state) {
    Fixture& fixture = of(state);
    MrAttr attr = attr_of(fixture);
    attr.access = AccessFlags(Access::remote_read);
    const MemoryRegion& region = add(fixture, fixture.pd, attr);
    const auto length = static_cast<std::uint32_t>(attr.length);
    KnownRegion known;
    for (int round = 0; round < 2; ++round) {
        const Sge all{attr.address, length, region.lkey()};
        assert_int_equal(pin_known(known, fixture.pd, all), Fault::none);
        assert_int_equal(pin_known(known, fixture.pd, all, true), Fault::no_right);
        assert_int_equal(pin_known(known, fixture.pd, {attr.address, length + 1, region.lkey()}),
                         Fault::out_of_range);
        assert_int_equal(pin_known(known, fixture.pd, {attr.address, 1, region.lkey() + 1}),
                         Fault::unknown_key);
    }
}

void known_region_is_unknown_once_it_is_deregistered(void** state) {
    Fixture& fixture = of(state);
    auto region = fixture.pd.register_memory(attr_of(fixture));
    assert_true(region.has_value());
    const Sge sge{fixture.memory.data(), 8, (*region)->lkey()};
    KnownRegion known;
    assert_int_equal(pin_known(known, fixture.pd, sge), Fault::none);
    region->reset();
    assert_int_equal(pin_known(known, fixture.pd, sge), Fault::unknown_key);
}

void new_pin_replaces_the_old_and_a_fault_leaves_none(void** state) {
    Fixture& fixture = of(state);
    const MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    const auto keys = fixture.pd.keys();
    Pin pin;
    assert_int_equal(
        keys->pin_remote(region.rkey(), iova_of(fixture), 1, Access::remote_write, pin),
        Fault::none);
    assert_int_equal(
        keys->pin_remote(region.rkey() + 1, iova_of(fixture), 1, Access::remote_write, pin),
        Fault::unknown_key);
    assert_null(pin.region());
    fixture.regions.clear();  // would wait for ever for a pin left behind
}

// --- deregistration

void deregistration_waits_for_an_access_in_flight(void** state) {
    Fixture& fixture = of(state);
    const MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    Pin pin;
    assert_int_equal(fixture.pd.keys()->pin_remote(region.rkey(), iova_of(fixture), 8,
                                                   Access::remote_write, pin),
                     Fault::none);
    std::atomic<bool> gone{false};
    const std::uint32_t rkey = region.rkey();
    fixture.threads.emplace_back([&] {
        fixture.regions.clear();
        gone = true;
    });
    // It refuses new accesses before it waits.
    while (remote(fixture.pd, rkey, iova_of(fixture), 8) == Fault::none) std::this_thread::yield();
    const bool waited = !gone;
    pin.release();
    fixture.threads[0].join();
    assert_true(waited);
    assert_true(gone);
}

void no_access_passes_after_deregistration_under_load(void** state) {
    Fixture& fixture = of(state);
    constexpr int kRounds = 2000;
    std::atomic<std::uint32_t> rkey{0};
    std::atomic<bool> stop{false};
    std::atomic<int> stray{0};
    for (int i = 0; i < 2; ++i) {
        fixture.threads.emplace_back([&] {
            while (!stop) {
                Pin pin;
                if (fixture.pd.keys()->pin_remote(rkey, iova_of(fixture), 8, Access::remote_write,
                                                  pin) != Fault::none)
                    continue;
                std::atomic_ref<std::uint8_t> flag(
                    *reinterpret_cast<std::uint8_t*>(fixture.memory.data()));
                if (flag.load() != 0) ++stray;  // set while nothing is registered
            }
        });
    }
    std::atomic_ref<std::uint8_t> deregistered(
        *reinterpret_cast<std::uint8_t*>(fixture.memory.data()));
    for (int i = 0; i < kRounds; ++i) {
        deregistered.store(0);
        auto region = fixture.pd.register_memory(attr_of(fixture));
        rkey = (*region)->rkey();
        std::this_thread::yield();
        region->reset();
        deregistered.store(1);
    }
    stop = true;
    for (std::thread& thread : fixture.threads) thread.join();
    assert_int_equal(stray.load(), 0);
}

// --- observers and advice

void observer_is_called_until_it_is_taken_away(void** state) {
    Fixture& fixture = of(state);
    MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    Pin pin;
    assert_int_equal(fixture.pd.keys()->pin_remote(region.rkey(), iova_of(fixture), 8,
                                                   Access::remote_write, pin),
                     Fault::none);
    pin.region()->notify(Opcode::write, 1);
    assert_true(region.set_observer(&fixture.observer).has_value());
    pin.region()->notify(Opcode::write, 8);
    pin.region()->notify(Opcode::read, 3);
    assert_true(region.set_observer(nullptr).has_value());
    pin.region()->notify(Opcode::write, 1);
    assert_int_equal(fixture.observer.calls, 2);
    assert_int_equal(fixture.observer.total, 11);
}

void advice_is_taken_for_valid_ranges_only(void** state) {
    Fixture& fixture = of(state);
    MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture));
    for (const int advice : {0, 1, 2}) {
        for (const std::uint32_t flags : {0U, 1U}) {
            assert_true(region.advise(0, kLength, advice, flags).has_value());
            assert_true(region.advise(kLength - 1, 1, advice, flags).has_value());
            assert_true(region.advise(kLength, 0, advice, flags).has_value());
        }
    }
    const auto refused = [&](std::uint64_t offset, std::size_t length, int advice,
                             std::uint32_t flags) {
        const Status status = region.advise(offset, length, advice, flags);
        return !status && status.error().code == Errc::invalid_argument;
    };
    assert_true(refused(0, kLength + 1, 0, 0));
    assert_true(refused(kLength, 1, 0, 0));
    assert_true(refused(kLength + 1, 0, 0, 0));
    assert_true(refused(1, SIZE_MAX, 0, 0));
    assert_true(refused(UINT64_MAX, 2, 0, 0));
    assert_true(refused(0, 1, 3, 0));
    assert_true(refused(0, 1, -1, 0));
    assert_true(refused(0, 1, 0, 2));
}

void write_advice_needs_the_right_to_write(void** state) {
    Fixture& fixture = of(state);
    MemoryRegion& region = add(fixture, fixture.pd, attr_of(fixture, Access::remote_read));
    assert_true(region.advise(0, 1, 0, 1).has_value());
    assert_int_equal(region.advise(0, 1, 1, 1).error().code, Errc::invalid_argument);
}

void region_without_persistent_memory_does_not_persist(void** state) {
    Fixture& fixture = of(state);
    const MemoryRegion& region =
        add(fixture, fixture.pd, attr_of(fixture, kAll | Access::flush_persistent));
    Pin pin;
    assert_int_equal(fixture.pd.keys()->pin_remote(region.rkey(), iova_of(fixture), 8,
                                                   Access::flush_persistent, pin),
                     Fault::none);
    assert_int_equal(pin.region()->persist(pin.address(), 8).error().code, Errc::not_supported);
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core::soft;
    const CMUnitTest tests[] = {
        TEST(null_and_unmapped_memory_is_denied),
        TEST(memory_without_the_right_is_denied_at_either_end),
        TEST(read_only_memory_can_be_registered_for_reading),
        TEST(registration_changes_no_byte),
        TEST(registration_does_not_populate_the_region),
        TEST(file_that_ends_before_the_region_is_denied),
        TEST(region_that_wraps_is_invalid),
        TEST(remote_changes_need_local_write),
        TEST(on_demand_is_not_supported),
        TEST(region_of_length_zero_exists_but_no_access_passes),
        TEST(pd_is_in_use_while_a_child_lives),
        TEST(keys_are_distinct_in_all_pds_and_never_zero),
        TEST(key_of_another_pd_is_unknown),
        TEST(key_of_a_deregistered_region_stays_unknown),
        TEST(requested_rkey_is_the_only_name_for_peers),
        TEST(requested_rkey_that_is_taken_is_refused_in_this_pd_only),
        TEST(requested_rkey_is_free_again_after_deregistration),
        TEST(generated_key_avoids_a_requested_one),
        TEST(pool_repeats_a_key_only_after_all_generations),
        TEST(key_check_costs_the_same_with_very_many_regions),
        TEST(remote_access_is_checked_in_every_respect),
        TEST(each_right_is_asked_for_by_itself),
        TEST(zero_length_remote_access_passes_unchecked),
        TEST(iova_shifts_what_peers_see_and_not_what_we_see),
        TEST(local_access_is_checked_in_every_respect),
        TEST(unregistered_local_memory_passes_without_a_region),
        TEST(known_region_is_checked_like_any_other),
        TEST(known_region_is_unknown_once_it_is_deregistered),
        TEST(new_pin_replaces_the_old_and_a_fault_leaves_none),
        TEST(deregistration_waits_for_an_access_in_flight),
        TEST(no_access_passes_after_deregistration_under_load),
        TEST(observer_is_called_until_it_is_taken_away),
        TEST(advice_is_taken_for_valid_ranges_only),
        TEST(write_advice_needs_the_right_to_write),
        TEST(region_without_persistent_memory_does_not_persist),
    };
    return cmocka_run_group_tests_name("memory", tests, nullptr, nullptr);
}
