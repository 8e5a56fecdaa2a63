// SPDX-License-Identifier: BSD-3-Clause
// The operations. Offsets are relative to the region's start; ranges, keys and rights are the
// device's to check.
#include "rpma_compat/conn.hpp"
#include "rpma_compat/count.hpp"
#include "rpma_compat/err_map.hpp"
#include "rpma_compat/flag_map.hpp"
#include "rpma_compat/log.hpp"
#include "rpma_compat/mr.hpp"

using namespace compat;
using namespace compat::rpma;

namespace {

std::uint64_t to_wr_id(const void* op_context) {
    return reinterpret_cast<std::uintptr_t>(op_context);
}

constexpr const char* kNoFlags =
    "flags are 0: RPMA_F_COMPLETION_ALWAYS or RPMA_F_COMPLETION_ON_ERROR is wanted";
constexpr const char* kTooLong = "too many bytes for one operation: split it";
constexpr const char* kRegionMissing =
    "a region is missing: pass all of them, or none with offsets and length 0";
constexpr const char* kUnaligned = "the offset of an atomic write is no multiple of 8";

/// Arguments that no operation has, and why.
int misused(const char* why) {
    COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_WARNING, "%s", why);
    return RPMA_E_INVAL;
}

/// The memory of a read or write. Without both handles it moves nothing, from or to nowhere.
struct Transfer {
    const rpma_mr_local* local;
    std::size_t local_offset;
    const rpma_mr_remote* remote;
    std::size_t remote_offset;
    std::size_t length;

    /// What is wrong with it, or null.
    [[nodiscard]] const char* misuse() const {
        if (length > kMaxTransfer) return kTooLong;
        if ((local == nullptr) != (remote == nullptr)) return kRegionMissing;
        const bool valid =
            local != nullptr || (local_offset == 0 && remote_offset == 0 && length == 0);
        return valid ? nullptr : kRegionMissing;
    }
};

// Almost all reads, writes and sends are plain: then the device is called with nothing kept for
// later, and all else is done somewhere else.

[[gnu::always_inline]] inline bool is_plain(const rpma_conn* conn, int flags, std::size_t length) {
    return conn != nullptr && flags != 0 && conn->parts.qp->is_plain(length);
}

[[gnu::always_inline]] inline void fill(core::PlainRequest& request, const rpma_mr_local& local,
                                        std::size_t offset, std::size_t length, int flags,
                                        const void* op_context) {
    request.wr_id = to_wr_id(op_context);
    request.flags = to_send_flags(flags).bits();
    request.sge.address =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(local.address) + offset);
    request.sge.length = static_cast<std::uint32_t>(length);
    request.sge.lkey = local.lkey;
}

[[gnu::always_inline]] inline void fill(core::PlainRequest& request, const rpma_mr_remote& remote,
                                        std::size_t offset) {
    request.remote_address = remote.address + offset;
    request.rkey = remote.rkey;
}

[[gnu::noinline]] int refused(core::Status posted) {
    return c_boundary(
        [&] { return COMPAT_RPMA_FAILED(provider, "ibv_post_send", posted.error()); });
}

[[gnu::always_inline]] inline int result_of(core::Status posted) {
    core::deliver_log();
    if (posted) [[likely]]
        return kSuccess;
    return refused(posted);
}

int post(rpma_conn& conn, core::WorkRequest& request, const rpma_mr_local* local,
         std::size_t offset, std::size_t length) {
    core::Sge sge;
    if (local != nullptr) {
        sge = to_sge(*local, offset, length);
        request.sges = {&sge, 1};
    }
    const core::Status posted =
        counted_send(conn.statistics, conn.parts.trace.get(), request, length, [&] {
            return conn.parts.qp->post_send({&request, 1});
        });
    if (!posted) return COMPAT_RPMA_FAILED(provider, "ibv_post_send", posted.error());
    return kSuccess;
}

int post_transfer(rpma_conn* conn, core::WorkRequest request, const Transfer& transfer, int flags) {
    if (conn == nullptr) return RPMA_E_INVAL;
    if (flags == 0) return misused(kNoFlags);
    if (const char* const why = transfer.misuse()) return misused(why);
    request.flags = to_send_flags(flags);
    if (transfer.remote != nullptr) {
        const auto target = to_target(*transfer.remote, transfer.remote_offset);
        request.remote_address = target.address;
        request.rkey = target.rkey;
    }
    return post(*conn, request, transfer.local, transfer.local_offset, transfer.length);
}

