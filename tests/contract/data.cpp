// SPDX-License-Identifier: BSD-3-Clause
// Bytes: every opcode moves exactly what it names, from where and to where it names it.
#include <array>
#include <cstring>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::size_t kMargin = 64;  // on either side of what may change

std::vector<std::size_t> sizes() {
    return {0, 1, 7, 8, 9, limits().max_inline, limits().max_inline + 1, 4096, kMiB};
}

bool has_imm(Opcode opcode) {
    return opcode == Opcode::send_imm || opcode == Opcode::write_imm;
}
bool is_send(Opcode opcode) {
    return opcode == Opcode::send || opcode == Opcode::send_imm;
}
std::uint64_t imm_value() {
    return limits().imm_bytes == 8 ? 0x0123456789abcdefU : 0x89abcdefU;
}

/// Only [kMargin, kMargin + length) has changed from 0xee, to the pattern.
void assert_only_middle(const Buffer& buffer, std::size_t length, unsigned seed) {
    assert_true(holds_only(buffer.data(), kMargin, 0xee));
    assert_true(holds_pattern(buffer.data() + kMargin, length, 0, seed));
    assert_true(
        holds_only(buffer.data() + kMargin + length, buffer.size() - kMargin - length, 0xee));
}

void move_and_check(Pair& pair, Opcode opcode, std::size_t length, unsigned seed) {
    const bool read = opcode == Opcode::read;
    const Buffer& source = (read ? pair.passive : pair.active).buffer(kMiB + 1);
    const Buffer& target = (read ? pair.active : pair.passive).buffer(length + 2 * kMargin);
    source.fill_pattern(seed);
    target.fill(0xee);
    const bool takes_receive = is_send(opcode) || opcode == Opcode::write_imm;
    if (takes_receive)
        must_post_receive(
            pair.passive, seed,
            is_send(opcode) ? std::vector{target.sge(kMargin, length)} : std::vector<Sge>{});
    Post what{.wr_id = 1000 + seed, .opcode = opcode, .imm = imm_value()};
    what.sges = {read ? target.sge(kMargin, length) : source.sge(0, length)};
    what.remote = read ? at(source) : at(target, kMargin);
    must_post(pair.active, what);
    const WorkCompletion done = expect(pair.active.send_cq(), 1000 + seed);
    assert_int_equal(done.qp_num, pair.active.qp->number());
    assert_false(done.receive_side);
    if (read) assert_int_equal(done.byte_length, length);
    if (takes_receive) {
        const WorkCompletion received = expect(pair.passive.receive_cq(), seed);
        assert_int_equal(received.qp_num, pair.passive.qp->number());
        assert_true(received.receive_side);
        assert_int_equal(received.byte_length, length);
        assert_int_equal(received.has_imm, has_imm(opcode));
        if (has_imm(opcode)) assert_int_equal(received.imm, imm_value());
        assert_int_equal(received.opcode, opcode == Opcode::write_imm ? WcOpcode::receive_write_imm
                                                                      : WcOpcode::receive);
    }
    settle(pair.active);
    assert_only_middle(target, length, seed);
    pair.active.buffers.clear();
    pair.passive.buffers.clear();
}

void every_opcode_moves_every_size_and_no_byte_beside_it(void** state) {
    Pair& pair = fixture_of(state).connect();
    unsigned seed = 0;
    for (const Opcode opcode :
         {Opcode::send, Opcode::send_imm, Opcode::write, Opcode::write_imm, Opcode::read}) {
        if (has_imm(opcode) && limits().imm_bytes == 0) continue;
        for (const std::size_t length : sizes()) move_and_check(pair, opcode, length, ++seed);
    }
}

