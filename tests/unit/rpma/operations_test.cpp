// SPDX-License-Identifier: BSD-3-Clause
// rpma_read, rpma_write, rpma_send, their variants with immediate data, and rpma_recv.
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

using core::Opcode;
using core::SendFlag;

constexpr std::uint32_t kImm = 0x01020304;

struct Arguments {
    rpma_conn* conn = nullptr;
    rpma_mr_local* local = nullptr;
    std::size_t local_offset = 0;
    rpma_mr_remote* remote = nullptr;
    std::size_t remote_offset = 0;
    std::size_t length = 0;
    int flags = RPMA_F_COMPLETION_ALWAYS;
    std::uint32_t imm = kImm;
    const void* context = kContext;
};

struct Operation {
    int (*post)(const Arguments&);
    Opcode opcode;
    bool has_remote;
    bool has_imm;
};

int read(const Arguments& a) {
    return rpma_read(a.conn, a.local, a.local_offset, a.remote, a.remote_offset, a.length, a.flags,
                     a.context);
}
int write(const Arguments& a) {
    return rpma_write(a.conn, a.remote, a.remote_offset, a.local, a.local_offset, a.length, a.flags,
                      a.context);
}
int write_with_imm(const Arguments& a) {
    return rpma_write_with_imm(a.conn, a.remote, a.remote_offset, a.local, a.local_offset, a.length,
                               a.flags, a.imm, a.context);
}
int send(const Arguments& a) {
    return rpma_send(a.conn, a.local, a.local_offset, a.length, a.flags, a.context);
}
int send_with_imm(const Arguments& a) {
    return rpma_send_with_imm(a.conn, a.local, a.local_offset, a.length, a.flags, a.imm, a.context);
}
int receive(const Arguments& a) {
    return rpma_recv(a.conn, a.local, a.local_offset, a.length, a.context);
}

constexpr std::array kOperations{
    Operation{read, Opcode::read, true, false},
    Operation{write, Opcode::write, true, false},
    Operation{write_with_imm, Opcode::write_imm, true, true},
    Operation{send, Opcode::send, false, false},
    Operation{send_with_imm, Opcode::send_imm, false, true},
};

int set_up_connected(void** state) {
    if (const int rc = set_up(state); rc != 0) return rc;
    Rig& rig = of(state);
    make_conn(rig);
    make_local(rig);
    make_remote(rig);
    return 0;
}

Arguments whole(Rig& rig) {
    return {.conn = rig.conn,
            .local = rig.local,
            .local_offset = 16,
            .remote = rig.remote,
            .remote_offset = 48,
            .length = 32};
}

void request_carries_what_was_given(void** state) {
    Rig& rig = of(state);
    for (const Operation& operation : kOperations) {
        assert_int_equal(operation.post(whole(rig)), kSuccess);
        const test::PostedSend& posted = qp_of(rig).posted.back();
        assert_int_equal(posted.request.opcode, operation.opcode);
        assert_int_equal(posted.request.wr_id, kWrId);
        assert_int_equal(posted.request.imm, operation.has_imm ? kImm : 0);
        assert_int_equal(posted.request.remote_address,
                         operation.has_remote ? kRemoteAddress + 48 : 0);
        assert_int_equal(posted.request.rkey, operation.has_remote ? kRemoteKey : 0);
        assert_int_equal(posted.sges.size(), 1);
        assert_ptr_equal(posted.sges[0].address, rig.memory.data() + 16);
        assert_int_equal(posted.sges[0].length, 32);
        assert_int_equal(posted.sges[0].lkey, rig.device.mrs().back()->lkey());
    }
    assert_int_equal(qp_of(rig).posted.size(), kOperations.size());
}

void bit_1_of_the_flags_asks_for_a_completion_and_nothing_else_does(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    for (const Operation& operation : kOperations) {
        for (const int flags : {RPMA_F_COMPLETION_ON_ERROR, RPMA_F_COMPLETION_ALWAYS, 2, 4, 5, 6, 7,
                                8, 0x40, 0x42, -1, -2, -3, INT_MAX, INT_MIN, INT_MIN + 2}) {
            arguments.flags = flags;
            assert_int_equal(operation.post(arguments), kSuccess);
            const core::SendFlags expected =
                (flags & 2) != 0 ? core::SendFlags(SendFlag::signaled) : core::SendFlags();
            assert_int_equal(qp_of(rig).posted.back().request.flags.bits(), expected.bits());
        }
    }
}

