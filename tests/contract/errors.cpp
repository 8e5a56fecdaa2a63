// SPDX-License-Identifier: BSD-3-Clause
// Errors: the request that failed is the one that says so, with the status an RDMA NIC gives;
// those before it succeed, those behind it are flushed.
#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

constexpr std::uint64_t kBatch = 50;
constexpr std::size_t kSlot = 8;

/// A connection, and a batch of writes of which one is to fail.
class Scene {
public:
    Scene(Fixture& fixture, std::uint64_t failing, AccessFlags of_passive = kRemoteAccess)
        : pair(connect(fixture, of_passive)), failing_(failing) {
        source = &pair.active.buffer(kBatch * kSlot);
        target = &pair.passive.buffer(kBatch * kSlot);
        source->fill_pattern(1);
        target->fill(0xee);
        for (std::uint64_t id = 0; id < 3; ++id) {
            must_post_receive(pair.active, id);
            must_post_receive(pair.passive, id);
        }
        for (std::uint64_t id = 0; id < kBatch; ++id)
            batch_.push_back({.wr_id = id,
                              .sges = {source->sge(id * kSlot, kSlot)},
                              .remote = at(*target, id * kSlot),
                              .flags = id % 3 == 0 ? kUnsignaled : SendFlags(SendFlag::signaled)});
    }

    /// The failing request in place of a write; unsignaled, because errors complete nevertheless.
    void post_with(Post what) {
        what.wr_id = failing_;
        what.flags = kUnsignaled;
        batch_[failing_] = std::move(what);
        must_post(pair.active, batch_);
    }

    void expect_outcome(WcStatus status) {
        if (!subject().acknowledges) return expect_outcome_of_sent(status);
        if (!subject().exact_errors) return expect_outcome_like(status);
        CompletionQueue& cq = pair.active.send_cq();
        for (std::uint64_t id = 0; id < failing_; ++id)
            if (batch_[id].flags.has(SendFlag::signaled)) expect(cq, id);
        const WorkCompletion wc = expect(cq, failing_, status);
        assert_int_equal(wc.qp_num, pair.active.qp->number());
        assert_false(wc.receive_side);
        for (std::uint64_t id = failing_ + 1; id < kBatch; ++id) expect(cq, id, WcStatus::flushed);
        expect_both_ended();
        expect_nothing(cq);
        expect_placed_before_the_failure();
    }

    /// Receives are flushed and the ends are told, on both sides.
    void expect_both_ended() {
        for (const Side* side : {&pair.active, &pair.passive}) {
            for (std::uint64_t id = 0; id < 3; ++id)
                expect_alike(side->receive_cq(), id, WcStatus::flushed);
            expect_nothing(side->receive_cq());
            expect_event(side->cm(), CmEventType::disconnected);
            expect_no_event(side->cm());
        }
    }

    /// Where requests complete as they are sent: in order, each signaled one once, and nothing
    /// succeeds behind the first failure, if there is one before the connection has ended.
    bool expect_sent_until_the_end() {
        expect_both_ended();
        bool failed = false;
        std::uint64_t next = 0;
        const auto expect_silent_until = [&](std::uint64_t end) {
            for (; next < end; ++next) assert_false(batch_[next].flags.has(SendFlag::signaled));
        };
        for (WorkCompletion wc; pair.active.send_cq().poll({&wc, 1}).value_or(0) == 1; ++next) {
            expect_silent_until(wc.wr_id);
            if (failed) assert_int_equal(wc.status, WcStatus::flushed);
            failed |= wc.status != WcStatus::success;
            if (next == failing_ && batch_[next].opcode == Opcode::read) assert_true(failed);
        }
        expect_silent_until(kBatch);
        return failed;
    }

    Pair& pair;
    const Buffer* source;
    const Buffer* target;

private:
    void expect_outcome_of_sent(WcStatus status) {
        const bool failed = expect_sent_until_the_end();
        if (status == WcStatus::local_protection_error) return assert_true(failed);
        expect_placed_before_the_failure();
    }