void completion_names_what_it_completes(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(64);
    const Buffer& remote = pair.passive.buffer(64);
    struct Row {
        Opcode opcode;
        WcOpcode expected;
        bool offered;
    };
    const Row rows[] = {
        {Opcode::send, WcOpcode::send, true},
        {Opcode::send_imm, WcOpcode::send, limits().imm_bytes != 0},
        {Opcode::write, WcOpcode::write, true},
        {Opcode::write_imm, WcOpcode::write, limits().imm_bytes != 0},
        {Opcode::read, WcOpcode::read, true},
        {Opcode::atomic_cas, WcOpcode::compare_swap, limits().atomics},
        {Opcode::atomic_fadd, WcOpcode::fetch_add, limits().atomics},
        {Opcode::atomic_write, WcOpcode::atomic_write, limits().atomic_write},
        {Opcode::flush, WcOpcode::flush, limits().flush},
    };
    std::uint64_t id = 1;
    for (const Row& row : rows) {
        if (!row.offered) continue;
        must_post_receive(pair.passive, id, {remote.sge(0, 32)});
        Post what{.wr_id = ++id, .opcode = row.opcode, .remote = at(remote)};
        if (row.opcode != Opcode::flush) what.sges = {local.sge(0, 8)};
        what.flush_length = 8;
        must_post(pair.active, what);
        assert_int_equal(expect(pair.active.send_cq(), id).opcode, row.expected);
    }
}

void elements_are_gathered_and_scattered_in_order(void** state) {
    Pair& pair = fixture_of(state).connect();
    constexpr std::size_t kLength = 9000;
    const Buffer& source = pair.active.buffer(kLength);
    const Buffer& target = pair.passive.buffer(kLength);
    source.fill_pattern(3);
    const std::vector<Sge> cut_here{source.sge(0, 1), source.sge(1, 0), source.sge(1, 4999),
                                    source.sge(5000, 4000)};
    const std::vector<Sge> cut_there{target.sge(0, 4000), target.sge(4000, 3),
                                     target.sge(4003, 4990), target.sge(8993, 7)};

    must_post(pair.active, {.wr_id = 1, .sges = cut_here, .remote = at(target)});
    expect(pair.active.send_cq(), 1);
    settle(pair.active);
    assert_true(holds_pattern(target.data(), kLength, 0, 3));

    target.fill(0);
    must_post_receive(pair.passive, 2, cut_there);
    must_post(pair.active, {.wr_id = 2, .opcode = Opcode::send, .sges = cut_here});
    expect(pair.active.send_cq(), 2);
    assert_int_equal(expect(pair.passive.receive_cq(), 2).byte_length, kLength);
    assert_true(holds_pattern(target.data(), kLength, 0, 3));

    if (limits().max_sge_read < cut_here.size()) return;
    target.fill_pattern(4);
    must_post(pair.active,
              {.wr_id = 3, .opcode = Opcode::read, .sges = cut_here, .remote = at(target)});
    assert_int_equal(expect(pair.active.send_cq(), 3).byte_length, kLength);
    assert_true(holds_pattern(source.data(), kLength, 0, 4));
}

void elements_may_lie_in_any_order_and_in_several_regions(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& one = pair.active.buffer(4096);
    const Buffer& two = pair.active.buffer(4096);
    const Buffer& target = pair.passive.buffer(8192);
    one.fill(1);
    two.fill(2);
    must_post(pair.active, {.wr_id = 1,
                            .sges = {two.sge(4000, 96), one.sge(100, 100), two.sge(0, 50)},
                            .remote = at(target)});
    expect(pair.active.send_cq(), 1);
    settle(pair.active);
    assert_true(holds_only(target.data(), 96, 2));
    assert_true(holds_only(target.data() + 96, 100, 1));
    assert_true(holds_only(target.data() + 196, 50, 2));
    assert_true(holds_only(target.data() + 246, 100, 0));
}

