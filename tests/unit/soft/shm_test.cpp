// SPDX-License-Identifier: BSD-3-Clause
// Requests between two processes of one host that do not go through the socket. The contract's
// tests run over this way as well (contract.soft_shm.*); here is what takes a second process.
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device/soft/shm/direct.hpp"
#include "core/device/soft/soft_device.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 20s;
constexpr std::size_t kLength = 256 * 1024;
constexpr int kKills = 20;
constexpr int kRounds = 300;  // COMPAT_TEST_ROUNDS says otherwise

/// What the two processes tell each other.
struct Shared {
    std::atomic<std::uint16_t> port{0};
    std::atomic<std::uint32_t> rkey{0};  ///< to write to now
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> direct{0};   ///< requests of the writer that took the direct way
    std::atomic<std::uint64_t> written{0};  ///< requests of the writer that are done, any way
    std::atomic<std::uint64_t> mapped{0};   ///< of these, without the kernel
    std::atomic<int> errors{0};             ///< connections of the writer that ended
    std::atomic<bool> stop{false};
};

bool eventually(auto condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        usleep(100);
    }
    return true;
}

int rounds() {
    const char* text = std::getenv("COMPAT_TEST_ROUNDS");
    return text != nullptr ? std::atoi(text) : kRounds;
}

/// One end of the connection.
struct End {
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<CmChannel> channel;
    std::unique_ptr<CmId> listener;
    std::unique_ptr<CmId> id;
    std::unique_ptr<QueuePair> qp;

    void make() {
        pd = std::move(*device().allocate_pd());
        cq = std::move(*device().create_cq(64, nullptr));
        channel = std::move(*device().create_cm_channel());
    }
    void make_qp() {
        QpAttr attr;
        attr.pd = pd.get();
        attr.send_cq = attr.receive_cq = cq.get();
        attr.send_depth = 16;
        qp = std::move(*id->create_qp(attr));
    }
    std::unique_ptr<MemoryRegion> map(void* memory, std::size_t length,
                                      std::optional<std::uint32_t> key = {}) const {
        MrAttr attr;
        attr.requested_rkey = key;
        attr.address = memory;
        attr.length = length;
        attr.access = Access::local_write | Access::remote_write;
        attr.access |= Access::remote_read;
        attr.access |= Access::remote_atomic;
        return std::move(*pd->register_memory(attr));
    }
    ~End() {
        qp.reset();
        id.reset();
    }
};

/// What the writer gives up before it begins.
enum class Apart : int { not_at_all, another_user, rights_over_others, process_numbers };

struct Fixture {
    int file = -1;
    int behind_memory = -1;
    std::string path;  ///< of the file behind the memory
    std::optional<std::uint32_t> key;
    Apart writer = Apart::not_at_all;
    Shared* shared = nullptr;
    std::byte* memory = nullptr;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<End> end;
    pid_t child = -1;
};

Shared* map_shared(int file) {
    return static_cast<Shared*>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
}

