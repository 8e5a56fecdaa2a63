// SPDX-License-Identifier: BSD-3-Clause
// fi_compat/cq.cpp: formats, error entries by version, statuses.
#include <cstring>

#include "fi_compat/err_map.hpp"
#include "tests/unit/fi/ep_rig.hpp"

namespace compat::fi {
namespace {

void receive_message(EpRig& rig, bool with_data) {
    core::WorkCompletion wc;
    wc.wr_id = rig.qp().posted_receives.back().wr_id;
    wc.opcode = core::WcOpcode::receive;
    wc.receive_side = true;
    wc.byte_length = 40;
    wc.has_imm = with_data;
    wc.imm = 99;
    rig.qp().complete_receive(wc);
}

void each_format_tells_as_much_as_it_holds(void**) {
    for (const fi_cq_format format : {FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
                                      FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED}) {
        EpRig rig;
        rig.open({.format = format});
        // Two entries with no padding between, and nothing behind them.
        fi_cq_tagged_entry read[3];
        std::memset(static_cast<void*>(read), 0xEE, sizeof read);
        for (int message = 0; message < 2; ++message) {
            assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 64, nullptr, 0, &rig.marker), 0);
            receive_message(rig, true);
        }
        assert_int_equal(fi_cq_read(rig.cq, read, 3), 2);
        constexpr std::size_t kSizes[] = {8, 8, 24, 40, 48};
        const std::size_t size = kSizes[format];
        const auto* bytes = reinterpret_cast<const unsigned char*>(read);
        for (std::size_t at = 2 * size; at < sizeof read; ++at) assert_int_equal(bytes[at], 0xEE);
        for (int message = 0; message < 2; ++message) {
            fi_cq_tagged_entry entry{};
            std::memcpy(&entry, bytes + size * static_cast<std::size_t>(message), size);
            assert_ptr_equal(entry.op_context, &rig.marker);
            if (size < 24) continue;
            assert_int_equal(entry.flags, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
            assert_int_equal(entry.len, 40);
            if (size < 40) continue;
            assert_ptr_equal(entry.buf, rig.memory.data());
            assert_int_equal(entry.data, 99);
            assert_int_equal(entry.tag, 0);
        }
    }
}

void readfrom_says_that_there_is_no_address(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 64, nullptr, 0, &rig.marker), 0);
    receive_message(rig, false);
    fi_cq_tagged_entry entry;
    fi_addr_t source = 0;
    assert_int_equal(fi_cq_readfrom(rig.cq, &entry, 1, &source), 1);
    assert_true(source == FI_ADDR_NOTAVAIL);
    assert_int_equal(entry.flags, FI_MSG | FI_RECV);
}

void an_error_entry_is_as_long_as_the_programs(void**) {
    struct Row {
        std::uint32_t api;
        std::size_t size;
    };
    const Row rows[] = {{FI_VERSION(1, 0), 72},  {FI_VERSION(1, 4), 72},  {FI_VERSION(1, 5), 80},
                        {FI_VERSION(1, 19), 80}, {FI_VERSION(1, 20), 88}, {FI_VERSION(2, 5), 88}};
    for (const Row& row : rows) {
        EpRig rig;
        rig.open({.api = row.api});
        assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, &rig.marker), 0);
        rig.finish(core::WcStatus::flushed);
        fi_cq_tagged_entry read;
        assert_int_equal(fi_cq_read(rig.cq, &read, 1), -FI_EAVAIL);
        unsigned char bytes[sizeof(fi_cq_err_entry) + 16];
        std::memset(bytes, 0xEE, sizeof bytes);
        alignas(16) unsigned char aligned[sizeof bytes];
        std::memcpy(aligned, bytes, sizeof bytes);
        auto* error = reinterpret_cast<fi_cq_err_entry*>(aligned);
        error->err_data_size = 0;
        std::memset(aligned + row.size, 0xEE, sizeof aligned - row.size);
        assert_int_equal(rig.cq->ops->readerr(rig.cq, error, 0), 1);
        for (std::size_t at = row.size; at < sizeof aligned; ++at)
            assert_int_equal(aligned[at], 0xEE);
        assert_ptr_equal(error->op_context, &rig.marker);
        assert_int_equal(error->err, FI_ECANCELED);
        assert_int_equal(error->prov_errno, 5);
    }
}