int g_explained = 0;
void look_for_the_flags(rpma_log_level level, const char*, int, const char*, const char* format,
                        ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (level == RPMA_LOG_LEVEL_WARNING && std::strstr(text, "RPMA_F_COMPLETION_ALWAYS") != nullptr)
        ++g_explained;
}

void flags_of_0_are_refused_and_explained(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    arguments.flags = 0;
    rpma_log_set_function(look_for_the_flags);
    g_explained = 0;
    int refused = 0;
    for (const Operation& operation : kOperations) {
        assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
        ++refused;
    }
    rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);
    assert_int_equal(g_explained, refused);
    assert_int_equal(qp_of(rig).posted.size(), 0);
}

void missing_connection_is_refused(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    arguments.conn = nullptr;
    for (const Operation& operation : kOperations)
        assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
    assert_int_equal(receive(arguments), RPMA_E_INVAL);
}

void one_region_without_the_other_is_refused(void** state) {
    Rig& rig = of(state);
    for (const Operation& operation : kOperations) {
        Arguments arguments = whole(rig);
        arguments.local = nullptr;
        assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
        // Even when nothing is to be moved
        arguments.local_offset = arguments.remote_offset = arguments.length = 0;
        if (operation.has_remote) assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
        arguments = whole(rig);
        arguments.remote = nullptr;
        if (operation.has_remote) assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
        arguments.local_offset = arguments.remote_offset = arguments.length = 0;
        if (operation.has_remote) assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
    }
    assert_int_equal(qp_of(rig).posted.size(), 0);
}

void without_regions_offsets_and_length_must_be_0(void** state) {
    Rig& rig = of(state);
    for (const Operation& operation : kOperations) {
        const Arguments empty{.conn = rig.conn};
        for (std::size_t Arguments::*const member :
             {&Arguments::local_offset, &Arguments::remote_offset, &Arguments::length}) {
            if (!operation.has_remote && member == &Arguments::remote_offset) continue;
            Arguments arguments = empty;
            arguments.*member = 1;
            assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
        }
        assert_int_equal(operation.post(empty), kSuccess);
        const test::PostedSend& posted = qp_of(rig).posted.back();
        assert_int_equal(posted.sges.size(), 0);
        assert_int_equal(posted.request.remote_address, 0);
        assert_int_equal(posted.request.rkey, 0);
        assert_int_equal(posted.request.wr_id, kWrId);
    }
}

void zero_bytes_of_a_region_are_posted(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    arguments.length = 0;
    for (const Operation& operation : kOperations) {
        assert_int_equal(operation.post(arguments), kSuccess);
        assert_int_equal(qp_of(rig).posted.back().sges[0].length, 0);
    }
}

void ranges_are_the_devices_to_check(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    arguments.local_offset = rig.memory.size() + 100;
    arguments.remote_offset = kRemoteLength + 100;
    arguments.length = UINT32_MAX;
    for (const Operation& operation : kOperations) {
        assert_int_equal(operation.post(arguments), kSuccess);
        assert_int_equal(qp_of(rig).posted.back().sges[0].length, UINT32_MAX);
    }
}

void more_than_a_work_request_can_say_is_refused(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    for (const std::size_t length : {std::size_t{UINT32_MAX} + 1, SIZE_MAX}) {
        arguments.length = length;
        for (const Operation& operation : kOperations)
            assert_int_equal(operation.post(arguments), RPMA_E_INVAL);
        assert_int_equal(receive(arguments), RPMA_E_INVAL);
    }
}

void refused_post_is_the_providers_and_logged(void** state) {
    Rig& rig = of(state);
    for (const Operation& operation : kOperations) {
        for (const ErrRow& row : kErrMap) {  // would_block: the queue is full
            const CapturedLog log;
            rig.device.fail(Call::post_send, 1, {row.core, 0});
            assert_int_equal(operation.post(whole(rig)), RPMA_E_PROVIDER);
            assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "ibv_post_send"));
        }
    }
    assert_int_equal(qp_of(rig).posted.size(), 0);
}

