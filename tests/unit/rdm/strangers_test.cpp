// SPDX-License-Identifier: BSD-3-Clause
// Whom a connectionless endpoint believes: what requests that anybody can send do to it, and to the
// connections that stand.
#include <malloc.h>

#include <chrono>
#include <thread>

#include "tests/unit/rdm/fake_rig.hpp"

namespace compat::core {
namespace {

SocketAddress host(std::uint32_t number, std::uint16_t port = kPeerPort) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(number);
    in.sin_port = htons(port);
    return *SocketAddress::from(reinterpret_cast<sockaddr*>(&in), sizeof in);
}
constexpr std::uint32_t kElsewhere = 0xc0000201;  // 192.0.2.1

std::string insisting(std::uint64_t instance, std::uint16_t port = kPeerPort) {
    const auto bytes = rdm::encode({.name = loopback(port),
                                    .instance = instance,
                                    .extra = true,
                                    .data_buffers = 32,
                                    .control_buffers = 8,
                                    .buffer_length = rdm::kBufferLength});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void what_is_no_request_of_ours_is_refused(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    for (const std::string& said : {std::string(), std::string(rdm::kHelloLength, 'x'),
                                    hello(1).substr(0, rdm::kHelloLength - 1)}) {
        rig.ask(said);
        rig.poll();
        assert_int_equal(rig.device.cm_ids().size(), 1);
        assert_int_equal(rig.device.qps().size(), 0);
    }
}

void no_request_ends_a_connection_that_stands(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig, 77);
    FakeQp& standing = qp(rig);
    for (const std::string& said : {hello(77), hello(78), insisting(77), insisting(78)}) {
        rig.ask(said);
        rig.poll();
        assert_false(standing.failed);
    }
    // What is posted still takes it.
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(standing.posted.size(), 1);
}

void a_request_is_of_the_host_that_it_came_from(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig, 77);
    FakeQp& standing = qp(rig);
    const AddressIndex stranger = *rig.book.insert(host(kElsewhere));
    rig.ask(hello(78), host(kElsewhere, 40'000));  // "127.0.0.1"
    rig.poll();
    assert_int_equal(rig.device.qps().size(), 2);
    rig.device.cm_ids().back()->deliver(CmEventType::established);
    std::uint64_t word = 0;
    LocalBuffer local;
    assert_true(rig.endpoint->receive(receive_into(&word, sizeof word, 1, local)).has_value());
    arrive(
        rig,
        {.kind = MessageKind::eager, .data_permit = 32, .control_permit = 8, .length = sizeof word},
        std::as_bytes(std::span(&word, 1)));
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].peer, stranger);
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(standing.posted.size(), 1);
}

void requests_come_from_the_host_that_the_endpoint_is_bound_to(void** state) {
    FakeRig& rig = of(state);
    connect(rig);
    const SocketAddress& source = rig.device.cm_ids().back()->local;
    assert_true(source.same_host(loopback()));
    assert_int_equal(source.port(), 0);
}

void what_nothing_has_come_over_is_not_sent_on(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    rig.ask(hello(77));
    rig.poll();
    rig.device.cm_ids().back()->deliver(CmEventType::established);
    rig.poll();
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
    assert_int_equal(rig.device.qps().size(), 1);
    // After a while we ask ourselves: somebody else may have taken the peer's name.
    assert_true(keep_trying([&] {
        assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
        return rig.device.qps().size() == 2;
    }));
    stand(rig);
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(qp(rig).posted.size(), 1);
}

void whoever_shows_itself_is_preferred_to_whoever_does_not(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    for (const std::string& said : {hello(77), insisting(78)}) {
        rig.ask(said);
        rig.poll();
        rig.device.cm_ids().back()->deliver(CmEventType::established);
        rig.poll();
    }
    assert_int_equal(rig.device.qps().size(), 2);
    greet(rig);
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(qp(rig).posted.size(), 1);
}

void a_request_that_insists_is_accepted_beside_the_connection_that_stands(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig, 77);
    FakeQp& old = qp(rig);
    rig.ask(insisting(77));
    rig.poll();
    assert_int_equal(rig.device.qps().size(), 2);
    rig.device.cm_ids().back()->deliver(CmEventType::established);
    greet(rig);
    // Once the old one is seen to be gone, the new one is there at once.
    rig.device.cm_ids()[1]->deliver(CmEventType::disconnected);
    rig.poll();
    flush(rig, old);
    assert_int_equal(rig.device.qps().size(), 1);
    assert_true(send_word(rig, peer).has_value());
}

void however_often_somebody_insists_there_are_few_connections_to_one_name(void** state) {
    FakeRig& rig = of(state);
    connect(rig, 77);
    for (std::uint64_t instance = 1; instance <= 20; ++instance) {
        rig.ask(insisting(instance));
        rig.poll();
    }
    assert_int_equal(rig.device.qps().size(), 4);
}

constexpr std::size_t kMost = 1024;

/// Requests of ever new peers.
struct Crowd {
    FakeRig& rig;
    std::uint16_t asked = 0;