int post_message(rpma_conn* conn, core::WorkRequest request, const rpma_mr_local* src,
                 std::size_t offset, std::size_t length, int flags) {
    if (conn == nullptr) return RPMA_E_INVAL;
    if (flags == 0) return misused(kNoFlags);
    if (src == nullptr && (offset != 0 || length != 0)) return misused(kRegionMissing);
    if (length > kMaxTransfer) return misused(kTooLong);
    request.flags = to_send_flags(flags);
    return post(*conn, request, src, offset, length);
}

// With the arguments where the plain calls have theirs.

[[gnu::noinline]] int read_slowly(rpma_conn* conn, const rpma_mr_local* dst, std::size_t dst_offset,
                                  const rpma_mr_remote* src, std::size_t src_offset,
                                  std::size_t length, int flags, const void* op_context) {
    return c_boundary([&] {
        return post_transfer(conn, {.wr_id = to_wr_id(op_context), .opcode = core::Opcode::read},
                             {dst, dst_offset, src, src_offset, length}, flags);
    });
}

[[gnu::noinline]] int write_slowly(rpma_conn* conn, const rpma_mr_remote* dst,
                                   std::size_t dst_offset, const rpma_mr_local* src,
                                   std::size_t src_offset, std::size_t length, int flags,
                                   const void* op_context) {
    return c_boundary([&] {
        return post_transfer(conn, {.wr_id = to_wr_id(op_context), .opcode = core::Opcode::write},
                             {src, src_offset, dst, dst_offset, length}, flags);
    });
}

[[gnu::noinline]] int send_slowly(rpma_conn* conn, const rpma_mr_local* src, std::size_t offset,
                                  std::size_t length, int flags, const void* op_context) {
    return c_boundary([&] {
        return post_message(conn, {.wr_id = to_wr_id(op_context), .opcode = core::Opcode::send},
                            src, offset, length, flags);
    });
}

/// Without native flush, upstream's is a read of 8 bytes behind which all earlier writes are
/// flushed, and the length means nothing. Programs pass lengths beyond the region's end (fio does
/// when its sequence of writes starts over): then the whole region is flushed. Where not even the
/// 8 bytes fit, the device refuses, as it does there.
struct FlushRange {
    std::size_t offset;
    std::size_t length;
};
FlushRange to_flush_range(const rpma_mr_remote& mr, std::size_t offset, std::size_t length) {
    constexpr std::size_t kReadLength = 8;
    const bool read_fits = mr.length >= kReadLength && offset <= mr.length - kReadLength;
    if (!read_fits || length <= mr.length - offset) return {offset, length};
    COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_INFO,
                    "flush of %zu bytes from %zu exceeds the region: all of it is flushed", length,
                    offset);
    return {0, static_cast<std::size_t>(mr.length)};
}

}  // namespace

int rpma_read(rpma_conn* conn, rpma_mr_local* dst, size_t dst_offset, const rpma_mr_remote* src,
              size_t src_offset, size_t len, int flags, const void* op_context) {
    if (dst == nullptr || src == nullptr || !is_plain(conn, flags, len)) [[unlikely]]
        return read_slowly(conn, dst, dst_offset, src, src_offset, len, flags, op_context);
    core::PlainRequest request(core::Opcode::read);
    fill(request, *dst, dst_offset, len, flags, op_context);
    fill(request, *src, src_offset);
    return result_of(conn->parts.qp->plain_read(request));
}

int rpma_write(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, const rpma_mr_local* src,
               size_t src_offset, size_t len, int flags, const void* op_context) {
    if (dst == nullptr || src == nullptr || !is_plain(conn, flags, len)) [[unlikely]]
        return write_slowly(conn, dst, dst_offset, src, src_offset, len, flags, op_context);
    core::PlainRequest request(core::Opcode::write);
    fill(request, *src, src_offset, len, flags, op_context);
    fill(request, *dst, dst_offset);
    return result_of(conn->parts.qp->plain_write(request));
}

int rpma_write_with_imm(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset,
                        const rpma_mr_local* src, size_t src_offset, size_t len, int flags,
                        uint32_t imm, const void* op_context) {
    return c_boundary([&] {
        return post_transfer(
            conn, {.wr_id = to_wr_id(op_context), .opcode = core::Opcode::write_imm, .imm = imm},
            {src, src_offset, dst, dst_offset, len}, flags);
    });
}

