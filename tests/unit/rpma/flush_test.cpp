// SPDX-License-Identifier: BSD-3-Clause
// rpma_flush and rpma_atomic_write, native and emulated.
#include <climits>
#include <cstring>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

using core::Opcode;
using core::SendFlag;
using core::SendFlags;

constexpr std::array kSomeFlags{1, 2, 3, 4, 5, 6, -1, -3, INT_MAX, INT_MIN};

SendFlags signaled(int flags) {
    return (flags & 2) != 0 ? SendFlags(SendFlag::signaled) : SendFlags();
}

void connect_with(Rig& rig, bool native_flush, bool native_atomic_write) {
    assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    rig.device.current_limits.flush = native_flush;
    rig.device.current_limits.atomic_write = native_atomic_write;
    make_conn(rig);
}

int flush(Rig& rig, int type, int flags = RPMA_F_COMPLETION_ALWAYS) {
    return rpma_flush(rig.conn, rig.remote, 64, 128, static_cast<rpma_flush_type>(type), flags,
                      kContext);
}

constexpr char kSource[8] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};

int atomic_write(Rig& rig, std::size_t offset = 64, int flags = RPMA_F_COMPLETION_ALWAYS) {
    return rpma_atomic_write(rig.conn, rig.remote, offset, kSource, flags, kContext);
}

// --- flush: what is let through ---------------------------------------------------------------

void invalid_arguments_come_before_lack_of_support(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    make_remote(rig, RPMA_MR_USAGE_READ_SRC);  // no flush of any type is supported
    for (const auto type : {RPMA_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY}) {
        assert_int_equal(rpma_flush(nullptr, rig.remote, 0, 8, type, 3, kContext), RPMA_E_INVAL);
        assert_int_equal(rpma_flush(rig.conn, nullptr, 0, 8, type, 3, kContext), RPMA_E_INVAL);
        assert_int_equal(rpma_flush(rig.conn, rig.remote, 0, 8, type, 0, kContext), RPMA_E_INVAL);
        assert_int_equal(rpma_flush(rig.conn, rig.remote, 0, 8, type, 3, kContext), RPMA_E_NOSUPP);
    }
}

/// The gates of rpma_flush written out a second time. direct_write: -1 no configuration applied.
int expected_code(int type, int usage, int direct_write) {
    if (type == RPMA_FLUSH_TYPE_PERSISTENT)
        return direct_write == 1 && (usage & 32) != 0 ? kSuccess : RPMA_E_NOSUPP;
    if (type == RPMA_FLUSH_TYPE_VISIBILITY) return (usage & 16) != 0 ? kSuccess : RPMA_E_NOSUPP;
    return kSuccess;  // upstream lets an unknown type pass
}

void check_every_usage_and_type(Rig& rig, int direct_write) {
    for (int usage = 1; usage <= kAllUsages; ++usage) {
        make_remote(rig, usage);
        for (const int type : {0, 1, 2, -1, INT_MAX}) {
            const std::size_t before = qp_of(rig).posted.size();
            const int expected = expected_code(type, usage, direct_write);
            assert_int_equal(flush(rig, type), expected);
            assert_int_equal(qp_of(rig).posted.size(), before + (expected == kSuccess ? 1 : 0));
        }
    }
}

void every_type_usage_and_peer_configuration(void** state) {
    Rig& rig = of(state);
    for (const bool native : {true, false}) {
        connect_with(rig, native, native);
        check_every_usage_and_type(rig, -1);
        for (const int direct_write : {0, 1, 0}) {
            apply_direct_write(rig, direct_write == 1);
            check_every_usage_and_type(rig, direct_write);
        }
    }
}

void reason_for_refusal_is_logged(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    make_remote(rig, RPMA_MR_USAGE_READ_SRC);
    const CapturedLog log;
    assert_int_equal(flush(rig, RPMA_FLUSH_TYPE_PERSISTENT), RPMA_E_NOSUPP);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "direct write"));
    apply_direct_write(rig, true);
    assert_int_equal(flush(rig, RPMA_FLUSH_TYPE_PERSISTENT), RPMA_E_NOSUPP);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "region"));
}

void applied_configuration_is_copied(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    make_remote(rig);
    apply_direct_write(rig, true);
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(rig.peer_cfg, false), kSuccess);
    assert_int_equal(flush(rig, RPMA_FLUSH_TYPE_PERSISTENT), kSuccess);
    assert_int_equal(rpma_peer_cfg_delete(&rig.peer_cfg), kSuccess);
    assert_int_equal(flush(rig, RPMA_FLUSH_TYPE_PERSISTENT), kSuccess);
}

// --- flush: what is posted --------------------------------------------------------------------

