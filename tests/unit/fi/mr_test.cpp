// SPDX-License-Identifier: BSD-3-Clause
// fi_compat/mr.cpp and domain.cpp: rights, keys, modes and versions.
#include <cstring>

#include "tests/unit/fi/ep_rig.hpp"

namespace compat::fi {
namespace {

int reg(EpRig& rig, std::uint64_t access, std::uint64_t key, std::uint64_t flags, fid_mr** mr) {
    return fi_mr_reg(rig.domain, rig.memory.data(), 64, access, 0, key, flags, mr, &rig.marker);
}

void each_access_bit_asks_for_its_rights(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.flush = false;
    rig.open_domain({});
    using core::Access;
    const struct {
        std::uint64_t fi;
        core::AccessFlags core;
    } rows[] = {
        {0, {}},
        {FI_SEND, {}},
        {FI_WRITE, {}},
        {FI_RECV, Access::local_write},
        {FI_READ, Access::local_write},
        {FI_REMOTE_READ, Access::remote_read},
        {FI_REMOTE_WRITE, Access::local_write | Access::remote_write | Access::remote_atomic},
        {FI_COLLECTIVE, {}},
    };
    for (const auto& row : rows) {
        fid_mr* mr = nullptr;
        assert_int_equal(reg(rig, row.fi, 5, 0, &mr), 0);
        assert_int_equal(rig.device.mrs().back()->attr.access.bits(), row.core.bits());
        const bool remote = (row.fi & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0;
        assert_true(fi_mr_key(mr) == (remote ? 5 : FI_KEY_NOTAVAIL));
        assert_ptr_equal(mr->fid.context, &rig.marker);
        assert_int_equal(fi_close(&mr->fid), 0);
    }
    fid_mr* mr = nullptr;
    assert_int_equal(reg(rig, FI_RMA_EVENT, 5, 0, &mr), -FI_EINVAL);
}

void iwarp_sinks_of_reads_need_a_remote_right(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.read_sink_needs_remote_write = true;
    rig.open_domain({});
    fid_mr* mr = nullptr;
    assert_int_equal(reg(rig, FI_READ, 5, 0, &mr), 0);
    assert_true(rig.device.mrs().back()->attr.access.has(core::Access::remote_write));
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(reg(rig, FI_RECV, 5, 0, &mr), 0);
    assert_false(rig.device.mrs().back()->attr.access.has(core::Access::remote_write));
    assert_int_equal(fi_close(&mr->fid), 0);
}

void modes_choose_addresses_and_keys(void**) {
    const struct {
        std::uint32_t api;
        int mr_mode;
        bool offsets;
        bool own_keys;
    } rows[] = {
        {FI_VERSION(1, 17), 0, true, true},
        {FI_VERSION(1, 17), FI_MR_SCALABLE, true, true},
        {FI_VERSION(1, 17), FI_MR_BASIC, false, false},
        {FI_VERSION(1, 17), FI_MR_VIRT_ADDR, false, true},
        {FI_VERSION(1, 17), FI_MR_PROV_KEY, true, false},
        {FI_VERSION(1, 17), FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, false, false},
        {FI_VERSION(1, 4), FI_MR_UNSPEC, true, true},
        {FI_VERSION(1, 4), FI_MR_BASIC, false, false},
    };
    for (const auto& row : rows) {
        EpRig rig;
        rig.open_domain({.api = row.api, .mr_mode = row.mr_mode});
        fid_mr* mr = nullptr;
        assert_int_equal(reg(rig, FI_REMOTE_READ, 5, 0, &mr), 0);
        const test::FakeMr& fake = *rig.device.mrs().back();
        assert_int_equal(fake.attr.iova.has_value(), row.offsets);
        if (row.offsets) assert_int_equal(*fake.attr.iova, 0);
        // Local buffers are named by their addresses, and a NIC may take no others.
        fid_mr* local = nullptr;
        assert_int_equal(reg(rig, FI_SEND | FI_RECV, 5, 0, &local), 0);
        assert_false(rig.device.mrs().back()->attr.iova.has_value());
        assert_int_equal(fi_close(&local->fid), 0);
        assert_int_equal(fake.attr.requested_rkey.has_value(), row.own_keys);
        assert_int_equal(fi_mr_key(mr), row.own_keys ? 5 : fake.rkey());
        std::uint8_t raw[8];
        std::size_t size = sizeof raw;
        std::uint64_t base = 1;
        assert_int_equal(fi_mr_raw_attr(mr, &base, raw, &size, 0), 0);
        assert_true(base ==
                    (row.offsets ? 0 : reinterpret_cast<std::uintptr_t>(rig.memory.data())));
        assert_int_equal(fi_close(&mr->fid), 0);
    }
}

void keys_beyond_the_devices_are_rejected(void** state) {
    EpRig& rig = rig_of(state);
    rig.open_domain({});
    fid_mr* mr = nullptr;
    assert_int_equal(reg(rig, FI_REMOTE_READ, std::uint64_t{1} << 32, 0, &mr), -FI_EKEYREJECTED);
    assert_int_equal(reg(rig, FI_REMOTE_READ, UINT32_MAX, 0, &mr), 0);
    assert_int_equal(fi_close(&mr->fid), 0);
    // Without remote access the key is not looked at.
    assert_int_equal(reg(rig, FI_READ, UINT64_MAX, 0, &mr), 0);
    assert_int_equal(fi_close(&mr->fid), 0);
}

void the_device_says_why_it_does_not_register(void** state) {
    EpRig& rig = rig_of(state);
    rig.open_domain({});
    const struct {
        core::Errc core;
        int fi;
    } rows[] = {{core::Errc::no_key, -FI_ENOKEY},
                {core::Errc::access_denied, -FI_EACCES},
                {core::Errc::no_memory, -FI_ENOMEM}};
    for (const auto& row : rows) {
        fid_mr* mr = nullptr;
        rig.device.fail(test::Call::register_memory, 1, {row.core});
        assert_int_equal(reg(rig, FI_REMOTE_READ, 5, 0, &mr), row.fi);
    }
    assert_int_equal(rig.device.mrs().size(), 0);
}

/// Where the device has no flush, asking is a read, and would need the right to read.
void peers_may_flush_what_they_may_reach(void**) {
    for (const bool flush : {false, true}) {
        EpRig rig;
        rig.device.current_limits.flush = flush;
        rig.open_domain({});
        for (const std::uint64_t access : {FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE}) {
            fid_mr* mr = nullptr;
            assert_int_equal(reg(rig, access, 5, 0, &mr), 0);
            assert_int_equal(rig.device.mrs().back()->attr.access.has(core::Access::flush_visible),
                             flush && access != FI_WRITE);
            assert_int_equal(fi_close(&mr->fid), 0);
        }
    }
}

void only_flags_that_can_be_kept_are_taken(void** state) {
    EpRig& rig = rig_of(state);
    rig.open_domain({});
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t flag = std::uint64_t{1} << bit;
        fid_mr* mr = nullptr;
        const bool known = (kMrFlags & flag) != 0;
        assert_int_equal(reg(rig, FI_REMOTE_READ, 5, flag, &mr), known ? 0 : -FI_EBADFLAGS);
        if (!known) continue;
        assert_int_equal(rig.device.mrs().back()->attr.access.has(core::Access::flush_persistent),
                         flag == FI_RMA_PMEM);
        assert_int_equal(fi_close(&mr->fid), 0);
    }
}

void an_attribute_is_read_as_far_as_the_program_knows_it(void**) {
    const struct {
        std::uint32_t api;
        std::size_t size;
    } rows[] = {{FI_VERSION(1, 4), 48},  {FI_VERSION(1, 5), 64},  {FI_VERSION(1, 9), 80},
                {FI_VERSION(1, 19), 88}, {FI_VERSION(1, 22), 96}, {FI_VERSION(2, 0), 112}};
    for (const auto& row : rows) {
        EpRig rig;
        rig.open_domain({.api = row.api});
        // On the heap, and no longer: reading on would be seen.
        const std::unique_ptr<std::byte[]> bytes(new std::byte[row.size]());
        fi_mr_attr attr{};
        const iovec iov{rig.memory.data(), 64};
        attr.mr_iov = &iov;
        attr.iov_count = 1;
        attr.access = FI_REMOTE_READ;
        attr.requested_key = 9;
        attr.context = &rig.marker;
        std::memcpy(bytes.get(), &attr, row.size);
        fid_mr* mr = nullptr;
        assert_int_equal(
            fi_mr_regattr(rig.domain, reinterpret_cast<fi_mr_attr*>(bytes.get()), 0, &mr), 0);
        assert_int_equal(fi_mr_key(mr), 9);
        assert_int_equal(fi_close(&mr->fid), 0);
    }
}

void segments_join_or_keep_their_own_local_keys(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.unregistered_local = false;
    rig.open({.mr_mode = FI_MR_LOCAL});
    iovec iov[2] = {{rig.memory.data(), 100}, {rig.memory.data() + 100, 28}};
    fid_mr* mr = nullptr;
    const std::size_t before = rig.device.mrs().size();
    assert_int_equal(fi_mr_regv(rig.domain, iov, 2, FI_REMOTE_READ, 0, 5, 0, &mr, nullptr), 0);
    assert_int_equal(rig.device.mrs().size(), before + 1);
    assert_int_equal(rig.device.mrs().back()->attr.length, 128);
    assert_int_equal(fi_close(&mr->fid), 0);
    iov[1].iov_base = rig.memory.data() + 1000;
    assert_int_equal(fi_mr_regv(rig.domain, iov, 2, FI_REMOTE_READ, 0, 5, 0, &mr, nullptr),
                     -FI_ENOSYS);
    assert_int_equal(fi_mr_regv(rig.domain, iov, 2, FI_WRITE, 0, 5, 0, &mr, nullptr), 0);
    assert_int_equal(rig.device.mrs().size(), before + 2);
    for (const std::size_t segment : {0U, 1U}) {
        assert_int_equal(
            fi_write(rig.ep, iov[segment].iov_base, 8, fi_mr_desc(mr), 0, 0, 1, nullptr), 0);
        assert_int_equal(rig.last().sges.at(0).lkey, rig.device.mrs()[before + segment]->lkey());
    }
    assert_int_equal(fi_close(&mr->fid), 0);
}

/// fi_rdm_bw_mt, upstream's own, does so.
void a_region_may_be_passed_for_its_descriptor(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.unregistered_local = false;
    rig.open({.mr_mode = FI_MR_LOCAL});
    fid_mr* mr = nullptr;
    assert_int_equal(fi_mr_reg(rig.domain, rig.memory.data(), 64, FI_WRITE, 0, 5, 0, &mr, nullptr),
                     0);
    for (void* const desc : {fi_mr_desc(mr), static_cast<void*>(mr)}) {
        assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, desc, 0, 0, 1, nullptr), 0);
        assert_int_equal(rig.last().sges.at(0).lkey, rig.device.mrs().back()->lkey());
    }
    assert_int_equal(fi_close(&mr->fid), 0);
}

