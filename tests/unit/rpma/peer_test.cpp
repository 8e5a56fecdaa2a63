// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include "rpma_compat/context.hpp"
#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    rpma_peer* peer = untouched<rpma_peer>();
    assert_int_equal(rpma_peer_new(nullptr, &peer), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_new(rig.context, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_new(nullptr, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(peer, untouched<rpma_peer>());
}

void context_of_nobody_is_refused(void**) {
    ibv_context foreign{};
    rpma_peer* peer = untouched<rpma_peer>();
    const CapturedLog log;
    assert_int_equal(rpma_peer_new(&foreign, &peer), RPMA_E_PROVIDER);
    assert_ptr_equal(peer, untouched<rpma_peer>());
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "context"));
}

void peer_is_one_protection_domain(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rig.device.pds().size(), 1);
    assert_int_equal(rpma_peer_delete(&rig.peer), kSuccess);
    assert_null(rig.peer);
    assert_int_equal(rig.device.pds().size(), 0);
    check_delete_of_nothing(rpma_peer_delete);
}

void reason_for_no_protection_domain_decides_the_code(void** state) {
    Rig& rig = of(state);
    const auto code_for = [&](core::Error error) {
        rpma_peer* peer = untouched<rpma_peer>();
        rig.device.fail(Call::allocate_pd, 1, error);
        const int code = rpma_peer_new(rig.context, &peer);
        assert_ptr_equal(peer, untouched<rpma_peer>());
        assert_int_equal(rig.device.pds().size(), 1);
        return code;
    };
    for (const ErrRow& row : kErrMap) {
        const int expected = row.core == core::Errc::no_memory ? RPMA_E_NOMEM
                             : row.core == core::Errc::device  ? RPMA_E_UNKNOWN
                                                               : RPMA_E_PROVIDER;
        assert_int_equal(code_for({row.core, 0}), expected);
    }
    assert_int_equal(code_for({core::Errc::device, ENOMEM}), RPMA_E_NOMEM);
    for (const int reason : {EIO, EINVAL, EPERM, EOPNOTSUPP, EFAULT})
        assert_int_equal(code_for({core::Errc::device, reason}), RPMA_E_PROVIDER);
}

void lack_of_memory_gives_the_protection_domain_back(void** state) {
    Rig& rig = of(state);
    const Trial<rpma_peer> trial{
        {}, [&](rpma_peer** out) { return rpma_peer_new(rig.context, out); }, rpma_peer_delete};
    assert_true(fail_each_allocation(rig.device, trial) > 0);
    const auto no_memory = [](int) { return RPMA_E_NOMEM; };
    assert_int_equal(fail_each_call(rig.device, trial, {core::Errc::no_memory, ENOMEM}, no_memory),
                     1);
}

void delete_with_a_region_left_is_told_and_the_peer_is_gone(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    const CapturedLog log;
    assert_int_equal(rpma_peer_delete(&rig.peer), RPMA_E_PROVIDER);
    assert_null(rig.peer);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "ibv_dealloc_pd"));
    // The region still works, and may be deregistered.
    assert_int_equal(rpma_mr_advise(rig.local, 0, 1, 0, 0), kSuccess);
    assert_int_equal(rpma_mr_dereg(&rig.local), kSuccess);
    delete rig.device.pds().front();  // upstream leaks it, and so do we
}

void delete_with_a_connection_left_is_told(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    assert_int_equal(rpma_peer_delete(&rig.peer), RPMA_E_PROVIDER);
    assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    delete rig.device.pds().front();
}

void many_peers_share_a_device(void** state) {
    Rig& rig = of(state);
    rpma_peer* other = nullptr;
    assert_int_equal(rpma_peer_new(rig.context, &other), kSuccess);
    assert_int_equal(rig.device.pds().size(), 2);
    assert_int_equal(rpma_peer_delete(&other), kSuccess);
    assert_int_equal(rig.device.pds().size(), 1);
}

void missing_native_operations_are_told_at_info(void** state) {
    Rig& rig = of(state);
    for (const bool flush : {false, true}) {
        for (const bool atomic_write : {false, true}) {
            rig.device.current_limits.flush = flush;
            rig.device.current_limits.atomic_write = atomic_write;
            const CapturedLog log;
            rpma_peer* other = nullptr;
            assert_int_equal(rpma_peer_new(rig.context, &other), kSuccess);
            assert_int_equal(rpma_peer_delete(&other), kSuccess);
            assert_int_equal(CapturedLog::find(RPMA_LOG_LEVEL_INFO, "flush") != nullptr, !flush);
            assert_int_equal(CapturedLog::find(RPMA_LOG_LEVEL_INFO, "atomic write") != nullptr,
                             !atomic_write);
        }
    }
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(context_of_nobody_is_refused),
        TEST(peer_is_one_protection_domain),
        TEST(reason_for_no_protection_domain_decides_the_code),
        TEST(lack_of_memory_gives_the_protection_domain_back),
        TEST(delete_with_a_region_left_is_told_and_the_peer_is_gone),
        TEST(delete_with_a_connection_left_is_told),
        TEST(many_peers_share_a_device),
        TEST(missing_native_operations_are_told_at_info),
    };
    return cmocka_run_group_tests_name("peer", tests, nullptr, nullptr);
}