    void expect_placed_before_the_failure() const {
        assert_true(holds_pattern(target->data(), failing_ * kSlot, 0, 1));
        assert_true(
            holds_only(target->data() + failing_ * kSlot, target->size() - failing_ * kSlot, 0xee));
    }

    /// In order, each once, and nothing succeeds behind the first failure. What fails remotely is
    /// that one; what fails here may take those with it that the peer has not acknowledged yet.
    void expect_outcome_like(WcStatus status) {
        const bool remote = status != WcStatus::local_protection_error;
        CompletionQueue& cq = pair.active.send_cq();
        bool failed = false;
        std::uint64_t next = 0;
        while (next < kBatch) {
            const auto wc = next_completion(cq);
            assert_true(wc.has_value());
            for (; next < wc->wr_id; ++next)
                assert_true(!failed && !batch_[next].flags.has(SendFlag::signaled));
            assert_int_equal(wc->wr_id, next);
            if (failed) assert_int_equal(wc->status, WcStatus::flushed);
            if (!failed && wc->status != WcStatus::success) {
                failed = true;
                assert_true(remote ? next == failing_ : next <= failing_);
                if (remote) assert_int_not_equal(wc->status, WcStatus::flushed);
            }
            ++next;
        }
        assert_true(failed);
        expect_both_ended();
        expect_nothing(cq);
        if (remote) expect_placed_before_the_failure();
    }

    static Pair& connect(Fixture& fixture, AccessFlags of_passive) {
        SideOptions options;
        options.send_depth = kBatch;
        PairOptions pair = both(options);
        pair.passive.access = of_passive;
        return fixture.connect(pair);
    }

    std::uint64_t failing_;
    std::vector<Post> batch_;
};

// --- remote access

std::vector<Opcode> remote_opcodes() {
    std::vector<Opcode> opcodes{Opcode::write, Opcode::read};
    if (limits().imm_bytes != 0) opcodes.push_back(Opcode::write_imm);
    if (limits().atomics) opcodes.insert(opcodes.end(), {Opcode::atomic_fadd, Opcode::atomic_cas});
    if (limits().atomic_write) opcodes.push_back(Opcode::atomic_write);
    if (limits().flush) opcodes.push_back(Opcode::flush);
    return opcodes;
}

Post access(Scene& scene, Opcode opcode, Remote remote) {
    Post what{.opcode = opcode, .remote = remote};
    if (opcode != Opcode::flush) what.sges = {scene.pair.active.buffer(kSlot).sge()};
    what.flush_length = kSlot;
    return what;
}

/// Runs one batch a remote opcode, with what `where` says as the address of the bad access.
void every_remote_access_fails(void** state, const std::function<Remote(Scene&)>& where) {
    for (const Opcode opcode : remote_opcodes()) {
        Scene scene(fixture_of(state), 25);
        scene.post_with(access(scene, opcode, where(scene)));
        scene.expect_outcome(WcStatus::remote_access_error);
    }
}

void access_with_an_unknown_key_fails(void** state) {
    every_remote_access_fails(state, [](Scene& scene) {
        return Remote{scene.target->rkey() ^ 0x5a5a5a5a, scene.target->address()};
    });
}

void access_beyond_the_end_fails(void** state) {
    every_remote_access_fails(state,
                              [](Scene& scene) { return at(*scene.target, scene.target->size()); });
}

void access_before_the_beginning_fails(void** state) {
    every_remote_access_fails(state, [](Scene& scene) {
        return Remote{scene.target->rkey(), scene.target->address() - kSlot};
    });
}

void access_that_wraps_around_fails(void** state) {
    every_remote_access_fails(state, [](Scene& scene) {
        return Remote{scene.target->rkey(), UINT64_MAX - kSlot + 1};
    });
}