    /// Whether it was accepted; what the device says of it is left to the caller.
    bool ask() {
        const std::size_t before = rig.device.qps().size();
        rig.ask(hello(asked, static_cast<std::uint16_t>(10'000 + asked)));
        ++asked;
        rig.poll();
        return rig.device.qps().size() > before;
    }
    void stand() {
        rig.device.cm_ids().back()->deliver(CmEventType::established);
        rig.poll();
    }
    void fill(std::size_t most = SIZE_MAX) {
        while (rig.device.qps().size() < most && ask()) stand();
    }
};

void those_that_show_nothing_are_bounded_and_give_way(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig, 77);
    Crowd crowd{rig};
    // The first does not stand yet: its end would be told of a failure.
    assert_true(crowd.ask());
    crowd.fill();
    const auto& qps = rig.device.qps();
    assert_int_equal(qps.size(), 1 + kMost);
    FakeQp& standing = *qps[0];
    FakeQp& slow = *qps[1];
    FakeQp& oldest = *qps[2];
    // Later there is a place for others.
    assert_true(keep_trying([&] {
        crowd.ask();
        return oldest.failed;
    }));
    assert_false(standing.failed);
    assert_false(slow.failed);
    assert_true(send_word(rig, peer).has_value());
    // And those that showed themselves are not of that number.
    flush(rig, oldest);
    assert_int_equal(qps.size(), 1 + kMost);
    crowd.stand();
    greet(rig);
    assert_true(crowd.ask());
    assert_int_equal(qps.size(), 1 + kMost + 1);
    assert_int_equal(rig.done.size(), 0);
}

void nobody_gives_way_whose_word_waits_to_be_read(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    Crowd crowd{rig};
    // Not one more: where that takes long, the oldest would have to give way already.
    crowd.fill(kMost);
    assert_int_equal(rig.device.qps().size(), kMost);
    FakeQp& oldest = *rig.device.qps()[0];
    // The program does something else for longer than anybody is waited for.
    std::this_thread::sleep_for(std::chrono::seconds(6));
    lay_down(oldest, {.kind = MessageKind::permit, .data_permit = 32, .control_permit = 8});
    rig.ask(hello(5));
    const AddressIndex somebody = *rig.book.insert(loopback(kPeerPort + 1));
    assert_int_equal(send_word(rig, somebody).error().code, Errc::would_block);  // sees the request
    rig.poll();
    assert_false(oldest.failed);
}

void a_name_that_somebody_holds_becomes_free(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    for (std::uint64_t instance = 1; instance <= 4; ++instance) {
        rig.ask(insisting(instance));
        rig.poll();
        rig.device.cm_ids().back()->deliver(CmEventType::established);
        rig.poll();
    }
    FakeQp& oldest = *rig.device.qps()[0];
    assert_true(keep_trying([&] {
        rig.ask(insisting(77));
        rig.poll();
        return oldest.failed;
    }));
}

void whoever_is_told_to_come_again_does_and_its_program_sees_no_error(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
    for (int times = 0; times < 5; ++times) {
        rig.device.cm_ids().back()->deliver(CmEventType::rejected, refusal(Refusal::busy));
        rig.poll();
        assert_int_equal(rig.device.qps().size(), 0);
        assert_true(keep_trying([&] {
            assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
            return rig.device.qps().size() == 1;
        }));
        // It does not insist: there is no connection that the peer has to give up.
        const std::string& said = rig.device.cm_ids().back()->private_data;
        assert_false(rdm::parse_hello(std::as_bytes(std::span(said)))->extra);
    }
    stand(rig);
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(rig.done.size(), 0);
}

/// Bytes that the process has allocated.
std::size_t allocated() {
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

void peers_that_come_and_go_leave_nothing_behind(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    std::uint64_t word = 0;
    const auto visit = [&](std::uint32_t number) {
        rig.ask(hello(number), host(number));
        rig.poll();
        rig.device.cm_ids().back()->deliver(CmEventType::established);
        arrive(rig,
               {.kind = MessageKind::eager,
                .data_permit = 32,
                .control_permit = 8,
                .length = sizeof word},
               std::as_bytes(std::span(&word, 1)));
        FakeQp& own = qp(rig);
        rig.device.cm_ids().back()->deliver(CmEventType::disconnected);
        rig.poll();
        flush(rig, own);
        assert_int_equal(rig.device.qps().size(), 0);
        // Its message is still there.
        LocalBuffer local;
        assert_true(rig.endpoint->receive(receive_into(&word, sizeof word, 1, local)).has_value());
        rig.poll();
        assert_int_equal(rig.done.size(), 1);
        rig.done.clear();
    };
    constexpr std::uint32_t kVisits = 2000;
    for (std::uint32_t at = 1; at <= kVisits; ++at) visit(kElsewhere + at);
    const std::size_t before = allocated();
    if (before == 0) skip();  // a sanitizer's own malloc
    for (std::uint32_t at = 1; at <= kVisits; ++at) visit(kElsewhere + kVisits + at);
    const std::size_t after = allocated();
    assert_true(after < before + kVisits * 32);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        RIGGED(what_is_no_request_of_ours_is_refused),
        RIGGED(no_request_ends_a_connection_that_stands),
        RIGGED(a_request_is_of_the_host_that_it_came_from),
        RIGGED(requests_come_from_the_host_that_the_endpoint_is_bound_to),
        RIGGED(what_nothing_has_come_over_is_not_sent_on),
        RIGGED(whoever_shows_itself_is_preferred_to_whoever_does_not),
        RIGGED(a_request_that_insists_is_accepted_beside_the_connection_that_stands),
        RIGGED(however_often_somebody_insists_there_are_few_connections_to_one_name),
        RIGGED(those_that_show_nothing_are_bounded_and_give_way),
        RIGGED(nobody_gives_way_whose_word_waits_to_be_read),
        RIGGED(a_name_that_somebody_holds_becomes_free),
        RIGGED(whoever_is_told_to_come_again_does_and_its_program_sees_no_error),
        RIGGED(peers_that_come_and_go_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
