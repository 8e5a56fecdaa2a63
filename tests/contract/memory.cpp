// SPDX-License-Identifier: BSD-3-Clause
// Memory: what deregistration and destruction end, and who is told of remote accesses.
#include <sys/mman.h>

#include <chrono>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

SideOptions deep() {
    SideOptions options;
    options.send_depth = options.receive_depth = 64;
    return options;
}

/// Posts and polls until a request fails. The request is made by the caller: what it names may be
/// gone when the thread begins.
void start_storm(Fixture& fixture, const Side& side, Post what) {
    fixture.done = 0;
    fixture.run([&, what = std::move(what)] {
        bool failed = false;
        while (!fixture.stop && !failed) {
            while (!fixture.stop && post(side, what)) {
            }
            WorkCompletion wcs[16];
            const std::size_t count = side.send_cq().poll(wcs).value_or(0);
            for (std::size_t i = 0; i < count; ++i) {
                failed |= wcs[i].status != WcStatus::success;
                if (!failed) ++fixture.done;
            }
        }
    });
}

void await_storm(const Fixture& fixture) {
    assert_true(eventually([&] { return fixture.done != 0; }));
}

// --- deregistration

void no_byte_is_written_after_deregistration(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 60; ++round) {
        Pair& pair = fixture.connect(both(deep()));
        const std::size_t length = round % 2 == 0 ? 64 : 100'000;
        const Buffer& local = pair.active.buffer(length);
        Buffer& remote = pair.passive.buffer(length);
        local.fill(0x55);
        start_storm(fixture, pair.active, {.sges = {local.sge()}, .remote = at(remote)});
        await_storm(fixture);
        remote.deregister();
        remote.fill(0x11);  // the program's again
        fixture.join();     // until the peer has noticed: all that was under way has ended
        assert_true(holds_only(remote.data(), length, 0x11));
    }
}

void no_byte_is_read_into_memory_after_its_deregistration(void** state) {
    if (!subject().keeps_rights) skip();
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 8; ++round) {
        Pair& pair = fixture.connect(both(deep()));
        const std::size_t length = round % 2 == 0 ? 64 : 100'000;
        Buffer& local = pair.active.buffer(length);
        const Buffer& remote = pair.passive.buffer(length);
        remote.fill(0x55);
        for (std::uint64_t id = 0; id < 64; ++id)
            must_post(
                pair.active,
                {.wr_id = id, .opcode = Opcode::read, .sges = {local.sge()}, .remote = at(remote)});
        expect(pair.active.send_cq(), 0);
        local.deregister();
        local.fill(0x11);
        bool failed = false;
        for (std::uint64_t id = 1; id < 64; ++id) {
            const auto wc = next_completion(pair.active.send_cq());
            assert_true(wc.has_value());
            assert_int_equal(wc->wr_id, id);
            if (failed) assert_int_equal(wc->status, WcStatus::flushed);
            if (!failed && wc->status != WcStatus::success)
                assert_string_equal(wc_status_text(wc->status),
                                    wc_status_text(WcStatus::local_protection_error));
            failed |= wc->status != WcStatus::success;
        }
        assert_true(holds_only(local.data(), length, 0x11));
    }
}

void bytes_of_deregistered_memory_are_not_sent(void** state) {
    if (!subject().keeps_rights) skip();
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect(both(deep()));
    constexpr std::size_t kLength = 1 << 20;
    Buffer& local = pair.active.buffer(kLength);
    const Buffer& remote = pair.passive.buffer(kLength);
    local.fill(0x55);
    for (std::uint64_t id = 0; id < 64; ++id)
        must_post(pair.active, {.wr_id = id, .sges = {local.sge()}, .remote = at(remote)});
    local.deregister();
    local.fill(0x11);
    bool failed = false;
    for (std::uint64_t id = 0; id < 64; ++id) {
        const auto wc = next_completion(pair.active.send_cq());
        assert_true(wc.has_value());
        assert_int_equal(wc->wr_id, id);
        if (wc->status != WcStatus::success && !failed) {
            failed = true;
            if (!subject().exact_errors) continue;
            assert_string_equal(wc_status_text(wc->status),
                                wc_status_text(WcStatus::local_protection_error));
        }
    }
    if (failed) expect_event(pair.passive.cm(), CmEventType::disconnected);
    for (std::size_t i = 0; i < kLength; ++i) assert_true(remote.data()[i] != std::byte{0x11});
}