void access_without_the_right_fails(void** state) {
    if (!subject().keeps_rights) skip();
    every_remote_access_fails(state, [](Scene& scene) {
        return at(scene.pair.passive.buffer(kSlot, Access::local_write));
    });
}

/// The right is the region's, but not the QP's; the batch around it needs to write.
void access_without_the_right_of_the_qp_fails(void** state) {
    if (!subject().keeps_rights) skip();
    for (const Opcode opcode : remote_opcodes()) {
        const bool reads = opcode == Opcode::read;
        const bool atomic = opcode == Opcode::atomic_cas || opcode == Opcode::atomic_fadd;
        if (!reads && !atomic) continue;
        AccessFlags rights = Access::remote_write;
        rights |= reads ? Access::remote_atomic : Access::remote_read;
        Scene scene(fixture_of(state), 25, rights);
        scene.post_with(access(scene, opcode, at(*scene.target)));
        scene.expect_outcome(WcStatus::remote_access_error);
    }
}

/// All but what the QP forbids works, and so does what moves no bytes.
void write_without_the_right_of_the_qp_fails(void** state) {
    if (!subject().keeps_rights) skip();
    PairOptions options;
    options.passive.access = Access::remote_read;
    Pair& pair = fixture_of(state).connect(options);
    const Buffer& source = pair.active.buffer(kSlot);
    const Buffer& target = pair.passive.buffer(kSlot);
    target.fill(0xee);
    if (subject().exact_errors) {
        must_post(pair.active, {.wr_id = 1, .sges = {}, .remote = at(target)});
        expect(pair.active.send_cq(), 1);
    }
    must_post(pair.active,
              {.wr_id = 2, .opcode = Opcode::read, .sges = {source.sge()}, .remote = at(target)});
    must_post(pair.active, {.wr_id = 3, .sges = {source.sge()}, .remote = at(target)});
    expect(pair.active.send_cq(), 2);
    expect_alike(pair.active.send_cq(), 3, WcStatus::remote_access_error);
    assert_true(holds_only(target.data(), kSlot, 0xee));
}

/// Hardware cannot tell it from other regions, which can be read then, too.
void source_can_be_read_without_the_right_of_the_qp(void** state) {
    PairOptions options;
    options.passive.access = Access::read_source;
    Pair& pair = fixture_of(state).connect(options);
    const Buffer& sink = pair.active.buffer(kSlot);
    const Buffer& source = pair.passive.buffer(kSlot, Access::remote_read | Access::read_source);
    const Buffer& other = pair.passive.buffer(kSlot, Access::remote_read);
    source.fill(0x5e);
    must_post(pair.active,
              {.wr_id = 1, .opcode = Opcode::read, .sges = {sink.sge()}, .remote = at(source)});
    expect(pair.active.send_cq(), 1);
    assert_true(holds_only(sink.data(), kSlot, 0x5e));
    if (subject().device->native_context() != nullptr) return;
    must_post(pair.active,
              {.wr_id = 2, .opcode = Opcode::read, .sges = {sink.sge()}, .remote = at(other)});
    expect_alike(pair.active.send_cq(), 2, WcStatus::remote_access_error);
}

void access_with_a_key_of_another_pd_fails(void** state) {
    Side& other = fixture_of(state).side();
    const Buffer& foreign = other.buffer(kSlot);
    foreign.fill(0x77);
    every_remote_access_fails(state, [&](Scene&) { return at(foreign); });
    assert_true(holds_only(foreign.data(), kSlot, 0x77));
}

void access_with_the_key_of_a_deregistered_region_fails(void** state) {
    every_remote_access_fails(state, [](Scene& scene) {
        Buffer& gone = scene.pair.passive.buffer(kSlot);
        const Remote remote = at(gone);
        gone.deregister();
        return remote;
    });
}

