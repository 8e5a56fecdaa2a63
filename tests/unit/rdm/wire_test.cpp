// SPDX-License-Identifier: BSD-3-Clause
// core/rdm/wire.hpp: what is said is understood, and nothing else is.
#include "core/rdm/wire.hpp"

#include <algorithm>
#include <vector>

#include "tests/unit/rdm/rig.hpp"

namespace compat::core::rdm {
namespace {

SocketAddress ipv6(std::uint16_t port) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
    in6.sin6_port = htons(port);
    return *SocketAddress::from(reinterpret_cast<sockaddr*>(&in6), sizeof in6);
}

Hello some_hello() {
    return {.name = loopback(7204),
            .instance = 0x1122334455667788,
            .data_buffers = 32,
            .control_buffers = 8,
            .buffer_length = kBufferLength,
            .probe_rkey = 0x12345678,
            .probe_address = 0x1020304050607080};
}

void a_hello_fits_a_request_of_infiniband_and_comes_back(void**) {
    static_assert(kHelloLength <= 56);
    for (const SocketAddress& name : {loopback(7204), ipv6(65535)}) {
        for (const bool extra : {false, true}) {
            Hello hello = some_hello();
            hello.name = name;
            hello.extra = extra;
            const auto bytes = encode(hello);
            // InfiniBand hands over all 56 bytes.
            std::vector<std::byte> padded(bytes.begin(), bytes.end());
            padded.resize(56);
            const auto got = parse_hello(padded);
            assert_true(got.has_value());
            assert_true(got->name == name);
            assert_int_equal(got->instance, hello.instance);
            assert_int_equal(got->extra, extra);
            assert_int_equal(got->data_buffers, 32);
            assert_int_equal(got->control_buffers, 8);
            assert_int_equal(got->buffer_length, kBufferLength);
            assert_int_equal(got->probe_rkey, 0x12345678);
            assert_int_equal(got->probe_address, 0x1020304050607080);
        }
    }
}

void a_hello_that_makes_no_sense_is_refused(void**) {
    const auto good = encode(some_hello());
    assert_false(parse_hello(std::span(good).first(kHelloLength - 1)).has_value());
    assert_false(parse_hello({}).has_value());
    struct Change {
        std::size_t at;
        std::uint8_t value;
    };
    constexpr Change kChanges[] = {
        {0, 0},   // magic
        {4, 9},   // version
        {5, 5},   // family
        {33, 2},  // 131,104 buffers
        {40, 1},  // fine: longer buffers
    };
    for (const Change& change : kChanges) {
        auto bytes = good;
        bytes[change.at] = std::byte{change.value};
        assert_int_equal(parse_hello(bytes).has_value(), change.at == 40);
    }
    for (Hello bad : {some_hello(), some_hello(), some_hello(), some_hello()}) {
        static int which = 0;
        if (which == 0) bad.data_buffers = 0;
        if (which == 1) bad.control_buffers = 0;
        if (which == 2) bad.buffer_length = kBufferLength - 1;
        if (which == 3) bad.name.set_port(0);
        ++which;
        assert_false(parse_hello(encode(bad)).has_value());
    }
}

void refusals_are_told_from_silence(void**) {
    for (std::uint8_t at = 0; at < static_cast<std::uint8_t>(Refusal::count_); ++at) {
        const auto bytes = encode(static_cast<Refusal>(at));
        assert_true(parse_refusal(bytes) == static_cast<Refusal>(at));
        assert_false(parse_refusal(std::span(bytes).first(kRefusalLength - 1)).has_value());
    }
    assert_false(parse_refusal({}).has_value());
    assert_false(parse_refusal(encode(Refusal::count_)).has_value());
    std::array<std::byte, kRefusalLength> zeros{};
    assert_false(parse_refusal(zeros).has_value());
}

std::vector<std::byte> message_of(const Header& header, std::size_t rest) {
    std::vector<std::byte> message(kHeaderLength + rest);
    encode(header, std::span<std::byte, kHeaderLength>(message.data(), kHeaderLength));
    return message;
}

void a_header_comes_back(void**) {
    const Header sent{.kind = MessageKind::eager,
                      .flags = HeaderFlag::tagged | HeaderFlags(HeaderFlag::data),
                      .data_permit = 0xfffffff0,
                      .control_permit = 7,
                      .id = 0x12345678,
                      .tag = 0xfedcba9876543210,
                      .imm = 0x0123456789abcdef,
                      .length = 100};
    const auto got = parse_header(message_of(sent, 100));
    assert_true(got.has_value());
    assert_true(got->kind == sent.kind);
    assert_true(got->flags == sent.flags);
    assert_int_equal(got->data_permit, sent.data_permit);
    assert_int_equal(got->control_permit, sent.control_permit);
    assert_int_equal(got->id, sent.id);
    assert_int_equal(got->tag, sent.tag);
    assert_int_equal(got->imm, sent.imm);
    assert_int_equal(got->length, 100);
}

void a_length_must_be_what_came(void**) {
    const Header eager{.kind = MessageKind::eager, .length = 100};
    assert_false(parse_header(message_of(eager, 99)).has_value());
    assert_false(parse_header(message_of(eager, 101)).has_value());
    const Header huge{.kind = MessageKind::eager, .length = UINT64_MAX};
    assert_false(parse_header(message_of(huge, kEagerLength)).has_value());
    const Header most{.kind = MessageKind::eager, .length = kEagerLength};
    assert_true(parse_header(message_of(most, kEagerLength)).has_value());
    for (const MessageKind kind :
         {MessageKind::permit, MessageKind::acknowledge, MessageKind::written}) {
        assert_true(parse_header(message_of({.kind = kind}, 0)).has_value());
        assert_false(parse_header(message_of({.kind = kind}, 1)).has_value());
    }
    assert_false(parse_header(message_of({.kind = MessageKind::count_}, 0)).has_value());
    assert_false(parse_header(std::vector<std::byte>(kHeaderLength - 1)).has_value());
}

void sources_must_add_up(void**) {
    const auto with = [](std::initializer_list<std::uint64_t> lengths, std::uint64_t total) {
        auto message = message_of({.kind = MessageKind::rendezvous,
                                   .source_count = static_cast<std::uint8_t>(lengths.size()),
                                   .length = total},
                                  lengths.size() * kSourceLength);
        std::byte* out = message.data() + kHeaderLength;
        for (const std::uint64_t length : lengths) {
            encode_source({.address = 0x1000, .length = length, .rkey = 5}, out);
            out += kSourceLength;
        }
        return message;
    };
    const auto message = with({5'000, 6'000}, 11'000);
    const auto header = parse_header(message);
    assert_true(header.has_value());
    assert_int_equal(header->source_count, 2);
    assert_int_equal(source_at(message, 1).length, 6'000);
    assert_int_equal(source_at(message, 1).address, 0x1000);
    assert_int_equal(source_at(message, 1).rkey, 5);
    assert_false(parse_header(with({5'000, 6'000}, 10'999)).has_value());
    assert_false(parse_header(with({5'000, 6'000}, 11'001)).has_value());
    assert_false(parse_header(with({5'000, 0}, 5'000)).has_value());
    assert_false(parse_header(with({UINT64_MAX, 2}, 1)).has_value());
    assert_false(parse_header(with({}, 0)).has_value());
    auto shorter = message;
    shorter.pop_back();
    assert_false(parse_header(shorter).has_value());
    auto many = message_of({.kind = MessageKind::rendezvous, .source_count = 17, .length = 17},
                           17 * kSourceLength);
    for (std::size_t at = 0; at < 17; ++at)
        encode_source({.address = 1, .length = 1, .rkey = 1},
                      many.data() + kHeaderLength + at * kSourceLength);
    assert_false(parse_header(many).has_value());
}

}  // namespace
}  // namespace compat::core::rdm

int main() {
    using namespace compat::core::rdm;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_fits_a_request_of_infiniband_and_comes_back),
        cmocka_unit_test(a_hello_that_makes_no_sense_is_refused),
        cmocka_unit_test(refusals_are_told_from_silence),
        cmocka_unit_test(a_header_comes_back),
        cmocka_unit_test(a_length_must_be_what_came),
        cmocka_unit_test(sources_must_add_up),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