void memory_can_be_unmapped_after_deregistration(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 10; ++round) {
        Pair& pair = fixture.connect(both(deep()));
        const Buffer& local = pair.active.buffer(100'000);
        const Buffer& other = pair.passive.buffer(100'000);
        Buffer& remote = pair.passive.buffer(100'000);
        const Opcode opcode = round % 2 == 0 ? Opcode::write : Opcode::read;
        start_storm(fixture, pair.active,
                    {.opcode = opcode, .sges = {local.sge()}, .remote = at(remote)});
        must_post(pair.passive, {.sges = {other.sge()}, .remote = at(local)});
        expect(pair.passive.send_cq(), 0);
        remote.deregister();
        remote.unmap();
        fixture.join();
    }
}  // namespace

// --- memory that the program unmaps while it is registered: wrong, but the program's end on no
// device. One that holds the pages does not notice; else the request that meets it fails.

constexpr std::size_t kSmall = 64;
constexpr std::size_t kLarge = 300'000;

WcStatus unless_held(WcStatus status) {
    return subject().holds_memory ? WcStatus::success : status;
}

void access_to_unmapped_target_memory_is_an_access_error(void** state) {
    for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::atomic_fadd})
        for (const std::size_t length : {kSmall, kLarge}) {
            const bool atomic = opcode == Opcode::atomic_fadd;
            if (atomic && (length == kLarge || !limits().atomics)) continue;
            Pair& pair = fixture_of(state).connect();
            const Buffer& local = pair.active.buffer(length);
            const Buffer& remote = pair.passive.buffer(length);
            remote.withdraw();
            must_post(pair.active, {.wr_id = 1,
                                    .opcode = opcode,
                                    .sges = {local.sge(0, atomic ? 8 : length)},
                                    .remote = at(remote)});
            expect(pair.active.send_cq(), 1, unless_held(WcStatus::remote_access_error));
        }
}

/// Whatever else came with it: those in front are placed, and nothing behind it.
void of_writes_posted_together_the_one_to_unmapped_memory_is_blamed(void** state) {
    constexpr std::uint64_t kBad = 6;
    SideOptions options;
    options.send_depth = 2 * kBad;
    Pair& pair = fixture_of(state).connect(both(options));
    const Buffer& local = pair.active.buffer(kSmall);
    const Buffer& gone = pair.passive.buffer(kSmall);
    const Buffer& remote = pair.passive.buffer(options.send_depth * kSmall);
    local.fill(1);
    gone.withdraw();
    std::vector<Post> posts;
    for (std::uint64_t id = 0; id < options.send_depth; ++id)
        posts.push_back({.wr_id = id,
                         .sges = {local.sge()},
                         .remote = id == kBad ? at(gone) : at(remote, id * kSmall)});
    must_post(pair.active, posts);
    for (std::uint64_t id = 0; id < options.send_depth; ++id)
        expect(pair.active.send_cq(), id,
               id < kBad    ? WcStatus::success
               : id == kBad ? unless_held(WcStatus::remote_access_error)
                            : unless_held(WcStatus::flushed));
    settle(pair.active);
    assert_true(holds_only(remote.data(), kBad * kSmall, 1));
    if (!subject().holds_memory)
        assert_true(holds_only(remote.data() + kBad * kSmall, remote.size() - kBad * kSmall, 0));
}

