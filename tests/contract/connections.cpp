// SPDX-License-Identifier: BSD-3-Clause
// Connection management: every way to begin, to be refused and to end.
#include <fcntl.h>
#include <poll.h>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

void assert_private_data(const std::vector<std::byte>& got, const std::vector<std::byte>& sent) {
    if (subject().exact_private_data)
        assert_int_equal(got.size(), sent.size());
    else
        assert_true(got.size() >= sent.size());
    if (!sent.empty()) assert_memory_equal(got.data(), sent.data(), sent.size());
}

SocketAddress address_of(const Listening& listener) {
    return listener.id->local_address();
}

/// An address at which nobody listens any more.
SocketAddress deserted_address() {
    const Listening listener;
    return address_of(listener);
}

// --- beginning

void both_sides_are_told_and_know_their_addresses(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    assert_int_not_equal(address_of(listener).port(), 0);
    Side& active = fixture.side();
    Side& passive = fixture.side();
    start_connect(active, address_of(listener));
    accept(passive, listener.next_request());
    assert_ptr_equal(expect_event(active.cm(), CmEventType::established).id, active.id.get());
    assert_ptr_equal(expect_event(passive.cm(), CmEventType::established).id, passive.id.get());
    assert_true(active.id->peer_address() == address_of(listener));
    assert_true(passive.id->local_address() == address_of(listener));
    assert_true(passive.id->peer_address() == active.id->local_address());
    expect_no_event(active.cm());
    expect_no_event(passive.cm());
}

void private_data_of_every_length_arrives_exactly(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    const std::pair<std::size_t, std::size_t> lengths[] = {
        {0, 0}, {1, 0}, {0, 1}, {17, 31}, {limits().max_connect_data, limits().max_accept_data},
    };
    for (const auto& [request_length, reply_length] : lengths) {
        Side& active = fixture.side();
        Side& passive = fixture.side();
        const auto request_data = bytes_of(request_length, 1);
        const auto reply_data = bytes_of(reply_length, 2);
        start_connect(active, address_of(listener), request_data);
        std::vector<std::byte> got;
        accept(passive, listener.next_request(&got), reply_data);
        assert_private_data(got, request_data);
        assert_private_data(expect_event(active.cm(), CmEventType::established).private_data,
                            reply_data);
        expect_event(passive.cm(), CmEventType::established);
    }
}

void private_data_beyond_the_limit_is_too_long(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    active.make_id();
    assert_true(active.id->resolve({}, address_of(listener), 2000).has_value());
    active.make_qp();
    const auto too_much = bytes_of(limits().max_connect_data + 1U, 1);
    assert_error(active.id->connect(active.parameters(too_much)), Errc::too_long);
    assert_true(active.id->connect(active.parameters()).has_value());  // it may try again

    Side& passive = fixture.side();
    passive.id = listener.next_request();
    assert_true(passive.id->migrate(passive.cm()).has_value());
    assert_error(passive.id->reject(bytes_of(limits().max_reject_data + 1U, 1)), Errc::too_long);
    passive.make_qp();
    const auto reply = bytes_of(limits().max_accept_data + 1U, 1);
    assert_error(passive.id->accept(passive.parameters(reply)), Errc::too_long);
    assert_true(passive.id->accept(passive.parameters()).has_value());
    expect_event(active.cm(), CmEventType::established);
    expect_event(passive.cm(), CmEventType::established);
}

void requests_beside_each_other_are_kept_apart(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    constexpr unsigned kCount = 24;
    std::vector<Side*> active;
    for (unsigned i = 0; i < kCount; ++i) {
        active.push_back(&fixture.side());
        start_connect(*active.back(), address_of(listener), bytes_of(4, i));
    }
    std::vector<Side*> passive(kCount);
    for (unsigned i = 0; i < kCount; ++i) {
        std::vector<std::byte> got;
        auto request = listener.next_request(&got);
        unsigned who = 0;
        while (who < kCount && !std::equal(got.begin(), got.begin() + 4, bytes_of(4, who).begin()))
            ++who;
        assert_in_range(who, 0, kCount - 1);
        passive[who] = &fixture.side();
        accept(*passive[who], std::move(request), bytes_of(4, 100 + who));
    }
    for (unsigned i = 0; i < kCount; ++i) {
        const CmEvent event = expect_event(active[i]->cm(), CmEventType::established);
        assert_memory_equal(event.private_data.data(), bytes_of(4, 100 + i).data(), 4);
        expect_event(passive[i]->cm(), CmEventType::established);
        assert_true(passive[i]->id->peer_address() == active[i]->id->local_address());
    }
}

