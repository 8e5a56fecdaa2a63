// SPDX-License-Identifier: BSD-3-Clause
#include "rpma_compat/mr.hpp"

#include <algorithm>
#include <cerrno>

#include "tests/unit/rpma/rig.hpp"

namespace compat::rpma {
namespace {

using core::Access;
using core::AccessFlags;
using core::Errc;

test::FakeMr& mr_of(Rig& rig) {
    return *rig.device.mrs().back();
}

// --- registration -----------------------------------------------------------------------------

void null_arguments_are_refused(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    make_remote(rig);
    char* const memory = rig.memory.data();
    rpma_mr_local* mr = untouched<rpma_mr_local>();
    assert_int_equal(rpma_mr_reg(nullptr, memory, 8, 1, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(rig.peer, nullptr, 8, 1, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(rig.peer, memory, 0, 1, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(rig.peer, memory, 8, 0, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(rig.peer, memory, 8, 1, nullptr), RPMA_E_INVAL);
    assert_ptr_equal(mr, untouched<rpma_mr_local>());

    std::size_t size = 7;
    void* ptr = untouched<void>();
    int flush_type = 7;
    Descriptor descriptor{};
    assert_int_equal(rpma_mr_get_descriptor(nullptr, descriptor.data()), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_descriptor(rig.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_descriptor_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_descriptor_size(rig.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_ptr(nullptr, &ptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_ptr(rig.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_size(rig.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_size(rig.remote, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_flush_type(nullptr, &flush_type), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_flush_type(rig.remote, nullptr), RPMA_E_INVAL);
    assert_int_equal(size, 7);
    assert_ptr_equal(ptr, untouched<void>());
    assert_int_equal(flush_type, 7);
}

void unknown_usage_is_refused(void** state) {
    Rig& rig = of(state);
    rpma_mr_local* mr = untouched<rpma_mr_local>();
    for (unsigned bit = 8; bit < 32; ++bit)
        for (const int known : {0, 1, kAllUsages})
            assert_int_equal(rpma_mr_reg(rig.peer, rig.memory.data(), 8,
                                         static_cast<int>(1U << bit) | known, &mr),
                             RPMA_E_INVAL);
    assert_ptr_equal(mr, untouched<rpma_mr_local>());
    assert_int_equal(rig.device.calls(Call::register_memory), 0);
}

/// Section "access flags by usage" of the interface's description, written out a second time.
AccessFlags expected_access(int usage, bool iwarp, bool native_flush) {
    AccessFlags access;
    if ((usage & RPMA_MR_USAGE_READ_SRC) != 0) access |= Access::remote_read;
    if ((usage & RPMA_MR_USAGE_READ_DST) != 0) access |= Access::local_write;
    if ((usage & RPMA_MR_USAGE_READ_DST) != 0 && iwarp) access |= Access::remote_write;
    if ((usage & RPMA_MR_USAGE_WRITE_SRC) != 0) access |= Access::local_write;
    if ((usage & RPMA_MR_USAGE_WRITE_DST) != 0) access |= Access::remote_write;
    if ((usage & RPMA_MR_USAGE_WRITE_DST) != 0) access |= Access::local_write;
    if ((usage & RPMA_MR_USAGE_RECV) != 0) access |= Access::local_write;
    const bool visible = (usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0;
    const bool persistent = (usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0;
    // with native flush, too: peers that flush by reading must be let in
    if (visible || persistent) access |= Access::remote_read;
    if (native_flush && visible) access |= Access::flush_visible;
    if (native_flush && persistent) access |= Access::flush_persistent;
    return access;
}

void every_set_of_usages_asks_for_its_rights(void** state) {
    Rig& rig = of(state);
    for (const bool iwarp : {false, true}) {
        for (const bool native_flush : {false, true}) {
            rig.device.current_limits.read_sink_needs_remote_write = iwarp;
            rig.device.current_limits.flush = native_flush;
            for (int usage = 1; usage <= kAllUsages; ++usage) {
                make_local(rig, usage);
                assert_int_equal(mr_of(rig).attr.access.bits(),
                                 expected_access(usage, iwarp, native_flush).bits());
                assert_int_equal(rpma_mr_dereg(&rig.local), kSuccess);
                assert_null(rig.local);
            }
        }
    }
}

void region_is_registered_where_it_lies(void** state) {
    Rig& rig = of(state);
    assert_int_equal(rpma_mr_reg(rig.peer, rig.memory.data() + 3, 77, 1, &rig.local), kSuccess);
    const core::MrAttr& attr = mr_of(rig).attr;
    assert_ptr_equal(attr.address, rig.memory.data() + 3);
    assert_int_equal(attr.length, 77);
    assert_false(attr.iova.has_value());
    assert_false(attr.requested_rkey.has_value());
    void* ptr = nullptr;
    std::size_t size = 0;
    assert_int_equal(rpma_mr_get_ptr(rig.local, &ptr), kSuccess);
    assert_int_equal(rpma_mr_get_size(rig.local, &size), kSuccess);
    assert_ptr_equal(ptr, rig.memory.data() + 3);
    assert_int_equal(size, 77);
}

void dereg_ends_the_region(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    assert_int_equal(rig.device.mrs().size(), 1);
    assert_int_equal(rpma_mr_dereg(&rig.local), kSuccess);
    assert_null(rig.local);
    assert_int_equal(rig.device.mrs().size(), 0);
    check_delete_of_nothing(rpma_mr_dereg);
}

void failed_registration_is_the_providers_and_leaks_nothing(void** state) {
    Rig& rig = of(state);
    const Trial<rpma_mr_local> trial{
        {},
        [&](rpma_mr_local** out) { return rpma_mr_reg(rig.peer, rig.memory.data(), 8, 1, out); },
        rpma_mr_dereg};
    assert_int_equal(fail_each_call_to_provider(rig.device, trial), 1);
    assert_true(fail_each_allocation(rig.device, trial) > 0);
}

void lack_of_memory_of_ours_comes_before_the_device(void** state) {
    Rig& rig = of(state);
    rpma_mr_local* mr = untouched<rpma_mr_local>();
    test::fail_new(1);
    assert_int_equal(rpma_mr_reg(rig.peer, rig.memory.data(), 8, 1, &mr), RPMA_E_NOMEM);
    assert_int_equal(rig.device.calls(Call::register_memory), 0);
}

// --- on-demand paging -------------------------------------------------------------------------

void memory_that_cannot_be_pinned_is_paged_on_demand(void** state) {
    Rig& rig = of(state);
    rig.device.current_limits.on_demand_paging = true;
    for (const core::Error error :
         {core::Error{Errc::not_supported, 0}, core::Error{Errc::device, EOPNOTSUPP}}) {
        rig.device.fail(Call::register_memory, 1, error);
        make_local(rig, RPMA_MR_USAGE_WRITE_DST);
        assert_int_equal(mr_of(rig).attr.access.bits(),
                         (Access::local_write | Access::remote_write | Access::on_demand).bits());
        assert_int_equal(rpma_mr_dereg(&rig.local), kSuccess);
    }
}

void on_demand_paging_is_not_forced(void** state) {
    Rig& rig = of(state);
    rig.device.current_limits.on_demand_paging = true;
    make_local(rig, kAllUsages);
    assert_false(mr_of(rig).attr.access.has(Access::on_demand));
    assert_int_equal(rig.device.calls(Call::register_memory), 1);
}

void only_lack_of_support_is_tried_again_and_only_where_it_helps(void** state) {
    Rig& rig = of(state);
    int calls = 0;
    for (const bool capable : {false, true}) {
        rig.device.current_limits.on_demand_paging = capable;
        for (const ErrRow& row : kErrMap) {
            if (capable && row.core == Errc::not_supported) continue;
            rpma_mr_local* mr = untouched<rpma_mr_local>();
            rig.device.fail(Call::register_memory, 1, {row.core, 0});
            assert_int_equal(rpma_mr_reg(rig.peer, rig.memory.data(), 8, 1, &mr), RPMA_E_PROVIDER);
            assert_ptr_equal(mr, untouched<rpma_mr_local>());
            assert_int_equal(rig.device.calls(Call::register_memory), ++calls);
        }
    }
}

// --- descriptors ------------------------------------------------------------------------------

void descriptor_is_address_length_rkey_usage_in_little_endian(void** state) {
    Rig& rig = of(state);
    for (const int usage : {1, 0x20, kAllUsages}) {
        make_local(rig, usage);
        std::size_t size = 0;
        assert_int_equal(rpma_mr_get_descriptor_size(rig.local, &size), kSuccess);
        assert_int_equal(size, kDescriptorSize);
        std::array<std::uint8_t, kDescriptorSize + 1> bytes{};
        bytes.back() = 0xaa;
        assert_int_equal(rpma_mr_get_descriptor(rig.local, bytes.data()), kSuccess);
        const auto address = reinterpret_cast<std::uintptr_t>(rig.memory.data());
        const std::uint32_t rkey = mr_of(rig).rkey();
        for (std::size_t i = 0; i < 8; ++i) {
            assert_int_equal(bytes[i], (address >> (8 * i)) & 0xff);
            assert_int_equal(bytes[8 + i], (rig.memory.size() >> (8 * i)) & 0xff);
        }
        for (std::size_t i = 0; i < 4; ++i)
            assert_int_equal(bytes[16 + i], (rkey >> (8 * i)) & 0xff);
        assert_int_equal(bytes[20], usage);
        assert_int_equal(bytes[21], 0xaa);
        assert_int_equal(rpma_mr_dereg(&rig.local), kSuccess);
    }
}

void descriptor_bytes_are_decoded_field_by_field(void** state) {
    Rig& rig = of(state);
    const Descriptor bytes{1,    2,    3,    4,    5,    6,    7,    8,    0x11, 0x12, 0x13,
                           0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x31};
    assert_int_equal(rpma_mr_remote_from_descriptor(bytes.data(), bytes.size(), &rig.remote),
                     kSuccess);
    assert_int_equal(rig.remote->address, 0x0807060504030201);
    assert_int_equal(rig.remote->length, 0x1817161514131211);
    assert_int_equal(rig.remote->rkey, 0x24232221);
    assert_int_equal(rig.remote->usage, 0x31);
    std::size_t size = 0;
    assert_int_equal(rpma_mr_remote_get_size(rig.remote, &size), kSuccess);
    assert_int_equal(size, 0x1817161514131211);
}

void own_descriptor_is_read_back(void** state) {
    Rig& rig = of(state);
    make_local(rig, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
    Descriptor descriptor{};
    assert_int_equal(rpma_mr_get_descriptor(rig.local, descriptor.data()), kSuccess);
    assert_int_equal(
        rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &rig.remote),
        kSuccess);
    assert_int_equal(rig.remote->address, reinterpret_cast<std::uintptr_t>(rig.memory.data()));
    assert_int_equal(rig.remote->length, rig.memory.size());
    assert_int_equal(rig.remote->rkey, mr_of(rig).rkey());
    assert_int_equal(rig.remote->usage, 0x28);
}

void short_descriptor_is_refused_and_logged(void**) {
    const Descriptor descriptor = remote_descriptor(kAllUsages);
    for (std::size_t size = 0; size < kDescriptorSize; ++size) {
        const std::vector<std::uint8_t> exact(descriptor.begin(),
                                              descriptor.begin() + static_cast<long>(size));
        const CapturedLog log;
        const void* const bytes = size == 0 ? descriptor.data() : exact.data();
        rpma_mr_remote* mr = untouched<rpma_mr_remote>();
        assert_int_equal(rpma_mr_remote_from_descriptor(bytes, size, &mr), RPMA_E_INVAL);
        assert_ptr_equal(mr, untouched<rpma_mr_remote>());
        assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "descriptor"));
    }
}

void long_descriptor_is_read_up_to_its_21_bytes(void** state) {
    Rig& rig = of(state);
    const Descriptor descriptor = remote_descriptor(0x11);
    for (std::size_t size = kDescriptorSize; size < kDescriptorSize + 20; ++size) {
        std::vector<std::uint8_t> bytes(size, 0xee);
        std::copy(descriptor.begin(), descriptor.end(), bytes.begin());
        assert_int_equal(rpma_mr_remote_from_descriptor(bytes.data(), size, &rig.remote), kSuccess);
        assert_int_equal(rig.remote->address, kRemoteAddress);
        assert_int_equal(rig.remote->length, kRemoteLength);
        assert_int_equal(rig.remote->rkey, kRemoteKey);
        assert_int_equal(rig.remote->usage, 0x11);
        assert_int_equal(rpma_mr_remote_delete(&rig.remote), kSuccess);
        assert_null(rig.remote);
    }
    check_delete_of_nothing(rpma_mr_remote_delete);
}

void descriptor_without_usage_or_address_is_refused(void**) {
    const Descriptor none = remote_descriptor(0);
    const Descriptor good = remote_descriptor(1);
    const CapturedLog log;
    rpma_mr_remote* mr = untouched<rpma_mr_remote>();
    assert_int_equal(rpma_mr_remote_from_descriptor(none.data(), none.size(), &mr), RPMA_E_INVAL);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_ERROR, "usage"));
    assert_int_equal(rpma_mr_remote_from_descriptor(nullptr, 21, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_from_descriptor(good.data(), good.size(), nullptr),
                     RPMA_E_INVAL);
    assert_ptr_equal(mr, untouched<rpma_mr_remote>());
}

void flush_type_is_the_two_usage_bits(void** state) {
    Rig& rig = of(state);
    for (int usage = 1; usage <= kAllUsages; ++usage) {
        make_remote(rig, usage);
        int flush_type = -1;
        assert_int_equal(rpma_mr_remote_get_flush_type(rig.remote, &flush_type), kSuccess);
        assert_int_equal(flush_type, usage & 0x30);
    }
}

void lack_of_memory_for_a_remote_region_is_told(void** state) {
    Rig& rig = of(state);
    const Descriptor descriptor = remote_descriptor(1);
    const Trial<rpma_mr_remote> trial{{},
                                      [&](rpma_mr_remote** out) {
                                          return rpma_mr_remote_from_descriptor(
                                              descriptor.data(), descriptor.size(), out);
                                      },
                                      rpma_mr_remote_delete};
    assert_true(fail_each_allocation(rig.device, trial) > 0);
}

void decoded_region_is_told_at_debug(void** state) {
    Rig& rig = of(state);
    const CapturedLog log;
    make_remote(rig);
    assert_non_null(CapturedLog::find(RPMA_LOG_LEVEL_DEBUG, "rkey 0xabcd"));
}

// --- advice -----------------------------------------------------------------------------------

void advice_reaches_the_region_as_given(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    assert_int_equal(rpma_mr_advise(rig.local, 16, 32, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                    IBV_ADVISE_MR_FLAG_FLUSH),
                     kSuccess);
    const test::FakeMr::Advice& advice = mr_of(rig).last_advice;
    assert_int_equal(advice.offset, 16);
    assert_int_equal(advice.length, 32);
    assert_int_equal(advice.advice, 1);
    assert_int_equal(advice.flags, 1);
}

void refused_advice_says_why(void** state) {
    Rig& rig = of(state);
    make_local(rig);
    const auto code_for = [&](core::Error error) {
        rig.device.fail(Call::advise, 1, error);
        return rpma_mr_advise(rig.local, 0, 8, 0, 0);
    };
    for (const ErrRow& row : kErrMap) {
        const bool bad_argument =
            row.core == Errc::invalid_argument || row.core == Errc::access_denied;
        const int expected = row.core == Errc::not_supported ? RPMA_E_NOSUPP
                             : bad_argument                  ? RPMA_E_INVAL
                                                             : RPMA_E_PROVIDER;
        assert_int_equal(code_for({row.core, 0}), expected);
    }
    assert_int_equal(code_for({Errc::device, EOPNOTSUPP}), RPMA_E_NOSUPP);
    assert_int_equal(code_for({Errc::device, ENOTSUP}), RPMA_E_NOSUPP);
    assert_int_equal(code_for({Errc::device, EFAULT}), RPMA_E_INVAL);
    assert_int_equal(code_for({Errc::device, EINVAL}), RPMA_E_INVAL);
    for (const int other : {EIO, ENOMEM, EPERM, ENOENT})
        assert_int_equal(code_for({Errc::device, other}), RPMA_E_PROVIDER);
}

void advice_without_a_region_is_refused(void**) {
    assert_int_equal(rpma_mr_advise(nullptr, 0, 8, 0, 0), RPMA_E_INVAL);
}

}  // namespace
}  // namespace compat::rpma

int main() {
    using namespace compat::rpma;
    const CMUnitTest tests[] = {
        TEST(null_arguments_are_refused),
        TEST(unknown_usage_is_refused),
        TEST(every_set_of_usages_asks_for_its_rights),
        TEST(region_is_registered_where_it_lies),
        TEST(dereg_ends_the_region),
        TEST(failed_registration_is_the_providers_and_leaks_nothing),
        TEST(lack_of_memory_of_ours_comes_before_the_device),
        TEST(memory_that_cannot_be_pinned_is_paged_on_demand),
        TEST(on_demand_paging_is_not_forced),
        TEST(only_lack_of_support_is_tried_again_and_only_where_it_helps),
        TEST(descriptor_is_address_length_rkey_usage_in_little_endian),
        TEST(descriptor_bytes_are_decoded_field_by_field),
        TEST(own_descriptor_is_read_back),
        TEST(short_descriptor_is_refused_and_logged),
        TEST(long_descriptor_is_read_up_to_its_21_bytes),
        TEST(descriptor_without_usage_or_address_is_refused),
        TEST(flush_type_is_the_two_usage_bits),
        TEST(lack_of_memory_for_a_remote_region_is_told),
        TEST(decoded_region_is_told_at_debug),
        TEST(advice_reaches_the_region_as_given),
        TEST(refused_advice_says_why),
        TEST(advice_without_a_region_is_refused),
    };
    return cmocka_run_group_tests_name("mr", tests, nullptr, nullptr);
}