int rpma_atomic_write(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, const char src[8],
                      int flags, const void* op_context) {
    return c_boundary([&] {
        if (conn == nullptr || dst == nullptr || src == nullptr) return RPMA_E_INVAL;
        if (flags == 0) return misused(kNoFlags);
        if (dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0) return misused(kUnaligned);
        const core::RemoteTarget target = to_target(*dst, dst_offset);
        const core::WorkRequest request{.wr_id = to_wr_id(op_context),
                                        .opcode = core::Opcode::atomic_write,
                                        .flags = to_send_flags(flags),
                                        .rkey = target.rkey,
                                        .remote_address = target.address};
        const core::Status posted = counted_send(
            conn->statistics, conn->parts.trace.get(), request, RPMA_ATOMIC_WRITE_ALIGNMENT, [&] {
                return conn->extended_ops->post_atomic_write(*conn->parts.qp, request.wr_id,
                                                             request.flags, target, src);
            });
        if (!posted) return COMPAT_RPMA_FAILED(provider, "atomic write", posted.error());
        return kSuccess;
    });
}

int rpma_flush(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, size_t len,
               rpma_flush_type type, int flags, const void* op_context) {
    return c_boundary([&] {
        if (conn == nullptr || dst == nullptr) return RPMA_E_INVAL;
        if (flags == 0) return misused(kNoFlags);
        const FlushRow& row = flush_row(number_of(type));
        if (row.needs_direct_write && !conn->direct_write_to_pmem.load(std::memory_order_relaxed)) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                            "the peer did not declare direct write to persistent memory");
            return RPMA_E_NOSUPP;
        }
        if ((dst->usage & row.usage) != row.usage) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                            "the remote region is not registered for this type of flush");
            return RPMA_E_NOSUPP;
        }
        const FlushRange range = to_flush_range(*dst, dst_offset, len);
        const core::RemoteTarget target = to_target(*dst, range.offset);
        const core::WorkRequest request{.wr_id = to_wr_id(op_context),
                                        .opcode = core::Opcode::flush,
                                        .flags = to_send_flags(flags),
                                        .rkey = target.rkey,
                                        .remote_address = target.address};
        const core::Status posted =
            counted_send(conn->statistics, conn->parts.trace.get(), request, range.length, [&] {
                return conn->extended_ops->post_flush(*conn->parts.qp, request.wr_id, request.flags,
                                                      target, range.length, row.core);
            });
        if (!posted) return COMPAT_RPMA_FAILED(provider, "flush", posted.error());
        return kSuccess;
    });
}

int rpma_send(rpma_conn* conn, const rpma_mr_local* src, size_t offset, size_t len, int flags,
              const void* op_context) {
    if (src == nullptr || !is_plain(conn, flags, len)) [[unlikely]]
        return send_slowly(conn, src, offset, len, flags, op_context);
    core::PlainRequest request(core::Opcode::send);
    fill(request, *src, offset, len, flags, op_context);
    return result_of(conn->parts.qp->plain_send(request));
}

int rpma_send_with_imm(rpma_conn* conn, const rpma_mr_local* src, size_t offset, size_t len,
                       int flags, uint32_t imm, const void* op_context) {
    return c_boundary([&] {
        return post_message(
            conn, {.wr_id = to_wr_id(op_context), .opcode = core::Opcode::send_imm, .imm = imm},
            src, offset, len, flags);
    });
}

int rpma_recv(rpma_conn* conn, rpma_mr_local* dst, size_t offset, size_t len,
              const void* op_context) {
    return c_boundary([&] {
        if (conn == nullptr) return RPMA_E_INVAL;
        if (dst == nullptr && (offset != 0 || len != 0)) return misused(kRegionMissing);
        if (len > kMaxTransfer) return misused(kTooLong);
        return post_receive(dst, offset, len, op_context, [&](const core::ReceiveRequest& request) {
            const core::Status posted = counted_receive(conn->statistics, conn->parts.trace.get(),
                                                        *conn->parts.qp, request, len);
            if (!posted) return COMPAT_RPMA_FAILED(provider, "ibv_post_recv", posted.error());
            return kSuccess;
        });
    });
}
