// SPDX-License-Identifier: BSD-3-Clause
// Connectionless endpoints in one process: messages, RMA, matching, flow control, connections.
#include <numeric>
#include <set>
#include <thread>

#include "tests/unit/rdm/rig.hpp"

namespace compat::core {
namespace {

using Nodes = std::vector<std::unique_ptr<Node>>;

int set_up(void** state) {
    *state = new Nodes;
    return 0;
}
int tear_down(void** state) {
    delete static_cast<Nodes*>(*state);
    return 0;
}

Node& make(void** state, const NodeOptions& options = {}) {
    auto& nodes = *static_cast<Nodes*>(*state);
    nodes.push_back(std::make_unique<Node>(options));
    return *nodes.back();
}

std::vector<std::byte> pattern(std::size_t length, unsigned seed) {
    std::vector<std::byte> bytes(length);
    for (std::size_t at = 0; at < length; ++at)
        bytes[at] = static_cast<std::byte>(at * 31 + seed + (at >> 8));
    return bytes;
}

void wait_for(std::initializer_list<Node*> nodes, const std::vector<Completion>& done,
              std::size_t count) {
    const bool arrived = keep_trying([&] {
        for (Node* node : nodes) node->poll();
        return done.size() >= count;
    });
    assert_true(arrived);
    assert_int_equal(done.size(), count);
}

void post_receive(Node& node, std::span<std::byte> into, std::uintptr_t number) {
    LocalBuffer local;
    assert_true(
        node.endpoint->receive(receive_into(into.data(), into.size(), number, local)).has_value());
}

void send(Node& from, AddressIndex to, std::span<const std::byte> bytes, std::uintptr_t number,
          std::initializer_list<Node*> nodes) {
    LocalBuffer local;
    const Message message = message_of(bytes.data(), bytes.size(), number, local);
    assert_true(insist([&] { return from.endpoint->send(to, message); }, nodes).has_value());
}

// --- messages

void messages_of_every_length_arrive(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    const AddressIndex a_at_b = b.meet(a);
    for (const std::size_t length :
         {0UL, 1UL, 64UL, 4095UL, 4096UL, 4097UL, 100'000UL, 3'000'000UL}) {
        const auto sent = pattern(length, 1);
        std::vector<std::byte> got(length);
        a.done.clear();
        b.done.clear();
        post_receive(b, got, 7);
        send(a, to_b, sent, 8, {&a, &b});
        wait_for({&a, &b}, b.done, 1);
        wait_for({&a, &b}, a.done, 1);
        assert_ptr_equal(a.done[0].context, context_of(8));
        assert_int_equal(a.done[0].status, WcStatus::success);
        assert_int_equal(a.done[0].kind, CompletionKind::send);
        assert_ptr_equal(b.done[0].context, context_of(7));
        assert_int_equal(b.done[0].status, WcStatus::success);
        assert_int_equal(b.done[0].length, length);
        assert_int_equal(b.done[0].peer, a_at_b);
        assert_false(b.done[0].has_imm);
        assert_true(sent == got);
    }
    assert_int_equal(a.cq->space().occupied(), 0);
}

void messages_that_nobody_waits_for_are_kept_in_order(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    constexpr std::size_t kCount = 200;
    std::vector<std::vector<std::byte>> sent;
    for (std::size_t at = 0; at < kCount; ++at) {
        sent.push_back(pattern(at % 10 == 0 ? 10'000 : 100, static_cast<unsigned>(at)));
        send(a, to_b, sent.back(), at, {&a, &b});
    }
    for (std::size_t at = 0; at < kCount; ++at) {
        std::vector<std::byte> got(sent[at].size());
        b.done.clear();
        post_receive(b, got, at);
        wait_for({&a, &b}, b.done, 1);
        assert_int_equal(b.done[0].peer, kNoAddress);
        assert_true(got == sent[at]);
    }
    wait_for({&a, &b}, a.done, kCount);
}

void tags_choose_among_messages_and_receives(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    std::uint64_t words[3] = {100, 200, 300};
    LocalBuffer local;
    for (std::uint64_t& word : words) {
        Message message = message_of(&word, sizeof word, 1, local);
        message.flags |= MessageFlag::tagged | MessageFlag::data;
        message.tag = word;
        message.imm = ~word;
        assert_true(insist([&] { return a.endpoint->send(to_b, message); }, {&a, &b}).has_value());
    }
    const auto take = [&](std::uint64_t tag, std::uint64_t ignore, std::uint64_t expected) {
        std::uint64_t got = 0;
        MessageReceive receive = receive_into(&got, sizeof got, 5, local);
        receive.match = {.tagged = true, .tag = tag, .ignore = ignore};
        b.done.clear();
        assert_true(b.endpoint->receive(receive).has_value());
        wait_for({&a, &b}, b.done, 1);
        assert_int_equal(got, expected);
        assert_int_equal(b.done[0].tag, expected);
        assert_true(b.done[0].has_imm);
        assert_int_equal(b.done[0].imm, ~expected);
    };
    // An untagged receive takes none of them.
    std::uint64_t other = 0;
    assert_true(b.endpoint->receive(receive_into(&other, sizeof other, 6, local)).has_value());
    take(300, 0, 300);
    take(0, ~std::uint64_t{0}, 100);
    take(200 ^ 0xf, 0xf, 200);
    assert_int_equal(other, 0);
    assert_true(b.endpoint->receives().cancel(context_of(6)).has_value());
    assert_false(b.endpoint->receives().cancel(context_of(6)).has_value());
}

void a_directed_receive_waits_for_its_sender(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    Node& c = make(state);
    const AddressIndex a_at_c = c.meet(a);
    const AddressIndex b_at_c = c.meet(b);
    std::uint64_t from_b = 0;
    std::uint64_t from_a = 0;
    LocalBuffer local;
    MessageReceive receive = receive_into(&from_b, sizeof from_b, 1, local);
    receive.match.from = b_at_c;
    assert_true(c.endpoint->receive(receive).has_value());
    receive = receive_into(&from_a, sizeof from_a, 2, local);
    receive.match.from = a_at_c;
    const std::uint64_t word_a = 11;
    const std::uint64_t word_b = 22;
    send(a, a.meet(c), std::as_bytes(std::span(&word_a, 1)), 1, {&a, &c});
    assert_true(keep_trying([&] {
        a.poll();
        c.poll();
        return !a.done.empty();
    }));
    assert_int_equal(c.done.size(), 0);
    assert_true(c.endpoint->receive(receive).has_value());
    wait_for({&a, &c}, c.done, 1);
    assert_int_equal(c.done[0].peer, a_at_c);
    send(b, b.meet(c), std::as_bytes(std::span(&word_b, 1)), 1, {&b, &c});
    wait_for({&b, &c}, c.done, 2);
    assert_int_equal(c.done[1].peer, b_at_c);
    assert_int_equal(from_a, word_a);
    assert_int_equal(from_b, word_b);
}

void a_message_longer_than_its_receive_is_cut_and_says_so(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    for (const std::size_t length : {100UL, 50'000UL}) {
        for (const std::size_t room : {0UL, 10UL}) {
            const auto sent = pattern(length, 3);
            std::vector<std::byte> got(room);
            a.done.clear();
            b.done.clear();
            post_receive(b, got, 1);
            send(a, to_b, sent, 2, {&a, &b});
            wait_for({&a, &b}, b.done, 1);
            wait_for({&a, &b}, a.done, 1);
            assert_int_equal(a.done[0].status, WcStatus::success);
            assert_int_equal(b.done[0].status, WcStatus::local_length_error);
            assert_int_equal(b.done[0].length, room);
            assert_int_equal(b.done[0].excess, length - room);
            assert_true(std::equal(got.begin(), got.end(), sent.begin()));
        }
    }
}

void buffers_may_lie_anywhere(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    for (const std::size_t piece : {10UL, 5'000UL}) {
        const auto sent = pattern(3 * piece, 9);
        std::vector<std::byte> got(3 * piece);
        const LocalBuffer from[3] = {{const_cast<std::byte*>(sent.data()), piece},
                                     {const_cast<std::byte*>(sent.data()) + piece, piece},
                                     {const_cast<std::byte*>(sent.data()) + 2 * piece, piece}};
        const LocalBuffer into[2] = {{got.data(), piece + 3},
                                     {got.data() + piece + 3, 2 * piece - 3}};
        b.done.clear();
        assert_true(b.endpoint->receive({.local = into, .context = context_of(1)}).has_value());
        const Message message{
            .flags = MessageFlag::entry, .local = from, .length = 3 * piece, .context = nullptr};
        assert_true(insist([&] { return a.endpoint->send(to_b, message); }, {&a, &b}).has_value());
        wait_for({&a, &b}, b.done, 1);
        assert_true(sent == got);
    }
}

void an_endpoint_can_write_to_itself(void** state) {
    Node& a = make(state);
    const AddressIndex self = a.meet(a);
    for (const std::size_t length : {64UL, 100'000UL}) {
        const auto sent = pattern(length, 5);
        std::vector<std::byte> got(length);
        a.done.clear();
        post_receive(a, got, 1);
        send(a, self, sent, 2, {&a});
        wait_for({&a}, a.done, 2);
        assert_true(sent == got);
    }
}

void one_buffer_takes_many_messages(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    std::vector<std::byte> room(20'000);
    LocalBuffer local;
    MessageReceive receive = receive_into(room.data(), room.size(), 77, local);
    receive.multiple = true;
    b.endpoint->receives().set_min_multiple(5'000);
    assert_true(b.endpoint->receive(receive).has_value());
    // 6000 rendezvous, 4000 eager, 6000 rendezvous: then 4000 are left, fewer than the minimum.
    std::vector<std::vector<std::byte>> sent;
    for (const std::size_t length : {6'000UL, 4'000UL, 6'000UL}) {
        sent.push_back(pattern(length, static_cast<unsigned>(length)));
        send(a, to_b, sent.back(), 1, {&a, &b});
    }
    wait_for({&a, &b}, b.done, 3);
    std::size_t released = 0;
    for (std::size_t at = 0; at < 3; ++at) {
        const Completion& done = b.done[at];
        assert_ptr_equal(done.context, context_of(77));
        released += done.buffer_released ? 1 : 0;
        assert_int_equal(done.buffer_released, at == 2);
        bool known = false;
        for (const auto& bytes : sent)
            known = known || (bytes.size() == done.length &&
                              std::memcmp(bytes.data(), done.buffer, bytes.size()) == 0);
        assert_true(known);
    }
    assert_int_equal(released, 1);
    assert_int_equal(b.endpoint->receives().free_slots(), 1024);
}

void a_message_that_does_not_fit_the_rest_takes_the_next_buffer(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    std::vector<std::byte> first(1'000);
    std::vector<std::byte> second(1'000);
    LocalBuffer local;
    MessageReceive receive = receive_into(first.data(), first.size(), 1, local);
    receive.multiple = true;
    assert_true(b.endpoint->receive(receive).has_value());
    receive = receive_into(second.data(), second.size(), 2, local);
    receive.multiple = true;
    assert_true(b.endpoint->receive(receive).has_value());
    const auto sent = pattern(600, 1);
    send(a, to_b, sent, 1, {&a, &b});
    send(a, to_b, sent, 1, {&a, &b});
    wait_for({&a, &b}, b.done, 3);
    assert_int_equal(b.done[0].length, 600);
    assert_true(b.done[1].buffer_released);
    assert_int_equal(b.done[1].length, 0);
    assert_ptr_equal(b.done[1].context, context_of(1));
    assert_ptr_equal(b.done[2].context, context_of(2));
    assert_int_equal(b.done[2].length, 600);
}

void an_acknowledged_message_completes_when_it_was_received(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    const auto sent = pattern(100, 1);
    LocalBuffer local;
    Message message = message_of(sent.data(), sent.size(), 1, local);
    message.flags |= MessageFlag::delivered;
    assert_true(insist([&] { return a.endpoint->send(to_b, message); }, {&a, &b}).has_value());
    send(a, to_b, sent, 2, {&a, &b});
    // The later one, which asked for less, is over first.
    wait_for({&a, &b}, a.done, 1);
    assert_ptr_equal(a.done[0].context, context_of(2));
    std::vector<std::byte> got(100);
    post_receive(b, got, 1);
    wait_for({&a, &b}, a.done, 2);
    assert_ptr_equal(a.done[1].context, context_of(1));
}

void a_look_tells_what_waits(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    const MessagePeek look{.match = {.tagged = true, .tag = 5}, .context = context_of(1)};
    assert_true(b.endpoint->peek(look).has_value());
    wait_for({&b}, b.done, 1);
    assert_int_equal(b.done[0].status, WcStatus::no_message);
    for (const std::size_t length : {100UL, 10'000UL, 200UL, 300UL}) {
        const auto sent = pattern(length, 1);
        LocalBuffer local;
        Message message = message_of(sent.data(), sent.size(), length, local);
        message.flags |= MessageFlag::tagged;
        message.tag = 5;
        a.done.clear();
        assert_true(insist([&] { return a.endpoint->send(to_b, message); }, {&a, &b}).has_value());
        const bool seen = keep_trying([&] {
            a.poll();
            b.done.clear();
            static_cast<void>(b.endpoint->peek(look));
            b.poll();
            return b.done[0].status == WcStatus::success;
        });
        assert_true(seen);
        assert_int_equal(b.done[0].length, length);
        b.done.clear();
        if (length == 200) {
            MessagePeek discard = look;
            discard.discard = true;
            assert_true(b.endpoint->peek(discard).has_value());
        } else {
            MessagePeek claim = look;
            claim.claim = true;
            assert_true(b.endpoint->peek(claim).has_value());
            b.poll();
            b.done.clear();
            std::vector<std::byte> got(length);
            const bool discards = length == 300;
            MessageReceive receive = receive_into(got.data(), length, 1, local);
            receive.match = look.match;
            assert_true(b.endpoint->take_claimed(receive, discards).has_value());
            wait_for({&a, &b}, b.done, 1);
            assert_int_equal(b.done[0].tag, 5);
            assert_int_equal(b.done[0].length, length);
            assert_int_equal(got == sent, !discards);
        }
        wait_for({&a, &b}, a.done, 1);
        assert_int_equal(a.done[0].status, WcStatus::success);
    }
}

void looks_are_refused_when_nobody_reads_what_they_tell(void** state) {
    Node& a = make(state);
    constexpr std::size_t kEnough = 1'000'000;
    std::size_t looks = 0;
    const auto look = [&] {
        return a.endpoint->peek({.match = {.tagged = true}, .context = context_of(looks)});
    };
    while (looks < kEnough && look()) ++looks;
    assert_true(looks < kEnough);
    assert_int_equal(look().error().code, Errc::would_block);
    LocalBuffer local;
    const MessageReceive claimed = receive_into(&looks, sizeof looks, 1, local);
    assert_int_equal(a.endpoint->take_claimed(claimed, false).error().code, Errc::would_block);
    // Each that was accepted is told of, once.
    a.poll();
    assert_int_equal(a.done.size(), looks);
    for (std::size_t at = 0; at < looks; ++at) assert_ptr_equal(a.done[at].context, context_of(at));
    assert_true(look().has_value());
}

void receives_can_be_shared_by_endpoints(void** state) {
    auto shared = std::move(*MessageQueue::create(16));
    {
        Nodes nodes;
        Node a;
        Node b(NodeOptions{.shared = shared.get()});
        Node c(NodeOptions{.shared = shared.get()});
        std::vector<std::vector<std::byte>> got(4, std::vector<std::byte>(20'000));
        for (std::size_t at = 0; at < 2; ++at) post_receive(at == 0 ? b : c, got[at], at);
        const auto sent = pattern(20'000, 1);
        for (Node* to : {&b, &c, &b, &c}) send(a, a.meet(*to), sent, 1, {&a, &b, &c});
        assert_true(keep_trying([&] {
            for (Node* node : {&a, &b, &c}) node->poll();
            return b.done.size() + c.done.size() == 2;
        }));
        for (std::size_t at = 2; at < 4; ++at) post_receive(b, got[at], at);
        assert_true(keep_trying([&] {
            for (Node* node : {&a, &b, &c}) node->poll();
            return b.done.size() + c.done.size() == 4 && a.done.size() == 4;
        }));
        for (const auto& bytes : got) assert_true(bytes == sent);
    }
    assert_int_equal(shared->free_slots(), 16);
    static_cast<void>(state);
}

// --- RMA

void rma_is_one_sided_and_counted(void** state) {
    Counter writes;
    Counter remote_writes;
    Counter remote_reads;
    Counter received;
    Node& a = make(state, {.writes = &writes});
    Node& b = make(state, {.progress = RdmProgress::automatic,
                           .receives = &received,
                           .remote_reads = &remote_reads,
                           .remote_writes = &remote_writes});
    const AddressIndex to_b = a.meet(b);
    std::vector<std::byte> target(100'000);
    const auto region =
        std::move(*b.pd->register_memory({.address = target.data(),
                                          .length = target.size(),
                                          .access = Access::local_write | kRemoteAccess}));
    const auto sent = pattern(target.size(), 4);
    SingleOperation write{.opcode = Opcode::write,
                          .flags = OpFlag::entry,
                          .has_remote = true,
                          .rkey = region->rkey(),
                          .remote_address = reinterpret_cast<std::uintptr_t>(target.data()),
                          .local = {const_cast<std::byte*>(sent.data()), sent.size()},
                          .context = context_of(3)};
    // The target does nothing but exist.
    assert_true(insist([&] { return a.endpoint->post(to_b, write); }, {&a}).has_value());
    wait_for({&a}, a.done, 1);
    assert_int_equal(a.done[0].kind, CompletionKind::write);
    assert_true(target == sent);
    assert_int_equal(writes.value(), 1);
    std::vector<std::byte> back(sent.size());
    SingleOperation read = write;
    read.opcode = Opcode::read;
    read.local.address = back.data();
    assert_true(insist([&] { return a.endpoint->post(to_b, read); }, {&a}).has_value());
    wait_for({&a}, a.done, 2);
    assert_true(back == sent);
    // Without an entry, but counted.
    write.flags = {};
    assert_true(insist([&] { return a.endpoint->post(to_b, write); }, {&a}).has_value());
    assert_true(keep_trying([&] {
        a.poll();
        return writes.value() == 2 && remote_writes.value() == 2;
    }));
    assert_int_equal(remote_reads.value(), 1);
    // Fetching a long message is no remote read of the program's.
    std::vector<std::byte> got(50'000);
    post_receive(a, got, 1);
    const auto message = pattern(50'000, 6);
    a.done.clear();
    send(b, b.meet(a), message, 1, {&a, &b});
    wait_for({&a, &b}, a.done, 1);
    assert_true(got == message);
    assert_int_equal(remote_reads.value(), 1);
    a.endpoint.reset();
    b.endpoint.reset();
}

void a_fence_is_no_access_to_the_peer(void** state) {
    Counter remote_writes;
    Counter remote_reads;
    Node& a = make(state);
    Node& b = make(state, {.progress = RdmProgress::automatic,
                           .remote_reads = &remote_reads,
                           .remote_writes = &remote_writes});
    const AddressIndex to_b = a.meet(b);
    std::array<std::byte, 64> target{};
    const auto region =
        std::move(*b.pd->register_memory({.address = target.data(),
                                          .length = target.size(),
                                          .access = Access::local_write | kRemoteAccess}));
    std::array<std::byte, 64> source{};
    SingleOperation write{.opcode = Opcode::write,
                          .has_remote = true,
                          .rkey = region->rkey(),
                          .remote_address = reinterpret_cast<std::uintptr_t>(target.data()),
                          .local = {source.data(), source.size()},
                          .context = context_of(3)};
    // Of the first nobody is told: something has to be found out before the second may start.
    for (const OpFlags flags : {OpFlags(), OpFlag::entry | OpFlag::fence}) {
        write.flags = flags;
        assert_true(insist([&] { return a.endpoint->post(to_b, write); }, {&a}).has_value());
    }
    wait_for({&a}, a.done, 1);
    assert_true(keep_trying([&] { return remote_writes.value() == 2; }));
    assert_int_equal(remote_reads.value(), 0);
    a.endpoint.reset();
    b.endpoint.reset();
}

void a_write_with_data_tells_the_target(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    const AddressIndex a_at_b = b.meet(a);
    std::uint64_t target = 0;
    const auto region =
        std::move(*b.pd->register_memory({.address = &target,
                                          .length = sizeof target,
                                          .access = Access::local_write | kRemoteAccess}));
    std::uint64_t value = 42;
    const SingleOperation write{.opcode = Opcode::write_imm,
                                .flags = OpFlag::entry,
                                .has_remote = true,
                                .rkey = region->rkey(),
                                .remote_address = reinterpret_cast<std::uintptr_t>(&target),
                                .local = {&value, sizeof value},
                                .imm = 0x1122334455667788};
    constexpr std::size_t kCount = 100;  // more than there are buffers
    for (std::size_t at = 0; at < kCount; ++at)
        assert_true(insist([&] { return a.endpoint->post(to_b, write); }, {&a, &b}).has_value());
    wait_for({&a, &b}, b.done, kCount);
    assert_int_equal(b.done[0].kind, CompletionKind::remote_write);
    assert_int_equal(b.done[0].imm, 0x1122334455667788);
    assert_int_equal(b.done[0].peer, a_at_b);
    assert_int_equal(target, 42);
}

void a_refused_write_fails_alone_and_the_peer_can_be_reached_again(void** state) {
    Node& a = make(state);
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    std::uint64_t value = 42;
    const SingleOperation write{.opcode = Opcode::write,
                                .flags = OpFlag::entry,
                                .has_remote = true,
                                .rkey = 0x123456,
                                .remote_address = 0x1000,
                                .local = {&value, sizeof value},
                                .context = context_of(9)};
    for (int round = 0; round < 3; ++round) {
        a.done.clear();
        b.done.clear();
        assert_true(insist([&] { return a.endpoint->post(to_b, write); }, {&a, &b}).has_value());
        wait_for({&a, &b}, a.done, 1);
        assert_int_equal(a.done[0].status, WcStatus::remote_access_error);
        assert_ptr_equal(a.done[0].context, context_of(9));
        const auto sent = pattern(100, 1);
        std::vector<std::byte> got(100);
        post_receive(b, got, 1);
        send(a, to_b, sent, 2, {&a, &b});
        wait_for({&a, &b}, b.done, 1);
        assert_true(got == sent);
        wait_for({&a, &b}, a.done, 2);
        assert_int_equal(a.done[1].status, WcStatus::success);
    }
}

// --- flow control

void rma_without_the_right_of_the_endpoint_is_refused_and_messages_are_not(void** state) {
    Node& a = make(state);
    Node& b = make(state, {.remote_access = {}});
    const AddressIndex to_b = a.meet(b);
    const AddressIndex to_a = b.meet(a);
    std::vector<std::byte> target(100);
    const auto region =
        std::move(*b.pd->register_memory({.address = target.data(),
                                          .length = target.size(),
                                          .access = Access::local_write | kRemoteAccess}));
    std::vector<std::byte> own(target.size(), std::byte{1});
    SingleOperation operation{.flags = OpFlag::entry,
                              .has_remote = true,
                              .rkey = region->rkey(),
                              .remote_address = reinterpret_cast<std::uintptr_t>(target.data()),
                              .local = {own.data(), own.size()}};
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        operation.opcode = opcode;
        a.done.clear();
        const auto post = [&] { return a.endpoint->post(to_b, operation); };
        assert_true(insist(post, {&a, &b}).has_value());
        wait_for({&a, &b}, a.done, 1);
        assert_int_equal(a.done[0].status, WcStatus::remote_access_error);
    }
    assert_true(target == std::vector<std::byte>(target.size()));
    const auto sent = pattern(50'000, 3);
    for (const bool back : {false, true}) {
        Node& from = back ? b : a;
        Node& to = back ? a : b;
        std::vector<std::byte> got(sent.size());
        a.done.clear();
        b.done.clear();
        post_receive(to, got, 1);
        send(from, back ? to_a : to_b, sent, 2, {&a, &b});
        wait_for({&a, &b}, to.done, 1);
        assert_int_equal(to.done[0].status, WcStatus::success);
        assert_true(got == sent);
        wait_for({&a, &b}, from.done, 1);
    }
}

void a_hundred_thousand_messages_without_receives_hold_the_sender_back(void** state) {
    Node& a = make(state);
    Node& b = make(state, {.max_unexpected = 1 << 20});
    const AddressIndex to_b = a.meet(b);
    constexpr std::uint64_t kCount = 100'000;
    std::uint64_t posted = 0;
    LocalBuffer local;
    // Until the receiver takes no more: both make progress, nothing moves any longer.
    const auto post_next = [&] {
        const Message message = message_of(&posted, sizeof posted, posted, local);
        const Status status = a.endpoint->send(to_b, message);
        if (!status) assert_int_equal(status.error().code, Errc::would_block);
        a.poll();
        b.poll();
        return status.has_value();
    };
    assert_true(keep_trying(post_next));
    ++posted;
    while (posted < kCount && keep_trying(post_next, std::chrono::milliseconds(500))) ++posted;
    assert_true(posted > 1'000);
    assert_true(posted < kCount);
    // Each is received once, in order, and each post completes once.
    std::uint64_t received = 0;
    std::uint64_t wanted = 0;
    std::array<std::uint64_t, 512> words{};
    bool in_order = true;
    const auto step = [&] {
        if (posted < kCount &&
            a.endpoint->send(to_b, message_of(&posted, sizeof posted, posted, local)))
            ++posted;
        for (; wanted < received + words.size(); ++wanted) {
            std::uint64_t& word = words[wanted % words.size()];
            post_receive(b, std::as_writable_bytes(std::span(&word, 1)), wanted);
        }
        a.poll();
        b.poll();
        for (const Completion& done : b.done) {
            const std::uint64_t word = *static_cast<std::uint64_t*>(done.buffer);
            in_order = in_order && done.status == WcStatus::success && word == received;
            ++received;
        }
        b.done.clear();
        return !in_order || (received == kCount && a.done.size() == kCount);
    };
    const bool finished = keep_trying(step, 6 * kPatience);
    assert_true(in_order);
    assert_true(finished);
    assert_int_equal(received, kCount);
    std::set<void*> contexts;
    for (const Completion& done : a.done) {
        assert_int_equal(done.status, WcStatus::success);
        contexts.insert(done.context);
    }
    assert_int_equal(contexts.size(), kCount);
    assert_int_equal(a.cq->space().occupied(), 0);
}

void long_messages_get_through_while_small_ones_are_held_back(void** state) {
    Node& a = make(state);
    Node& b = make(state, {.max_unexpected = 0});
    const AddressIndex to_b = a.meet(b);
    const AddressIndex to_a = b.meet(a);
    // b sends a long message to a, and nobody at b takes a's messages: a's acknowledgement must not
    // wait for that.
    std::uint64_t word = 1;
    LocalBuffer local;
    constexpr std::size_t kPosted = 32;  // as many buffers as a connection has for messages
    for (std::size_t at = 0; at < kPosted; ++at)
        send(a, to_b, std::as_bytes(std::span(&word, 1)), 1, {&a, &b});
    wait_for({&a, &b}, a.done, kPosted);
    assert_int_equal(a.endpoint->send(to_b, message_of(&word, 8, 1, local)).error().code,
                     Errc::would_block);
    for (int round = 0; round < 50; ++round) {
        const auto sent = pattern(50'000, 1);
        std::vector<std::byte> got(sent.size());
        a.done.clear();
        b.done.clear();
        post_receive(a, got, 9);
        send(b, to_a, sent, 8, {&a, &b});
        wait_for({&a, &b}, b.done, 1);
        assert_true(got == sent);
    }
    a.done.clear();
    b.done.clear();
    for (std::size_t at = 0; at < kPosted; ++at) {
        assert_true(b.endpoint->receive(receive_into(&word, sizeof word, 1, local)).has_value());
        wait_for({&a, &b}, b.done, at + 1);
    }
}

void a_full_completion_queue_refuses_and_recovers(void** state) {
    Node& a = make(state, {.cq_size = 4});
    Node& b = make(state);
    const AddressIndex to_b = a.meet(b);
    std::uint64_t word = 1;
    LocalBuffer local;
    const Message message = message_of(&word, sizeof word, 1, local);
    assert_true(insist([&] { return a.endpoint->send(to_b, message); }, {&a, &b}).has_value());
    int accepted = 1;
    while (a.endpoint->send(to_b, message)) ++accepted;
    assert_int_equal(accepted, 4);
    wait_for({&a, &b}, a.done, 4);
    assert_true(a.endpoint->send(to_b, message).has_value());
}

// --- connections

void both_may_connect_at_the_same_time(void** state) {
    for (int round = 0; round < 20; ++round) {
        Nodes pair;
        pair.push_back(std::make_unique<Node>());
        pair.push_back(std::make_unique<Node>());
        Node& a = *pair[0];
        Node& b = *pair[1];
        const AddressIndex to_b = a.meet(b);
        const AddressIndex to_a = b.meet(a);
        std::uint64_t sent[2] = {1, 2};
        std::uint64_t got[2] = {0, 0};
        LocalBuffer local;
        for (Node* node : {&a, &b})
            assert_true(node->endpoint->receive(receive_into(&got[node == &a ? 0 : 1], 8, 5, local))
                            .has_value());
        bool done[2] = {false, false};
        const bool connected = keep_trying([&] {
            if (!done[0])
                done[0] = a.endpoint->send(to_b, message_of(&sent[0], 8, 1, local)).has_value();
            if (!done[1])
                done[1] = b.endpoint->send(to_a, message_of(&sent[1], 8, 1, local)).has_value();
            a.poll();
            b.poll();
            return a.done.size() == 2 && b.done.size() == 2;
        });
        assert_true(connected);
        assert_int_equal(got[0], 2);
        assert_int_equal(got[1], 1);
    }
    static_cast<void>(state);
}

void nobody_there_is_told_once_for_each_post(void** state) {
    Node& a = make(state);
    SocketAddress nowhere;
    {
        Node gone;
        nowhere = gone.endpoint->name();
    }
    const AddressIndex to = a.meet(nowhere);
    std::uint64_t word = 1;
    LocalBuffer local;
    for (std::size_t round = 1; round <= 3; ++round) {
        send(a, to, std::as_bytes(std::span(&word, 1)), round, {&a});
        wait_for({&a}, a.done, round);
        assert_int_equal(a.done.back().status, WcStatus::retry_exceeded);
        assert_ptr_equal(a.done.back().context, context_of(round));
    }
    assert_int_equal(a.cq->space().occupied(), 0);
    static_cast<void>(local);
    assert_int_equal(a.endpoint->send(12345, {}).error().code, Errc::invalid_argument);
}

void a_peer_that_comes_back_is_reached_again(void** state) {
    Node& a = make(state);
    auto b = std::make_unique<Node>();
    const SocketAddress name = b->endpoint->name();
    const AddressIndex to_b = a.meet(name);
    const auto sent = pattern(100, 1);
    std::vector<std::byte> got(100);
    std::vector<std::byte> large(50'000);
    for (int life = 0; life < 3; ++life) {
        a.done.clear();
        post_receive(*b, got, 1);
        send(a, to_b, sent, 2, {&a, b.get()});
        wait_for({&a, b.get()}, b->done, 1);
        assert_true(got == sent);
        // What the peer does not take dies with it.
        wait_for({&a, b.get()}, a.done, 1);
        a.done.clear();
        send(a, to_b, large, 3, {&a, b.get()});
        b = nullptr;
        assert_true(keep_trying([&] {
            a.poll();
            return !a.done.empty();
        }));
        assert_int_equal(a.done.size(), 1);
        assert_int_not_equal(a.done[0].status, WcStatus::success);
        assert_ptr_equal(a.done[0].context, context_of(3));
        assert_true(keep_trying([&] {
            b = std::make_unique<Node>(NodeOptions{.port = name.port()});
            return true;
        }));
    }
}

void the_target_may_sleep(void** state) {
    Node& a = make(state, {.progress = RdmProgress::automatic});
    Node& b = make(state, {.progress = RdmProgress::automatic});
    const AddressIndex to_b = a.meet(b);
    for (const std::size_t length : {100UL, 1'000'000UL}) {
        const auto sent = pattern(length, 2);
        std::vector<std::byte> got(length);
        post_receive(b, got, 1);
        a.done.clear();
        send(a, to_b, sent, 2, {&a});
        wait_for({&a}, a.done, 1);  // a long one is only over when the target has read it
        assert_int_equal(a.done[0].status, WcStatus::success);
        b.done.clear();
        assert_true(keep_trying([&] {
            b.poll();
            return !b.done.empty();
        }));
        assert_true(got == sent);
    }
}

void threads_may_share_an_endpoint(void** state) {
    Node& a = make(state, {.progress = RdmProgress::automatic});
    Node& b = make(state, {.progress = RdmProgress::automatic});
    const AddressIndex to_b = a.meet(b);
    constexpr std::size_t kEach = 300;
    constexpr std::size_t kThreads = 3;
    std::atomic<std::size_t> accepted{0};
    // Senders only post; one thread at each end reads.
    const auto sender = [&](std::size_t length) {
        const auto bytes = pattern(length, 1);
        LocalBuffer local;
        Message message = message_of(bytes.data(), bytes.size(), 1, local);
        message.flags |= MessageFlag::delivered;  // so that the bytes may go
        for (std::size_t at = 0; at < kEach;) {
            if (!a.endpoint->send(to_b, message)) {
                std::this_thread::yield();
                continue;
            }
            ++at;
            accepted.fetch_add(1);
        }
        while (accepted.load() < kThreads * kEach || a.done_count.load() < kThreads * kEach)
            std::this_thread::yield();
    };
    std::vector<std::byte> into(8'000);
    const auto receiver = [&] {
        std::size_t got = 0;
        keep_trying([&] {
            LocalBuffer local;
            while (b.endpoint->receive(receive_into(into.data(), into.size(), 1, local))) {
            }
            b.poll();
            got += b.done.size();
            b.done.clear();
            return got == kThreads * kEach;
        });
    };
    std::vector<std::thread> threads;
    for (const std::size_t length : {8UL, 2'000UL, 8'000UL}) threads.emplace_back(sender, length);
    threads.emplace_back(receiver);
    const bool finished = keep_trying([&] {
        a.poll();
        a.done_count.store(a.done.size());
        return a.done.size() == kThreads * kEach;
    });
    if (!finished) a.done_count.store(kThreads * kEach);
    for (std::thread& thread : threads) thread.join();
    assert_true(finished);
    for (const Completion& done : a.done) assert_int_equal(done.status, WcStatus::success);
}

}  // namespace
}  // namespace compat::core

#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        RIGGED(messages_of_every_length_arrive),
        RIGGED(messages_that_nobody_waits_for_are_kept_in_order),
        RIGGED(tags_choose_among_messages_and_receives),
        RIGGED(a_directed_receive_waits_for_its_sender),
        RIGGED(a_message_longer_than_its_receive_is_cut_and_says_so),
        RIGGED(buffers_may_lie_anywhere),
        RIGGED(an_endpoint_can_write_to_itself),
        RIGGED(one_buffer_takes_many_messages),
        RIGGED(a_message_that_does_not_fit_the_rest_takes_the_next_buffer),
        RIGGED(an_acknowledged_message_completes_when_it_was_received),
        RIGGED(a_look_tells_what_waits),
        RIGGED(looks_are_refused_when_nobody_reads_what_they_tell),
        RIGGED(receives_can_be_shared_by_endpoints),
        RIGGED(rma_is_one_sided_and_counted),
        RIGGED(a_fence_is_no_access_to_the_peer),
        RIGGED(a_write_with_data_tells_the_target),
        RIGGED(a_refused_write_fails_alone_and_the_peer_can_be_reached_again),
        RIGGED(rma_without_the_right_of_the_endpoint_is_refused_and_messages_are_not),
        RIGGED(a_hundred_thousand_messages_without_receives_hold_the_sender_back),
        RIGGED(long_messages_get_through_while_small_ones_are_held_back),
        RIGGED(a_full_completion_queue_refuses_and_recovers),
        RIGGED(both_may_connect_at_the_same_time),
        RIGGED(nobody_there_is_told_once_for_each_post),
        RIGGED(a_peer_that_comes_back_is_reached_again),
        RIGGED(the_target_may_sleep),
        RIGGED(threads_may_share_an_endpoint),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