void a_buffer_for_error_data_stays_the_programs(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr), 0);
    rig.finish(core::WcStatus::flushed);
    char data[16];
    fi_cq_err_entry error{};
    error.err_data = data;
    error.err_data_size = sizeof data;
    fi_cq_tagged_entry read;
    assert_int_equal(fi_cq_read(rig.cq, &read, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(rig.cq, &error, 0), 1);
    assert_ptr_equal(error.err_data, data);
    assert_int_equal(error.err_data_size, 0);
}

void every_status_has_its_errno_and_its_text(void**) {
    for (const WcRow& row : kWcMap) {
        if (row.core == core::WcStatus::success) continue;
        EpRig rig;
        rig.open();
        assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr), 0);
        assert_int_equal(fi_recv(rig.ep, rig.memory.data(), 64, nullptr, 0, &rig.marker), 0);
        rig.finish(row.core);
        fi_cq_err_entry error = rig.error();
        assert_int_equal(error.err, row.fi_transmit);
        assert_int_equal(error.prov_errno, row.prov_errno);
        core::WorkCompletion wc;
        wc.wr_id = rig.qp().posted_receives.back().wr_id;
        wc.receive_side = true;
        wc.status = row.core;
        rig.qp().complete_receive(wc);
        error = rig.error();
        assert_int_equal(error.err, row.fi_receive);
        assert_int_equal(error.flags, FI_MSG | FI_RECV);
        char text[80];
        const char* said = fi_cq_strerror(rig.cq, error.prov_errno, nullptr, text, sizeof text);
        assert_string_equal(said, text);
        assert_string_equal(said, core::wc_status_text(row.core));
    }
}

void an_unknown_key_is_told_from_a_missing_right(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    const struct {
        std::uint32_t vendor_error;
        int err;
    } rows[] = {{0, FI_EACCES}, {1, FI_ENOKEY}, {2, FI_EACCES}, {3, FI_EACCES}};
    for (const auto& row : rows) {
        assert_int_equal(fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, 1, nullptr), 0);
        rig.finish(core::WcStatus::remote_access_error, row.vendor_error);
        assert_int_equal(rig.error().err, row.err);
    }
}

void attributes_outside_the_known_are_refused(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    fid_cq* cq = nullptr;
    fi_cq_attr attr{};
    set_enum(attr.format, FI_CQ_FORMAT_TAGGED + 1);
    assert_int_equal(fi_cq_open(rig.domain, &attr, &cq, nullptr), -FI_EINVAL);
    attr = {};
    set_enum(attr.wait_cond, FI_CQ_COND_THRESHOLD + 1);
    assert_int_equal(fi_cq_open(rig.domain, &attr, &cq, nullptr), -FI_EINVAL);
    attr = {};
    set_enum(attr.wait_obj, 77);
    assert_int_equal(fi_cq_open(rig.domain, &attr, &cq, nullptr), -FI_EINVAL);
    attr = {};
    attr.flags = FI_PEER;
    assert_int_equal(fi_cq_open(rig.domain, &attr, &cq, nullptr), -FI_EINVAL);
    attr = {};
    assert_int_equal(fi_cq_open(rig.domain, nullptr, &cq, nullptr), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&rig.cq->fid), -FI_EBUSY);
}

void a_failing_device_is_an_error_of_the_call(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    fi_cq_tagged_entry entry;
    rig.device.fail(test::Call::poll, 1, {core::Errc::device, 5});
    assert_int_equal(fi_cq_read(rig.cq, &entry, 1), -FI_EIO);
    rig.nothing();
}

}  // namespace
}  // namespace compat::fi

int main() {
    using namespace compat::fi;
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_format_tells_as_much_as_it_holds),
        RIGGED(readfrom_says_that_there_is_no_address),
        cmocka_unit_test(an_error_entry_is_as_long_as_the_programs),
        RIGGED(a_buffer_for_error_data_stays_the_programs),
        cmocka_unit_test(every_status_has_its_errno_and_its_text),
        RIGGED(an_unknown_key_is_told_from_a_missing_right),
        RIGGED(attributes_outside_the_known_are_refused),
        RIGGED(a_failing_device_is_an_error_of_the_call),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
