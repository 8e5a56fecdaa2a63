// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

using core::CmEventType;

rpma_conn_event next_event(Rig& rig) {
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(rig.conn, &event), kSuccess);
    return event;
}

std::string private_data_of(Rig& rig) {
    rpma_conn_private_data pdata{};
    assert_int_equal(rpma_conn_get_private_data(rig.conn, &pdata), kSuccess);
    assert_int_equal(pdata.ptr == nullptr, pdata.len == 0);
    return {static_cast<const char*>(pdata.ptr), pdata.len};
}

rpma_cq* cq_of(Rig& rig) {
    rpma_cq* cq = untouched<rpma_cq>();
    assert_int_equal(rpma_conn_get_cq(rig.conn, &cq), kSuccess);
    return cq;
}

rpma_cq* rcq_of(Rig& rig) {
    rpma_cq* rcq = untouched<rpma_cq>();
    assert_int_equal(rpma_conn_get_rcq(rig.conn, &rcq), kSuccess);
    return rcq;
}

void make_shared_conn(Rig& rig, std::uint32_t rcq_size) {
    make_cfg(rig);
    rpma_conn_cfg_set_compl_channel(rig.cfg, true);
    rpma_conn_cfg_set_rcq_size(rig.cfg, rcq_size);
    make_conn(rig);
}

