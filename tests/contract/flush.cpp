// SPDX-License-Identifier: BSD-3-Clause
// Flush: what it promises it does, what it cannot do it refuses.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

constexpr std::size_t kLength = 64 * 1024;

Post flush_of(std::uint64_t id, Remote remote, std::uint64_t length, FlushType type) {
    return {.wr_id = id,
            .opcode = Opcode::flush,
            .remote = remote,
            .flush_type = type,
            .flush_length = length};
}

/// A file of the working folder, mapped for all to see. Its fixture outlives the connection.
struct PersistentMemory {
    PersistentMemory() {
        struct statfs fs {};
        // On a file system in memory somebody has to declare it persistent.
        if (statfs(".", &fs) == 0 && fs.f_type == TMPFS_MAGIC)
            setenv("PMEM2_FORCE_GRANULARITY", "PAGE", 0);
        std::string path = "contract_flush.XXXXXX";
        fd = mkostemp(path.data(), O_CLOEXEC);
        unlink(path.c_str());
        if (fd < 0 || ftruncate(fd, kLength) != 0) return;
        void* mapped = mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) data = static_cast<std::byte*>(mapped);
    }
    ~PersistentMemory() {
        if (data != nullptr) munmap(data, mapped_length);
        if (fd >= 0) close(fd);
    }
    PersistentMemory(const PersistentMemory&) = delete;
    int fd = -1;
    std::byte* data = nullptr;
    std::size_t mapped_length = kLength;
};

struct FlushFixture {
    PersistentMemory memory;  // outlives
    std::unique_ptr<Fixture> fixture = std::make_unique<Fixture>();
    std::unique_ptr<MemoryRegion> region;
};

int setup_flush(void** state) {
    auto* flush = new FlushFixture;
    *state = flush;
    return flush->memory.data != nullptr || !limits().flush ? 0 : -1;
}
int teardown_flush(void** state) {
    auto* flush = static_cast<FlushFixture*>(*state);
    flush->region.reset();
    flush->fixture.reset();
    delete flush;
    return 0;
}
FlushFixture& of(void** state) {
    return *static_cast<FlushFixture*>(*state);
}

Pair& connect(FlushFixture& flush) {
    if (!limits().flush) skip();
    return flush.fixture->connect();
}

/// The file, registered for persistent flushes at the passive side.
Remote register_persistent(FlushFixture& flush, Pair& pair) {
    MrAttr attr;
    attr.address = flush.memory.data;
    attr.length = kLength;
    attr.access = full_access() | Access::flush_persistent;
    auto region = pair.passive.pd().register_memory(attr);
    assert_true(region.has_value());
    flush.region = std::move(*region);
    return {flush.region->rkey(), reinterpret_cast<std::uintptr_t>(flush.memory.data)};
}

void flush_completes_when_the_writes_before_it_are_visible(void** state) {
    Pair& pair = connect(of(state));
    const Buffer& local = pair.active.buffer(kLength);
    const Buffer& remote = pair.passive.buffer(kLength);
    for (unsigned round = 1; round <= 50; ++round) {
        local.fill_pattern(round);
        must_post(pair.active, {{.sges = {local.sge()}, .remote = at(remote), .flags = kUnsignaled},
                                flush_of(round, at(remote), kLength, FlushType::visibility)});
        expect(pair.active.send_cq(), round);
        assert_true(holds_pattern(remote.data(), kLength, 0, round));
    }
}