void as_many_elements_as_promised_work_and_one_more_is_refused(void** state) {
    SideOptions options;
    options.max_sge = limits().max_sge;
    Pair& pair = fixture_of(state).connect(both(options));
    const std::size_t most = limits().max_sge;
    const Buffer& source = pair.active.buffer(16 * (most + 1));
    const Buffer& target = pair.passive.buffer(16 * (most + 1));
    source.fill_pattern(5);
    std::vector<Sge> here;
    std::vector<Sge> there;
    for (std::size_t i = 0; i < most; ++i) {
        here.push_back(source.sge(16 * i, 16));
        there.push_back(target.sge(16 * i, 16));
    }
    must_post(pair.active, {.wr_id = 1, .sges = here, .remote = at(target)});
    expect(pair.active.send_cq(), 1);
    settle(pair.active);
    assert_true(holds_pattern(target.data(), 16 * most, 0, 5));
    target.fill(0);
    must_post_receive(pair.passive, 2, there);
    must_post(pair.active, {.wr_id = 2, .opcode = Opcode::send, .sges = here});
    expect(pair.active.send_cq(), 2);
    expect(pair.passive.receive_cq(), 2);
    assert_true(holds_pattern(target.data(), 16 * most, 0, 5));

    here.push_back(source.sge(0, 1));
    there.push_back(target.sge(0, 1));
    assert_error(post(pair.active, {.opcode = Opcode::send, .sges = here}), Errc::invalid_argument);
    assert_error(post_receive(pair.passive, 3, there), Errc::invalid_argument);
    expect_working(pair);
}

void request_without_elements_moves_nothing(void** state) {
    Pair& pair = fixture_of(state).connect();
    must_post_receive(pair.passive, 1);
    must_post(pair.active, {.wr_id = 1, .opcode = Opcode::send});
    expect(pair.active.send_cq(), 1);
    assert_int_equal(expect(pair.passive.receive_cq(), 1).byte_length, 0);
    // Of an access to no bytes neither key nor address is looked at.
    must_post(pair.active, {.wr_id = 2, .opcode = Opcode::write, .remote = {12345, 678}});
    expect(pair.active.send_cq(), 2);
    must_post(pair.active, {.wr_id = 3, .opcode = Opcode::read, .remote = {12345, 678}});
    expect(pair.active.send_cq(), 3);
}

void receive_may_be_longer_than_the_message(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(100);
    const Buffer& target = pair.passive.buffer(1000);
    source.fill_pattern(6);
    must_post_receive(pair.passive, 1, {target.sge()});
    must_post(pair.active, {.wr_id = 1, .opcode = Opcode::send, .sges = {source.sge()}});
    assert_int_equal(expect(pair.passive.receive_cq(), 1).byte_length, 100);
    assert_true(holds_pattern(target.data(), 100, 0, 6));
    assert_true(holds_only(target.data() + 100, 900, 0));
}

void inlined_bytes_are_the_callers_again_after_the_post(void** state) {
    SideOptions options;
    options.max_inline = limits().max_inline;
    options.send_depth = 64;
    Pair& pair = fixture_of(state).connect(both(options));
    const std::size_t length = limits().max_inline;
    const Buffer& target = pair.passive.buffer(64 * length);
    std::vector<std::byte> local(length);  // not registered
    for (unsigned i = 0; i < 64; ++i) {
        local.assign(length, static_cast<std::byte>(i + 1));
        const Sge sge{local.data(), static_cast<std::uint32_t>(length), 0xbadbad};
        must_post(pair.active, {.wr_id = i,
                                .sges = {sge},
                                .remote = at(target, i * length),
                                .flags = SendFlag::signaled | SendFlag::inlined});
        local.assign(length, std::byte{0xff});
    }
    for (unsigned i = 0; i < 64; ++i) expect(pair.active.send_cq(), i);
    settle(pair.active);
    for (unsigned i = 0; i < 64; ++i)
        assert_true(holds_only(target.data() + i * length, length, static_cast<int>(i + 1)));
}

void inlined_elements_are_gathered(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& target = pair.passive.buffer(64);
    char text[] = "one two three";
    must_post(pair.active, {.wr_id = 1,
                            .sges = {{text, 3, 0}, {text + 3, 0, 0}, {text + 3, 10, 0}},
                            .remote = at(target),
                            .flags = SendFlag::signaled | SendFlag::inlined});
    expect(pair.active.send_cq(), 1);
    settle(pair.active);
    assert_string_equal(reinterpret_cast<char*>(target.data()), text);
}

