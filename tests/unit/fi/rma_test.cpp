// SPDX-License-Identifier: BSD-3-Clause
// fi_compat/rma.cpp: what each call becomes on the device, by flags, limits and modes.
#include <bit>
#include <cstring>
#include <vector>

#include "tests/unit/fi/ep_rig.hpp"

namespace compat::fi {
namespace {

using core::Opcode;
using core::SendFlag;

enum class Form { plain, list, message, inject, data, inject_data };
struct CallRow {
    Form form;
    bool reads;
};
constexpr CallRow kCalls[] = {
    {Form::plain, false},  {Form::list, false}, {Form::message, false},
    {Form::inject, false}, {Form::data, false}, {Form::inject_data, false},
    {Form::plain, true},   {Form::list, true},  {Form::message, true},
};

ssize_t call(EpRig& rig, const CallRow& row, std::size_t length, void* desc,
             std::uint64_t flags = 0) {
    void* const buffer = rig.memory.data();
    const iovec iov{buffer, length};
    const fi_rma_iov remote{kRemoteAddress, length, kRemoteKey};
    fi_msg_rma message{};
    message.msg_iov = &iov;
    message.desc = &desc;
    message.iov_count = 1;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &rig.marker;
    message.data = 77;
    switch (row.form) {
        case Form::plain:
            return row.reads ? fi_read(rig.ep, buffer, length, desc, 0, kRemoteAddress, kRemoteKey,
                                       &rig.marker)
                             : fi_write(rig.ep, buffer, length, desc, 0, kRemoteAddress, kRemoteKey,
                                        &rig.marker);
        case Form::list:
            return row.reads ? fi_readv(rig.ep, &iov, &desc, 1, 0, kRemoteAddress, kRemoteKey,
                                        &rig.marker)
                             : fi_writev(rig.ep, &iov, &desc, 1, 0, kRemoteAddress, kRemoteKey,
                                         &rig.marker);
        case Form::message:
            return row.reads ? fi_readmsg(rig.ep, &message, flags)
                             : fi_writemsg(rig.ep, &message, flags);
        case Form::inject:
            return fi_inject_write(rig.ep, buffer, length, 0, kRemoteAddress, kRemoteKey);
        case Form::data:
            return fi_writedata(rig.ep, buffer, length, desc, 77, 0, kRemoteAddress, kRemoteKey,
                                &rig.marker);
        case Form::inject_data:
            return fi_inject_writedata(rig.ep, buffer, length, 77, 0, kRemoteAddress, kRemoteKey);
    }
    return -FI_EOTHER;
}

bool injects(const CallRow& row) {
    return row.form == Form::inject || row.form == Form::inject_data;
}
bool has_data(const CallRow& row) {
    return row.form == Form::data || row.form == Form::inject_data;
}

void every_call_becomes_its_work_request_and_entry(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    for (const CallRow& row : kCalls) {
        assert_int_equal(call(rig, row, 8, nullptr), 0);
        const core::WorkRequest& request = rig.last().request;
        const Opcode expected = row.reads       ? Opcode::read
                                : has_data(row) ? Opcode::write_imm
                                                : Opcode::write;
        assert_int_equal(request.opcode, expected);
        assert_int_equal(request.remote_address, kRemoteAddress);
        assert_int_equal(request.rkey, kRemoteKey);
        if (has_data(row)) assert_int_equal(request.imm, 77);
        assert_int_equal(request.flags.has(SendFlag::inlined), injects(row));
        assert_int_equal(rig.is_signaled(), !injects(row));
        rig.finish();
        if (injects(row)) {
            rig.nothing();
            continue;
        }
        const fi_cq_tagged_entry entry = rig.entry();
        assert_ptr_equal(entry.op_context, &rig.marker);
        assert_int_equal(entry.flags, FI_RMA | (row.reads ? FI_READ : FI_WRITE));
        rig.nothing();
    }
}

void calls_without_bytes_look_at_no_pointer(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    for (const CallRow& row : kCalls) {
        assert_int_equal(call(rig, row, 0, nullptr), 0);
        assert_int_equal(rig.last().sges.size(), 0);
        assert_int_equal(rig.last().request.remote_address, kRemoteAddress);
        rig.finish();
        fi_cq_tagged_entry entry;
        fi_cq_read(rig.cq, &entry, 1);
    }
    assert_int_equal(fi_write(rig.ep, nullptr, 0, nullptr, 0, 0, UINT64_MAX, nullptr), 0);
    assert_int_equal(fi_writev(rig.ep, nullptr, nullptr, 0, 0, 0, 1, nullptr), 0);
    const fi_msg_rma empty{};
    assert_int_equal(fi_readmsg(rig.ep, &empty, 0), 0);
}

void a_missing_descriptor_is_refused_at_every_size_where_it_is_due(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.unregistered_local = false;
    rig.open({.mr_mode = FI_MR_LOCAL});
    fid_mr* mr = nullptr;
    assert_int_equal(fi_mr_reg(rig.domain, rig.memory.data(), rig.memory.size(), FI_READ | FI_WRITE,
                               0, 0, 0, &mr, nullptr),
                     0);
    for (const CallRow& row : kCalls) {
        for (const std::size_t length : {0, 1, 64, 65, 128, 129, 4096}) {
            if (injects(row) && length > kInject) continue;
            const bool due = length != 0 && !injects(row);
            assert_int_equal(call(rig, row, length, nullptr), due ? -FI_EINVAL : 0);
            if (!due) rig.finish();
            assert_int_equal(call(rig, row, length, fi_mr_desc(mr)), 0);
            if (due) assert_int_equal(rig.last().sges.at(0).lkey, rig.device.mrs().back()->lkey());
            rig.finish();
            fi_cq_tagged_entry entry;
            while (fi_cq_read(rig.cq, &entry, 1) == 1) {
            }
        }
    }
    assert_int_equal(fi_close(&mr->fid), 0);
}

/// The matrix of fi_rma(3): who gets an entry.
struct MatrixRow {
    std::uint64_t bind;
    std::uint64_t op_flags;
    std::uint64_t flags;  ///< of the message call
    bool plain;
    bool message;
};
constexpr MatrixRow kMatrix[] = {
    {0, 0, 0, true, true},
    {0, 0, FI_COMPLETION, true, true},
    {FI_SELECTIVE_COMPLETION, 0, 0, false, false},
    {FI_SELECTIVE_COMPLETION, 0, FI_COMPLETION, false, true},
    {FI_SELECTIVE_COMPLETION, FI_COMPLETION, 0, true, false},
    {FI_SELECTIVE_COMPLETION, FI_COMPLETION, FI_COMPLETION, true, true},
    {FI_SELECTIVE_COMPLETION, FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE, false, false},
};

void entries_follow_binding_and_flags(void**) {
    for (const MatrixRow& matrix : kMatrix) {
        EpRig rig;
        rig.open({.op_flags = matrix.op_flags, .bind = matrix.bind});
        for (const CallRow& row : kCalls) {
            assert_int_equal(call(rig, row, 8, nullptr, matrix.flags), 0);
            const bool expected = injects(row)                ? false
                                  : row.form == Form::message ? matrix.message
                                                              : matrix.plain;
            rig.finish();
            if (expected)
                rig.entry();
            else
                rig.nothing();
            rig.nothing();
        }
    }
}

void every_granted_flag_is_taken_and_every_other_bit_is_refused(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    const std::uint64_t granted =
        granted_op_flags({.fence = true, .delivery = true, .commit = true, .data = true});
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t flag = std::uint64_t{1} << bit;
        const bool good_write = (granted & flag) != 0;
        assert_int_equal(call(rig, {Form::message, false}, 8, nullptr, flag),
                         good_write ? 0 : -FI_EBADFLAGS);
        const bool good_read = good_write && (flag & (FI_INJECT | FI_REMOTE_CQ_DATA)) == 0;
        assert_int_equal(call(rig, {Form::message, true}, 8, nullptr, flag),
                         good_read ? 0 : -FI_EBADFLAGS);
        rig.finish_all();
    }
}

void conditions_take_their_flags_away(void**) {
    struct Row {
        std::uint64_t caps;
        bool placed;
        bool flush;
        std::size_t data;
        std::uint64_t flag;
    };
    const Row rows[] = {
        {FI_MSG | FI_RMA, true, true, 8, FI_FENCE},
        {FI_MSG | FI_RMA | FI_FENCE, false, true, 8, FI_DELIVERY_COMPLETE},
        {FI_MSG | FI_RMA | FI_FENCE, true, false, 8, FI_COMMIT_COMPLETE},
        {FI_MSG | FI_RMA | FI_FENCE, true, true, 0, FI_REMOTE_CQ_DATA},
    };
    for (const Row& row : rows) {
        EpRig rig;
        rig.device.current_limits.placed_when_complete = row.placed;
        rig.device.current_limits.flush = row.flush;
        rig.device.current_limits.imm_bytes = static_cast<std::uint32_t>(row.data);
        rig.open({.caps = row.caps});
        assert_int_equal(call(rig, {Form::message, false}, 8, nullptr, row.flag), -FI_EBADFLAGS);
        if (row.data == 0)
            assert_int_equal(call(rig, {Form::data, false}, 8, nullptr), -FI_EOPNOTSUPP);
    }
}

void immediate_data_is_as_wide_as_the_device(void** state) {
    EpRig& rig = rig_of(state);
    rig.device.current_limits.imm_bytes = 4;
    rig.open();
    assert_int_equal(fi_writedata(rig.ep, rig.memory.data(), 8, nullptr, 0x1122334455667788, 0,
                                  kRemoteAddress, kRemoteKey, nullptr),
                     0);
    assert_true(rig.last().request.imm == 0x55667788);
}

void an_injected_source_beyond_inline_is_copied(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    std::memset(rig.memory.data(), 0x5a, kInject);
    assert_int_equal(call(rig, {Form::inject, false}, kInject, nullptr), 0);
    std::memset(rig.memory.data(), 0, kInject);
    assert_false(rig.last().request.flags.has(SendFlag::inlined));
    const auto* copy = static_cast<const std::byte*>(rig.last().sges.at(0).address);
    assert_int_equal(static_cast<int>(copy[kInject - 1]), 0x5a);
    assert_int_equal(call(rig, {Form::inject, false}, kInject + 1, nullptr), -FI_EMSGSIZE);
    assert_int_equal(call(rig, {Form::message, false}, kInject + 1, nullptr, FI_INJECT),
                     -FI_EMSGSIZE);
    assert_int_equal(call(rig, {Form::message, false}, kInject, nullptr, FI_INJECT), 0);
}

void lists_become_one_request_for_each_remote_range(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    const iovec local[] = {{rig.memory.data(), 10}, {rig.memory.data() + 100, 30}};
    const fi_rma_iov remote[] = {{0x1000, 15, 5}, {0x2000, 10, 6}, {0x200a, 15, 6}};
    fi_msg_rma message{};
    message.msg_iov = local;
    message.iov_count = 2;
    message.rma_iov = remote;
    message.rma_iov_count = 3;
    message.context = &rig.marker;
    assert_int_equal(fi_writemsg(rig.ep, &message, FI_COMPLETION), 0);
    // The two that touch are one.
    assert_int_equal(rig.qp().posted.size(), 2);
    assert_int_equal(rig.qp().posted[0].sges.size(), 2);
    assert_int_equal(rig.qp().posted[1].request.rkey, 6);
    assert_int_equal(rig.qp().posted[1].sges.at(0).length, 25);
    rig.finish();
    assert_ptr_equal(rig.entry().op_context, &rig.marker);
    rig.nothing();
    message.rma_iov_count = 2;
    assert_int_equal(fi_writemsg(rig.ep, &message, 0), -FI_EINVAL);
    message.rma_iov_count = kIov + 1;
    assert_int_equal(fi_writemsg(rig.ep, &message, 0), -FI_EINVAL);
    message.rma_iov_count = 3;
    message.iov_count = kIov + 1;
    assert_int_equal(fi_readmsg(rig.ep, &message, 0), -FI_EINVAL);
    assert_int_equal(fi_writev(rig.ep, local, nullptr, kIov + 1, 0, 0, 1, nullptr), -FI_EINVAL);
}

void lengths_whose_sum_wraps_are_refused(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    const iovec local[] = {{rig.memory.data(), SIZE_MAX - 7}, {rig.memory.data(), 24}};
    const fi_rma_iov remote[] = {{0x1000, 16, 5}};
    const fi_rma_iov wrapping[] = {{0x1000, SIZE_MAX - 7, 5}, {0x2000, 24, 6}};
    assert_int_equal(fi_writev(rig.ep, local, nullptr, 2, 0, 0, 5, nullptr), -FI_EMSGSIZE);
    fi_msg_rma message{};
    message.msg_iov = local;
    message.iov_count = 2;
    message.rma_iov = remote;
    message.rma_iov_count = 1;
    assert_int_equal(fi_writemsg(rig.ep, &message, 0), -FI_EINVAL);
    assert_int_equal(fi_readmsg(rig.ep, &message, 0), -FI_EINVAL);
    const iovec sixteen{rig.memory.data(), 16};
    message.msg_iov = &sixteen;
    message.iov_count = 1;
    message.rma_iov = wrapping;
    message.rma_iov_count = 2;
    assert_int_equal(fi_writemsg(rig.ep, &message, 0), -FI_EINVAL);
    assert_int_equal(rig.qp().posted.size(), 0);
}

void a_commit_flushes_and_completes_once(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    assert_int_equal(
        call(rig, {Form::message, false}, 64, nullptr, FI_COMPLETION | FI_COMMIT_COMPLETE), 0);
    assert_int_equal(rig.qp().posted.size(), 2);
    assert_int_equal(rig.last().request.opcode, Opcode::flush);
    assert_int_equal(rig.last().request.flush_type, core::FlushType::persistent);
    rig.finish(core::WcStatus::remote_access_error, 3);
    const fi_cq_err_entry error = rig.error();
    assert_int_equal(error.err, FI_EACCES);
    assert_int_equal(error.flags, FI_RMA | FI_WRITE);
    rig.nothing();
}

void capabilities_decide_which_calls_there_are(void**) {
    struct Row {
        std::uint64_t caps;
        ssize_t write;
        ssize_t read;
        ssize_t send;
    };
    const Row rows[] = {
        {FI_MSG | FI_RMA, 0, 0, 0},
        {FI_MSG, -FI_ENOSYS, -FI_ENOSYS, 0},
        {FI_RMA, 0, 0, -FI_ENOSYS},
        {FI_MSG | FI_RMA | FI_WRITE | FI_RECV, 0, -FI_EOPNOTSUPP, -FI_EOPNOTSUPP},
        {FI_MSG | FI_RMA | FI_READ | FI_SEND, -FI_EOPNOTSUPP, 0, 0},
        {FI_MSG | FI_RMA | FI_REMOTE_READ, -FI_EOPNOTSUPP, -FI_EOPNOTSUPP, 0},
    };
    for (const Row& row : rows) {
        EpRig rig;
        rig.open({.caps = row.caps});
        assert_int_equal(call(rig, {Form::plain, false}, 8, nullptr), row.write);
        assert_int_equal(call(rig, {Form::plain, true}, 8, nullptr), row.read);
        assert_int_equal(fi_send(rig.ep, rig.memory.data(), 8, nullptr, 0, nullptr), row.send);
    }
}

void a_key_that_no_region_can_have_is_refused(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    assert_int_equal(
        fi_write(rig.ep, rig.memory.data(), 8, nullptr, 0, 0, std::uint64_t{1} << 32, nullptr),
        -FI_EKEYREJECTED);
    assert_int_equal(fi_write(rig.ep, nullptr, 0, nullptr, 0, 0, FI_KEY_NOTAVAIL, nullptr), 0);
}

void a_full_queue_is_eagain_and_reading_makes_room(void** state) {
    EpRig& rig = rig_of(state);
    rig.open({.cq_size = 2});
    assert_int_equal(call(rig, {Form::plain, false}, 8, nullptr), 0);
    assert_int_equal(call(rig, {Form::plain, false}, 8, nullptr), 0);
    assert_int_equal(call(rig, {Form::plain, false}, 8, nullptr), -FI_EAGAIN);
    for (const std::size_t nth : {0U, 1U}) {
        core::WorkCompletion wc;
        wc.wr_id = rig.qp().posted[nth].request.wr_id;
        rig.qp().complete_send(wc);
    }
    assert_int_equal(call(rig, {Form::plain, false}, 8, nullptr), -FI_EAGAIN);
    rig.entry();
    assert_int_equal(call(rig, {Form::plain, false}, 8, nullptr), 0);
}

void a_refused_call_pushes_out_what_more_held_back(void** state) {
    EpRig& rig = rig_of(state);
    rig.open();
    assert_int_equal(call(rig, {Form::message, false}, 8, nullptr, FI_MORE), 0);
    assert_int_equal(rig.qp().posted.size(), 0);
    assert_int_equal(call(rig, {Form::inject, false}, kInject + 1, nullptr), -FI_EMSGSIZE);
    assert_int_equal(rig.qp().posted.size(), 1);
}

}  // namespace
}  // namespace compat::fi

int main() {
    using namespace compat::fi;
    const CMUnitTest tests[] = {
        RIGGED(every_call_becomes_its_work_request_and_entry),
        RIGGED(calls_without_bytes_look_at_no_pointer),
        RIGGED(a_missing_descriptor_is_refused_at_every_size_where_it_is_due),
        cmocka_unit_test(entries_follow_binding_and_flags),
        RIGGED(every_granted_flag_is_taken_and_every_other_bit_is_refused),
        cmocka_unit_test(conditions_take_their_flags_away),
        RIGGED(immediate_data_is_as_wide_as_the_device),
        RIGGED(an_injected_source_beyond_inline_is_copied),
        RIGGED(lists_become_one_request_for_each_remote_range),
        RIGGED(lengths_whose_sum_wraps_are_refused),
        RIGGED(a_commit_flushes_and_completes_once),
        cmocka_unit_test(capabilities_decide_which_calls_there_are),
        RIGGED(a_key_that_no_region_can_have_is_refused),
        RIGGED(a_full_queue_is_eagain_and_reading_makes_room),
        RIGGED(a_refused_call_pushes_out_what_more_held_back),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