void persistent_flush_of_a_file_succeeds_for_any_range(void** state) {
    Pair& pair = connect(of(state));
    const Remote file = register_persistent(of(state), pair);
    const Buffer& local = pair.active.buffer(kLength);
    local.fill_pattern(1);
    const std::pair<std::size_t, std::size_t> ranges[] = {
        {0, kLength}, {1, 1}, {4095, 2}, {100, 50'000}, {kLength - 1, 1}, {5, 0}, {kLength, 0}};
    for (const auto& [offset, length] : ranges) {
        must_post(pair.active, {{.sges = {local.sge(offset, length)},
                                 .remote = {file.rkey, file.address + offset},
                                 .flags = kUnsignaled},
                                flush_of(offset, {file.rkey, file.address + offset}, length,
                                         FlushType::persistent)});
        expect(pair.active.send_cq(), offset);
    }
    std::vector<std::byte> content(kLength);
    assert_int_equal(pread(of(state).memory.fd, content.data(), kLength, 0), kLength);
    assert_true(holds_pattern(content.data(), kLength, 0, 1));
}

void persistent_flush_of_memory_that_is_lost_with_the_power_is_refused(void** state) {
    Pair& pair = connect(of(state));
    std::vector<std::byte> memory(64);
    MrAttr attr;
    attr.address = memory.data();
    attr.length = memory.size();
    attr.access = full_access() | Access::flush_persistent;
    const auto region = pair.passive.pd().register_memory(attr);
    if (!region) return;  // refused at once: good as well
    must_post(pair.active,
              flush_of(1, {(*region)->rkey(), reinterpret_cast<std::uintptr_t>(memory.data())}, 64,
                       FlushType::persistent));
    expect(pair.active.send_cq(), 1, WcStatus::remote_access_error);
}

void flush_without_its_right_is_refused(void** state) {
    FlushFixture& flush = of(state);
    struct Row {
        Access given;
        FlushType asked;
    };
    for (const Row& row : {Row{Access::flush_visible, FlushType::persistent},
                           Row{Access::flush_persistent, FlushType::visibility},
                           Row{Access::remote_read, FlushType::visibility}}) {
        Pair& pair = connect(flush);
        MrAttr attr;
        attr.address = flush.memory.data;
        attr.length = kLength;
        attr.access = Access::local_write | Access::remote_write;
        attr.access |= row.given;
        const auto region = pair.passive.pd().register_memory(attr);
        assert_true(region.has_value());
        const Remote remote{(*region)->rkey(), reinterpret_cast<std::uintptr_t>(flush.memory.data)};
        must_post(pair.active,
                  {flush_of(1, remote, 8, row.asked), flush_of(2, remote, 8, row.asked)});
        expect(pair.active.send_cq(), 1, WcStatus::remote_access_error);
        expect(pair.active.send_cq(), 2, WcStatus::flushed);
    }
}

void flush_beyond_the_region_is_refused(void** state) {
    Pair& pair = connect(of(state));
    const Remote file = register_persistent(of(state), pair);
    must_post(pair.active,
              flush_of(1, {file.rkey, file.address + 1}, kLength, FlushType::persistent));
    expect(pair.active.send_cq(), 1, WcStatus::remote_access_error);
}

void flushes_and_writes_complete_in_order(void** state) {
    Pair& pair = connect(of(state));
    const Remote file = register_persistent(of(state), pair);
    const Buffer& local = pair.active.buffer(4096);
    for (std::uint64_t round = 0; round < 20; ++round) {
        must_post(pair.active,
                  {{.wr_id = 1, .sges = {local.sge()}, .remote = file},
                   flush_of(2, file, 4096, FlushType::persistent),
                   {.wr_id = 3, .opcode = Opcode::read, .sges = {local.sge()}, .remote = file},
                   flush_of(4, file, 4096, FlushType::visibility),
                   {.wr_id = 5, .sges = {local.sge()}, .remote = file}});
        for (std::uint64_t id = 1; id <= 5; ++id) expect(pair.active.send_cq(), id);
    }
}

void flush_that_fails_at_the_target_fails_behind_what_went_before(void** state) {
    Pair& pair = connect(of(state));
    const Remote file = register_persistent(of(state), pair);
    constexpr std::size_t kHole = kLength / 2;
    munmap(of(state).memory.data + kHole, kLength - kHole);  // msync(2) will say so
    of(state).memory.mapped_length = kHole;
    const Buffer& local = pair.active.buffer(64);
    must_post(pair.active,
              {{.wr_id = 1, .sges = {local.sge()}, .remote = file},
               flush_of(2, {file.rkey, file.address + kHole}, 64, FlushType::persistent),
               {.wr_id = 3, .sges = {local.sge()}, .remote = file}});
    expect(pair.active.send_cq(), 1);
    expect(pair.active.send_cq(), 2, WcStatus::remote_operation_error);
    expect(pair.active.send_cq(), 3, WcStatus::flushed);
}

#define FLUSH_TEST(function) cmocka_unit_test_setup_teardown(function, setup_flush, teardown_flush)

constexpr CMUnitTest kTests[] = {
    FLUSH_TEST(flush_completes_when_the_writes_before_it_are_visible),
    FLUSH_TEST(persistent_flush_of_a_file_succeeds_for_any_range),
    FLUSH_TEST(persistent_flush_of_memory_that_is_lost_with_the_power_is_refused),
    FLUSH_TEST(flush_without_its_right_is_refused),
    FLUSH_TEST(flush_beyond_the_region_is_refused),
    FLUSH_TEST(flushes_and_writes_complete_in_order),
    FLUSH_TEST(flush_that_fails_at_the_target_fails_behind_what_went_before),
};

}  // namespace

std::span<const CMUnitTest> flush_tests() {
    return kTests;
}

}  // namespace compat::contract