void access_that_overruns_the_end_places_nothing_beyond_it(void** state) {
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        Scene scene(fixture_of(state), 25);
        const Buffer& local = scene.pair.active.buffer(10'000);
        const Buffer& short_one = scene.pair.passive.buffer(9'999);
        scene.post_with({.opcode = opcode, .sges = {local.sge()}, .remote = at(short_one)});
        scene.expect_outcome(WcStatus::remote_access_error);
    }
}

void failing_request_may_be_the_first_or_the_last(void** state) {
    for (const std::uint64_t failing : {std::uint64_t{0}, kBatch - 1}) {
        for (const Opcode opcode : {Opcode::write, Opcode::read}) {
            Scene scene(fixture_of(state), failing);
            scene.post_with(access(scene, opcode, {scene.target->rkey() ^ 0x5a5a5a5a, 8}));
            scene.expect_outcome(WcStatus::remote_access_error);
        }
    }
}

void large_write_that_fails_is_the_one_that_says_so(void** state) {
    Scene scene(fixture_of(state), 10);
    const Buffer& large = scene.pair.active.buffer(1 << 20);
    scene.post_with({.sges = {large.sge()}, .remote = at(*scene.target)});
    if (!subject().acknowledges) {
        scene.expect_sent_until_the_end();
        return;
    }
    CompletionQueue& cq = scene.pair.active.send_cq();
    for (std::uint64_t id = 0; id < 10; ++id)
        if (id % 3 != 0) expect(cq, id);
    expect(cq, 10, WcStatus::remote_access_error);
    for (std::uint64_t id = 11; id < kBatch; ++id) expect(cq, id, WcStatus::flushed);
    scene.expect_both_ended();
}

void only_the_first_of_two_failures_is_told(void** state) {
    if (!subject().acknowledges) skip();
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect();
    const Buffer& local = pair.active.buffer(8);
    const Buffer& remote = pair.passive.buffer(8);
    must_post(pair.active,
              {{.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)},
               {.wr_id = 2, .sges = {local.sge()}, .remote = {1, 1}},
               {.wr_id = 3, .opcode = Opcode::read, .sges = {local.sge()}, .remote = {1, 1}},
               {.wr_id = 4, .sges = {local.sge()}, .remote = {1, 1}}});
    expect(pair.active.send_cq(), 1);
    expect(pair.active.send_cq(), 2, WcStatus::remote_access_error);
    expect(pair.active.send_cq(), 3, WcStatus::flushed);
    expect(pair.active.send_cq(), 4, WcStatus::flushed);
}

void failure_of_one_connection_leaves_others_alone(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& good = fixture.connect();
    PairOptions shared;
    shared.active_resources = good.active.resources;
    shared.passive_resources = good.passive.resources;
    Pair& bad = fixture.connect(shared);
    const Buffer& local = bad.active.buffer(8);
    must_post(bad.active, {.wr_id = 1, .sges = {local.sge()}, .remote = {1, 1}});
    expect_refused(bad.active, 1, WcStatus::remote_access_error);
    expect_working(good);
}

// --- local memory

void every_local_access_fails(void** state, const std::function<Sge(Scene&)>& bad) {
    for (const Opcode opcode : {Opcode::write, Opcode::send, Opcode::read}) {
        Scene scene(fixture_of(state), 25);
        const Remote remote = at(scene.pair.passive.buffer(kSlot));
        Post what{.opcode = opcode, .remote = remote};
        what.sges = {bad(scene)};
        scene.post_with(what);
        scene.expect_outcome(WcStatus::local_protection_error);
    }
}

void local_memory_with_an_unknown_key_fails(void** state) {
    every_local_access_fails(state, [](Scene& scene) {
        Sge sge = scene.source->sge(0, kSlot);
        sge.lkey ^= 0x5a5a5a5a;
        return sge;
    });
}

void local_memory_beyond_the_region_fails(void** state) {
    every_local_access_fails(state, [](Scene& scene) {
        return scene.source->sge(scene.source->size() - kSlot + 1, kSlot);
    });
}

