// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/extended_ops.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace compat::core {
namespace {

constexpr std::uint32_t kFlushReadLength = 8;
constexpr std::uint32_t kAtomicWriteLength = 8;

std::size_t page_length() {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

ExtendedOps::ExtendedOps(bool native_flush, bool native_atomic_write) noexcept
    : native_flush_(native_flush), native_atomic_write_(native_atomic_write) {}

ExtendedOps::~ExtendedOps() {
    sink_.reset();
    if (page_ != nullptr) munmap(page_, page_length());
}

Result<std::unique_ptr<ExtendedOps>> ExtendedOps::create(ProtectionDomain& pd,
                                                         const Limits& limits) {
    std::unique_ptr<ExtendedOps> ops(new ExtendedOps(limits.flush, limits.atomic_write));
    if (limits.flush) return ops;
    if (const Status added = ops->add_read_sink(pd, limits); !added) return failure(added.error());
    return ops;
}

/// A page of its own: registered heap memory would share a page with data that a child process
/// needs after fork(2).
Status ExtendedOps::add_read_sink(ProtectionDomain& pd, const Limits& limits) {
    void* const page =
        mmap(nullptr, page_length(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    page_ = page;
    MrAttr attr{.address = page_, .length = kFlushReadLength, .access = Access::local_write};
    if (limits.read_sink_needs_remote_write) attr.access |= Access::remote_write;
    auto sink = pd.register_memory(attr);
    if (!sink) return failure(sink.error());
    sink_ = std::move(*sink);
    return {};
}

Status ExtendedOps::post_flush(QueuePair& qp, std::uint64_t wr_id, SendFlags flags,
                               RemoteTarget target, std::uint64_t length, FlushType type) noexcept {
    WorkRequest request{
        .wr_id = wr_id, .flags = flags, .rkey = target.rkey, .remote_address = target.address};
    if (native_flush_) {
        request.opcode = Opcode::flush;
        request.flush_type = type;
        request.flush_length = length;
        return qp.post_send({&request, 1});
    }
    const Sge sge{.address = page_, .length = kFlushReadLength, .lkey = sink_->lkey()};
    request.opcode = Opcode::read;
    request.sges = {&sge, 1};
    return qp.post_send({&request, 1});
}

Status ExtendedOps::post_atomic_write(QueuePair& qp, std::uint64_t wr_id, SendFlags flags,
                                      RemoteTarget target, const void* source) noexcept {
    // A device reads an inline buffer during the post and never writes to it.
    const Sge sge{.address = const_cast<void*>(source), .length = kAtomicWriteLength};
    WorkRequest request{.wr_id = wr_id,
                        .opcode = Opcode::atomic_write,
                        .flags = flags | SendFlag::inlined,
                        .rkey = target.rkey,
                        .remote_address = target.address,
                        .sges = {&sge, 1}};
    if (!native_atomic_write_ || target.address % kAtomicWriteLength != 0) {
        request.opcode = Opcode::write;
        request.flags |= SendFlag::fence;
    }
    return qp.post_send({&request, 1});
}

}  // namespace compat::core