void result_into_unmapped_memory_is_a_protection_error(void** state) {
    for (const Opcode opcode : {Opcode::read, Opcode::atomic_fadd})
        for (const std::size_t length : {kSmall, kLarge}) {
            const bool atomic = opcode == Opcode::atomic_fadd;
            if (atomic && (length == kLarge || !limits().atomics)) continue;
            Pair& pair = fixture_of(state).connect();
            const Buffer& local = pair.active.buffer(length);
            const Buffer& remote = pair.passive.buffer(length);
            const Buffer& other = pair.passive.buffer(length);
            local.withdraw();
            must_post(pair.active, {{.wr_id = 1, .sges = {}, .remote = at(other)},
                                    {.wr_id = 2,
                                     .opcode = opcode,
                                     .sges = {local.sge(0, atomic ? 8 : length)},
                                     .remote = at(remote)},
                                    {.wr_id = 3, .sges = {}, .remote = at(other)}});
            expect(pair.active.send_cq(), 1);
            expect(pair.active.send_cq(), 2, unless_held(WcStatus::local_protection_error));
            expect(pair.active.send_cq(), 3, unless_held(WcStatus::flushed));
        }
}

/// Small enough to be copied, but not before the read in front of it is done, for which a receive
/// is missing at first; or large.
void sending_unmapped_memory_is_a_protection_error(void** state) {
    if (!subject().holds_messages) skip();
    for (const std::size_t length : {kSmall, kLarge}) {
        Pair& pair = fixture_of(state).connect();
        const Buffer& local = pair.active.buffer(length);
        const Buffer& other = pair.active.buffer(kSmall);
        const Buffer& remote = pair.passive.buffer(length);
        must_post(
            pair.active,
            {{.wr_id = 1, .opcode = Opcode::send, .sges = {other.sge()}},
             {.wr_id = 2, .opcode = Opcode::read, .sges = {other.sge()}, .remote = at(remote)},
             {.wr_id = 3,
              .sges = {local.sge()},
              .remote = at(remote),
              .flags = SendFlag::fence | SendFlag::signaled}});
        local.withdraw();
        must_post_receive(pair.passive, 9, {pair.passive.buffer(kSmall).sge()});
        expect(pair.active.send_cq(), 1);
        expect(pair.active.send_cq(), 2);
        expect(pair.active.send_cq(), 3, unless_held(WcStatus::local_protection_error));
    }
}

void receive_into_unmapped_memory_is_a_protection_error(void** state) {
    for (const std::size_t length : {kSmall, kLarge}) {
        Pair& pair = fixture_of(state).connect();
        const Buffer& local = pair.active.buffer(length);
        const Buffer& remote = pair.passive.buffer(length);
        must_post_receive(pair.passive, 1, {remote.sge()});
        remote.withdraw();
        must_post(pair.active, {.wr_id = 2, .opcode = Opcode::send, .sges = {local.sge()}});
        expect(pair.passive.receive_cq(), 1, unless_held(WcStatus::local_protection_error));
        expect(pair.active.send_cq(), 2, unless_held(WcStatus::remote_operation_error));
    }
}

void stale_key_does_not_reach_a_new_region_at_the_same_place(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect();
    const Buffer& local = pair.active.buffer(8);
    std::uint64_t memory = 0;
    MrAttr attr;
    attr.address = &memory;
    attr.length = sizeof memory;
    attr.access = full_access();
    auto region = pair.passive.pd().register_memory(attr);
    const std::uint32_t stale = (*region)->rkey();
    region->reset();
    const auto again = pair.passive.pd().register_memory(attr);
    assert_int_not_equal((*again)->rkey(), stale);
    local.fill(1);
    must_post(pair.active, {.wr_id = 1,
                            .sges = {local.sge()},
                            .remote = {stale, reinterpret_cast<std::uintptr_t>(&memory)}});
    expect_refused(pair.active, 1, WcStatus::remote_access_error);
    assert_int_equal(memory, 0);
}

