// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/flags.hpp"

#include <cstdint>
#include <initializer_list>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

enum class Bit : std::uint8_t { low = 1, middle = 8, high = 128 };
using Bits = Flags<Bit>;

static_assert(sizeof(Bits) == sizeof(Bit), "a set costs no more than a flag");
static_assert(Bits().empty());
static_assert((Bits(Bit::low) | Bit::high).bits() == 129);

void empty_set_has_nothing_and_holds_the_empty_set(void**) {
    const Bits none;
    for (const Bit bit : {Bit::low, Bit::middle, Bit::high}) {
        assert_false(none.has(bit));
        assert_false(none.has_any(bit));
        assert_false(none.has_all(bit));
    }
    assert_true(none.has_all(Bits()));
    assert_false(none.has_any(Bits()));
}

void set_has_what_was_put_in_and_nothing_else(void**) {
    const Bits set = Bits(Bit::low) | Bit::high;
    assert_true(set.has(Bit::low));
    assert_true(set.has(Bit::high));
    assert_false(set.has(Bit::middle));
    assert_false(set.empty());
}

void has_all_wants_every_flag_and_has_any_one_of_them(void**) {
    const Bits set = Bits(Bit::low) | Bit::high;
    assert_true(set.has_all(Bits(Bit::low) | Bit::high));
    assert_false(set.has_all(Bits(Bit::low) | Bit::middle));
    assert_true(set.has_any(Bits(Bit::low) | Bit::middle));
    assert_false(set.has_any(Bit::middle));
}

void putting_a_flag_in_twice_changes_nothing(void**) {
    Bits set = Bit::middle;
    set |= Bit::middle;
    assert_true(set == Bits(Bit::middle));
    set |= Bit::high;
    assert_int_equal(set.bits(), 136);
    assert_false(set == Bits(Bit::middle));
}

void raw_bits_come_back_as_given(void**) {
    for (unsigned bits = 0; bits < 256; ++bits)
        assert_int_equal(Bits(static_cast<std::uint8_t>(bits)).bits(), bits);
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(empty_set_has_nothing_and_holds_the_empty_set),
        cmocka_unit_test(set_has_what_was_put_in_and_nothing_else),
        cmocka_unit_test(has_all_wants_every_flag_and_has_any_one_of_them),
        cmocka_unit_test(putting_a_flag_in_twice_changes_nothing),
        cmocka_unit_test(raw_bits_come_back_as_given),
    };
    return cmocka_run_group_tests_name("flags", tests, nullptr, nullptr);
}