void more_inlined_bytes_than_the_queue_takes_are_refused(void** state) {
    Pair& pair = fixture_of(state).connect();
    const std::size_t most = pair.active.options.max_inline;
    const Buffer& source = pair.active.buffer(limits().max_inline + 1);
    const Buffer& target = pair.passive.buffer(limits().max_inline + 1);
    must_post(pair.active, {.wr_id = 1,
                            .sges = {source.sge(0, most)},
                            .remote = at(target),
                            .flags = SendFlag::signaled | SendFlag::inlined});
    assert_error(post(pair.active, {.wr_id = 2,
                                    .sges = {source.sge()},
                                    .remote = at(target),
                                    .flags = SendFlag::signaled | SendFlag::inlined}),
                 Errc::invalid_argument);
    expect(pair.active.send_cq(), 1);
    expect_working(pair);
}

void message_beyond_the_limit_is_refused(void** state) {
    if (limits().max_message >= std::uint64_t{4} * UINT32_MAX) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(64);
    const auto half = static_cast<std::uint32_t>(limits().max_message / 2);
    Sge first = source.sge();
    Sge second = source.sge();
    first.length = half;
    second.length = static_cast<std::uint32_t>(limits().max_message - half + 1);
    assert_error(post(pair.active, {.sges = {first, second}, .remote = {1, 1}}), Errc::too_long);
    expect_working(pair);
}

void unregistered_local_memory_works_where_it_is_offered(void** state) {
    if (!limits().unregistered_local) skip();
    Pair& pair = fixture_of(state).connect();
    std::vector<std::byte> local(5000);
    const Buffer& remote = pair.passive.buffer(5000);
    remote.fill_pattern(8);
    const Sge sge{local.data(), 5000, kUnregisteredLkey};
    must_post(pair.active,
              {.wr_id = 1, .opcode = Opcode::read, .sges = {sge}, .remote = at(remote)});
    expect(pair.active.send_cq(), 1);
    assert_true(holds_pattern(local.data(), 5000, 0, 8));
    remote.fill(0);
    must_post(pair.active, {.wr_id = 2, .sges = {sge}, .remote = at(remote)});
    expect(pair.active.send_cq(), 2);
    assert_true(holds_pattern(remote.data(), 5000, 0, 8));
    must_post_receive(pair.active, 3, {sge});
    const Buffer& message = pair.passive.buffer(5000);
    message.fill(7);
    must_post(pair.passive, {.wr_id = 3, .opcode = Opcode::send, .sges = {message.sge()}});
    expect(pair.active.receive_cq(), 3);
    assert_true(holds_only(local.data(), 5000, 7));
}

void peers_name_a_region_by_its_iova(void** state) {
    Pair& pair = fixture_of(state).connect();
    alignas(4096) static std::array<std::byte, 4096> memory;
    const Buffer& local = pair.active.buffer(64);
    local.fill_pattern(2);
    for (const std::uint64_t iova : {std::uint64_t{0}, std::uint64_t{0x10000}}) {
        MrAttr attr;
        attr.address = memory.data();
        attr.length = memory.size();
        attr.access = full_access();
        attr.iova = iova;
        const auto region = pair.passive.pd().register_memory(attr);
        if (limits().transport == Transport::iwarp && !region) skip();
        assert_true(region.has_value());
        memory.fill(std::byte{});
        must_post(
            pair.active,
            {.wr_id = iova, .sges = {local.sge()}, .remote = {(*region)->rkey(), iova + 100}});
        expect(pair.active.send_cq(), iova);
        assert_true(holds_pattern(memory.data() + 100, 64, 0, 2));
        must_post(pair.active, {.wr_id = 1,
                                .opcode = Opcode::read,
                                .sges = {local.sge(0, 8)},
                                .remote = {(*region)->rkey(), iova + 4088}});
        expect(pair.active.send_cq(), 1);
        local.fill_pattern(2);
    }
}

