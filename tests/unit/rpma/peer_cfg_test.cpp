// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

void make_peer_cfg(Rig& rig) {
    assert_int_equal(rpma_peer_cfg_new(&rig.peer_cfg), kSuccess);
}

bool direct_write_of(const rpma_peer_cfg* cfg) {
    bool supported = false;
    assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &supported), kSuccess);
    return supported;
}

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    make_peer_cfg(rig);
    bool supported = true;
    std::uint8_t byte = 7;
    std::size_t size = 7;
    assert_int_equal(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(nullptr, true), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(nullptr, &supported), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(rig.peer_cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor(nullptr, &byte), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor(rig.peer_cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(rig.peer_cfg, nullptr), RPMA_E_INVAL);
    rpma_peer_cfg* out = untouched<rpma_peer_cfg>();
    assert_int_equal(rpma_peer_cfg_from_descriptor(nullptr, 1, &out), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_from_descriptor(&byte, 1, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(out, untouched<rpma_peer_cfg>());
    assert_true(supported);
    assert_int_equal(byte, 7);
    assert_int_equal(size, 7);
}

void delete_of_nothing_succeeds(void**) {
    check_delete_of_nothing(rpma_peer_cfg_delete);
}

void delete_clears_the_pointer(void** state) {
    Rig& rig = of(state);
    make_peer_cfg(rig);
    assert_int_equal(rpma_peer_cfg_delete(&rig.peer_cfg), kSuccess);
    assert_null(rig.peer_cfg);
}

void direct_write_starts_false_and_is_what_was_set(void** state) {
    Rig& rig = of(state);
    make_peer_cfg(rig);
    assert_false(direct_write_of(rig.peer_cfg));
    for (const bool supported : {true, false, true}) {
        assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(rig.peer_cfg, supported), kSuccess);
        assert_int_equal(direct_write_of(rig.peer_cfg), supported);
    }
}

void descriptor_is_one_byte_0_or_1(void** state) {
    Rig& rig = of(state);
    make_peer_cfg(rig);
    std::size_t size = 0;
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(rig.peer_cfg, &size), kSuccess);
    assert_int_equal(size, 1);
    for (const bool supported : {false, true}) {
        std::array<std::uint8_t, 3> bytes{0xaa, 0xaa, 0xaa};
        assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(rig.peer_cfg, supported), kSuccess);
        assert_int_equal(rpma_peer_cfg_get_descriptor(rig.peer_cfg, &bytes[1]), kSuccess);
        assert_int_equal(bytes[0], 0xaa);
        assert_int_equal(bytes[1], supported ? 1 : 0);
        assert_int_equal(bytes[2], 0xaa);
    }
}

void empty_descriptor_is_refused_and_logged(void**) {
    const CapturedLog log;
    const std::uint8_t byte = 1;
    rpma_peer_cfg* out = untouched<rpma_peer_cfg>();
    assert_int_equal(rpma_peer_cfg_from_descriptor(&byte, 0, &out), RPMA_E_INVAL);
    assert_ptr_equal(out, untouched<rpma_peer_cfg>());
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "descriptor"));
}

void any_byte_but_zero_means_true_and_is_written_back_as_1(void** state) {
    Rig& rig = of(state);
    for (int value = 0; value <= 0xff; ++value) {
        std::uint8_t byte = static_cast<std::uint8_t>(value);
        assert_int_equal(rpma_peer_cfg_from_descriptor(&byte, 1, &rig.peer_cfg), kSuccess);
        assert_int_equal(direct_write_of(rig.peer_cfg), value != 0);
        assert_int_equal(rpma_peer_cfg_get_descriptor(rig.peer_cfg, &byte), kSuccess);
        assert_int_equal(byte, value != 0 ? 1 : 0);
        assert_int_equal(rpma_peer_cfg_delete(&rig.peer_cfg), kSuccess);
    }
}

void bytes_after_the_first_are_ignored(void** state) {
    Rig& rig = of(state);
    const std::array<std::uint8_t, 9> bytes{0, 1, 2, 3, 4, 5, 6, 7, 8};
    for (std::size_t size = 1; size <= bytes.size(); ++size) {
        assert_int_equal(rpma_peer_cfg_from_descriptor(bytes.data(), size, &rig.peer_cfg),
                         kSuccess);
        assert_false(direct_write_of(rig.peer_cfg));
        assert_int_equal(rpma_peer_cfg_delete(&rig.peer_cfg), kSuccess);
    }
}

void decoding_is_told_at_info(void** state) {
    Rig& rig = of(state);
    const CapturedLog log;
    const std::uint8_t byte = 1;
    assert_int_equal(rpma_peer_cfg_from_descriptor(&byte, 1, &rig.peer_cfg), kSuccess);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_INFO, "direct write"));
}

void lack_of_memory_is_told(void** state) {
    Rig& rig = of(state);
    const std::uint8_t byte = 1;
    const Trial<rpma_peer_cfg> fresh{{}, rpma_peer_cfg_new, rpma_peer_cfg_delete};
    const Trial<rpma_peer_cfg> decoded{
        {},
        [&](rpma_peer_cfg** out) { return rpma_peer_cfg_from_descriptor(&byte, 1, out); },
        rpma_peer_cfg_delete};
    assert_true(fail_each_allocation(rig.device, fresh) > 0);
    assert_true(fail_each_allocation(rig.device, decoded) > 0);
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(delete_of_nothing_succeeds),
        TEST(delete_clears_the_pointer),
        TEST(direct_write_starts_false_and_is_what_was_set),
        TEST(descriptor_is_one_byte_0_or_1),
        TEST(empty_descriptor_is_refused_and_logged),
        TEST(any_byte_but_zero_means_true_and_is_written_back_as_1),
        TEST(bytes_after_the_first_are_ignored),
        TEST(decoding_is_told_at_info),
        TEST(lack_of_memory_is_told),
    };
    return cmocka_run_group_tests_name("peer_cfg", tests, nullptr, nullptr);
}
