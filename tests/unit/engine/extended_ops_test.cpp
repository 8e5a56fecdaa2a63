// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/extended_ops.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "tests/support/cmocka.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/new_failure.hpp"

namespace compat::core {
namespace {

using test::Call;

constexpr RemoteTarget kTarget{.address = 0x7f00'0000'1000, .rkey = 0x2a};
constexpr std::uint64_t kWrId = 0x1234;
constexpr std::array kFlagSets{SendFlags(), SendFlags(SendFlag::signaled),
                               SendFlag::signaled | SendFlag::solicited};

struct Fixture {
    test::FakeDevice device;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<CmId> id;
    std::unique_ptr<QueuePair> qp;
    std::unique_ptr<ExtendedOps> ops;
};

int setup(void** state) {
    auto* fixture = new Fixture;
    *state = fixture;
    fixture->pd = std::move(*fixture->device.allocate_pd());
    fixture->cq = std::move(*fixture->device.create_cq(8, nullptr));
    fixture->id = std::move(*fixture->device.create_cm_id(nullptr));
    QpAttr attr;
    attr.pd = fixture->pd.get();
    attr.send_cq = attr.receive_cq = fixture->cq.get();
    fixture->qp = std::move(*fixture->id->create_qp(attr));
    return 0;
}

int teardown(void** state) {
    delete static_cast<Fixture*>(*state);
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

void make(Fixture& fixture, bool native_flush, bool native_atomic_write) {
    fixture.device.current_limits.flush = native_flush;
    fixture.device.current_limits.atomic_write = native_atomic_write;
    auto ops = ExtendedOps::create(*fixture.pd, fixture.device.limits());
    assert_true(ops.has_value());
    fixture.ops = std::move(*ops);
}

const test::PostedSend& posted(Fixture& fixture) {
    return fixture.device.qps().back()->posted.back();
}

void native_flush_needs_no_memory(void** state) {
    Fixture& fixture = of(state);
    make(fixture, true, false);
    assert_int_equal(fixture.device.calls(Call::register_memory), 0);
}

void emulated_flush_reads_into_a_page_of_its_own(void** state) {
    Fixture& fixture = of(state);
    for (const bool iwarp : {false, true}) {
        fixture.device.current_limits.read_sink_needs_remote_write = iwarp;
        make(fixture, false, true);
        assert_int_equal(fixture.device.mrs().size(), 1);
        const MrAttr& attr = fixture.device.mrs().back()->attr;
        AccessFlags expected = Access::local_write;
        if (iwarp) expected |= Access::remote_write;
        assert_int_equal(attr.length, 8);
        assert_int_equal(attr.access.bits(), expected.bits());
        assert_int_equal(reinterpret_cast<std::uintptr_t>(attr.address) %
                             static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)),
                         0);
        std::memset(attr.address, 0x5a, 8);  // it is there, and may be written
        fixture.ops.reset();
        assert_int_equal(fixture.device.mrs().size(), 0);
    }
}

void refused_page_is_passed_on(void** state) {
    Fixture& fixture = of(state);
    fixture.device.current_limits.flush = false;
    fixture.device.fail(Call::register_memory, 1, {Errc::no_memory, ENOMEM});
    const auto ops = ExtendedOps::create(*fixture.pd, fixture.device.limits());
    assert_false(ops.has_value());
    assert_int_equal(ops.error().code, Errc::no_memory);
    assert_int_equal(ops.error().device_errno, ENOMEM);
    assert_int_equal(fixture.device.mrs().size(), 0);
}

/// Whether create() throws, with all further memory refused by the kernel or by operator new.
bool create_throws(Fixture& fixture) {
    try {
        const auto ops = ExtendedOps::create(*fixture.pd, fixture.device.limits());
        return false;
    } catch (const std::bad_alloc&) {
        return true;
    }
}

void lack_of_memory_is_thrown(void** state) {
    Fixture& fixture = of(state);
    fixture.device.current_limits.flush = false;
    test::fail_new(1);
    assert_true(create_throws(fixture));
    test::fail_new(0);

    rlimit old{};
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    rlimit none = old;
    none.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    const bool thrown = create_throws(fixture);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_true(thrown);
    assert_int_equal(fixture.device.mrs().size(), 0);
}

void native_flush_is_posted_as_given(void** state) {
    Fixture& fixture = of(state);
    make(fixture, true, true);
    for (const SendFlags flags : kFlagSets) {
        for (const FlushType type : {FlushType::visibility, FlushType::persistent}) {
            assert_true(
                fixture.ops->post_flush(*fixture.qp, kWrId, flags, kTarget, 1ULL << 33, type)
                    .has_value());
            const WorkRequest& request = posted(fixture).request;
            assert_int_equal(request.opcode, Opcode::flush);
            assert_int_equal(request.flush_type, type);
            assert_int_equal(request.flush_length, 1ULL << 33);
            assert_int_equal(request.wr_id, kWrId);
            assert_int_equal(request.flags.bits(), flags.bits());
            assert_int_equal(request.remote_address, kTarget.address);
            assert_int_equal(request.rkey, kTarget.rkey);
            assert_int_equal(posted(fixture).sges.size(), 0);
        }
    }
}

void emulated_flush_is_a_read_of_8_bytes(void** state) {
    Fixture& fixture = of(state);
    make(fixture, false, true);
    const test::FakeMr& sink = *fixture.device.mrs().back();
    for (const SendFlags flags : kFlagSets) {
        for (const std::uint64_t length : {0ULL, 1ULL, 1ULL << 33}) {
            assert_true(
                fixture.ops
                    ->post_flush(*fixture.qp, kWrId, flags, kTarget, length, FlushType::persistent)
                    .has_value());
            const WorkRequest& request = posted(fixture).request;
            assert_int_equal(request.opcode, Opcode::read);
            assert_int_equal(request.wr_id, kWrId);
            assert_int_equal(request.flags.bits(), flags.bits());
            assert_int_equal(request.remote_address, kTarget.address);
            assert_int_equal(request.rkey, kTarget.rkey);
            assert_int_equal(posted(fixture).sges.size(), 1);
            assert_ptr_equal(posted(fixture).sges[0].address, sink.attr.address);
            assert_int_equal(posted(fixture).sges[0].length, 8);
            assert_int_equal(posted(fixture).sges[0].lkey, sink.lkey());
        }
    }
}

void atomic_write_is_8_bytes_inline(void** state) {
    Fixture& fixture = of(state);
    const char source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (const bool native : {true, false}) {
        make(fixture, true, native);
        for (const SendFlags flags : kFlagSets) {
            assert_true(fixture.ops->post_atomic_write(*fixture.qp, kWrId, flags, kTarget, source)
                            .has_value());
            SendFlags expected = flags | SendFlag::inlined;
            if (!native) expected |= SendFlag::fence;
            const WorkRequest& request = posted(fixture).request;
            assert_int_equal(request.opcode, native ? Opcode::atomic_write : Opcode::write);
            assert_int_equal(request.wr_id, kWrId);
            assert_int_equal(request.flags.bits(), expected.bits());
            assert_int_equal(request.remote_address, kTarget.address);
            assert_int_equal(request.rkey, kTarget.rkey);
            assert_int_equal(posted(fixture).inline_bytes.size(), 8);
            assert_memory_equal(posted(fixture).inline_bytes.data(), source, 8);
        }
    }
}

void atomic_write_to_an_unaligned_address_is_a_plain_write(void** state) {
    Fixture& fixture = of(state);
    const char source[8] = {};
    make(fixture, true, true);
    for (unsigned off = 1; off < 8; ++off) {
        const RemoteTarget target{.address = kTarget.address + off, .rkey = kTarget.rkey};
        assert_true(
            fixture.ops->post_atomic_write(*fixture.qp, kWrId, {}, target, source).has_value());
        assert_int_equal(posted(fixture).request.opcode, Opcode::write);
        assert_int_equal(posted(fixture).request.remote_address, target.address);
    }
}

void refused_posts_are_passed_on(void** state) {
    Fixture& fixture = of(state);
    const char source[8] = {};
    for (const bool native : {true, false}) {
        make(fixture, native, native);
        fixture.device.fail(Call::post_send, 1, {Errc::would_block, 0});
        const Status flushed =
            fixture.ops->post_flush(*fixture.qp, kWrId, {}, kTarget, 8, FlushType::visibility);
        assert_false(flushed.has_value());
        assert_int_equal(flushed.error().code, Errc::would_block);
        fixture.device.fail(Call::post_send, 1, {Errc::wrong_state, 0});
        const Status written =
            fixture.ops->post_atomic_write(*fixture.qp, kWrId, {}, kTarget, source);
        assert_false(written.has_value());
        assert_int_equal(written.error().code, Errc::wrong_state);
    }
}

}  // namespace
}  // namespace compat::core

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        TEST(native_flush_needs_no_memory),
        TEST(emulated_flush_reads_into_a_page_of_its_own),
        TEST(refused_page_is_passed_on),
        TEST(lack_of_memory_is_thrown),
        TEST(native_flush_is_posted_as_given),
        TEST(emulated_flush_is_a_read_of_8_bytes),
        TEST(atomic_write_is_8_bytes_inline),
        TEST(atomic_write_to_an_unaligned_address_is_a_plain_write),
        TEST(refused_posts_are_passed_on),
    };
    return cmocka_run_group_tests_name("extended_ops", tests, nullptr, nullptr);
}