// --- arguments --------------------------------------------------------------------------------

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    int fd = -7;
    std::uint32_t number = 7;
    rpma_cq* cq = untouched<rpma_cq>();
    rpma_conn_event event = RPMA_CONN_UNREACHABLE;
    rpma_conn_private_data pdata{.ptr = untouched<void>(), .len = 7};
    assert_int_equal(rpma_peer_cfg_new(&rig.peer_cfg), kSuccess);
    assert_int_equal(rpma_conn_next_event(nullptr, &event), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_next_event(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_event_fd(nullptr, &fd), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_event_fd(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_disconnect(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_cq(nullptr, &cq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_cq(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_rcq(nullptr, &cq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_rcq(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_private_data(nullptr, &pdata), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_private_data(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_qp_num(nullptr, &number), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_qp_num(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_apply_remote_peer_cfg(nullptr, rig.peer_cfg), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_apply_remote_peer_cfg(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(fd, -7);
    assert_int_equal(number, 7);
    assert_ptr_equal(cq, untouched<rpma_cq>());
    assert_int_equal(event, RPMA_CONN_UNREACHABLE);
    assert_ptr_equal(pdata.ptr, untouched<void>());
    assert_int_equal(pdata.len, 7);
}

void null_arguments_come_before_the_question_whether_the_channel_is_shared(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    int fd = -7;
    bool is_rcq = true;
    rpma_cq* cq = untouched<rpma_cq>();
    assert_int_equal(rpma_conn_get_compl_fd(nullptr, &fd), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_compl_fd(rig.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_wait(nullptr, 0, &cq, &is_rcq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_wait(rig.conn, 0, nullptr, &is_rcq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_compl_fd(rig.conn, &fd), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, nullptr), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(fd, -7);
    assert_true(is_rcq);
    assert_ptr_equal(cq, untouched<rpma_cq>());
}

// --- events -----------------------------------------------------------------------------------

struct EventRow {
    CmEventType core;
    rpma_conn_event rpma;
};
constexpr std::array kExpectedEvents{
    EventRow{CmEventType::established, RPMA_CONN_ESTABLISHED},
    EventRow{CmEventType::connect_error, RPMA_CONN_LOST},
    EventRow{CmEventType::device_removed, RPMA_CONN_LOST},
    EventRow{CmEventType::disconnected, RPMA_CONN_CLOSED},
    EventRow{CmEventType::rejected, RPMA_CONN_REJECTED},
    EventRow{CmEventType::unreachable, RPMA_CONN_UNREACHABLE},
};
static_assert(kExpectedEvents.size() + 1 == static_cast<std::size_t>(CmEventType::count_),
              "all but connect_request");

void every_event_has_its_name_and_is_told_at_notice(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    for (const EventRow& row : kExpectedEvents) {
        const CapturedLog log;
        id_of(rig).deliver(row.core);
        assert_int_equal(next_event(rig), row.rpma);
        assert_non_null(
            CapturedLog::find(RPMA_LOG_LEVEL_NOTICE, rpma_utils_conn_event_2str(row.rpma)));
    }
}

void failed_connection_is_told_with_what_to_do(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    for (const EventRow& row : kExpectedEvents) {
        const CapturedLog log;
        id_of(rig).deliver(row.core);
        assert_int_equal(next_event(rig), row.rpma);
        const bool failed = row.core == CmEventType::rejected ||
                            row.core == CmEventType::unreachable ||
                            row.core == CmEventType::connect_error;
        const auto* const line = CapturedLog::find(RPMA_LOG_LEVEL_WARNING, "no connection to ");
        assert_int_equal(line != nullptr, failed);
        if (failed) assert_true(line->text.find('?') != std::string::npos);
    }
}

void events_queue_from_the_request_on(void** state) {
    Rig& rig = of(state);
    make_request(rig);
    id_of(rig).deliver(CmEventType::established);
    id_of(rig).deliver(CmEventType::disconnected);
    connect(rig);
    assert_int_equal(next_event(rig), RPMA_CONN_ESTABLISHED);
    assert_int_equal(next_event(rig), RPMA_CONN_CLOSED);
}

void event_that_is_none_of_a_connection_is_unknown(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    const CapturedLog log;
    id_of(rig).deliver(CmEventType::connect_request);
    rpma_conn_event event = RPMA_CONN_UNREACHABLE;
    assert_int_equal(rpma_conn_next_event(rig.conn, &event), RPMA_E_UNKNOWN);
    assert_int_equal(event, RPMA_CONN_UNREACHABLE);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "event"));
}

void no_event_in_nonblocking_mode_is_no_event(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    int fd = -1;
    assert_int_equal(rpma_conn_get_event_fd(rig.conn, &fd), kSuccess);
    assert_int_equal(fd, rig.device.cm_channels().back()->fd());
    set_nonblocking(fd);
    const CapturedLog log;
    rpma_conn_event event = RPMA_CONN_UNREACHABLE;
    assert_int_equal(rpma_conn_next_event(rig.conn, &event), RPMA_E_NO_EVENT);
    assert_int_equal(event, RPMA_CONN_UNREACHABLE);
    assert_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, ""));
    id_of(rig).deliver(CmEventType::established);
    assert_int_equal(next_event(rig), RPMA_CONN_ESTABLISHED);
    assert_int_equal(rpma_conn_next_event(rig.conn, &event), RPMA_E_NO_EVENT);
}

void failed_wait_for_an_event_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    for (const ErrRow& row : kErrMap) {
        rpma_conn_event event = RPMA_CONN_UNREACHABLE;
        rig.device.fail(Call::get_cm_event, 1, {row.core, 0});
        assert_int_equal(rpma_conn_next_event(rig.conn, &event),
                         row.core == core::Errc::would_block ? RPMA_E_NO_EVENT : RPMA_E_PROVIDER);
        assert_int_equal(event, RPMA_CONN_UNREACHABLE);
    }
}

// --- private data -----------------------------------------------------------------------------

void acceptance_brings_private_data_with_established(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    assert_string_equal(private_data_of(rig).c_str(), "");
    id_of(rig).deliver(CmEventType::established, "welcome");
    assert_string_equal(private_data_of(rig).c_str(), "");
    assert_int_equal(next_event(rig), RPMA_CONN_ESTABLISHED);
    assert_string_equal(private_data_of(rig).c_str(), "welcome");
}

void private_data_stays_where_it_is_until_delete(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    id_of(rig).deliver(CmEventType::established, "welcome");
    id_of(rig).deliver(CmEventType::established, "again");
    id_of(rig).deliver(CmEventType::disconnected, "bye");
    next_event(rig);
    rpma_conn_private_data first{};
    rpma_conn_get_private_data(rig.conn, &first);
    next_event(rig);
    next_event(rig);
    assert_int_equal(rpma_conn_disconnect(rig.conn), kSuccess);
    rpma_conn_private_data last{};
    rpma_conn_get_private_data(rig.conn, &last);
    assert_ptr_equal(first.ptr, last.ptr);
    assert_int_equal(last.len, 7);
    assert_memory_equal(first.ptr, "welcome", 7);
}

void private_data_of_the_request_is_kept_over_that_of_established(void** state) {
    Rig& rig = of(state);
    make_incoming_request(rig, "from the client");
    connect(rig);
    id_of(rig).deliver(CmEventType::established, "other");
    assert_int_equal(next_event(rig), RPMA_CONN_ESTABLISHED);
    assert_string_equal(private_data_of(rig).c_str(), "from the client");
}

void private_data_of_a_rejection_is_dropped(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    id_of(rig).deliver(CmEventType::rejected, "no");
    assert_int_equal(next_event(rig), RPMA_CONN_REJECTED);
    assert_string_equal(private_data_of(rig).c_str(), "");
}

// --- the end ----------------------------------------------------------------------------------

void disconnect_may_be_repeated(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    const CapturedLog log;
    assert_int_equal(rpma_conn_disconnect(rig.conn), kSuccess);
    id_of(rig).deliver(CmEventType::disconnected);
    assert_int_equal(next_event(rig), RPMA_CONN_CLOSED);
    assert_int_equal(rpma_conn_disconnect(rig.conn), kSuccess);
    assert_int_equal(id_of(rig).disconnects, 2);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_NOTICE, "disconnect"));
}

void refused_disconnect_is_the_providers(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    for (const ErrRow& row : kErrMap) {
        rig.device.fail(Call::disconnect, 1, {row.core, 0});
        assert_int_equal(rpma_conn_disconnect(rig.conn), RPMA_E_PROVIDER);
    }
}

void delete_without_disconnect_ends_everything(void** state) {
    Rig& rig = of(state);
    rig.device.current_limits.flush = false;
    make_shared_conn(rig, 4);
    id_of(rig).deliver(CmEventType::established, "unread");
    qp_of(rig).complete_send({.wr_id = 1});
    assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    assert_null(rig.conn);
    assert_int_equal(rig.device.live(), 1);
    check_delete_of_nothing(rpma_conn_delete);
}

// --- queues -----------------------------------------------------------------------------------

void qp_number_is_that_of_completions(void** state) {
    Rig& rig = of(state);
    make_conn(rig);
    std::uint32_t number = 0;
    assert_int_equal(rpma_conn_get_qp_num(rig.conn, &number), kSuccess);
    qp_of(rig).complete_send({.wr_id = 1});
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 1, &wc, nullptr), kSuccess);
    assert_int_equal(wc.qp_num, number);
}

/// Where receives complete.
enum class Place : std::uint8_t { conn_cq, conn_rcq, srq_rcq };
struct RoutingRow {
    bool srq;
    std::uint32_t srq_rcq_size;
    std::uint32_t rcq_size;
    Place place;
};
constexpr std::array kRouting{
    RoutingRow{false, 0, 0, Place::conn_cq}, RoutingRow{false, 0, 3, Place::conn_rcq},
    RoutingRow{true, 3, 0, Place::srq_rcq},  RoutingRow{true, 3, 3, Place::srq_rcq},
    RoutingRow{true, 0, 3, Place::conn_rcq}, RoutingRow{true, 0, 0, Place::conn_cq},
};

rpma_cq* queue_at(Rig& rig, Place place) {
    rpma_cq* srq_rcq = nullptr;
    if (rig.srq != nullptr) assert_int_equal(rpma_srq_get_rcq(rig.srq, &srq_rcq), kSuccess);
    switch (place) {
        case Place::conn_cq: return cq_of(rig);
        case Place::conn_rcq: return rcq_of(rig);
        case Place::srq_rcq: return srq_rcq;
    }
    return nullptr;
}

void check_receive_in(Rig& rig, Place place) {
    qp_of(rig).complete_receive({.wr_id = 1, .opcode = core::WcOpcode::receive});
    for (const Place other : {Place::conn_cq, Place::conn_rcq, Place::srq_rcq}) {
        rpma_cq* const queue = queue_at(rig, other);
        if (queue == nullptr) continue;
        ibv_wc wc{};
        const int rc = rpma_cq_get_wc(queue, 1, &wc, nullptr);
        assert_int_equal(rc, other == place ? kSuccess : RPMA_E_NO_COMPLETION);
    }
    qp_of(rig).complete_send({.wr_id = 2});
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(rig), 1, &wc, nullptr), kSuccess);
    assert_int_equal(wc.wr_id, 2);
}

void receives_complete_where_the_table_says(void** state) {
    Rig& rig = of(state);
    for (const RoutingRow& row : kRouting) {
        make_cfg(rig);
        rpma_conn_cfg_set_rcq_size(rig.cfg, row.rcq_size);
        if (row.srq) {
            make_srq(rig, row.srq_rcq_size);
            rpma_conn_cfg_set_srq(rig.cfg, rig.srq);
        }
        make_conn(rig);
        assert_int_equal(rcq_of(rig) != nullptr, row.place == Place::conn_rcq);
        assert_int_equal(qp_of(rig).attr.srq != nullptr, row.srq);
        check_receive_in(rig, row.place);
        assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
        assert_int_equal(rpma_srq_delete(&rig.srq), kSuccess);
        assert_int_equal(rpma_srq_cfg_delete(&rig.srq_cfg), kSuccess);
        assert_int_equal(rpma_conn_cfg_delete(&rig.cfg), kSuccess);
    }
}

void delete_leaves_the_srq_and_its_receive_cq(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 3);
    make_cfg(rig);
    rpma_conn_cfg_set_srq(rig.cfg, rig.srq);
    make_conn(rig);
    assert_int_equal(rpma_conn_delete(&rig.conn), kSuccess);
    assert_int_equal(rig.device.srqs().size(), 1);
    assert_int_equal(rig.device.cqs().size(), 1);
}

// --- the shared channel -----------------------------------------------------------------------

void shared_channel_is_one_for_both_queues(void** state) {
    Rig& rig = of(state);
    make_shared_conn(rig, 4);
    assert_int_equal(rig.device.channels().size(), 1);
    const int channel_fd = rig.device.channels().back()->fd();
    int fd = -1;
    assert_int_equal(rpma_conn_get_compl_fd(rig.conn, &fd), kSuccess);
    assert_int_equal(fd, channel_fd);
    for (rpma_cq* const queue : {cq_of(rig), rcq_of(rig)}) {
        fd = -1;
        assert_int_equal(rpma_cq_get_fd(queue, &fd), kSuccess);
        assert_int_equal(fd, channel_fd);
        assert_int_equal(rpma_cq_wait(queue), RPMA_E_SHARED_CHANNEL);
    }
}

void wait_tells_which_queue_has_a_completion(void** state) {
    Rig& rig = of(state);
    make_shared_conn(rig, 4);
    for (const int flags : {0, 1, -1}) {  // reserved: not looked at
        for (const bool receive : {false, true, true, false}) {
            if (receive)
                qp_of(rig).complete_receive({.wr_id = 1});
            else
                qp_of(rig).complete_send({.wr_id = 1});
            rpma_cq* cq = nullptr;
            bool is_rcq = !receive;
            assert_int_equal(rpma_conn_wait(rig.conn, flags, &cq, &is_rcq), kSuccess);
            assert_ptr_equal(cq, receive ? rcq_of(rig) : cq_of(rig));
            assert_int_equal(is_rcq, receive);
            ibv_wc wc{};
            assert_int_equal(rpma_cq_get_wc(cq, 1, &wc, nullptr), kSuccess);
        }
    }
}

void wait_works_without_is_rcq_and_without_a_receive_queue(void** state) {
    Rig& rig = of(state);
    make_shared_conn(rig, 0);
    qp_of(rig).complete_receive({.wr_id = 1});
    rpma_cq* cq = nullptr;
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, nullptr), kSuccess);
    assert_ptr_equal(cq, cq_of(rig));
    bool is_rcq = true;
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), kSuccess);
    assert_false(is_rcq);
}