void local_memory_of_another_pd_fails(void** state) {
    Side& other = fixture_of(state).side();
    const Buffer& foreign = other.buffer(kSlot);
    every_local_access_fails(state, [&](Scene&) { return foreign.sge(); });
}

void local_memory_that_was_deregistered_fails(void** state) {
    every_local_access_fails(state, [](Scene& scene) {
        Buffer& gone = scene.pair.active.buffer(kSlot);
        const Sge sge = gone.sge();
        gone.deregister();
        return sge;
    });
}

void read_into_memory_without_local_write_fails(void** state) {
    Scene scene(fixture_of(state), 25);
    const Buffer& constant = scene.pair.active.buffer(kSlot, Access::remote_read);
    const Buffer& remote = scene.pair.passive.buffer(kSlot);
    scene.post_with({.opcode = Opcode::read, .sges = {constant.sge()}, .remote = at(remote)});
    scene.expect_outcome(WcStatus::local_protection_error);
    assert_true(holds_only(constant.data(), kSlot, 0));
}

void second_bad_element_fails_the_request_before_a_byte_is_sent(void** state) {
    Scene scene(fixture_of(state), 25);
    const Buffer& remote = scene.pair.passive.buffer(2 * kSlot);
    Sge bad = scene.source->sge(0, kSlot);
    bad.lkey ^= 0x5a5a5a5a;
    scene.post_with({.sges = {scene.source->sge(0, kSlot), bad}, .remote = at(remote)});
    scene.expect_outcome(WcStatus::local_protection_error);
    if (subject().exact_errors) assert_true(holds_only(remote.data(), remote.size(), 0));
}

// --- messages and receives