void immediate_data_is_passed_as_given(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    for (const std::uint32_t imm : {0U, 1U, 0x80000000U, UINT32_MAX}) {
        arguments.imm = imm;
        for (const Operation& operation : kOperations) {
            if (!operation.has_imm) continue;
            assert_int_equal(operation.post(arguments), kSuccess);
            assert_int_equal(qp_of(rig).posted.back().request.imm, imm);
        }
    }
}

void null_context_is_a_context(void** state) {
    Rig& rig = of(state);
    Arguments arguments = whole(rig);
    arguments.context = nullptr;
    for (const Operation& operation : kOperations) {
        assert_int_equal(operation.post(arguments), kSuccess);
        assert_int_equal(qp_of(rig).posted.back().request.wr_id, 0);
    }
}

void posting_allocates_nothing(void** state) {
    Rig& rig = of(state);
    const Arguments arguments = whole(rig);
    for (const Operation& operation : kOperations) {
        test::fail_new(1);
        assert_int_equal(operation.post(arguments), kSuccess);
        assert_false(test::new_has_failed());
    }
    assert_int_equal(receive(arguments), kSuccess);
    assert_false(test::new_has_failed());
    test::fail_new(0);
}

void receive_is_posted_as_given(void** state) {
    Rig& rig = of(state);
    assert_int_equal(receive(whole(rig)), kSuccess);
    const test::PostedReceive& posted = qp_of(rig).posted_receives.back();
    assert_int_equal(posted.wr_id, kWrId);
    assert_int_equal(posted.sges.size(), 1);
    assert_ptr_equal(posted.sges[0].address, rig.memory.data() + 16);
    assert_int_equal(posted.sges[0].length, 32);
    assert_int_equal(posted.sges[0].lkey, rig.device.mrs().back()->lkey());
}

void receive_without_a_region_must_be_of_nothing(void** state) {
    Rig& rig = of(state);
    assert_int_equal(receive({.conn = rig.conn, .length = 1}), RPMA_E_INVAL);
    assert_int_equal(receive({.conn = rig.conn, .local_offset = 1}), RPMA_E_INVAL);
    assert_int_equal(receive({.conn = rig.conn}), kSuccess);
    assert_int_equal(qp_of(rig).posted_receives.size(), 1);
    assert_int_equal(qp_of(rig).posted_receives.back().sges.size(), 0);
}

void refused_receive_is_the_providers_and_logged(void** state) {
    Rig& rig = of(state);
    for (const ErrRow& row : kErrMap) {  // invalid_argument: the connection has an SRQ
        const CapturedLog log;
        rig.device.fail(Call::post_receive, 1, {row.core, 0});
        assert_int_equal(receive(whole(rig)), RPMA_E_PROVIDER);
        assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "ibv_post_recv"));
    }
}

}  // namespace
}  // namespace compat::rpma

#undef TEST
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_connected, tear_down)

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(request_carries_what_was_given),
        TEST(bit_1_of_the_flags_asks_for_a_completion_and_nothing_else_does),
        TEST(flags_of_0_are_refused_and_explained),
        TEST(missing_connection_is_refused),
        TEST(one_region_without_the_other_is_refused),
        TEST(without_regions_offsets_and_length_must_be_0),
        TEST(zero_bytes_of_a_region_are_posted),
        TEST(ranges_are_the_devices_to_check),
        TEST(more_than_a_work_request_can_say_is_refused),
        TEST(refused_post_is_the_providers_and_logged),
        TEST(immediate_data_is_passed_as_given),
        TEST(null_context_is_a_context),
        TEST(posting_allocates_nothing),
        TEST(receive_is_posted_as_given),
        TEST(receive_without_a_region_must_be_of_nothing),
        TEST(refused_receive_is_the_providers_and_logged),
    };
    return cmocka_run_group_tests_name("operations", tests, nullptr, nullptr);
}