void native_flush_is_one_flush_of_the_whole_range(void** state) {
    Rig& rig = of(state);
    connect_with(rig, true, true);
    make_remote(rig);
    apply_direct_write(rig, true);
    for (const int flags : kSomeFlags) {
        for (const int type : {RPMA_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY}) {
            assert_int_equal(flush(rig, type, flags), kSuccess);
            const test::PostedSend& posted = qp_of(rig).posted.back();
            assert_int_equal(posted.request.opcode, Opcode::flush);
            assert_int_equal(posted.request.flush_type, type == RPMA_FLUSH_TYPE_PERSISTENT
                                                            ? core::FlushType::persistent
                                                            : core::FlushType::visibility);
            assert_int_equal(posted.request.wr_id, kWrId);
            assert_int_equal(posted.request.flags.bits(), signaled(flags).bits());
            assert_int_equal(posted.request.remote_address, kRemoteAddress + 64);
            assert_int_equal(posted.request.rkey, kRemoteKey);
            assert_int_equal(posted.request.flush_length, 128);
            assert_int_equal(posted.sges.size(), 0);
        }
    }
}

void emulated_flush_is_one_read_of_8_bytes_without_fence(void** state) {
    Rig& rig = of(state);
    connect_with(rig, false, true);
    make_remote(rig);
    apply_direct_write(rig, true);
    const test::FakeMr& sink = *rig.device.mrs().back();
    for (const int flags : kSomeFlags) {
        for (const int type : {RPMA_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY}) {
            assert_int_equal(flush(rig, type, flags), kSuccess);
            const test::PostedSend& posted = qp_of(rig).posted.back();
            assert_int_equal(posted.request.opcode, Opcode::read);
            assert_int_equal(posted.request.wr_id, kWrId);
            assert_int_equal(posted.request.flags.bits(), signaled(flags).bits());
            assert_int_equal(posted.request.remote_address, kRemoteAddress + 64);
            assert_int_equal(posted.request.rkey, kRemoteKey);
            assert_int_equal(posted.sges.size(), 1);
            assert_int_equal(posted.sges[0].length, 8);
            assert_int_equal(posted.sges[0].lkey, sink.lkey());
            assert_ptr_equal(posted.sges[0].address, sink.attr.address);
        }
    }
}

void flush_length_is_not_looked_at_when_emulated(void** state) {
    Rig& rig = of(state);
    connect_with(rig, false, true);
    make_remote(rig);
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, SIZE_MAX}) {
        assert_int_equal(
            rpma_flush(rig.conn, rig.remote, 0, length, RPMA_FLUSH_TYPE_VISIBILITY, 3, kContext),
            kSuccess);
        assert_int_equal(qp_of(rig).posted.back().sges[0].length, 8);
    }
}

void make_remote_of_length(Rig& rig, std::uint64_t length) {
    Descriptor descriptor = remote_descriptor(kAllUsages);
    std::memcpy(&descriptor[8], &length, sizeof length);
    assert_int_equal(rpma_mr_remote_delete(&rig.remote), kSuccess);
    assert_int_equal(
        rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &rig.remote),
        kSuccess);
}

void native_flush_beyond_the_end_is_of_the_whole_region(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    struct {
        std::uint64_t region, offset, length, flushed_from, flushed;
    } const cases[] = {
        {4096, 0, 4096, 0, 4096},  {4096, 0, 4097, 0, 4096},         {4096, 4000, 96, 4000, 96},
        {4096, 4000, 97, 0, 4096}, {4096, 4088, SIZE_MAX, 0, 4096},  {8, 0, 9, 0, 8},
        {4096, 4089, 8, 4089, 8},  // upstream's 8 bytes do not fit: the device is to refuse
        {4096, 4096, 1, 4096, 1},  {4096, SIZE_MAX, 1, SIZE_MAX, 1}, {7, 0, 8, 0, 8},
        {7, 0, 7, 0, 7},
    };
    for (const auto& one : cases) {
        make_remote_of_length(rig, one.region);
        assert_int_equal(rpma_flush(rig.conn, rig.remote, one.offset, one.length,
                                    RPMA_FLUSH_TYPE_VISIBILITY, 3, kContext),
                         kSuccess);
        const core::WorkRequest& request = qp_of(rig).posted.back().request;
        assert_int_equal(request.remote_address, kRemoteAddress + one.flushed_from);
        assert_int_equal(request.flush_length, one.flushed);
    }
}