/// Connects one after the other, each when the one before stands; for a thread.
void connect_in_turn(Fixture& fixture, const std::vector<Side*>& sides) {
    for (Side* side : sides) {
        if (!side->id->connect(side->parameters())) break;
        pollfd ready{.fd = side->cm().fd(), .events = POLLIN, .revents = 0};
        while (!fixture.stop && ::poll(&ready, 1, 10) == 0) {
        }
        if (fixture.stop) break;
        const auto event = side->cm().get_event();
        if (!event || event->type != CmEventType::established) break;
        ++fixture.done;
    }
}

void connection_stands_before_its_peer_can_ask_for_the_next(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    constexpr int kCount = 100;
    std::vector<Side*> active;
    std::vector<Side*> passive;
    for (int i = 0; i < kCount; ++i) {
        active.push_back(&fixture.side());
        active.back()->make_id();
        assert_true(active.back()->id->resolve({}, address_of(listener), 2000).has_value());
        active.back()->make_qp();
        passive.push_back(&fixture.side());
    }
    fixture.run([&fixture, active] { connect_in_turn(fixture, active); });
    for (Side* side : passive) {
        side->id = expect_event(*listener.channel, CmEventType::connect_request).request;
        assert_true(side->id->migrate(*listener.channel).has_value());
        side->make_qp();
        assert_true(side->id->accept(side->parameters()).has_value());
        assert_ptr_equal(expect_event(*listener.channel, CmEventType::established).id,
                         side->id.get());
    }
    fixture.join();
    assert_int_equal(fixture.done.load(), kCount);
}

void ipv6_connects_as_ipv4_does(void** state) {
    if (!subject().address6) skip();
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening(*subject().address6);
    assert_int_equal(address_of(listener).family(), AF_INET6);
    Side& active = fixture.side();
    Side& passive = fixture.side();
    start_connect(active, address_of(listener));
    accept(passive, listener.next_request());
    expect_event(active.cm(), CmEventType::established);
    expect_event(passive.cm(), CmEventType::established);
    assert_true(passive.id->peer_address() == active.id->local_address());
    must_post_receive(active, 1);
    must_post(passive, {.opcode = Opcode::send});
    expect(active.receive_cq(), 1);
}

void connection_may_start_from_a_chosen_address(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    active.make_id();
    assert_true(active.id->resolve(subject().address, address_of(listener), 2000).has_value());
    active.make_qp();
    assert_true(active.id->connect(active.parameters()).has_value());
    Side& passive = fixture.side();
    accept(passive, listener.next_request());
    expect_event(active.cm(), CmEventType::established);
    SocketAddress without_port = passive.id->peer_address();
    without_port.set_port(0);
    assert_true(without_port == subject().address);
}

void accepting_side_may_send_at_once(void** state) {
    if (!subject().either_side_begins) skip();
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    Side& passive = fixture.side();
    active.make_id();
    assert_true(active.id->resolve({}, address_of(listener), 2000).has_value());
    active.make_qp();
    must_post_receive(active, 1);
    assert_true(active.id->connect(active.parameters()).has_value());
    accept(passive, listener.next_request());
    must_post(passive, {.wr_id = 2, .opcode = Opcode::send});
    expect(active.receive_cq(), 1);
    expect(passive.send_cq(), 2);
    expect_event(active.cm(), CmEventType::established);
    expect_event(passive.cm(), CmEventType::established);
}

void receives_posted_before_the_connection_are_used(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    Side& passive = fixture.side();
    start_connect(active, address_of(listener));
    passive.id = listener.next_request();
    assert_true(passive.id->migrate(passive.cm()).has_value());
    passive.make_qp();
    must_post_receive(passive, 7);
    assert_true(passive.id->accept(passive.parameters()).has_value());
    expect_event(active.cm(), CmEventType::established);
    must_post(active, {.opcode = Opcode::send});
    expect(passive.receive_cq(), 7);
}

// --- refusals

