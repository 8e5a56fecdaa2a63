// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/splitter.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace compat::core {
namespace {

// Page-aligned, so that pieces of an aligned buffer stay aligned.
constexpr std::uint64_t kMaxSgeLength = std::uint64_t{1} << 31;
static_assert(kMaxSgeLength <= std::numeric_limits<std::uint32_t>::max());

bool has_remote(Opcode opcode) noexcept {
    return opcode != Opcode::send && opcode != Opcode::send_imm;
}

}  // namespace

Splitter::Splitter(const Operation& operation, const SplitLimits& limits) noexcept
    : probe_(&limits.probe),
      max_message_(limits.max_message),
      left_(operation.length),
      max_sge_(std::min<std::uint32_t>(
          operation.opcode == Opcode::read ? limits.max_sge_read : limits.max_sge, kMaxSegments)),
      phase_(Phase::transfer) {}

std::size_t Splitter::count(const Operation& operation, const SplitLimits& limits) noexcept {
    std::array<Sge, kMaxSegments> scratch;
    Splitter splitter(operation, limits);
    std::size_t requests = 0;
    while (!splitter.finished()) {
        splitter.next(operation, scratch);
        requests += 1 + splitter.skip_alike(operation);
    }
    return requests;
}

/// Leaves out the requests that are next, as large as any can be, and end neither a buffer nor a
/// range; says how many. So the effort of counting depends on the segments, not on the bytes.
std::uint64_t Splitter::skip_alike(const Operation& operation) noexcept {
    if (phase_ != Phase::transfer || left_ == 0) return 0;
    const std::uint64_t most = std::min(max_message_, max_sge_ * kMaxSgeLength);
    std::uint64_t room = std::min(left_, operation.local[local_at_].length - local_done_);
    if (has_remote(operation.opcode) && remote_at_ < operation.remote.size())
        room = std::min(room, operation.remote[remote_at_].length - remote_done_);
    if (room <= most) return 0;
    const std::uint64_t skipped = (room - 1) / most;
    left_ -= skipped * most;
    local_done_ += skipped * most;
    remote_done_ += skipped * most;
    return skipped;
}

WorkRequest Splitter::next(const Operation& operation,
                           std::span<Sge, kMaxSegments> storage) noexcept {
    if (phase_ == Phase::flush) return next_flush(operation);
    return phase_ == Phase::probe ? next_probe(storage) : next_transfer(operation, storage);
}

/// The most bytes that the next work request may move.
std::uint64_t Splitter::room(const Operation& operation) const noexcept {
    std::uint64_t room = std::min(left_, max_message_);
    if (has_remote(operation.opcode) && remote_at_ < operation.remote.size())
        room = std::min(room, operation.remote[remote_at_].length - remote_done_);
    return room;
}

/// Takes up to room bytes from the local buffers.
std::size_t Splitter::fill(const Operation& operation, std::span<Sge, kMaxSegments> storage,
                           std::uint64_t room) noexcept {
    std::size_t used = 0;
    while (room != 0 && used < max_sge_) {
        const LocalBuffer& buffer = operation.local[local_at_];
        const std::uint64_t length = std::min({room, buffer.length - local_done_, kMaxSgeLength});
        storage[used++] = {.address = static_cast<std::byte*>(buffer.address) + local_done_,
                           .length = static_cast<std::uint32_t>(length),
                           .lkey = buffer.lkey};
        room -= length;
        left_ -= length;
        remote_done_ += length;
        local_done_ += length;
        if (local_done_ == buffer.length) {
            ++local_at_;
            local_done_ = 0;
        }
    }
    return used;
}

WorkRequest Splitter::next_transfer(const Operation& operation,
                                    std::span<Sge, kMaxSegments> storage) noexcept {
    // A range of zero bytes beside others has nothing to say.
    while (left_ != 0 && remote_at_ + 1U < operation.remote.size() &&
           remote_done_ == operation.remote[remote_at_].length) {
        ++remote_at_;
        remote_done_ = 0;
    }
    WorkRequest request{.opcode = operation.opcode,
                        .imm = operation.imm,
                        .operand = operation.operand,
                        .compare = operation.compare};
    if (has_remote(operation.opcode) && remote_at_ < operation.remote.size()) {
        request.rkey = operation.remote[remote_at_].rkey;
        request.remote_address = operation.remote[remote_at_].address + remote_done_;
    }
    const std::size_t used = fill(operation, storage, room(operation));
    request.sges = storage.first(used);
    if (operation.flags.has(OpFlag::solicited)) request.flags |= SendFlag::solicited;
    // Only the last piece tells the target.
    if (left_ != 0 && operation.opcode == Opcode::write_imm) request.opcode = Opcode::write;
    if (left_ == 0) after_transfer(operation);
    return request;
}

void Splitter::after_transfer(const Operation& operation) noexcept {
    const bool writes = operation.length != 0 && kind_of(operation.opcode) == OpKind::write;
    const bool commits = writes && operation.flags.has(OpFlag::commit);
    const bool probes = writes && operation.flags.has(OpFlag::deliver) && probe_->sink.length != 0;
    phase_ = commits ? Phase::flush : probes ? Phase::probe : Phase::finished;
    remote_at_ = 0;
    while (commits && operation.remote[remote_at_].length == 0) ++remote_at_;
}

WorkRequest Splitter::next_flush(const Operation& operation) noexcept {
    const RemoteRange& range = operation.remote[remote_at_];
    const WorkRequest request{.opcode = Opcode::flush,
                              .flush_type = FlushType::persistent,
                              .rkey = range.rkey,
                              .remote_address = range.address,
                              .flush_length = range.length};
    do {
        ++remote_at_;
    } while (remote_at_ < operation.remote.size() && operation.remote[remote_at_].length == 0);
    if (remote_at_ == operation.remote.size()) phase_ = Phase::finished;
    return request;
}

WorkRequest Splitter::next_probe(std::span<Sge, kMaxSegments> storage) noexcept {
    phase_ = Phase::finished;
    storage[0] = probe_->sink;
    return {.opcode = Opcode::read,
            .rkey = probe_->rkey,
            .remote_address = probe_->remote_address,
            .sges = storage.first(1)};
}

}  // namespace compat::core