void failed_wait_says_why_and_touches_nothing(void** state) {
    Rig& rig = of(state);
    make_shared_conn(rig, 4);
    test::FakeChannel& channel = *rig.device.channels().back();
    set_nonblocking(channel.fd());
    rpma_cq* cq = untouched<rpma_cq>();
    bool is_rcq = true;
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
    for (const ErrRow& row : kErrMap) {
        channel.raise(rig.device.cqs()[0]);
        rig.device.fail(Call::get_completion_event, 1, {row.core, 0});
        assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
    }
    // Those events are stale and still there: they are taken, and nothing is there.
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
    assert_int_equal(channel.pending(), 0);
    assert_ptr_equal(cq, untouched<rpma_cq>());
    assert_true(is_rcq);
}

void event_of_a_foreign_queue_is_unknown(void** state) {
    Rig& rig = of(state);
    make_srq(rig, 1);
    make_shared_conn(rig, 4);
    test::FakeCq* const foreign = rig.device.cqs().front();
    rig.device.channels().back()->raise(foreign);
    rpma_cq* cq = untouched<rpma_cq>();
    bool is_rcq = true;
    assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), RPMA_E_UNKNOWN);
    assert_ptr_equal(cq, untouched<rpma_cq>());
    assert_true(is_rcq);
}

