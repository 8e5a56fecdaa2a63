// SPDX-License-Identifier: BSD-3-Clause
// librpma's interface on the verbs device: every call of libibverbs and librdmacm fails in turn.
#include <algorithm>

#include "tests/unit/verbs/rpma_session.hpp"

using namespace compat::test;
using compat::mock::Call;

namespace {

/// What the program sees of a failure: nothing (it is made good, or the end of things anyway), or
/// RPMA_E_PROVIDER of one of these calls.
struct Row {
    Call call;
    bool may_be_silent;
    std::vector<const char*> steps;
};
const std::vector<Row> kRows{
    {Call::alloc_pd, false, {"peer_new"}},
    {Call::reg_mr, false, {"mr_reg", "conn_req_connect, client", "conn_req_connect, server"}},
    {Call::create_channel, false, {"srq_new", "conn_req_new", "ep_next_conn_req"}},
    {Call::create_cq, false, {"srq_new", "conn_req_new", "ep_next_conn_req"}},
    {Call::resize_cq, true, {"conn_req_new", "ep_next_conn_req"}},
    {Call::get_cq_event, true, {"cq_wait", "cq_get_wc"}},
    {Call::req_notify,
     true,
     {"srq_new", "conn_req_new", "ep_next_conn_req", "cq_wait", "cq_get_wc"}},
    {Call::poll_cq, true, {"cq_get_wc"}},
    {Call::create_srq, false, {"srq_new"}},
    {Call::post_srq_recv, false, {"srq_recv"}},
    {Call::modify_qp, true, {}},
    {Call::post_send, true, {"write", "read", "flush", "atomic_write", "send to SRQ", "send"}},
    {Call::post_recv, false, {"conn_req_recv", "recv"}},
    {Call::create_id, false, {"get_ibv_context", "ep_listen", "conn_req_new"}},
    {Call::bind_addr, false, {"get_ibv_context", "ep_listen"}},
    {Call::listen, false, {"ep_listen"}},
    {Call::resolve_addr, false, {"conn_req_new"}},
    {Call::resolve_route, false, {"conn_req_new"}},
    {Call::rdma_create_qp, false, {"conn_req_new", "ep_next_conn_req"}},
    {Call::connect, false, {"conn_req_connect, client"}},
    {Call::accept, false, {"conn_req_connect, server"}},
    {Call::reject, true, {"conn_req_delete"}},
    {Call::disconnect, true, {}},
    {Call::get_cm_event, true, {}},
};

/// RPMA_E_PROVIDER everywhere but where the manual names another code.
int expected_code(const Failure& failure, Call call, int error) {
    if (call == Call::alloc_pd && error == ENOMEM) return RPMA_E_NOMEM;
    if (call == Call::get_cq_event && failure.step == "cq_wait") return RPMA_E_NO_COMPLETION;
    return RPMA_E_PROVIDER;
}

void check(const Row& row, int error, const Failure& failure) {
    const auto known = std::ranges::find(row.steps, failure.step);
    const bool silent = failure.step.empty() && row.may_be_silent;
    if (!silent && known == row.steps.end())
        print_error("%s with errno %d: \"%s\" gives %d\n", compat::mock::name_of(row.call), error,
                    failure.step.c_str(), failure.code);
    assert_true(silent || known != row.steps.end());
    if (!silent) assert_int_equal(failure.code, expected_code(failure, row.call, error));
}

Failure whole_session() {
    RpmaSession session;
    return session.run();
}

void each_call_that_fails_is_told_and_leaves_nothing_behind(void**) {
    assert_string_equal(whole_session().step.c_str(), "");
    for (const Row& row : kRows)
        for (const int error : kErrors) {
            const int calls =
                fail_each(row.call, error, whole_session,
                          [&](const Failure& failure) { check(row, error, failure); });
            if (calls == 0) print_error("%s is never called\n", compat::mock::name_of(row.call));
            assert_true(calls != 0);
        }
}

}  // namespace

int main() {
    setenv("FABRIC_COMPAT_DEVICE", "verbs", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_call_that_fails_is_told_and_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