void peers_name_a_region_by_the_key_it_asked_for(void** state) {
    if (!limits().requested_keys) skip();
    Pair& pair = fixture_of(state).connect();
    std::vector<std::byte> memory(64);
    const Buffer& local = pair.active.buffer(64);
    local.fill_pattern(2);
    MrAttr attr;
    attr.address = memory.data();
    attr.length = memory.size();
    attr.access = full_access();
    attr.requested_rkey = 7;
    const auto region = pair.passive.pd().register_memory(attr);
    assert_true(region.has_value());
    assert_int_equal((*region)->rkey(), 7);
    assert_error(pair.passive.pd().register_memory(attr), Errc::no_key);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    must_post(pair.active, {.wr_id = 1, .sges = {local.sge()}, .remote = {7, address}});
    expect(pair.active.send_cq(), 1);
    assert_true(holds_pattern(memory.data(), 64, 0, 2));
}

void send_follows_the_writes_before_it(void** state) {
    SideOptions options;
    options.send_depth = 32;
    Pair& pair = fixture_of(state).connect(both(options));
    const Buffer& source = pair.active.buffer(20'000);
    const Buffer& target = pair.passive.buffer(20'000);
    for (unsigned round = 1; round <= 50; ++round) {
        source.fill_pattern(round);
        must_post_receive(pair.passive, round);
        must_post(pair.active,
                  {{.sges = {source.sge(0, 10'000)}, .remote = at(target), .flags = kUnsignaled},
                   {.sges = {source.sge(10'000, 10'000)},
                    .remote = at(target, 10'000),
                    .flags = kUnsignaled},
                   {.wr_id = round, .opcode = Opcode::send}});
        expect(pair.passive.receive_cq(), round);
        assert_true(holds_pattern(target.data(), target.size(), 0, round));
        expect(pair.active.send_cq(), round);
    }
}

// A device may save doorbells while a program polls; it may not rely on the next poll.
void what_a_polling_program_posts_arrives_although_it_polls_no_more(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(sizeof(std::uint64_t));
    const Buffer& remote = pair.passive.buffer(8 * sizeof(std::uint64_t));
    local.fill(1);
    for (int round = 0; round < 8; ++round) {
        remote.fill(0);
        for (std::uint64_t id = 1; id <= 8; ++id) expect_nothing(pair.active.send_cq());
        for (std::uint64_t id = 0; id < 8; ++id)
            must_post(pair.active, {.wr_id = id,
                                    .sges = {local.sge()},
                                    .remote = at(remote, id * sizeof(std::uint64_t))});
        assert_true(eventually([&] { return holds_only(remote.data(), remote.size(), 1); }));
        for (std::uint64_t id = 0; id < 8; ++id) expect(pair.active.send_cq(), id);
    }
}

void immediate_follows_the_bytes_of_its_write(void** state) {
    if (limits().imm_bytes == 0) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(100'000);
    const Buffer& target = pair.passive.buffer(100'000);
    for (unsigned round = 1; round <= 50; ++round) {
        source.fill_pattern(round);
        must_post_receive(pair.passive, round);
        must_post(pair.active, {.wr_id = round,
                                .opcode = Opcode::write_imm,
                                .sges = {source.sge()},
                                .remote = at(target),
                                .imm = round});
        assert_int_equal(expect(pair.passive.receive_cq(), round).imm, round);
        assert_true(holds_pattern(target.data(), target.size(), 0, round));
        expect(pair.active.send_cq(), round);
    }
}

void read_sees_the_write_before_it(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.active.buffer(30'000);
    const Buffer& back = pair.active.buffer(30'000);
    const Buffer& target = pair.passive.buffer(30'000);
    for (unsigned round = 1; round <= 50; ++round) {
        source.fill_pattern(round);
        must_post(
            pair.active,
            {{.sges = {source.sge()}, .remote = at(target), .flags = kUnsignaled},
             {.wr_id = round, .opcode = Opcode::read, .sges = {back.sge()}, .remote = at(target)}});
        expect(pair.active.send_cq(), round);
        assert_true(holds_pattern(back.data(), back.size(), 0, round));
    }
}

void large_messages_cross_in_both_directions_at_once(void** state) {
    Pair& pair = fixture_of(state).connect();
    constexpr std::size_t kLength = 8 * kMiB;
    std::vector<std::pair<Side*, Side*>> ways{{&pair.active, &pair.passive},
                                              {&pair.passive, &pair.active}};
    std::vector<Buffer*> written;
    std::vector<Buffer*> read;
    unsigned seed = 20;
    for (const auto& [from, to] : ways) {
        Buffer& source = from->buffer(kLength);
        Buffer& target = to->buffer(kLength);
        Buffer& sink = from->buffer(kLength);
        Buffer& origin = to->buffer(kLength);
        source.fill_pattern(++seed);
        origin.fill_pattern(++seed);
        written.push_back(&target);
        read.push_back(&sink);
        must_post(
            *from,
            {{.wr_id = 1, .sges = {source.sge()}, .remote = at(target)},
             {.wr_id = 2, .opcode = Opcode::read, .sges = {sink.sge()}, .remote = at(origin)}});
    }
    for (const auto& [from, to] : ways) {
        expect(from->send_cq(), 1);
        expect(from->send_cq(), 2);
    }
    for (unsigned way = 0; way < 2; ++way) {
        assert_true(holds_pattern(written[way]->data(), kLength, 0, 21 + 2 * way));
        assert_true(holds_pattern(read[way]->data(), kLength, 0, 22 + 2 * way));
    }
}

void passive_side_may_speak_first(void** state) {
    if (!subject().either_side_begins) skip();
    Pair& pair = fixture_of(state).connect();
    const Buffer& source = pair.passive.buffer(64);
    const Buffer& target = pair.active.buffer(64);
    source.fill_pattern(1);
    must_post_receive(pair.active, 1, {target.sge()});
    must_post(pair.passive, {.wr_id = 2, .opcode = Opcode::send, .sges = {source.sge()}});
    expect(pair.active.receive_cq(), 1);
    expect(pair.passive.send_cq(), 2);
    assert_true(holds_pattern(target.data(), 64, 0, 1));
}

// A little of everything, against a model of both memories.
void random_requests_do_what_the_model_says(void** state) {
    SideOptions options;
    options.send_depth = 64;
    Pair& pair = fixture_of(state).connect(both(options));
    constexpr std::size_t kLength = 50'000;
    constexpr std::uint64_t kRequests = 1500;
    const Buffer& local = pair.active.buffer(kLength);
    const Buffer& remote = pair.passive.buffer(kLength);
    local.fill_pattern(1);
    remote.fill_pattern(2);
    std::vector<std::byte> local_model(local.data(), local.data() + kLength);
    std::vector<std::byte> remote_model(remote.data(), remote.data() + kLength);
    unsigned random = 1;
    const auto below = [&](std::size_t limit) {
        random = random * 1664525U + 1013904223U;
        return (random >> 8) % limit;
    };
    std::uint64_t reaped = 0;
    for (std::uint64_t id = 0; id < kRequests; ++id) {
        // Small ones mostly; reads are fenced off by waiting, since nothing orders a write behind.
        const std::size_t length = below(20) == 0 ? below(kLength / 2) : below(300);
        const std::size_t here = below(kLength - length);
        const std::size_t there = below(kLength - length);
        const bool read = below(4) == 0;
        if (read) {
            while (reaped < id) expect(pair.active.send_cq(), reaped++);
            std::memcpy(&local_model[here], &remote_model[there], length);
        } else {
            std::memcpy(&remote_model[there], &local_model[here], length);
        }
        if (id - reaped == options.send_depth) expect(pair.active.send_cq(), reaped++);
        must_post(pair.active, {.wr_id = id,
                                .opcode = read ? Opcode::read : Opcode::write,
                                .sges = {local.sge(here, length)},
                                .remote = at(remote, there)});
        if (read) expect(pair.active.send_cq(), reaped++);
    }
    while (reaped < kRequests) expect(pair.active.send_cq(), reaped++);
    settle(pair.active);
    assert_memory_equal(local.data(), local_model.data(), kLength);
    assert_memory_equal(remote.data(), remote_model.data(), kLength);
}

// Programs poll on the last byte of a message that is written into their memory. ThreadSanitizer
// rightly calls that a race of theirs.
void last_byte_of_a_write_appears_last(void** state) {
#ifdef __SANITIZE_THREAD__
    (void)state;
    skip();
#else
    if (!subject().places_in_order) skip();
    Fixture& fixture = fixture_of(state);
    Pair& pair = fixture.connect();
    constexpr std::size_t kLength = 4096;
    constexpr int kRounds = 500;
    const Buffer& source = pair.active.buffer(kLength);
    const Buffer& target = pair.passive.buffer(kLength);
    std::atomic<int> seen{0};
    fixture.run([&] {
        for (int round = 1; round <= kRounds && !fixture.stop; ++round) {
            const auto value = static_cast<unsigned char>(round);
            auto* bytes = reinterpret_cast<volatile unsigned char*>(target.data());
            while (__atomic_load_n(&bytes[kLength - 1], __ATOMIC_ACQUIRE) != value) {
                if (fixture.stop) return;
                std::this_thread::yield();
            }
            for (std::size_t i = 0; i < kLength; ++i)
                if (bytes[i] != value) ++fixture.wrong;
            seen = round;
        }
    });
    for (int round = 1; round <= kRounds; ++round) {
        source.fill(round);
        must_post(pair.active, {.sges = {source.sge()}, .remote = at(target)});
        expect(pair.active.send_cq(), 0);
        assert_true(eventually([&] { return seen == round; }));
    }
    fixture.join();
    assert_int_equal(fixture.wrong, 0);
#endif
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(every_opcode_moves_every_size_and_no_byte_beside_it),
    CONTRACT_TEST(completion_names_what_it_completes),
    CONTRACT_TEST(elements_are_gathered_and_scattered_in_order),
    CONTRACT_TEST(elements_may_lie_in_any_order_and_in_several_regions),
    CONTRACT_TEST(as_many_elements_as_promised_work_and_one_more_is_refused),
    CONTRACT_TEST(request_without_elements_moves_nothing),
    CONTRACT_TEST(receive_may_be_longer_than_the_message),
    CONTRACT_TEST(inlined_bytes_are_the_callers_again_after_the_post),
    CONTRACT_TEST(inlined_elements_are_gathered),
    CONTRACT_TEST(more_inlined_bytes_than_the_queue_takes_are_refused),
    CONTRACT_TEST(message_beyond_the_limit_is_refused),
    CONTRACT_TEST(unregistered_local_memory_works_where_it_is_offered),
    CONTRACT_TEST(peers_name_a_region_by_its_iova),
    CONTRACT_TEST(peers_name_a_region_by_the_key_it_asked_for),
    CONTRACT_TEST(send_follows_the_writes_before_it),
    CONTRACT_TEST(what_a_polling_program_posts_arrives_although_it_polls_no_more),
    CONTRACT_TEST(immediate_follows_the_bytes_of_its_write),
    CONTRACT_TEST(read_sees_the_write_before_it),
    CONTRACT_TEST(large_messages_cross_in_both_directions_at_once),
    CONTRACT_TEST(passive_side_may_speak_first),
    CONTRACT_TEST(random_requests_do_what_the_model_says),
    CONTRACT_TEST(last_byte_of_a_write_appears_last),
};

}  // namespace

std::span<const CMUnitTest> data_tests() {
    return kTests;
}

}  // namespace compat::contract