int setup_with(void** state, int flags, int behind_memory) {
    auto* fixture = new Fixture;
    *state = fixture;
    fixture->file = memfd_create("shm_test", 0);  // the child gets it
    if (ftruncate(fixture->file, sizeof(Shared)) != 0) return -1;
    fixture->shared = new (map_shared(fixture->file)) Shared;
    fixture->behind_memory = behind_memory;
    if (behind_memory >= 0 && ftruncate(behind_memory, kLength) != 0) return -1;
    fixture->memory = static_cast<std::byte*>(
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, flags, behind_memory, 0));
    return fixture->memory == MAP_FAILED ? -1 : 0;
}
int setup(void** state) {
    return setup_with(state, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}
int setup_memfd(void** state) {
    return setup_with(state, MAP_SHARED, memfd_create("target", MFD_CLOEXEC));
}
/// Nobody can open it any more.
int setup_lost_memfd(void** state) {
    const int result = setup_memfd(state);
    Fixture& fixture = *static_cast<Fixture*>(*state);
    close(std::exchange(fixture.behind_memory, -1));
    return result;
}
/// Its path is all that is left.
int setup_closed_file(void** state) {
    char path[] = "/tmp/fabric-compat-shm-XXXXXX";
    const int result = setup_with(state, MAP_SHARED, mkstemp(path));
    Fixture& fixture = *static_cast<Fixture*>(*state);
    close(std::exchange(fixture.behind_memory, -1));
    fixture.path = path;
    return result;
}
int setup_copy_on_write(void** state) {
    return setup_with(state, MAP_PRIVATE, memfd_create("target", MFD_CLOEXEC));
}
int setup_requested_key(void** state) {
    const int result = setup_memfd(state);
    static_cast<Fixture*>(*state)->key = 0x7;
    return result;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    if (fixture->child > 0) {
        kill(fixture->child, SIGKILL);
        waitpid(fixture->child, nullptr, 0);
    }
    fixture->region.reset();
    fixture->end.reset();
    prctl(PR_SET_DUMPABLE, 1);
    munmap(fixture->memory, kLength);
    munmap(fixture->shared, sizeof(Shared));
    close(fixture->file);
    if (fixture->behind_memory >= 0) close(fixture->behind_memory);
    if (!fixture->path.empty()) unlink(fixture->path.c_str());
    delete fixture;
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

// --- the child

/// Nothing is asserted here.
void check(bool good) {
    if (!good) _exit(1);
}

/// Writes as fast as it can to what it is told of, over a new connection after each error, until it
/// is told to stop. One at a time: behind one that is on its way none goes directly.
void write_until_error(Shared& shared, std::byte* source, std::size_t length) {
    End end;
    end.make();
    const auto region = end.map(source, length);
    end.id = std::move(*device().create_cm_id(end.channel.get()));
    SocketAddress peer = *resolve_address("127.0.0.1", "0", Resolve::numeric);
    peer.set_port(shared.port);
    check(end.id->resolve({}, peer, 2000).has_value());
    end.make_qp();
    check(end.id->connect({}).has_value());
    check(end.channel->get_event()->type == CmEventType::established);
    bool failed = false;
    bool on_its_way = false;
    while (!shared.stop && !failed) {
        const Sge sge{source, static_cast<std::uint32_t>(length), region->lkey()};
        WorkRequest request;
        request.opcode = Opcode::write;
        request.flags = SendFlag::signaled;
        request.sges = {&sge, 1};
        request.rkey = shared.rkey;
        request.remote_address = shared.address;
        if (!on_its_way) on_its_way = end.qp->post_send({&request, 1}).has_value();
        WorkCompletion wc;
        if (*end.cq->poll({&wc, 1}) == 1) {
            on_its_way = false;
            failed = wc.status != WcStatus::success;
            if (!failed) ++shared.written;
        }
        shared.direct = shm::counts().direct;
        shared.mapped = shm::counts().mapped;
    }
}

void be_nobody() {
    constexpr uid_t kNobody = 65534;
    check(setresuid(kNobody, kNobody, kNobody) == 0);
}

/// As root before this, a process may trace whom it likes.
void give_up_rights() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> rights{};
    check(syscall(SYS_capget, &header, rights.data()) == 0);
    for (auto& word : rights) word.effective = 0;
    check(syscall(SYS_capset, &header, rights.data()) == 0);
}

bool leave_process_numbers() {
    return unshare(getuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

/// The child goes on as process 1; this one ends as it does.
void be_process_one() {
    check(leave_process_numbers());
    const pid_t one = fork();
    if (one == 0) {
        check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getpid() == 1);
        return;
    }
    int status = 0;
    check(waitpid(one, &status, 0) == one);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void keep_apart(Apart how) {
    switch (how) {
        case Apart::not_at_all: return;
        case Apart::another_user: return be_nobody();
        case Apart::rights_over_others: return give_up_rights();
        case Apart::process_numbers: return be_process_one();
    }
}

int be_the_writer(int file, std::size_t length, Apart how) {
    alarm(120 + static_cast<unsigned>(rounds()) / 50);
    keep_apart(how);
    Shared& shared = *map_shared(file);
    std::vector<std::byte> source(kLength, std::byte{0x55});
    while (!shared.stop) {
        write_until_error(shared, source.data(), length);
        ++shared.errors;
    }
    return 0;
}

// --- the parent

/// Of a writer that has met an old key.
void take_over_new_connection(Fixture& fixture) {
    pollfd ready{fixture.end->channel->fd(), POLLIN, 0};
    if (::poll(&ready, 1, 0) == 0) return;
    auto event = fixture.end->channel->get_event();
    if (event->type != CmEventType::connect_request) return;  // the end of the old one
    fixture.end->qp.reset();
    fixture.end->id = std::move(event->request);
    assert_true(fixture.end->id->migrate(*fixture.end->channel).has_value());
    fixture.end->make_qp();
    assert_true(fixture.end->id->accept({}).has_value());
}

void start(Fixture& fixture, std::size_t length) {
    fixture.end = std::make_unique<End>();
    fixture.end->make();
    fixture.end->listener = std::move(*device().create_cm_id(fixture.end->channel.get()));
    const auto address = resolve_address("127.0.0.1", "0", Resolve::numeric);
    assert_true(fixture.end->listener->bind(*address).has_value());
    assert_true(fixture.end->listener->listen(0).has_value());
    fixture.region = fixture.end->map(fixture.memory, kLength, fixture.key);
    fixture.shared->address = reinterpret_cast<std::uintptr_t>(fixture.memory);
    fixture.shared->rkey = fixture.region->rkey();
    fixture.shared->port = fixture.end->listener->local_address().port();
    const std::string file = std::to_string(fixture.file);
    const std::string bytes = std::to_string(length);
    const std::string how = std::to_string(static_cast<int>(fixture.writer));
    fixture.child = fork();
    if (fixture.child == 0) {
        execl("/proc/self/exe", "shm_test", file.c_str(), bytes.c_str(), how.c_str(), nullptr);
        _exit(127);
    }
    assert_true(eventually([&] {
        take_over_new_connection(fixture);
        return fixture.end->qp != nullptr;
    }));
}

int wait_for_child(Fixture& fixture) {
    int status = -1;
    assert_int_equal(waitpid(std::exchange(fixture.child, -1), &status, 0) > 0, 1);
    return status;
}

void writes_reach_a_target_that_does_nothing(void** state) {
    Fixture& fixture = of(state);
    start(fixture, kLength);
    assert_true(eventually([&] { return fixture.shared->direct > 100; }));
    fixture.shared->stop = true;
    assert_int_equal(wait_for_child(fixture), 0);
    assert_int_equal(fixture.shared->errors, 1);  // that was all
    for (std::size_t i = 0; i < kLength; ++i) assert_true(fixture.memory[i] == std::byte{0x55});
}

void file_is_written_without_the_kernel(void** state) {
    writes_reach_a_target_that_does_nothing(state);
    assert_true(of(state).shared->mapped > 100);
}

void what_cannot_be_mapped_is_copied_by_the_kernel(void** state) {
    writes_reach_a_target_that_does_nothing(state);
    assert_int_equal(of(state).shared->mapped, 0);
}

void write_by_the_stream(Fixture& fixture) {
    start(fixture, kLength);
    assert_true(eventually([&] { return fixture.shared->written > 10; }));
    fixture.shared->stop = true;
    assert_int_equal(wait_for_child(fixture), 0);
    assert_int_equal(fixture.shared->direct, 0);
    assert_int_equal(fixture.shared->errors, 1);  // that was all
    for (std::size_t i = 0; i < kLength; ++i) assert_true(fixture.memory[i] == std::byte{0x55});
}

/// Whatever the kernel would allow, one of the two may not look at the other.
void another_user_goes_by_the_stream(void** state) {
    if (getuid() != 0) skip();
    of(state).writer = Apart::another_user;
    write_by_the_stream(of(state));
}

void process_that_nobody_may_trace_is_reached_by_the_stream(void** state) {
    assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
    of(state).writer = Apart::rights_over_others;
    write_by_the_stream(of(state));
}

bool may_leave_process_numbers() {
    int status = -1;
    const pid_t trial = fork();
    if (trial == 0) _exit(leave_process_numbers() ? 0 : 1);
    return waitpid(trial, &status, 0) == trial && status == 0;
}

/// In a container, say: the number that either tells is somebody else's for the other.
void process_that_is_numbered_elsewhere_goes_by_the_stream(void** state) {
    if (!may_leave_process_numbers()) skip();
    of(state).writer = Apart::process_numbers;
    write_by_the_stream(of(state));
}

/// The writer is told of every new key at once, and so it is in the middle of a write as a rule.
void no_byte_arrives_after_deregistration(void** state) {
    Fixture& fixture = of(state);
    start(fixture, 4096);
    int wrong = 0;
    for (int round = 0; round < rounds(); ++round) {
        const std::uint64_t before = fixture.shared->direct;
        assert_true(eventually([&] {
            take_over_new_connection(fixture);
            return fixture.shared->direct > before;
        }));
        fixture.region.reset();
        std::memset(fixture.memory, 0x11, 4096);
        usleep(20);
        for (int i = 0; i < 4096; ++i) wrong += fixture.memory[i] != std::byte{0x11} ? 1 : 0;
        fixture.region = fixture.end->map(fixture.memory, kLength, fixture.key);
        fixture.shared->rkey = fixture.region->rkey();
    }
    assert_int_equal(wrong, 0);
}

void killed_writer_keeps_nothing(void** state) {
    Fixture& fixture = of(state);
    for (int kill_at = 0; kill_at < kKills; ++kill_at) {
        fixture.shared->direct = 0;
        start(fixture, kLength);
        assert_true(eventually([&] { return fixture.shared->direct > 0; }));
        usleep(static_cast<useconds_t>(kill_at * 37));
        kill(fixture.child, SIGKILL);
        // It may have died with our key announced.
        fixture.region.reset();
        (void)wait_for_child(fixture);
        CmEventType type = CmEventType::established;
        while (type == CmEventType::established) type = fixture.end->channel->get_event()->type;
        assert_int_equal(type, CmEventType::disconnected);
        fixture.end.reset();
    }
}

void destroyed_queue_pair_lets_nothing_through(void** state) {
    Fixture& fixture = of(state);
    start(fixture, kLength);
    assert_true(eventually([&] { return fixture.shared->direct > 0; }));
    fixture.end->qp.reset();
    std::memset(fixture.memory, 0x11, kLength);
    assert_true(eventually([&] { return fixture.shared->errors > 0; }));
    for (std::size_t i = 0; i < kLength; ++i) assert_true(fixture.memory[i] == std::byte{0x11});
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) TEST_ON(setup, function)
#define TEST_ON(memory, function) \
    { #function " " #memory, function, memory, teardown, nullptr }

int main(int argc, char** argv) {
    using namespace compat::core::soft;
    setenv("FABRIC_COMPAT_SHM", "1", 1);
    if (argc == 4)
        return be_the_writer(std::atoi(argv[1]), std::strtoul(argv[2], nullptr, 10),
                             static_cast<Apart>(std::atoi(argv[3])));
    const CMUnitTest tests[] = {
        TEST(writes_reach_a_target_that_does_nothing),
        TEST(no_byte_arrives_after_deregistration),
        TEST(killed_writer_keeps_nothing),
        TEST(destroyed_queue_pair_lets_nothing_through),
        TEST(another_user_goes_by_the_stream),
        TEST_ON(setup_memfd, another_user_goes_by_the_stream),
        TEST(process_that_nobody_may_trace_is_reached_by_the_stream),
        TEST_ON(setup_memfd, process_that_nobody_may_trace_is_reached_by_the_stream),
        TEST(process_that_is_numbered_elsewhere_goes_by_the_stream),
        TEST_ON(setup_memfd, process_that_is_numbered_elsewhere_goes_by_the_stream),
        TEST_ON(setup_memfd, file_is_written_without_the_kernel),
        TEST_ON(setup_closed_file, file_is_written_without_the_kernel),
        TEST_ON(setup_requested_key, file_is_written_without_the_kernel),
        TEST_ON(setup_lost_memfd, what_cannot_be_mapped_is_copied_by_the_kernel),
        TEST_ON(setup_copy_on_write, what_cannot_be_mapped_is_copied_by_the_kernel),
        TEST_ON(setup_memfd, no_byte_arrives_after_deregistration),
        TEST_ON(setup_requested_key, no_byte_arrives_after_deregistration),
        TEST_ON(setup_memfd, killed_writer_keeps_nothing),
        TEST_ON(setup_memfd, destroyed_queue_pair_lets_nothing_through),
    };
    return cmocka_run_group_tests_name("shm", tests, nullptr, nullptr);
}