void failed_arming_is_the_providers_and_gives_no_queue(void** state) {
    Rig& rig = of(state);
    make_shared_conn(rig, 4);
    for (const ErrRow& row : kErrMap) {
        rig.device.channels().back()->raise(rig.device.cqs()[0]);
        rig.device.fail(Call::request_notify, 1, {row.core, 0});
        rpma_cq* cq = untouched<rpma_cq>();
        bool is_rcq = true;
        assert_int_equal(rpma_conn_wait(rig.conn, 0, &cq, &is_rcq), RPMA_E_PROVIDER);
        assert_null(cq);
        assert_true(is_rcq);
    }
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(null_arguments_come_before_the_question_whether_the_channel_is_shared),
        TEST(every_event_has_its_name_and_is_told_at_notice),
        TEST(failed_connection_is_told_with_what_to_do),
        TEST(events_queue_from_the_request_on),
        TEST(event_that_is_none_of_a_connection_is_unknown),
        TEST(no_event_in_nonblocking_mode_is_no_event),
        TEST(failed_wait_for_an_event_is_the_providers),
        TEST(acceptance_brings_private_data_with_established),
        TEST(private_data_stays_where_it_is_until_delete),
        TEST(private_data_of_the_request_is_kept_over_that_of_established),
        TEST(private_data_of_a_rejection_is_dropped),
        TEST(disconnect_may_be_repeated),
        TEST(refused_disconnect_is_the_providers),
        TEST(delete_without_disconnect_ends_everything),
        TEST(qp_number_is_that_of_completions),
        TEST(receives_complete_where_the_table_says),
        TEST(delete_leaves_the_srq_and_its_receive_cq),
        TEST(shared_channel_is_one_for_both_queues),
        TEST(wait_tells_which_queue_has_a_completion),
        TEST(wait_works_without_is_rcq_and_without_a_receive_queue),
        TEST(failed_wait_says_why_and_touches_nothing),
        TEST(event_of_a_foreign_queue_is_unknown),
        TEST(failed_arming_is_the_providers_and_gives_no_queue),
    };
    return cmocka_run_group_tests_name("conn", tests, nullptr, nullptr);
}