void registration_checks_the_memory_and_the_rights(void** state) {
    Side& side = fixture_of(state).side();
    static const char constant[4096] = "read only";
    MrAttr attr;
    attr.address = const_cast<char*>(constant);
    attr.length = sizeof constant;
    attr.access = Access::local_write;
    assert_error(side.pd().register_memory(attr), Errc::access_denied);
    attr.address = nullptr;
    assert_error(side.pd().register_memory(attr), Errc::access_denied);
    attr.address = reinterpret_cast<void*>(std::uintptr_t{1} << 46);
    attr.length = 1 << 20;
    assert_error(side.pd().register_memory(attr), Errc::access_denied);
    const Buffer& inside = side.buffer(std::size_t{16} << 12);
    attr.address = inside.data();
    attr.length = inside.size();
    for (const int rights : {PROT_NONE, PROT_READ}) {
        assert_int_equal(mprotect(inside.data() + (5 << 12), 1 << 12, rights), 0);
        assert_error(side.pd().register_memory(attr), Errc::access_denied);
    }
    side.buffers.clear();
    if (!limits().on_demand_paging) {
        std::byte memory[16];
        attr.address = memory;
        attr.length = sizeof memory;
        attr.access = Access::local_write | Access::on_demand;
        assert_error(side.pd().register_memory(attr), Errc::not_supported);
    }
    assert_false(side.pd().in_use());
}

void pd_is_in_use_while_something_of_it_lives(void** state) {
    Side& side = fixture_of(state).side();
    assert_false(side.pd().in_use());
    side.buffer(64);
    assert_true(side.pd().in_use());
    side.buffers.clear();
    assert_false(side.pd().in_use());
    auto srq = side.pd().create_srq(4, 1);
    assert_true(side.pd().in_use());
    srq->reset();
    assert_false(side.pd().in_use());
}

void advice_for_a_range_beyond_the_region_is_invalid(void** state) {
    Side& side = fixture_of(state).side();
    Buffer& buffer = side.buffer(8192);
    for (const int advice : {0, 1, 2}) {
        const Status taken = buffer.mr().advise(0, 8192, advice, 0);
        if (!taken) assert_error(taken, Errc::not_supported);
        assert_error(buffer.mr().advise(1, 8192, advice, 0), Errc::invalid_argument);
    }
    assert_error(buffer.mr().advise(0, 1, 99, 0), Errc::invalid_argument);
}

// --- destruction

void nothing_is_received_into_memory_of_a_destroyed_queue_pair(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 12; ++round) {
        Pair& pair = fixture.connect(both(deep()));
        const std::size_t length = round % 2 == 0 ? 64 : 100'000;
        const Buffer& local = pair.active.buffer(length);
        const Buffer& remote = pair.passive.buffer(length);
        local.fill(0x55);
        for (std::uint64_t id = 0; id < 64; ++id)
            must_post_receive(pair.passive, id, {remote.sge()});
        start_storm(fixture, pair.active, {.opcode = Opcode::send, .sges = {local.sge()}});
        expect(pair.passive.receive_cq(), 0);
        pair.passive.qp.reset();
        remote.fill(0x11);
        fixture.join();
        assert_true(holds_only(remote.data(), length, 0x11));
        expect_nothing(pair.passive.receive_cq());
    }
}

void nothing_is_written_through_a_destroyed_queue_pair(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 12; ++round) {
        Pair& pair = fixture.connect(both(deep()));
        const std::size_t length = round % 2 == 0 ? 64 : 100'000;
        const Buffer& local = pair.active.buffer(length);
        const Buffer& remote = pair.passive.buffer(length);
        local.fill(0x55);
        start_storm(fixture, pair.active, {.sges = {local.sge()}, .remote = at(remote)});
        await_storm(fixture);
        pair.passive.qp.reset();
        remote.fill(0x11);  // still registered; but nobody is connected to it
        fixture.join();
        assert_true(holds_only(remote.data(), length, 0x11));
    }
}