void message_longer_than_the_receive_fails_on_both_sides(void** state) {
    for (const std::size_t length : {std::size_t{101}, std::size_t{200'000}}) {
        SideOptions options;
        options.send_depth = kBatch;
        Pair& pair = fixture_of(state).connect(both(options));
        const Buffer& local = pair.active.buffer(length);
        const Buffer& remote = pair.passive.buffer(4096);
        remote.fill(0xee);
        local.fill(1);
        must_post_receive(pair.passive, 0, {remote.sge(0, 100)});
        must_post_receive(pair.passive, 1, {remote.sge(1000, 100)});
        must_post_receive(pair.passive, 2, {remote.sge(2000, 100)});
        must_post(
            pair.active,
            {{.wr_id = 0, .opcode = Opcode::send, .sges = {local.sge(0, 100)}},
             {.wr_id = 1, .opcode = Opcode::send, .sges = {local.sge()}, .flags = kUnsignaled},
             {.wr_id = 2, .opcode = Opcode::send, .sges = {local.sge(0, 100)}}});
        expect(pair.active.send_cq(), 0);
        if (subject().acknowledges) {
            expect_alike(pair.active.send_cq(), 1, WcStatus::remote_invalid_request);
            expect(pair.active.send_cq(), 2, WcStatus::flushed);
        }
        expect(pair.passive.receive_cq(), 0);
        const WorkCompletion wc =
            expect_alike(pair.passive.receive_cq(), 1, WcStatus::local_length_error);
        assert_true(wc.receive_side);
        assert_int_equal(wc.qp_num, pair.passive.qp->number());
        expect(pair.passive.receive_cq(), 2, WcStatus::flushed);
        assert_true(holds_only(remote.data() + 1100, remote.size() - 1100, 0xee));
    }
}

void receive_into_bad_memory_fails_on_both_sides(void** state) {
    for (const bool deregistered : {true, false}) {
        Pair& pair = fixture_of(state).connect();
        const Buffer& source = pair.active.buffer(64);
        Buffer& target =
            deregistered ? pair.passive.buffer(64) : pair.passive.buffer(64, Access::remote_read);
        must_post_receive(pair.passive, 1, {target.sge()});
        if (deregistered) target.deregister();
        source.fill(1);
        must_post(pair.active, {.wr_id = 1, .opcode = Opcode::send, .sges = {source.sge()}});
        expect_alike(pair.passive.receive_cq(), 1, WcStatus::local_protection_error);
        if (subject().acknowledges) expect_failure(pair.active.send_cq(), 1);
        expect_event(pair.active.cm(), CmEventType::disconnected);
        expect_event(pair.passive.cm(), CmEventType::disconnected);
        assert_true(holds_only(target.data(), 64, 0));
    }
}

// --- the peer

void what_is_outstanding_when_the_peer_goes_completes_once(void** state) {
    SideOptions options;
    options.send_depth = 64;
    Pair& pair = fixture_of(state).connect(both(options));
    const Buffer& local = pair.active.buffer(100'000);
    const Buffer& remote = pair.passive.buffer(100'000);
    for (std::uint64_t id = 0; id < 8; ++id) must_post_receive(pair.active, id);
    for (std::uint64_t id = 0; id < 64; ++id) {
        const Opcode opcode = id % 2 == 0 ? Opcode::write : Opcode::read;
        must_post(pair.active,
                  {.wr_id = id, .opcode = opcode, .sges = {local.sge()}, .remote = at(remote)});
    }
    pair.passive.qp->fail();
    bool failed = false;
    for (std::uint64_t id = 0; id < 64; ++id) {
        const auto wc = next_completion(pair.active.send_cq());
        assert_true(wc.has_value());
        assert_int_equal(wc->wr_id, id);
        if (failed) assert_int_equal(wc->status, WcStatus::flushed);
        failed |= wc->status != WcStatus::success;
    }
    for (std::uint64_t id = 0; id < 8; ++id)
        expect(pair.active.receive_cq(), id, WcStatus::flushed);
    expect_nothing(pair.active.send_cq());
    expect_nothing(pair.active.receive_cq());
    expect_event(pair.active.cm(), CmEventType::disconnected);
    expect_event(pair.passive.cm(), CmEventType::disconnected);
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(access_with_an_unknown_key_fails),
    CONTRACT_TEST(access_beyond_the_end_fails),
    CONTRACT_TEST(access_before_the_beginning_fails),
    CONTRACT_TEST(access_that_wraps_around_fails),
    CONTRACT_TEST(access_without_the_right_fails),
    CONTRACT_TEST(access_without_the_right_of_the_qp_fails),
    CONTRACT_TEST(write_without_the_right_of_the_qp_fails),
    CONTRACT_TEST(source_can_be_read_without_the_right_of_the_qp),
    CONTRACT_TEST(access_with_a_key_of_another_pd_fails),
    CONTRACT_TEST(access_with_the_key_of_a_deregistered_region_fails),
    CONTRACT_TEST(access_that_overruns_the_end_places_nothing_beyond_it),
    CONTRACT_TEST(failing_request_may_be_the_first_or_the_last),
    CONTRACT_TEST(large_write_that_fails_is_the_one_that_says_so),
    CONTRACT_TEST(only_the_first_of_two_failures_is_told),
    CONTRACT_TEST(failure_of_one_connection_leaves_others_alone),
    CONTRACT_TEST(local_memory_with_an_unknown_key_fails),
    CONTRACT_TEST(local_memory_beyond_the_region_fails),
    CONTRACT_TEST(local_memory_of_another_pd_fails),
    CONTRACT_TEST(local_memory_that_was_deregistered_fails),
    CONTRACT_TEST(read_into_memory_without_local_write_fails),
    CONTRACT_TEST(second_bad_element_fails_the_request_before_a_byte_is_sent),
    CONTRACT_TEST(message_longer_than_the_receive_fails_on_both_sides),
    CONTRACT_TEST(receive_into_bad_memory_fails_on_both_sides),
    CONTRACT_TEST(what_is_outstanding_when_the_peer_goes_completes_once),
};

}  // namespace

std::span<const CMUnitTest> error_tests() {
    return kTests;
}

}  // namespace compat::contract
