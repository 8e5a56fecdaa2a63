// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/persistence.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/device/soft/mappings.hpp"
#include "tests/support/cmocka.hpp"

#ifdef COMPAT_HAVE_PMEM2
#include <libpmem2.h>
#endif

namespace compat::core::soft {
namespace {

constexpr char kForce[] = "PMEM2_FORCE_GRANULARITY";

struct Fixture {
    std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<int> fds;
    std::vector<std::string> paths;
    std::vector<std::pair<std::byte*, std::size_t>> mappings;
    std::unique_ptr<Persister> persister;
};

int setup(void** state) {
    unsetenv(kForce);
    *state = new Fixture;
    return 0;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    for (const auto& [address, length] : fixture->mappings) munmap(address, length);
    for (const int fd : fixture->fds) close(fd);
    for (const std::string& path : fixture->paths) unlink(path.c_str());
    delete fixture;
    unsetenv(kForce);
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

/// A file of four pages in the working folder, which has to be on a disk.
int make_file(Fixture& fixture) {
    struct statfs fs {};
    if (statfs(".", &fs) != 0 || fs.f_type == TMPFS_MAGIC) skip();
    std::string path = "persistence_test.XXXXXX";
    const int fd = mkostemp(path.data(), O_CLOEXEC);
    assert_true(fd >= 0);
    fixture.fds.push_back(fd);
    fixture.paths.push_back(path);
    assert_int_equal(ftruncate(fd, static_cast<off_t>(4 * fixture.page)), 0);
    return fd;
}

int make_memfd(Fixture& fixture) {
    const int fd = memfd_create("persistence_test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    fixture.fds.push_back(fd);
    assert_int_equal(ftruncate(fd, static_cast<off_t>(4 * fixture.page)), 0);
    return fd;
}

std::byte* map_at(Fixture& fixture, void* where, std::size_t pages, int flags, int fd) {
    void* address = mmap(where, pages * fixture.page, PROT_READ | PROT_WRITE, flags, fd, 0);
    assert_true(address != MAP_FAILED);
    fixture.mappings.emplace_back(static_cast<std::byte*>(address), pages * fixture.page);
    return static_cast<std::byte*>(address);
}

std::byte* map_shared(Fixture& fixture, int fd) {
    return map_at(fixture, nullptr, 4, MAP_SHARED, fd);
}

bool is_persistent(Fixture& fixture, std::byte* address, std::size_t length) {
    fixture.persister = find_persister(address, length);
    return fixture.persister != nullptr;
}

void assert_persists(Fixture& fixture, std::byte* address, std::size_t length) {
    assert_true(is_persistent(fixture, address, length));
    std::memset(address, 0x11, length);
    assert_true(fixture.persister->persist(address, length).has_value());
    // Any part of it, however it lies on the pages.
    assert_true(fixture.persister->persist(address, 0).has_value());
    assert_true(fixture.persister->persist(address + 1, 1).has_value());
    assert_true(fixture.persister->persist(address + length - 1, 1).has_value());
    assert_true(fixture.persister->persist(address + 7, length - 7).has_value());
}

void anonymous_memory_is_not_persistent(void** state) {
    Fixture& fixture = of(state);
    std::byte on_stack[64];
    assert_false(is_persistent(fixture, on_stack, sizeof on_stack));
    for (const int flags : {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS})
        assert_false(is_persistent(fixture, map_at(fixture, nullptr, 1, flags, -1), fixture.page));
}

void private_mapping_of_a_file_is_not_persistent(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_at(fixture, nullptr, 4, MAP_PRIVATE, make_file(fixture));
    assert_false(is_persistent(fixture, address, fixture.page));
    setenv(kForce, "CACHE_LINE", 1);
    assert_false(is_persistent(fixture, address, fixture.page));
}

void file_in_memory_is_not_persistent(void** state) {
    Fixture& fixture = of(state);
    assert_false(is_persistent(fixture, map_shared(fixture, make_memfd(fixture)), fixture.page));
}

void hole_in_the_range_is_not_persistent(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    munmap(address + fixture.page, fixture.page);
    assert_true(is_persistent(fixture, address, fixture.page));
    assert_false(is_persistent(fixture, address, fixture.page + 1));
    assert_false(is_persistent(fixture, address, 3 * fixture.page));
    assert_false(is_persistent(fixture, address, 0));
}

void every_part_of_the_range_has_to_be_persistent(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    assert_true(is_persistent(fixture, address, 4 * fixture.page));
    map_at(fixture, address + 2 * fixture.page, 1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    assert_true(is_persistent(fixture, address, 2 * fixture.page));
    assert_false(is_persistent(fixture, address, 2 * fixture.page + 1));
    assert_false(is_persistent(fixture, address + 2 * fixture.page, 1));
    assert_true(is_persistent(fixture, address + 3 * fixture.page, fixture.page));
}

void file_on_disk_persists(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    assert_persists(fixture, address, 4 * fixture.page);
    assert_persists(fixture, address + 100, 2 * fixture.page);
}

void two_files_side_by_side_persist(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    map_at(fixture, address + fixture.page, 1, MAP_SHARED | MAP_FIXED, make_file(fixture));
    assert_persists(fixture, address, 3 * fixture.page);
}

void deleted_file_persists(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    assert_int_equal(unlink(fixture.paths[0].c_str()), 0);
    assert_persists(fixture, address, fixture.page);
    close(std::exchange(fixture.fds[0], -1));
    assert_persists(fixture, address, fixture.page);
}

void replaced_file_persists(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    make_file(fixture);
    assert_int_equal(rename(fixture.paths[1].c_str(), fixture.paths[0].c_str()), 0);
    assert_persists(fixture, address, fixture.page);
}

void file_with_a_line_break_in_its_name_persists(void** state) {
    Fixture& fixture = of(state);
    const int fd = make_file(fixture);
    const std::string strange = fixture.paths[0] + " a\nb (deleted)";
    assert_int_equal(rename(fixture.paths[0].c_str(), strange.c_str()), 0);
    fixture.paths[0] = strange;
    assert_persists(fixture, map_shared(fixture, fd), fixture.page);
}

void file_that_became_shorter_does_no_harm(void** state) {
    Fixture& fixture = of(state);
    const int fd = make_file(fixture);
    std::byte* address = map_shared(fixture, fd);
    assert_true(is_persistent(fixture, address, 4 * fixture.page));
    assert_int_equal(ftruncate(fd, 0), 0);
    (void)fixture.persister->persist(address, 4 * fixture.page);
}

void range_unmapped_meanwhile_is_an_error(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_file(fixture));
    assert_true(is_persistent(fixture, address, 4 * fixture.page));
    munmap(address, 4 * fixture.page);
    const Status status = fixture.persister->persist(address, 4 * fixture.page);
    assert_false(status.has_value());
    assert_int_equal(status.error().code, Errc::device);
    assert_int_equal(status.error().device_errno, ENOMEM);
}

void declared_granularity_makes_files_in_memory_persistent(void** state) {
    Fixture& fixture = of(state);
    std::byte* address = map_shared(fixture, make_memfd(fixture));
    for (const char* granularity : {"BYTE", "CACHE_LINE", "PAGE"}) {
        setenv(kForce, granularity, 1);
        assert_persists(fixture, address, 4 * fixture.page);
    }
    setenv(kForce, "", 1);
    assert_false(is_persistent(fixture, address, fixture.page));
}

void declared_granularity_holds_for_a_file_nobody_can_open_again(void** state) {
    Fixture& fixture = of(state);
    setenv(kForce, "CACHE_LINE", 1);
    std::byte* address = map_shared(fixture, make_memfd(fixture));
    close(std::exchange(fixture.fds[0], -1));
    assert_persists(fixture, address, fixture.page);
}

/// Another process finds the whole file locked.
bool is_locked(int fd) {
    const pid_t child = fork();
    if (child == 0) {
        struct flock lock {};
        lock.l_type = F_WRLCK;
        _exit(fcntl(fd, F_SETLK, &lock) == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 1;
}

void locks_of_the_program_stay(void** state) {
    Fixture& fixture = of(state);
    setenv(kForce, "CACHE_LINE", 1);
    const int mapped = make_file(fixture);
    std::byte* address = map_shared(fixture, mapped);
    const int other = make_file(fixture);
    for (const int fd : {mapped, other}) {
        struct flock lock {};
        lock.l_type = F_WRLCK;
        assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
    }
    for (const bool replaced : {false, true}) {
        if (replaced)
            assert_int_equal(rename(fixture.paths[1].c_str(), fixture.paths[0].c_str()), 0);
        assert_persists(fixture, address, fixture.page);
        fixture.persister.reset();
        assert_true(is_locked(mapped));
        assert_true(is_locked(other));
    }
}

#ifdef COMPAT_HAVE_PMEM2
// libpmem2 cannot make a second object over a range that it mapped itself, and the program has
// mapped its persistent memory with libpmem2 as a rule.
void range_that_the_program_mapped_with_libpmem2_persists(void** state) {
    Fixture& fixture = of(state);
    for (const char* granularity : {"PAGE", "CACHE_LINE"}) {
        setenv(kForce, granularity, 1);
        pmem2_config* config = nullptr;
        pmem2_source* source = nullptr;
        pmem2_map* map = nullptr;
        assert_int_equal(pmem2_config_new(&config), 0);
        assert_int_equal(
            pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE), 0);
        assert_int_equal(pmem2_source_from_fd(&source, make_file(fixture)), 0);
        assert_int_equal(pmem2_map_new(&map, config, source), 0);
        assert_persists(fixture, static_cast<std::byte*>(pmem2_map_get_address(map)),
                        pmem2_map_get_size(map));
        fixture.persister.reset();
        assert_int_equal(pmem2_map_delete(&map), 0);
        pmem2_source_delete(&source);
        pmem2_config_delete(&config);
    }
}
#endif

void mappings_tell_rights_file_and_offset(void** state) {
    Fixture& fixture = of(state);
    const int fd = make_memfd(fixture);
    std::byte* address = map_shared(fixture, fd);
    assert_int_equal(mprotect(address + fixture.page, fixture.page, PROT_READ), 0);
    struct stat status {};
    assert_int_equal(fstat(fd, &status), 0);
    const auto found = mappings_of(address, 4 * fixture.page);
    assert_int_equal(found->size(), 3);
    assert_true((*found)[0].writable);
    assert_false((*found)[1].writable);
    for (const Mapping& mapping : *found) {
        assert_true(mapping.readable);
        assert_true(mapping.shared);
        assert_int_equal(mapping.inode, status.st_ino);
        assert_int_equal(mapping.start - reinterpret_cast<std::uintptr_t>(address), mapping.offset);
    }
    assert_int_equal(mappings_of(address, 0)->size(), 0);
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core::soft;
    const CMUnitTest tests[] = {
        TEST(anonymous_memory_is_not_persistent),
        TEST(private_mapping_of_a_file_is_not_persistent),
        TEST(file_in_memory_is_not_persistent),
        TEST(hole_in_the_range_is_not_persistent),
        TEST(every_part_of_the_range_has_to_be_persistent),
        TEST(file_on_disk_persists),
        TEST(two_files_side_by_side_persist),
        TEST(deleted_file_persists),
        TEST(replaced_file_persists),
        TEST(file_with_a_line_break_in_its_name_persists),
        TEST(file_that_became_shorter_does_no_harm),
        TEST(range_unmapped_meanwhile_is_an_error),
        TEST(declared_granularity_makes_files_in_memory_persistent),
        TEST(declared_granularity_holds_for_a_file_nobody_can_open_again),
        TEST(locks_of_the_program_stay),
#ifdef COMPAT_HAVE_PMEM2
        TEST(range_that_the_program_mapped_with_libpmem2_persists),
#endif
        TEST(mappings_tell_rights_file_and_offset),
    };
    return cmocka_run_group_tests_name("persistence", tests, nullptr, nullptr);
}
