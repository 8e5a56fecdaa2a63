// SPDX-License-Identifier: BSD-3-Clause
// Libfabric's interface on the verbs device: every call of libibverbs and librdmacm fails in turn.
#include <algorithm>

#include "tests/unit/verbs/fi_session.hpp"

using namespace compat::test;
using compat::mock::Call;

namespace {

/// What the program sees of a failure: nothing (it is made good, or the end of things anyway), or
/// an error of one of these calls.
struct Row {
    Call call;
    bool may_be_silent;
    std::vector<const char*> steps;
};
const std::vector<Row> kRows{
    {Call::alloc_pd, false, {"domain"}},
    {Call::reg_mr, false, {"mr_reg", "endpoint", "enable"}},
    {Call::create_channel, false, {"cq_open"}},
    {Call::create_cq, false, {"cq_open"}},
    {Call::resize_cq, true, {"enable", "connect", "accept", "endpoint"}},
    {Call::poll_cq, true, {"cq_read"}},
    {Call::modify_qp, true, {}},
    {Call::post_send, true, {"write", "writemsg", "read", "inject_write", "send"}},
    {Call::post_recv, true, {"recv", "connect"}},
    {Call::create_id, true, {"getinfo", "passive_ep", "listen", "endpoint", "enable", "connect"}},
    {Call::bind_addr, true, {"getinfo", "passive_ep", "listen"}},
    {Call::listen, false, {"listen"}},
    {Call::resolve_addr, false, {"connect", "event"}},
    {Call::resolve_route, false, {"connect", "event"}},
    {Call::rdma_create_qp, false, {"enable", "connect", "accept", "endpoint"}},
    {Call::connect, false, {"connect"}},
    {Call::accept, false, {"accept"}},
    {Call::reject, true, {"reject"}},
    {Call::disconnect, true, {}},
    {Call::get_cm_event, true, {}},
};

/// What the device said, where it said it to a call whose errno libfabric passes on.
bool is_right_code(const Failure& failure, int error) {
    if (failure.code == -error) return true;
    if (failure.step == "cq_read") return failure.code == -FI_EIO;
    // No device for the address, for that moment.
    if (failure.step == "getinfo") return failure.code == -FI_ENODATA;
    // The kernel's word for memory that cannot be registered.
    const bool registers = failure.step == "mr_reg" || failure.step == "enable";
    if (registers && error == EINVAL) return failure.code == -FI_EACCES;
    // A full queue, as drivers say it.
    const bool posts = failure.step != "getinfo" && error == ENOMEM;
    if (posts) return failure.code == -FI_EAGAIN;
    return error == ENODEV && failure.code == -FI_EHOSTUNREACH;
}

bool is_right(const Row& row, int error, const Failure& failure) {
    const auto known = std::ranges::find(row.steps, failure.step);
    const bool silent = failure.step.empty() && row.may_be_silent;
    const bool right = silent || (known != row.steps.end() && is_right_code(failure, error));
    if (!right)
        print_error("%s with errno %d: \"%s\" gives %d\n", compat::mock::name_of(row.call), error,
                    failure.step.c_str(), failure.code);
    return right;
}

Failure whole_session() {
    FiSession session;
    return session.run();
}

void each_call_that_fails_is_told_and_leaves_nothing_behind(void**) {
    const Failure first = whole_session();
    assert_string_equal(first.step.c_str(), "");
    int wrong = 0;
    for (const Row& row : kRows)
        for (const int error : kErrors) {
            const auto judge = [&](const Failure& failure) {
                if (!is_right(row, error, failure)) ++wrong;
            };
            const int calls = fail_each(row.call, error, whole_session, judge);
            if (calls == 0) print_error("%s is never called\n", compat::mock::name_of(row.call));
            if (calls == 0) ++wrong;
        }
    assert_int_equal(wrong, 0);
}

}  // namespace

int main() {
    setenv("FABRIC_COMPAT_DEVICE", "verbs", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_call_that_fails_is_told_and_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
