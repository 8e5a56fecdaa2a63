// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>

#include "rpma_compat/context.hpp"
#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

struct TextRow {
    int value;
    const char* text;
};
constexpr std::array kErrors{
    TextRow{0, "Success"},
    TextRow{-100001, "Not supported"},
    TextRow{-100002, "Provider error occurred"},
    TextRow{-100003, "Out of memory"},
    TextRow{-100004, "Invalid argument"},
    TextRow{-100005, "No next completion available"},
    TextRow{-100006, "No next event available"},
    TextRow{-100007, "Temporary error, try again"},
    TextRow{-100008, "Completion channel is shared"},
    TextRow{-100009, "Completion channel is not shared"},
    // no codes of the interface:
    TextRow{-100000, "Unknown error"},
    TextRow{-100010, "Unknown error"},
    TextRow{-1, "Unknown error"},
    TextRow{1, "Unknown error"},
    TextRow{100001, "Unknown error"},
};
constexpr std::array kEvents{
    TextRow{-1, "Undefined connection event"},
    TextRow{0, "Connection established"},
    TextRow{1, "Connection closed"},
    TextRow{2, "Connection lost"},
    TextRow{3, "Connection rejected"},
    TextRow{4, "Connection unreachable"},
    TextRow{5, "Unsupported connection event"},
    TextRow{-2, "Unsupported connection event"},
};

void every_error_has_its_text(void**) {
    for (const TextRow& row : kErrors) assert_string_equal(rpma_err_2str(row.value), row.text);
}

void every_event_has_its_text(void**) {
    for (const TextRow& row : kEvents)
        assert_string_equal(rpma_utils_conn_event_2str(static_cast<rpma_conn_event>(row.value)),
                            row.text);
}

// --- contexts ---------------------------------------------------------------------------------

int select_device(const char* name) {
    return setenv("FABRIC_COMPAT_DEVICE", name, 1);
}

int set_up_soft(void** state) {
    return select_device("soft") == 0 ? set_up(state) : -1;
}

/// A label beyond the length that names may have: the resolver refuses it without asking anybody.
std::string impossible_name() {
    return std::string(300, 'x');
}

void bad_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    ibv_context* context = untouched<ibv_context>();
    int capable = 77;
    assert_int_equal(rpma_utils_get_ibv_context(nullptr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, nullptr),
                     RPMA_E_INVAL);
    for (const int type : {-1, 2, 3})
        assert_int_equal(rpma_utils_get_ibv_context(
                             kAddress, static_cast<rpma_util_ibv_context_type>(type), &context),
                         RPMA_E_INVAL);
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(nullptr, &capable), RPMA_E_INVAL);
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(rig.context, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(context, untouched<ibv_context>());
    assert_int_equal(capable, 77);
}

void context_of_an_address_is_stable_and_names_its_device(void**) {
    ibv_context* first = nullptr;
    for (const auto type : {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE}) {
        for (const char* const address : {"127.0.0.1", "localhost"}) {
            ibv_context* context = nullptr;
            assert_int_equal(rpma_utils_get_ibv_context(address, type, &context), kSuccess);
            assert_non_null(context);
            if (first == nullptr) first = context;
            assert_ptr_equal(context, first);
        }
    }
    assert_non_null(first->device);
    assert_true(first->device->name[0] != '\0');
    assert_true(first->num_comp_vectors > 0);
    rpma_peer* peer = nullptr;
    assert_int_equal(rpma_peer_new(first, &peer), kSuccess);
    assert_int_equal(rpma_peer_delete(&peer), kSuccess);
}