void destroyed_queue_pair_leaves_its_own_memory_alone(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 12; ++round) {
        Pair& pair = fixture.connect(both(deep()));
        const Buffer& local = pair.active.buffer(100'000);
        const Buffer& remote = pair.passive.buffer(100'000);
        remote.fill(0x55);
        for (std::uint64_t id = 0; id < 64; ++id)
            must_post(
                pair.active,
                {.wr_id = id, .opcode = Opcode::read, .sges = {local.sge()}, .remote = at(remote)});
        expect(pair.active.send_cq(), 0);
        pair.active.qp.reset();
        local.fill(0x11);
        expect_event(pair.passive.cm(), CmEventType::disconnected);
        expect_nothing(pair.active.send_cq());
        assert_true(holds_only(local.data(), local.size(), 0x11));
    }
}

// --- observers

class Recorder final : public RemoteAccessObserver {
public:
    void remote_access(Opcode opcode, std::uint64_t bytes) noexcept override {
        ++calls_[static_cast<std::size_t>(opcode)];
        bytes_[static_cast<std::size_t>(opcode)] += bytes;
    }
    [[nodiscard]] int calls(Opcode opcode) const {
        return calls_[static_cast<std::size_t>(opcode)];
    }
    [[nodiscard]] std::uint64_t bytes(Opcode opcode) const {
        return bytes_[static_cast<std::size_t>(opcode)];
    }
    [[nodiscard]] int all_calls() const {
        int sum = 0;
        for (const auto& one : calls_) sum += one;
        return sum;
    }

private:
    static constexpr auto kOpcodes = static_cast<std::size_t>(Opcode::count_);
    std::atomic<int> calls_[kOpcodes]{};
    std::atomic<std::uint64_t> bytes_[kOpcodes]{};
};

struct ObserverFixture {
    Recorder recorder;  // outlives
    Recorder other;
    std::unique_ptr<Fixture> fixture = std::make_unique<Fixture>();
};
int setup_observer(void** state) {
    *state = new ObserverFixture;
    return 0;
}
int teardown_observer(void** state) {
    auto* observed = static_cast<ObserverFixture*>(*state);
    observed->fixture.reset();
    delete observed;
    return 0;
}
ObserverFixture& observed_of(void** state) {
    return *static_cast<ObserverFixture*>(*state);
}

void observer_of_a_region_is_told_of_every_access_to_it(void** state) {
    if (!limits().remote_access_events) skip();
    ObserverFixture& observed = observed_of(state);
    Pair& pair = observed.fixture->connect();
    const Buffer& local = pair.active.buffer(200'000);
    const Buffer& remote = pair.passive.buffer(200'000);
    const Buffer& unwatched = pair.passive.buffer(64);
    Recorder& recorder = observed.recorder;
    assert_true(remote.mr().set_observer(&recorder).has_value());
    const std::size_t lengths[] = {8, 200'000, 1000};
    for (const std::size_t length : lengths)
        for (const Opcode opcode : {Opcode::write, Opcode::read}) {
            must_post(pair.active, {.wr_id = 1,
                                    .opcode = opcode,
                                    .sges = {local.sge(0, length)},
                                    .remote = at(remote)});
            expect(pair.active.send_cq(), 1);
        }
    must_post(pair.active, {.wr_id = 2, .sges = {local.sge(0, 64)}, .remote = at(unwatched)});
    expect(pair.active.send_cq(), 2);
    assert_int_equal(recorder.bytes(Opcode::write), 201'008);
    assert_int_equal(recorder.bytes(Opcode::read), 201'008);
    assert_int_equal(recorder.calls(Opcode::write), 3);
    assert_int_equal(recorder.calls(Opcode::read), 3);
    if (limits().imm_bytes != 0) {
        must_post_receive(pair.passive, 3);
        must_post(pair.active, {.wr_id = 3,
                                .opcode = Opcode::write_imm,
                                .sges = {local.sge(0, 100)},
                                .remote = at(remote)});
        expect(pair.active.send_cq(), 3);
        assert_int_equal(recorder.bytes(Opcode::write) + recorder.bytes(Opcode::write_imm),
                         201'108);
    }
    if (limits().atomics) {
        must_post(pair.active, {.wr_id = 4,
                                .opcode = Opcode::atomic_fadd,
                                .sges = {local.sge(0, 8)},
                                .remote = at(remote)});
        expect(pair.active.send_cq(), 4);
        must_post(pair.active, {.wr_id = 5,
                                .opcode = Opcode::atomic_cas,
                                .sges = {local.sge(0, 8)},
                                .remote = at(remote)});
        expect(pair.active.send_cq(), 5);
        assert_int_equal(recorder.bytes(Opcode::atomic_fadd), 8);
        assert_int_equal(recorder.bytes(Opcode::atomic_cas), 8);
    }
}

void observer_of_a_queue_pair_is_told_of_all_that_arrives(void** state) {
    if (!limits().remote_access_events) skip();
    ObserverFixture& observed = observed_of(state);
    Pair& pair = observed.fixture->connect();
    const Buffer& local = pair.active.buffer(100);
    const Buffer& remote = pair.passive.buffer(100);
    const Buffer& other = pair.passive.buffer(100);
    assert_true(pair.passive.qp->set_observer(&observed.recorder).has_value());
    assert_true(pair.active.qp->set_observer(&observed.other).has_value());
    must_post_receive(pair.passive, 1, {remote.sge()});
    must_post(pair.active,
              {{.wr_id = 1, .sges = {local.sge(0, 10)}, .remote = at(remote)},
               {.wr_id = 2, .sges = {local.sge(0, 20)}, .remote = at(other)},
               {.wr_id = 3, .opcode = Opcode::read, .sges = {local.sge(0, 7)}, .remote = at(other)},
               {.wr_id = 4, .opcode = Opcode::send, .sges = {local.sge(0, 33)}}});
    for (std::uint64_t id = 1; id <= 4; ++id) expect(pair.active.send_cq(), id);
    assert_int_equal(observed.recorder.bytes(Opcode::write), 30);
    assert_int_equal(observed.recorder.bytes(Opcode::read), 7);
    assert_int_equal(observed.recorder.bytes(Opcode::send), 33);
    assert_int_equal(observed.other.all_calls(), 0);
}

void access_that_fails_is_not_observed(void** state) {
    if (!limits().remote_access_events) skip();
    ObserverFixture& observed = observed_of(state);
    Pair& pair = observed.fixture->connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8, Access::local_write | Access::remote_write);
    assert_true(remote.mr().set_observer(&observed.recorder).has_value());
    assert_true(pair.passive.qp->set_observer(&observed.other).has_value());
    must_post(pair.active,
              {.wr_id = 1, .opcode = Opcode::read, .sges = {local.sge()}, .remote = at(remote)});
    expect(pair.active.send_cq(), 1, WcStatus::remote_access_error);
    assert_int_equal(observed.recorder.all_calls(), 0);
    assert_int_equal(observed.other.all_calls(), 0);
}

void observer_sees_the_bytes_that_it_is_told_of(void** state) {
    if (!limits().remote_access_events) skip();
    struct Looking final : RemoteAccessObserver {
        void remote_access(Opcode, std::uint64_t) noexcept override {
            last_byte = std::to_integer<int>(buffer->data()[buffer->size() - 1]);
        }
        const Buffer* buffer = nullptr;
        std::atomic<int> last_byte{-1};
    };
    static Looking looking;
    Pair& pair = observed_of(state).fixture->connect();
    const Buffer& local = pair.active.buffer(150'000);
    const Buffer& remote = pair.passive.buffer(150'000);
    looking.buffer = &remote;
    assert_true(remote.mr().set_observer(&looking).has_value());
    for (int round = 1; round <= 20; ++round) {
        local.fill(round);
        must_post(pair.active, {.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)});
        expect(pair.active.send_cq(), 1);
        assert_int_equal(looking.last_byte, round);
    }
    assert_true(remote.mr().set_observer(nullptr).has_value());
}

// It takes its time, so that a call is under way when it is taken away.
class SlowObserver final : public RemoteAccessObserver {
public:
    void remote_access(Opcode, std::uint64_t) noexcept override {
        inside = true;
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
        while (std::chrono::steady_clock::now() < end) {
        }
        ++calls;
        inside = false;
    }
    std::atomic<bool> inside{false};
    std::atomic<int> calls{0};
};

void observer_is_not_called_after_it_was_taken_away(void** state) {
    if (!limits().remote_access_events) skip();
    static SlowObserver observer;
    Fixture& fixture = *observed_of(state).fixture;
    Pair& pair = fixture.connect(both(deep()));
    const Buffer& local = pair.active.buffer(64);
    const Buffer& remote = pair.passive.buffer(64);
    start_storm(fixture, pair.active, {.sges = {local.sge()}, .remote = at(remote)});
    for (int round = 0; round < 50; ++round) {
        const bool of_region = round % 2 == 0;
        const auto set = [&](RemoteAccessObserver* one) {
            return of_region ? remote.mr().set_observer(one) : pair.passive.qp->set_observer(one);
        };
        observer.calls = 0;
        assert_true(set(&observer).has_value());
        assert_true(eventually([&] { return observer.calls > 0; }));
        assert_true(set(nullptr).has_value());
        assert_false(observer.inside);
        const int calls = observer.calls;
        const int done = fixture.done;
        assert_true(eventually([&] { return fixture.done > done + 10; }));
        assert_int_equal(observer.calls, calls);
    }
    fixture.stop = true;
    fixture.join();
}

void observers_that_do_not_work_are_not_supported(void** state) {
    if (limits().remote_access_events) skip();
    ObserverFixture& observed = observed_of(state);
    Pair& pair = observed.fixture->connect();
    assert_error(pair.active.buffer(8).mr().set_observer(&observed.recorder), Errc::not_supported);
    assert_error(pair.active.qp->set_observer(&observed.recorder), Errc::not_supported);
}

#define OBSERVER_TEST(function) \
    cmocka_unit_test_setup_teardown(function, setup_observer, teardown_observer)

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(no_byte_is_written_after_deregistration),
    CONTRACT_TEST(no_byte_is_read_into_memory_after_its_deregistration),
    CONTRACT_TEST(bytes_of_deregistered_memory_are_not_sent),
    CONTRACT_TEST(memory_can_be_unmapped_after_deregistration),
    CONTRACT_TEST(access_to_unmapped_target_memory_is_an_access_error),
    CONTRACT_TEST(of_writes_posted_together_the_one_to_unmapped_memory_is_blamed),
    CONTRACT_TEST(result_into_unmapped_memory_is_a_protection_error),
    CONTRACT_TEST(sending_unmapped_memory_is_a_protection_error),
    CONTRACT_TEST(receive_into_unmapped_memory_is_a_protection_error),
    CONTRACT_TEST(stale_key_does_not_reach_a_new_region_at_the_same_place),
    CONTRACT_TEST(registration_checks_the_memory_and_the_rights),
    CONTRACT_TEST(pd_is_in_use_while_something_of_it_lives),
    CONTRACT_TEST(advice_for_a_range_beyond_the_region_is_invalid),
    CONTRACT_TEST(nothing_is_received_into_memory_of_a_destroyed_queue_pair),
    CONTRACT_TEST(nothing_is_written_through_a_destroyed_queue_pair),
    CONTRACT_TEST(destroyed_queue_pair_leaves_its_own_memory_alone),
    OBSERVER_TEST(observer_of_a_region_is_told_of_every_access_to_it),
    OBSERVER_TEST(observer_of_a_queue_pair_is_told_of_all_that_arrives),
    OBSERVER_TEST(access_that_fails_is_not_observed),
    OBSERVER_TEST(observer_sees_the_bytes_that_it_is_told_of),
    OBSERVER_TEST(observer_is_not_called_after_it_was_taken_away),
    OBSERVER_TEST(observers_that_do_not_work_are_not_supported),
};

}  // namespace

std::span<const CMUnitTest> memory_tests() {
    return kTests;
}

}  // namespace compat::contract