void native_flush_takes_lengths_beyond_32_bits(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    const std::size_t length = (std::size_t{1} << 40) + 1;
    make_remote_of_length(rig, length);
    assert_int_equal(
        rpma_flush(rig.conn, rig.remote, 0, length, RPMA_FLUSH_TYPE_VISIBILITY, 3, kContext),
        kSuccess);
    assert_int_equal(qp_of(rig).posted.back().request.flush_length, length);
}

void refused_flush_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_remote(rig);
    for (const bool native : {true, false}) {
        connect_with(rig, native, true);
        for (const ErrRow& row : kErrMap) {
            rig.device.fail(Call::post_send, 1, {row.core, 0});
            assert_int_equal(flush(rig, RPMA_FLUSH_TYPE_VISIBILITY), RPMA_E_PROVIDER);
        }
    }
}

// --- atomic write -----------------------------------------------------------------------------

void atomic_write_refuses_bad_arguments(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    make_remote(rig);
    assert_int_equal(rpma_atomic_write(nullptr, rig.remote, 0, kSource, 3, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_atomic_write(rig.conn, nullptr, 0, kSource, 3, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_atomic_write(rig.conn, rig.remote, 0, nullptr, 3, nullptr), RPMA_E_INVAL);
    assert_int_equal(atomic_write(rig, 0, 0), RPMA_E_INVAL);
    for (std::size_t offset = 0; offset < 32; ++offset)
        assert_int_equal(atomic_write(rig, offset), offset % 8 == 0 ? kSuccess : RPMA_E_INVAL);
    assert_int_equal(qp_of(rig).posted.size(), 4);
}

void check_atomic_write(Rig& rig, Opcode opcode, SendFlags more) {
    for (const int flags : kSomeFlags) {
        assert_int_equal(atomic_write(rig, 64, flags), kSuccess);
        const test::PostedSend& posted = qp_of(rig).posted.back();
        assert_int_equal(posted.request.opcode, opcode);
        assert_int_equal(posted.request.wr_id, kWrId);
        assert_int_equal(posted.request.flags.bits(), (signaled(flags) | more).bits());
        assert_int_equal(posted.request.remote_address, kRemoteAddress + 64);
        assert_int_equal(posted.request.rkey, kRemoteKey);
        assert_int_equal(posted.sges.size(), 1);
        assert_int_equal(posted.inline_bytes.size(), 8);
        assert_memory_equal(posted.inline_bytes.data(), kSource, 8);
    }
}

void native_atomic_write_copies_8_bytes_during_the_post(void** state) {
    Rig& rig = of(state);
    connect_with(rig, true, true);
    make_remote(rig);
    check_atomic_write(rig, Opcode::atomic_write, SendFlag::inlined);
}

void emulated_atomic_write_is_an_inline_write_with_fence(void** state) {
    Rig& rig = of(state);
    make_remote(rig);
    for (const bool native_flush : {true, false}) {
        connect_with(rig, native_flush, false);
        check_atomic_write(rig, Opcode::write, SendFlag::inlined | SendFlag::fence);
    }
}

void refused_atomic_write_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_remote(rig);
    for (const bool native : {true, false}) {
        connect_with(rig, true, native);
        for (const ErrRow& row : kErrMap) {
            rig.device.fail(Call::post_send, 1, {row.core, 0});
            assert_int_equal(atomic_write(rig), RPMA_E_PROVIDER);
        }
    }
}

void posting_allocates_nothing(void** state) {
    Rig& rig = of(state);
    make_remote(rig);
    for (const bool native : {true, false}) {
        connect_with(rig, native, native);
        test::fail_new(1);
        assert_int_equal(flush(rig, RPMA_FLUSH_TYPE_VISIBILITY), kSuccess);
        assert_int_equal(atomic_write(rig), kSuccess);
        assert_false(test::new_has_failed());
        test::fail_new(0);
    }
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(invalid_arguments_come_before_lack_of_support),
        TEST(every_type_usage_and_peer_configuration),
        TEST(reason_for_refusal_is_logged),
        TEST(applied_configuration_is_copied),
        TEST(native_flush_is_one_flush_of_the_whole_range),
        TEST(emulated_flush_is_one_read_of_8_bytes_without_fence),
        TEST(flush_length_is_not_looked_at_when_emulated),
        TEST(native_flush_beyond_the_end_is_of_the_whole_region),
        TEST(native_flush_takes_lengths_beyond_32_bits),
        TEST(refused_flush_is_the_providers),
        TEST(atomic_write_refuses_bad_arguments),
        TEST(native_atomic_write_copies_8_bytes_during_the_post),
        TEST(emulated_atomic_write_is_an_inline_write_with_fence),
        TEST(refused_atomic_write_is_the_providers),
        TEST(posting_allocates_nothing),
    };
    return cmocka_run_group_tests_name("flush", tests, nullptr, nullptr);
}