void inline_verbs_on_the_context_fail_instead_of_crashing(void** state) {
    Rig& rig = of(state);
    ibv_qp qp{};
    ibv_cq cq{};
    ibv_srq srq{};
    ibv_pd pd{};
    qp.context = cq.context = srq.context = pd.context = rig.context;
    ibv_wc wc{};
    ibv_send_wr send_wr{};
    ibv_recv_wr recv_wr{};
    ibv_send_wr* bad_send = nullptr;
    ibv_recv_wr* bad_recv = nullptr;
    assert_true(ibv_poll_cq(&cq, 1, &wc) < 0);
    assert_int_equal(ibv_req_notify_cq(&cq, 0), EOPNOTSUPP);
    assert_int_equal(ibv_post_send(&qp, &send_wr, &bad_send), EOPNOTSUPP);
    assert_int_equal(ibv_post_recv(&qp, &recv_wr, &bad_recv), EOPNOTSUPP);
    assert_int_equal(ibv_post_srq_recv(&srq, &recv_wr, &bad_recv), EOPNOTSUPP);
    errno = 0;
    assert_null(ibv_alloc_mw(&pd, IBV_MW_TYPE_1));
    assert_int_equal(errno, EOPNOTSUPP);
}

void address_of_another_host_has_no_local_device(void**) {
    ibv_context* context = untouched<ibv_context>();
    const CapturedLog log;
    assert_int_equal(rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
                     RPMA_E_PROVIDER);
    assert_ptr_equal(context, untouched<ibv_context>());
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "192.0.2.1"));
}

void name_that_cannot_be_resolved_is_the_providers(void**) {
    ibv_context* context = untouched<ibv_context>();
    const std::string name = impossible_name();
    for (const auto type : {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE})
        assert_int_equal(rpma_utils_get_ibv_context(name.c_str(), type, &context), RPMA_E_PROVIDER);
    assert_ptr_equal(context, untouched<ibv_context>());
}

void host_without_the_wanted_device_is_told_as_upstream_does(void**) {
    assert_int_equal(select_device("verbs"), 0);
    ibv_context* context = untouched<ibv_context>();
    const CapturedLog log;
    assert_int_equal(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
                     RPMA_E_PROVIDER);
    assert_ptr_equal(context, untouched<ibv_context>());
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "No such device\n"));
}

void lack_of_memory_for_a_context_is_told(void**) {
    auto* const device = new FakeDevice;
    test::fail_new(1);
    ibv_context* context = nullptr;
    bool told = false;
    try {
        context = context_of(*device);
    } catch (const std::bad_alloc&) {
        told = true;
    }
    test::fail_new(0);
    assert_true(told);
    assert_null(context);
    context = context_of(*device);
    assert_non_null(context);
    assert_ptr_equal(context_of(*device), context);
    assert_ptr_equal(device_of(context), device);
    delete device;
}

// --- on-demand paging -------------------------------------------------------------------------

void odp_is_1_exactly_where_the_device_has_it(void** state) {
    Rig& rig = of(state);
    for (const bool capable : {false, true}) {
        rig.device.current_limits.on_demand_paging = capable;
        int answer = 77;
        assert_int_equal(rpma_utils_ibv_context_is_odp_capable(rig.context, &answer), kSuccess);
        assert_int_equal(answer, capable ? 1 : 0);
    }
}

void odp_of_a_foreign_context_is_the_providers(void**) {
    ibv_context foreign{};
    int answer = 77;
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(&foreign, &answer), RPMA_E_PROVIDER);
    assert_int_equal(answer, 0);  // upstream sets it first
}

}  // namespace
}  // namespace compat::rpma

#undef TEST
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_soft, tear_down)

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(every_error_has_its_text),
        TEST(every_event_has_its_text),
        TEST(bad_arguments_are_refused),
        TEST(context_of_an_address_is_stable_and_names_its_device),
        TEST(inline_verbs_on_the_context_fail_instead_of_crashing),
        TEST(address_of_another_host_has_no_local_device),
        TEST(name_that_cannot_be_resolved_is_the_providers),
        TEST(host_without_the_wanted_device_is_told_as_upstream_does),
        TEST(lack_of_memory_for_a_context_is_told),
        TEST(odp_is_1_exactly_where_the_device_has_it),
        TEST(odp_of_a_foreign_context_is_the_providers),
    };
    return cmocka_run_group_tests_name("utils", tests, nullptr, nullptr);
}
