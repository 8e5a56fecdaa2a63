// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/socket_address.hpp"

#include <arpa/inet.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <string>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

struct Literal {
    const char* host;
    const char* text;  ///< with port 7204
    sa_family_t family;
    bool wildcard;
    bool loopback;
};

constexpr std::array kLiterals{
    Literal{"127.0.0.1", "127.0.0.1:7204", AF_INET, false, true},
    Literal{"127.200.0.9", "127.200.0.9:7204", AF_INET, false, true},
    Literal{"126.255.255.255", "126.255.255.255:7204", AF_INET, false, false},
    Literal{"128.0.0.1", "128.0.0.1:7204", AF_INET, false, false},
    Literal{"0.0.0.0", "0.0.0.0:7204", AF_INET, true, false},
    Literal{"192.0.2.1", "192.0.2.1:7204", AF_INET, false, false},
    Literal{"::1", "[::1]:7204", AF_INET6, false, true},
    Literal{"::", "[::]:7204", AF_INET6, true, false},
    Literal{"2001:db8::5", "[2001:db8::5]:7204", AF_INET6, false, false},
};

SocketAddress numeric(const char* host, const char* service = "7204") {
    const Result<SocketAddress> result = resolve_address(host, service, Resolve::numeric);
    assert_true(result.has_value());
    return *result;
}

void default_is_empty_and_equal_to_itself(void**) {
    const SocketAddress none;
    assert_true(none.empty());
    assert_int_equal(none.length(), 0);
    assert_int_equal(none.port(), 0);
    assert_false(none.is_wildcard());
    assert_false(none.is_loopback());
    assert_true(none == SocketAddress());
    assert_false(none == numeric("0.0.0.0", "0"));
}

void literals_have_family_port_kind_and_text(void**) {
    for (const Literal& literal : kLiterals) {
        const SocketAddress address = numeric(literal.host);
        assert_int_equal(address.family(), literal.family);
        assert_int_equal(address.length(),
                         literal.family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        assert_int_equal(address.port(), 7204);
        assert_int_equal(address.is_wildcard(), literal.wildcard);
        assert_int_equal(address.is_loopback(), literal.loopback);
        const std::string text = address.text().c_str();
        assert_string_equal(text.c_str(), literal.text);
    }
}

void two_literals_are_equal_only_to_themselves(void**) {
    for (const Literal& left : kLiterals)
        for (const Literal& right : kLiterals)
            assert_int_equal(numeric(left.host) == numeric(right.host), &left == &right);
}

void port_takes_part_in_equality_and_can_be_set(void**) {
    for (const Literal& literal : kLiterals) {
        SocketAddress address = numeric(literal.host, "1");
        assert_false(address == numeric(literal.host));
        address.set_port(7204);
        assert_int_equal(address.port(), 7204);
        assert_true(address == numeric(literal.host));
    }
}

void scope_tells_link_local_addresses_apart(void**) {
    sockaddr_in6 raw{};
    raw.sin6_family = AF_INET6;
    assert_int_equal(inet_pton(AF_INET6, "fe80::1", &raw.sin6_addr), 1);
    raw.sin6_scope_id = 1;
    const auto first = SocketAddress::from(reinterpret_cast<sockaddr*>(&raw), sizeof raw);
    raw.sin6_scope_id = 2;
    const auto second = SocketAddress::from(reinterpret_cast<sockaddr*>(&raw), sizeof raw);
    assert_true(first.has_value() && second.has_value());
    assert_false(*first == *second);
}

void socket_address_comes_back_byte_for_byte(void**) {
    for (const Literal& literal : kLiterals) {
        const SocketAddress address = numeric(literal.host);
        const auto copy = SocketAddress::from(address.get(), address.length());
        assert_true(copy.has_value());
        assert_true(*copy == address);
        assert_memory_equal(copy->get(), address.get(), address.length());
    }
}

void incomplete_or_foreign_socket_address_is_refused(void**) {
    sockaddr_storage storage{};
    const auto* raw = reinterpret_cast<const sockaddr*>(&storage);
    struct Case {
        sa_family_t family;
        std::size_t length;
    };
    for (const Case one : {Case{AF_INET, sizeof(sockaddr_in) - 1}, Case{AF_INET, 1},
                           Case{AF_INET6, sizeof(sockaddr_in6) - 1}, Case{AF_INET6, 0},
                           Case{AF_UNIX, sizeof(sockaddr_un)}, Case{AF_UNSPEC, sizeof storage}}) {
        storage.ss_family = one.family;
        const auto address = SocketAddress::from(raw, one.length);
        assert_false(address.has_value());
        assert_true(address.error().code == Errc::invalid_argument);
    }
    assert_false(SocketAddress::from(nullptr, sizeof storage).has_value());
}

void length_beyond_the_address_is_ignored(void**) {
    sockaddr_storage storage{};
    storage.ss_family = AF_INET;
    const auto address =
        SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), sizeof storage);
    assert_true(address.has_value());
    assert_int_equal(address->length(), sizeof(sockaddr_in));
}

void passive_without_node_is_the_wildcard(void**) {
    const auto address = resolve_address(nullptr, "7204", Resolve::passive);
    assert_true(address.has_value());
    assert_true(address->is_wildcard());
    assert_int_equal(address->port(), 7204);
}

void active_without_node_is_the_loopback(void**) {
    const auto address = resolve_address(nullptr, "7204", Resolve::active);
    assert_true(address.has_value());
    assert_true(address->is_loopback());
}

void name_is_no_numeric_address(void**) {
    const auto address = resolve_address("localhost", "7204", Resolve::numeric);
    assert_false(address.has_value());
    assert_true(address.error().code == Errc::unreachable);
}

void nothing_to_resolve_is_unreachable(void**) {
    const auto address = resolve_address(nullptr, nullptr, Resolve::active);
    assert_false(address.has_value());
    assert_true(address.error().code == Errc::unreachable);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(default_is_empty_and_equal_to_itself),
        cmocka_unit_test(literals_have_family_port_kind_and_text),
        cmocka_unit_test(two_literals_are_equal_only_to_themselves),
        cmocka_unit_test(port_takes_part_in_equality_and_can_be_set),
        cmocka_unit_test(scope_tells_link_local_addresses_apart),
        cmocka_unit_test(socket_address_comes_back_byte_for_byte),
        cmocka_unit_test(incomplete_or_foreign_socket_address_is_refused),
        cmocka_unit_test(length_beyond_the_address_is_ignored),
        cmocka_unit_test(passive_without_node_is_the_wildcard),
        cmocka_unit_test(active_without_node_is_the_loopback),
        cmocka_unit_test(name_is_no_numeric_address),
        cmocka_unit_test(nothing_to_resolve_is_unreachable),
    };
    return cmocka_run_group_tests_name("socket_address", tests, nullptr, nullptr);
}