void counters_of_a_region_see_what_peers_do(void** state) {
    EpRig& rig = rig_of(state);
    rig.open_domain({});
    fi_cntr_attr attr{};
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &rig.cntr, nullptr), 0);
    fid_mr* mr = nullptr;
    assert_int_equal(reg(rig, FI_REMOTE_READ | FI_REMOTE_WRITE, 5, FI_RMA_EVENT, &mr), 0);
    assert_int_equal(fi_mr_bind(mr, &rig.cntr->fid, 0), -FI_EBADFLAGS);
    assert_int_equal(fi_mr_bind(mr, &rig.cntr->fid, FI_SEND), -FI_EBADFLAGS);
    assert_int_equal(fi_mr_bind(mr, &rig.cntr->fid, FI_REMOTE_WRITE), 0);
    assert_int_equal(fi_mr_bind(mr, &rig.cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
    assert_int_equal(fi_mr_enable(mr), 0);
    core::RemoteAccessObserver* observer = rig.device.mrs().back()->observer;
    assert_non_null(observer);
    observer->remote_access(core::Opcode::write, 8);
    observer->remote_access(core::Opcode::read, 8);
    assert_int_equal(fi_cntr_read(rig.cntr), 1);
    assert_int_equal(fi_mr_bind(mr, &rig.cntr->fid, FI_REMOTE_READ), 0);
    rig.device.mrs().back()->observer->remote_access(core::Opcode::read, 8);
    assert_int_equal(fi_cntr_read(rig.cntr), 2);
    assert_int_equal(fi_close(&rig.cntr->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&mr->fid), 0);
}

void counters_of_a_region_need_a_device_that_tells(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.remote_access_events = false;
    rig.open_domain({});
    fi_cntr_attr attr{};
    assert_int_equal(fi_cntr_open(rig.domain, &attr, &rig.cntr, nullptr), 0);
    fid_mr* mr = nullptr;
    assert_int_equal(reg(rig, FI_REMOTE_WRITE, 5, 0, &mr), 0);
    assert_int_equal(fi_mr_bind(mr, &rig.cntr->fid, FI_REMOTE_WRITE), -FI_ENOSYS);
    assert_int_equal(fi_close(&mr->fid), 0);
}

void refreshing_a_region_looks_again_at_its_ranges(void**) {
    for (const bool on_demand : {false, true}) {
        EpRig rig;
        rig.device.current_limits.on_demand_paging = on_demand;
        rig.open_domain({});
        fid_mr* mr = nullptr;
        assert_int_equal(reg(rig, FI_REMOTE_WRITE, 5, 0, &mr), 0);
        const iovec inside{rig.memory.data() + 8, 16};
        const iovec beyond{rig.memory.data() + 8, rig.memory.size()};
        assert_int_equal(fi_mr_refresh(mr, nullptr, 0, 0), 0);
        assert_int_equal(fi_mr_refresh(mr, &inside, 1, 0), 0);
        const test::FakeMr::Advice& advice = rig.device.mrs().back()->last_advice;
        assert_int_equal(advice.offset, on_demand ? 8 : 0);
        assert_int_equal(advice.length, on_demand ? 16 : 0);
        assert_int_equal(fi_mr_refresh(mr, &beyond, 1, 0), -FI_EINVAL);
        assert_int_equal(fi_mr_refresh(mr, &inside, 1, FI_RECV), -FI_EBADFLAGS);
        assert_int_equal(fi_close(&mr->fid), 0);
    }
}

void what_a_domain_does_not_offer_says_so(void** state) {
    EpRig& rig = rig_of(state);
    rig.open_domain({});
    fid_ep* ep = nullptr;
    fid_mr* mr = nullptr;
    fi_atomic_attr atomic{};
    assert_int_equal(fi_scalable_ep(rig.domain, rig.info, &ep, nullptr), -FI_ENOSYS);
    assert_int_equal(fi_query_atomic(rig.domain, FI_UINT64, FI_SUM, &atomic, 0), -FI_ENOSYS);
    assert_int_equal(fi_control(&rig.domain->fid, FI_QUEUE_WORK, nullptr), -FI_ENOSYS);
    assert_int_equal(fi_endpoint2(rig.domain, rig.info, &ep, 1, nullptr), -FI_EBADFLAGS);
    assert_int_equal(fi_domain_bind(rig.domain, &rig.eq->fid, FI_REG_MR), -FI_EBADFLAGS);
    assert_int_equal(fi_domain_bind(rig.domain, &rig.eq->fid, 0), 0);
    assert_int_equal(fi_domain_bind(rig.domain, &rig.eq->fid, 0), -FI_EINVAL);
    assert_int_equal(reg(rig, FI_READ, 0, 0, &mr), 0);
    assert_int_equal(fi_close(&rig.domain->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&rig.fabric->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&mr->fid), 0);
}

}  // namespace
}  // namespace compat::fi

int main() {
    using namespace compat::fi;
    const CMUnitTest tests[] = {
        RIGGED(each_access_bit_asks_for_its_rights),
        RIGGED(iwarp_sinks_of_reads_need_a_remote_right),
        cmocka_unit_test(modes_choose_addresses_and_keys),
        RIGGED(keys_beyond_the_devices_are_rejected),
        RIGGED(the_device_says_why_it_does_not_register),
        cmocka_unit_test(peers_may_flush_what_they_may_reach),
        RIGGED(only_flags_that_can_be_kept_are_taken),
        cmocka_unit_test(an_attribute_is_read_as_far_as_the_program_knows_it),
        RIGGED(segments_join_or_keep_their_own_local_keys),
        RIGGED(a_region_may_be_passed_for_its_descriptor),
        RIGGED(counters_of_a_region_see_what_peers_do),
        RIGGED(counters_of_a_region_need_a_device_that_tells),
        cmocka_unit_test(refreshing_a_region_looks_again_at_its_ranges),
        RIGGED(what_a_domain_does_not_offer_says_so),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