void rejection_arrives_with_its_data(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{5}, std::size_t{limits().max_reject_data}}) {
        Side& active = fixture.side();
        start_connect(active, address_of(listener));
        must_post_receive(active, 1);
        const auto data = bytes_of(length, 3);
        const auto request = listener.next_request();
        assert_true(request->reject(data).has_value());
        const CmEvent event = expect_event(active.cm(), CmEventType::rejected);
        assert_private_data(event.private_data, data);
        expect_no_event(active.cm());
        assert_error(active.id->disconnect(), Errc::wrong_state);
    }
}

void request_destroyed_without_an_answer_is_rejected(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    start_connect(active, address_of(listener));
    listener.next_request().reset();
    expect_event(active.cm(), CmEventType::rejected);
}

void request_nobody_took_is_rejected_when_the_listener_goes(void** state) {
    Fixture& fixture = fixture_of(state);
    Listening& listener = fixture.listening();
    Side& active = fixture.side();
    start_connect(active, address_of(listener));
    pollfd waiting{listener.channel->fd(), POLLIN, 0};
    assert_int_equal(poll(&waiting, 1, 10'000), 1);
    listener.id.reset();
    expect_event(active.cm(), CmEventType::rejected);
    assert_int_equal(poll(&waiting, 1, 0), 0);
}

void request_taken_before_the_listener_went_can_be_accepted(void** state) {
    Fixture& fixture = fixture_of(state);
    Listening& listener = fixture.listening();
    Side& active = fixture.side();
    Side& passive = fixture.side();
    start_connect(active, address_of(listener));
    auto request = listener.next_request();
    listener.id.reset();
    accept(passive, std::move(request));
    expect_event(active.cm(), CmEventType::established);
    expect_event(passive.cm(), CmEventType::established);
}

void address_where_nobody_listens_rejects(void** state) {
    Side& active = fixture_of(state).side();
    start_connect(active, deserted_address());
    must_post_receive(active, 1);
    expect_event(active.cm(), CmEventType::rejected);
    assert_error(active.id->disconnect(), Errc::wrong_state);
    expect_no_event(active.cm());
}

// Some networks answer for hosts that do not exist: they refuse.
void host_that_does_not_exist_is_told_in_bounded_time(void** state) {
    Side& side = fixture_of(state).side();
    SocketAddress nowhere = subject().foreign;
    nowhere.set_port(7204);
    side.make_id();
    const Status resolved = side.id->resolve({}, nowhere, 300);
    if (!resolved) {
        assert_error(resolved, Errc::unreachable);
        return;
    }
    side.make_qp();
    must_post_receive(side, 1);
    assert_true(side.id->connect(side.parameters()).has_value());
    pollfd told{side.cm().fd(), POLLIN, 0};
    assert_int_equal(poll(&told, 1, 10'000), 1);
    const auto event = side.cm().get_event();
    assert_true(event.has_value());
    assert_true(event->type == CmEventType::unreachable || event->type == CmEventType::rejected);
    expect(side.receive_cq(), 1, WcStatus::flushed);
    expect_no_event(side.cm());
}

void failed_attempt_leaves_the_queue_pair_in_the_error_state(void** state) {
    Side& side = fixture_of(state).side();
    start_connect(side, deserted_address());
    must_post_receive(side, 1);
    expect_event(side.cm(), CmEventType::rejected);
    expect(side.receive_cq(), 1, WcStatus::flushed);
    must_post(side, {.wr_id = 2, .opcode = Opcode::send, .flags = kUnsignaled});
    expect(side.send_cq(), 2, WcStatus::flushed);
    must_post_receive(side, 3);
    expect(side.receive_cq(), 3, WcStatus::flushed);
}

void unanswered_request_waits_and_can_be_given_up(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    start_connect(active, address_of(listener));
    auto request = listener.next_request();
    expect_no_event(active.cm());
    active.qp.reset();
    active.id.reset();
    // The program decides late: whatever it does ends, with an error or with an event that says so.
    Side& passive = fixture.side();
    passive.id = std::move(request);
    assert_true(passive.id->migrate(passive.cm()).has_value());
    auto qp = passive.id->create_qp(passive.qp_attr());
    if (!qp) return;
    passive.qp = std::move(*qp);
    if (!passive.id->accept(passive.parameters())) return;
    pollfd told{passive.cm().fd(), POLLIN, 0};
    assert_int_equal(poll(&told, 1, 10'000), 1);
    auto event = passive.cm().get_event();
    assert_true(event.has_value());
    if (event->type == CmEventType::established)
        expect_event(passive.cm(), CmEventType::disconnected);
    else
        assert_true(event->type == CmEventType::connect_error ||
                    event->type == CmEventType::disconnected);
}

void rejecting_a_peer_that_has_gone_is_harmless(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    start_connect(active, address_of(listener));
    const auto request = listener.next_request();
    active.qp.reset();
    active.id.reset();
    (void)request->reject({});
    fixture.connect();
}

// --- ends

struct Ends {
    Side* first;
    Side* second;
};
std::vector<Ends> both_ways(Pair& pair, Pair& other) {
    return {{&pair.active, &pair.passive}, {&other.passive, &other.active}};
}

void disconnect_is_told_once_to_each_side_and_flushes(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& one = fixture.connect();
    Pair& two = fixture.connect();
    for (const Ends& ends : both_ways(one, two)) {
        for (const Side* side : {ends.first, ends.second}) must_post_receive(*side, 1);
        assert_true(ends.first->id->disconnect().has_value());
        for (const Side* side : {ends.first, ends.second}) {
            assert_ptr_equal(expect_event(side->cm(), CmEventType::disconnected).id,
                             side->id.get());
            expect(side->receive_cq(), 1, WcStatus::flushed);
            must_post(*side, {.wr_id = 2, .opcode = Opcode::send});
            expect(side->send_cq(), 2, WcStatus::flushed);
        }
        // Again, and at the other side: success, and nobody is told again.
        for (const Side* side : {ends.first, ends.second, ends.first})
            assert_true(side->id->disconnect().has_value());
        expect_no_event(ends.first->cm());
        expect_no_event(ends.second->cm());
    }
}

void disconnect_of_both_sides_at_once_is_told_once(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 20; ++round) {
        Pair& pair = fixture.connect();
        fixture.run([&fixture, &pair] {
            if (!pair.passive.id->disconnect()) ++fixture.wrong;
        });
        assert_true(pair.active.id->disconnect().has_value());
        fixture.join();
        expect_event(pair.active.cm(), CmEventType::disconnected);
        expect_event(pair.passive.cm(), CmEventType::disconnected);
        if (round == 0) {
            expect_no_event(pair.active.cm());
            expect_no_event(pair.passive.cm());
        }
    }
    assert_int_equal(fixture.wrong, 0);
}

void requests_posted_before_disconnect_still_arrive(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& one = fixture.connect();
    Pair& two = fixture.connect();
    for (const Ends& ends : both_ways(one, two)) {
        const Buffer& local = ends.first->buffer(1 << 20);
        const Buffer& remote = ends.second->buffer(1 << 20);
        local.fill_pattern(4);
        must_post_receive(*ends.second, 1);
        must_post(*ends.first, {{.sges = {local.sge()}, .remote = at(remote), .flags = kUnsignaled},
                                {.opcode = Opcode::send, .flags = kUnsignaled}});
        assert_true(ends.first->id->disconnect().has_value());
        expect(ends.second->receive_cq(), 1);
        assert_true(holds_pattern(remote.data(), remote.size(), 0, 4));
        expect_event(ends.first->cm(), CmEventType::disconnected);
        expect_event(ends.second->cm(), CmEventType::disconnected);
    }
}

void requests_posted_before_disconnect_arrive_though_all_is_destroyed_at_once(void** state) {
    Fixture& fixture = fixture_of(state);
    for (int round = 0; round < 10; ++round) {
        Pair& pair = fixture.connect();
        const Buffer& local = pair.active.buffer(300'000);
        const Buffer& remote = pair.passive.buffer(300'000);
        local.fill_pattern(5);
        must_post_receive(pair.passive, 1);
        must_post(pair.active, {{.sges = {local.sge()}, .remote = at(remote), .flags = kUnsignaled},
                                {.opcode = Opcode::send, .flags = kUnsignaled}});
        assert_true(pair.active.id->disconnect().has_value());
        pair.active.qp.reset();
        pair.active.id.reset();
        pair.active.buffers.clear();
        expect(pair.passive.receive_cq(), 1);
        assert_true(holds_pattern(remote.data(), remote.size(), 0, 5));
        expect_event(pair.passive.cm(), CmEventType::disconnected);
    }
}

void disconnect_of_what_was_never_connected_is_the_wrong_state(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& side = fixture.side();
    side.make_id();
    assert_error(side.id->disconnect(), Errc::wrong_state);
    assert_error(listener.id->disconnect(), Errc::wrong_state);
}

void destroying_an_end_is_told_to_the_other(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& one = fixture.connect();
    Pair& two = fixture.connect();
    for (const Ends& ends : both_ways(one, two)) {
        must_post_receive(*ends.second, 1);
        ends.first->qp.reset();
        ends.first->id.reset();
        expect_event(ends.second->cm(), CmEventType::disconnected);
        expect(ends.second->receive_cq(), 1, WcStatus::flushed);
        expect_no_event(ends.second->cm());
        assert_true(ends.second->id->disconnect().has_value());
    }
}

void destroyed_id_leaves_no_event(void** state) {
    Pair& pair = fixture_of(state).connect();
    assert_true(pair.passive.id->disconnect().has_value());
    pollfd told{pair.active.cm().fd(), POLLIN, 0};
    assert_int_equal(poll(&told, 1, 10'000), 1);
    pair.active.qp.reset();
    pair.active.id.reset();
    assert_int_equal(poll(&told, 1, 0), 0);
    assert_error(pair.active.cm().get_event(), Errc::would_block);
}

void address_is_free_again_when_the_listener_is_gone(void** state) {
    Fixture& fixture = fixture_of(state);
    Listening& listener = fixture.listening();
    const SocketAddress address = address_of(listener);
    Side& active = fixture.side();
    Side& passive = fixture.side();
    start_connect(active, address);
    accept(passive, listener.next_request());
    expect_event(active.cm(), CmEventType::established);
    listener.id.reset();
    const Listening& again = fixture.listening(address);  // though a connection of it lives on
    assert_true(address_of(again) == address);
}

// --- events

void events_follow_an_id_to_another_channel(void** state) {
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect();
    Side& elsewhere = fixture.side();
    // One that waits already, and one that comes later.
    assert_true(pair.active.id->disconnect().has_value());
    pollfd told{pair.passive.cm().fd(), POLLIN, 0};
    assert_int_equal(poll(&told, 1, 10'000), 1);
    for (Side* side : {&pair.active, &pair.passive})
        assert_true(side->id->migrate(elsewhere.cm()).has_value());
    std::vector<CmId*> seen;
    for (int i = 0; i < 2; ++i)
        seen.push_back(expect_event(elsewhere.cm(), CmEventType::disconnected).id);
    assert_true(seen[0] != seen[1]);
    expect_no_event(pair.active.cm());
    expect_no_event(pair.passive.cm());
}

void events_of_an_id_without_channel_wait_for_one(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& active = fixture.side();
    Side& passive = fixture.side();
    auto id = subject().device->create_cm_id(nullptr);
    assert_true(id.has_value());
    active.id = std::move(*id);
    start_connect(active, address_of(listener));
    accept(passive, listener.next_request());
    expect_event(passive.cm(), CmEventType::established);
    assert_true(passive.id->disconnect().has_value());
    expect_event(passive.cm(), CmEventType::disconnected);
    assert_true(active.id->migrate(active.cm()).has_value());
    expect_event(active.cm(), CmEventType::established);
    expect_event(active.cm(), CmEventType::disconnected);
}

void blocking_get_event_returns_when_a_request_comes(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    const int fd = listener.channel->fd();
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
    Side& active = fixture.side();
    active.make_id();
    assert_true(active.id->resolve({}, address_of(listener), 2000).has_value());
    active.make_qp();
    fixture.run([&] {
        if (!active.id->connect(active.parameters())) ++fixture.wrong;
    });
    auto event = listener.channel->get_event();
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
    assert_true(event.has_value());
    assert_int_equal(event->type, CmEventType::connect_request);
}

void context_is_kept(void** state) {
    Side& side = fixture_of(state).side();
    side.make_id();
    assert_null(side.id->context());
    side.id->set_context(&side);
    assert_ptr_equal(side.id->context(), &side);
}

// --- misuse

void address_of_another_listener_is_in_use(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    Side& side = fixture.side();
    side.make_id();
    Status status = side.id->bind(address_of(listener));
    if (status) status = side.id->listen(0);
    assert_error(status, Errc::address_in_use);
}

void foreign_address_is_no_device(void** state) {
    Side& side = fixture_of(state).side();
    side.make_id();
    assert_error(side.id->bind(subject().foreign), Errc::no_device);
}

void calls_out_of_order_are_the_wrong_state(void** state) {
    Fixture& fixture = fixture_of(state);
    Side& side = fixture.side();
    side.make_id();
    assert_error(side.id->listen(0), Errc::wrong_state);
    assert_error(side.id->connect(side.parameters()), Errc::wrong_state);
    assert_error(side.id->accept(side.parameters()), Errc::wrong_state);
    assert_error(side.id->reject({}), Errc::wrong_state);
    Pair& pair = fixture.connect();
    assert_error(pair.active.id->connect(pair.active.parameters()), Errc::wrong_state);
    assert_error(pair.passive.id->accept(pair.passive.parameters()), Errc::wrong_state);
    assert_error(pair.passive.id->reject({}), Errc::wrong_state);
    expect_working(pair);
}

void connections_come_and_go_without_end(void** state) {
    Fixture& fixture = fixture_of(state);
    const Listening& listener = fixture.listening();
    for (int round = 0; round < 100; ++round) {
        Side active{SideOptions{}};
        Side passive{SideOptions{}};
        start_connect(active, address_of(listener));
        accept(passive, listener.next_request());
        expect_event(active.cm(), CmEventType::established);
        Side& ends = round % 2 == 0 ? active : passive;
        Side& told = round % 2 == 0 ? passive : active;
        if (round % 3 == 0)
            assert_true(ends.id->disconnect().has_value());
        else
            ends.qp.reset();
        if (&told == &passive) expect_event(told.cm(), CmEventType::established);
        if (round % 3 == 0) expect_event(told.cm(), CmEventType::disconnected);
    }
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(both_sides_are_told_and_know_their_addresses),
    CONTRACT_TEST(private_data_of_every_length_arrives_exactly),
    CONTRACT_TEST(private_data_beyond_the_limit_is_too_long),
    CONTRACT_TEST(requests_beside_each_other_are_kept_apart),
    CONTRACT_TEST(connection_stands_before_its_peer_can_ask_for_the_next),
    CONTRACT_TEST(ipv6_connects_as_ipv4_does),
    CONTRACT_TEST(connection_may_start_from_a_chosen_address),
    CONTRACT_TEST(accepting_side_may_send_at_once),
    CONTRACT_TEST(receives_posted_before_the_connection_are_used),
    CONTRACT_TEST(rejection_arrives_with_its_data),
    CONTRACT_TEST(request_destroyed_without_an_answer_is_rejected),
    CONTRACT_TEST(request_nobody_took_is_rejected_when_the_listener_goes),
    CONTRACT_TEST(request_taken_before_the_listener_went_can_be_accepted),
    CONTRACT_TEST(address_where_nobody_listens_rejects),
    CONTRACT_TEST(host_that_does_not_exist_is_told_in_bounded_time),
    CONTRACT_TEST(failed_attempt_leaves_the_queue_pair_in_the_error_state),
    CONTRACT_TEST(unanswered_request_waits_and_can_be_given_up),
    CONTRACT_TEST(rejecting_a_peer_that_has_gone_is_harmless),
    CONTRACT_TEST(disconnect_is_told_once_to_each_side_and_flushes),
    CONTRACT_TEST(disconnect_of_both_sides_at_once_is_told_once),
    CONTRACT_TEST(requests_posted_before_disconnect_still_arrive),
    CONTRACT_TEST(requests_posted_before_disconnect_arrive_though_all_is_destroyed_at_once),
    CONTRACT_TEST(disconnect_of_what_was_never_connected_is_the_wrong_state),
    CONTRACT_TEST(destroying_an_end_is_told_to_the_other),
    CONTRACT_TEST(destroyed_id_leaves_no_event),
    CONTRACT_TEST(address_is_free_again_when_the_listener_is_gone),
    CONTRACT_TEST(events_follow_an_id_to_another_channel),
    CONTRACT_TEST(events_of_an_id_without_channel_wait_for_one),
    CONTRACT_TEST(blocking_get_event_returns_when_a_request_comes),
    CONTRACT_TEST(context_is_kept),
    CONTRACT_TEST(address_of_another_listener_is_in_use),
    CONTRACT_TEST(foreign_address_is_no_device),
    CONTRACT_TEST(calls_out_of_order_are_the_wrong_state),
    CONTRACT_TEST(connections_come_and_go_without_end),
};

}  // namespace

std::span<const CMUnitTest> connection_tests() {
    return kTests;
}

}  // namespace compat::contract
