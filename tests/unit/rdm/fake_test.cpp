// SPDX-License-Identifier: BSD-3-Clause
// core/rdm on a fake device: what it posts, and what it does when calls fail.
#include "tests/unit/rdm/fake_rig.hpp"

namespace compat::core {
namespace {

void whatever_fails_while_opening_leaves_nothing_behind(void** state) {
    FakeRig& rig = of(state);
    int failures = 0;
    for (int nth = 1;; ++nth) {
        rig.device.fail_any(nth, {Errc::no_memory});
        const Status opened = rig.open();
        if (!rig.device.has_failed()) {
            rig.device.fail_nothing();
            assert_true(opened.has_value());
            break;
        }
        ++failures;
        assert_false(opened.has_value());
        assert_int_equal(rig.device.live(), rig.before);
    }
    assert_true(failures >= 5);
    rig.endpoint.reset();
    assert_int_equal(rig.device.live(), rig.before);
}

void whatever_fails_while_connecting_fails_one_operation_or_none(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    const std::size_t idle = rig.device.live();
    for (int nth = 1;; ++nth) {
        rig.device.fail_any(nth, {Errc::unreachable});
        const Status posted = send_word(rig, peer);
        const bool failed = rig.device.has_failed();
        rig.device.fail_nothing();
        rig.poll();
        if (!failed) {
            assert_int_equal(posted.error().code, Errc::would_block);
            break;
        }
        // Accepted and completed with an error, or refused.
        if (posted) {
            assert_int_equal(rig.done.size(), 1);
            assert_int_equal(rig.done[0].status, WcStatus::retry_exceeded);
        } else {
            assert_int_equal(rig.done.size(), 0);
        }
        rig.done.clear();
        if (rig.device.qps().size() == 1) break;
        assert_int_equal(rig.device.live(), idle);
    }
    assert_int_equal(rig.cq->space().occupied(), 0);
}

void a_connection_that_is_refused_by_nobody_of_ours_fails_one_operation(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    for (const CmEventType type :
         {CmEventType::rejected, CmEventType::unreachable, CmEventType::connect_error}) {
        assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
        rig.device.cm_ids().back()->deliver(type);
        rig.poll();
        assert_true(send_word(rig, peer, 9).has_value());
        rig.poll();
        assert_int_equal(rig.done.size(), 1);
        assert_int_equal(rig.done[0].status, WcStatus::retry_exceeded);
        assert_ptr_equal(rig.done[0].context, context_of(9));
        rig.done.clear();
    }
}

void of_two_requests_that_cross_one_survives(void** state) {
    for (const bool own_survives : {true, false}) {
        FakeRig rig;
        assert_true(rig.open().has_value());
        const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
        assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
        const std::uint64_t own = rig.own_instance();
        FakeCmId* const mine = rig.device.cm_ids().back();
        rig.ask(hello(own_survives ? own + 1 : own - 1));
        const std::size_t ids = rig.device.cm_ids().size();
        rig.poll();
        // The one that lost is gone.
        assert_int_equal(rig.device.cm_ids().size(), ids - 1);
        const bool mine_lives = rig.device.cm_ids().back() == mine;
        assert_int_equal(mine_lives, own_survives);
        if (!own_survives) assert_true(rig.device.cm_ids().back()->accepted);
        if (own_survives) {
            stand(rig, own + 1);
        } else {
            rig.device.cm_ids().back()->deliver(CmEventType::established);
            greet(rig);
        }
        assert_true(send_word(rig, peer).has_value());
        assert_int_equal(rig.device.qps().size(), 1);
    }
    static_cast<void>(state);
}

void a_refusal_because_of_crossing_waits_for_the_peer(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
    rig.device.cm_ids().back()->deliver(CmEventType::rejected, refusal(Refusal::crossing));
    rig.poll();
    // No request of ours meanwhile, and no error.
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
    assert_int_equal(rig.device.cm_ids().size(), 1);
    rig.ask(hello(5));
    rig.poll();
    rig.device.cm_ids().back()->deliver(CmEventType::established);
    greet(rig);
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(rig.done.size(), 0);
}

void whoever_is_told_of_a_connection_that_it_has_not_says_so(void** state) {
    FakeRig& rig = of(state);
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    for (int request = 1; request <= 3; ++request) {
        // Each after a pause, in which the peer may notice by itself.
        assert_true(keep_trying([&] {
            assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
            return rig.device.cm_ids().size() == 2;
        }));
        FakeCmId& own = *rig.device.cm_ids().back();
        const auto said = rdm::parse_hello(std::as_bytes(std::span(own.private_data)));
        assert_int_equal(said->extra, request == 3);
        own.deliver(CmEventType::rejected, refusal(Refusal::connected));
        rig.poll();
    }
    assert_int_equal(rig.done.size(), 0);
}

void what_is_no_message_ends_the_connection(void** state) {
    FakeRig& rig = of(state);
    connect(rig);
    FakeQp& own = qp(rig);
    arrive(rig, {.kind = MessageKind::eager, .length = 100});  // without its bytes
    assert_true(own.failed);
    flush(rig, own);
    assert_int_equal(rig.device.qps().size(), 0);
}

void an_acknowledgement_of_nothing_is_ignored(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    arrive(rig, {.kind = MessageKind::acknowledge, .id = 0});
    arrive(rig, {.kind = MessageKind::acknowledge, .id = 4'000'000'000U});
    assert_false(qp(rig).failed);
    // An eager message awaits none either.
    assert_true(send_word(rig, peer).has_value());
    arrive(rig, {.kind = MessageKind::acknowledge, .id = 0});
    assert_int_equal(rig.done.size(), 0);
    qp(rig).complete_send({.wr_id = qp(rig).posted.back().request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].status, WcStatus::success);
}

void permissions_bound_what_is_sent(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    int sent = 0;
    while (send_word(rig, peer)) {
        ++sent;
        qp(rig).complete_send({.wr_id = qp(rig).posted.back().request.wr_id});
        rig.poll();
        assert_true(sent <= 32);
    }
    assert_int_equal(sent, 32);
    arrive(rig, {.kind = MessageKind::permit, .data_permit = 33, .control_permit = 8});
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
    // Permissions cannot be taken back.
    arrive(rig, {.kind = MessageKind::permit, .data_permit = 35, .control_permit = 8});
    arrive(rig, {.kind = MessageKind::permit, .data_permit = 2, .control_permit = 1});
    assert_true(send_word(rig, peer).has_value());
    assert_true(send_word(rig, peer).has_value());
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
}

void freed_buffers_are_announced_before_the_peer_runs_dry(void** state) {
    FakeRig& rig = of(state);
    connect(rig);
    std::uint64_t word = 0;
    LocalBuffer local;
    for (int at = 0; at < 16; ++at) {
        assert_int_equal(qp(rig).posted.size(), 0);
        assert_true(rig.endpoint->receive(receive_into(&word, sizeof word, 1, local)).has_value());
        arrive(rig,
               {.kind = MessageKind::eager,
                .data_permit = 32,
                .control_permit = 8,
                .length = sizeof word},
               std::as_bytes(std::span(&word, 1)));
    }
    assert_int_equal(qp(rig).posted.size(), 1);
    const auto header = rdm::parse_header(qp(rig).posted[0].inline_bytes);
    assert_true(header.has_value());
    assert_true(header->kind == MessageKind::permit);
    assert_int_equal(header->data_permit, 48);
}

void local_memory_without_a_key_gets_one_for_the_time_of_the_operation(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    const std::size_t regions = rig.device.mrs().size();
    std::array<std::byte, 64> memory{};
    SingleOperation read{.opcode = Opcode::read,
                         .flags = OpFlag::entry,
                         .has_remote = true,
                         .rkey = 5,
                         .remote_address = 0x1000,
                         .local = {memory.data(), memory.size()},
                         .context = context_of(4)};
    assert_true(rig.endpoint->post(peer, read).has_value());
    assert_int_equal(rig.device.mrs().size(), regions + 1);
    const test::FakeMr& own = *rig.device.mrs().back();
    assert_ptr_equal(own.attr.address, memory.data());
    assert_true(own.attr.access.has(Access::local_write));
    assert_int_equal(qp(rig).posted.back().sges[0].lkey, own.lkey());
    qp(rig).complete_send({.wr_id = qp(rig).posted.back().request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 1);
    assert_ptr_equal(rig.done[0].context, context_of(4));
    assert_int_equal(rig.done[0].kind, CompletionKind::read);
    assert_int_equal(rig.device.mrs().size(), regions);
    // With a key it stays as it is.
    read.local.lkey = 0x77;
    assert_true(rig.endpoint->post(peer, read).has_value());
    assert_int_equal(rig.device.mrs().size(), regions);
    assert_int_equal(qp(rig).posted.back().sges[0].lkey, 0x77);
    // A registration that fails takes nothing along.
    read.local.lkey = kUnregisteredLkey;
    rig.device.fail(Call::register_memory, 1, {Errc::access_denied});
    assert_int_equal(rig.endpoint->post(peer, read).error().code, Errc::access_denied);
    assert_int_equal(rig.cq->space().occupied(), 1);
}

void a_delivered_write_ends_when_a_byte_of_the_peer_was_read_behind_it(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    const SingleOperation write{.opcode = Opcode::write,
                                .flags = OpFlag::entry | OpFlag::deliver,
                                .has_remote = true,
                                .rkey = 5,
                                .remote_address = 0x1000,
                                .local = {&rig, 8, 0x77},
                                .context = context_of(4)};
    assert_true(rig.endpoint->post(peer, write).has_value());
    FakeQp& own = qp(rig);
    assert_int_equal(own.posted.size(), 2);
    assert_int_equal(own.posted[0].request.opcode, Opcode::write);
    const test::PostedSend& probe = own.posted[1];
    assert_int_equal(probe.request.opcode, Opcode::read);
    assert_int_equal(probe.request.rkey, kPeerProbeKey);
    assert_int_equal(probe.request.remote_address, kPeerProbeAddress);
    own.complete_send({.wr_id = probe.request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].kind, CompletionKind::write);
    assert_ptr_equal(rig.done[0].context, context_of(4));
}

const test::FakeMr* region_at(FakeRig& rig, std::uint64_t address) {
    for (const test::FakeMr* region : rig.device.mrs())
        if (reinterpret_cast<std::uintptr_t>(region->attr.address) == address) return region;
    return nullptr;
}

void peers_are_given_a_byte_to_read_and_nothing_to_write(void** state) {
    FakeRig& rig = of(state);
    connect(rig);
    const std::string& said = rig.device.cm_ids().back()->private_data;
    const auto own = rdm::parse_hello(std::as_bytes(std::span(said)));
    assert_true(own.has_value());
    const test::FakeMr* const region = region_at(rig, own->probe_address);
    assert_non_null(region);
    assert_int_equal(region->rkey(), own->probe_rkey);
    assert_int_equal(region->attr.length, 1);
    assert_true(region->attr.access == (Access::remote_read | Access::read_source));
    assert_true(qp(rig).attr.access.has(Access::read_source));
}

void a_write_with_data_takes_a_buffer_of_the_peer(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    const SingleOperation write{
        .opcode = Opcode::write_imm, .has_remote = true, .rkey = 5, .remote_address = 0x1000};
    for (int at = 0; at < 32; ++at) assert_true(rig.endpoint->post(peer, write).has_value());
    assert_int_equal(rig.endpoint->post(peer, write).error().code, Errc::would_block);
    // The peer's writes take ours, which go back and are announced.
    FakeQp& own = qp(rig);
    const std::size_t posted = own.posted.size();
    for (int at = 0; at < 16; ++at) {
        const test::PostedReceive buffer = own.posted_receives.front();
        own.posted_receives.erase(own.posted_receives.begin());
        own.complete_receive({.wr_id = buffer.wr_id,
                              .opcode = WcOpcode::receive_write_imm,
                              .has_imm = true,
                              .byte_length = 8,
                              .imm = 99});
        rig.poll();
    }
    assert_int_equal(rig.done.size(), 16);
    assert_int_equal(rig.done[0].kind, CompletionKind::remote_write);
    assert_int_equal(rig.done[0].imm, 99);
    assert_int_equal(rig.done[0].peer, peer);
    assert_int_equal(own.posted.size(), posted + 1);
    const auto header = rdm::parse_header(own.posted.back().inline_bytes);
    assert_true(header.has_value());
    assert_int_equal(header->data_permit, 48);
}

constexpr std::uint64_t kLongData = 0x0123456789abcdef;
const SingleOperation kToldWrite{.opcode = Opcode::write_imm,
                                 .flags = OpFlag::entry,
                                 .has_remote = true,
                                 .rkey = 5,
                                 .remote_address = 0x1000,
                                 .imm = kLongData,
                                 .context = context_of(3)};

void data_that_the_device_cannot_carry_comes_behind_the_write(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    FakeQp& own = qp(rig);
    assert_true(rig.endpoint->post(peer, kToldWrite).has_value());
    assert_int_equal(own.posted.size(), 2);
    assert_int_equal(own.posted[0].request.opcode, Opcode::write);
    const auto header = rdm::parse_header(own.posted[1].inline_bytes);
    assert_true(header.has_value());
    assert_true(header->kind == MessageKind::written);
    assert_int_equal(header->imm, kLongData);
    // It is over when the peer has both.
    own.complete_send({.wr_id = own.posted[0].request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 0);
    own.complete_send({.wr_id = own.posted[1].request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].kind, CompletionKind::write);
    assert_int_equal(rig.done[0].status, WcStatus::success);
    // What fits goes with the write.
    SingleOperation fits = kToldWrite;
    fits.imm = 7;
    assert_true(rig.endpoint->post(peer, fits).has_value());
    assert_int_equal(own.posted.back().request.opcode, Opcode::write_imm);
    // Each has taken one of the peer's buffers.
    for (int at = 2; at < 32; ++at) assert_true(rig.endpoint->post(peer, fits).has_value());
    assert_int_equal(rig.endpoint->post(peer, kToldWrite).error().code, Errc::would_block);
    // The peer's arrive like any other.
    rig.done.clear();
    arrive(rig, {.kind = MessageKind::written,
                 .data_permit = 32,
                 .control_permit = 8,
                 .imm = kLongData,
                 .length = 12});
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].kind, CompletionKind::remote_write);
    assert_int_equal(rig.done[0].imm, kLongData);
    assert_int_equal(rig.done[0].length, 12);
    assert_int_equal(rig.done[0].peer, peer);
}

void a_write_with_such_data_that_fails_says_why_once(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    FakeQp& own = qp(rig);
    assert_true(rig.endpoint->post(peer, kToldWrite).has_value());
    own.complete_send(
        {.wr_id = own.posted[0].request.wr_id, .status = WcStatus::remote_access_error});
    own.posted.erase(own.posted.begin());
    flush(rig, own);
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].status, WcStatus::remote_access_error);
    assert_ptr_equal(rig.done[0].context, context_of(3));
    assert_int_equal(rig.device.qps().size(), 0);
}

void what_tells_of_a_write_goes_before_everything_else(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    FakeQp& own = qp(rig);
    rig.device.fail(Call::post_send, 2, {Errc::would_block});
    assert_true(rig.endpoint->post(peer, kToldWrite).has_value());
    assert_int_equal(own.posted.size(), 1);
    rig.device.fail_nothing();
    assert_true(send_word(rig, peer).has_value());  // makes progress, and so sends what waited
    assert_int_equal(own.posted.size(), 3);
    const auto header = rdm::parse_header(own.posted[1].inline_bytes);
    assert_true(header.has_value());
    assert_true(header->kind == MessageKind::written);
    for (const test::PostedSend& send : own.posted)
        own.complete_send({.wr_id = send.request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 2);
}

void a_source_that_cannot_be_registered_refuses_the_message(void** state) {
    FakeRig& rig = of(state);
    const AddressIndex peer = connect(rig);
    std::vector<std::byte> large(50'000);
    LocalBuffer local;
    rig.device.fail(Call::register_memory, 2, {Errc::access_denied});  // the first is our slots'
    const Message message = message_of(large.data(), large.size(), 1, local);
    assert_int_equal(rig.endpoint->send(peer, message).error().code, Errc::access_denied);
    assert_int_equal(rig.cq->space().occupied(), 0);
    assert_int_equal(qp(rig).posted.size(), 0);
    assert_true(rig.endpoint->send(peer, message).has_value());
    const std::size_t regions = rig.device.mrs().size();
    // It is told when the peer has read it, and not before; then the memory is its own again.
    qp(rig).complete_send({.wr_id = qp(rig).posted.back().request.wr_id});
    rig.poll();
    assert_int_equal(rig.done.size(), 0);
    const auto* sent = static_cast<std::byte*>(qp(rig).posted.back().sges[0].address);
    const auto header = rdm::parse_header({sent, qp(rig).posted.back().sges[0].length});
    assert_true(header.has_value());
    assert_true(header->kind == MessageKind::rendezvous);
    arrive(rig, {.kind = MessageKind::acknowledge,
                 .data_permit = 32,
                 .control_permit = 8,
                 .id = header->id});
    assert_int_equal(rig.done.size(), 1);
    assert_int_equal(rig.done[0].status, WcStatus::success);
    assert_int_equal(rig.device.mrs().size(), regions - 1);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        RIGGED(whatever_fails_while_opening_leaves_nothing_behind),
        RIGGED(whatever_fails_while_connecting_fails_one_operation_or_none),
        RIGGED(a_connection_that_is_refused_by_nobody_of_ours_fails_one_operation),
        RIGGED(of_two_requests_that_cross_one_survives),
        RIGGED(a_refusal_because_of_crossing_waits_for_the_peer),
        RIGGED(whoever_is_told_of_a_connection_that_it_has_not_says_so),
        RIGGED(what_is_no_message_ends_the_connection),
        RIGGED(an_acknowledgement_of_nothing_is_ignored),
        RIGGED(permissions_bound_what_is_sent),
        RIGGED(freed_buffers_are_announced_before_the_peer_runs_dry),
        RIGGED(local_memory_without_a_key_gets_one_for_the_time_of_the_operation),
        RIGGED(a_delivered_write_ends_when_a_byte_of_the_peer_was_read_behind_it),
        RIGGED(peers_are_given_a_byte_to_read_and_nothing_to_write),
        RIGGED(a_write_with_data_takes_a_buffer_of_the_peer),
        RIGGED(data_that_the_device_cannot_carry_comes_behind_the_write),
        RIGGED(a_write_with_such_data_that_fails_says_why_once),
        RIGGED(what_tells_of_a_write_goes_before_everything_else),
        RIGGED(a_source_that_cannot_be_registered_refuses_the_message),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
