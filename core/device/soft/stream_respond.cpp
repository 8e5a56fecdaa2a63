// SPDX-License-Identifier: BSD-3-Clause
// The responder: reads, atomics and flushes of the peer are executed in the order in which they
// came, without the program; their responses leave in that order.
#include <algorithm>
#include <cerrno>

#include "core/device/soft/stream.hpp"
#include "core/device/soft/user_memory.hpp"

namespace compat::core::soft {
namespace {

constexpr std::uint64_t kApplianceFlushBytes = 8;  // librpma's flush where there is no native one

std::uint64_t masked_add(std::uint64_t left, std::uint64_t right, std::uint64_t top_bits) {
    // No carry leaves a sub-field: top bits are added apart, without theirs.
    return ((left & ~top_bits) + (right & ~top_bits)) ^ ((left ^ right) & top_bits);
}

/// The same instructions as the program's own CPU atomics, so that all are atomic to each other.
std::uint64_t execute(const wire::AtomicRequest& request, std::uint64_t* target) {
    std::uint64_t old = __atomic_load_n(target, __ATOMIC_ACQUIRE);
    for (;;) {
        std::uint64_t next = 0;
        if (request.operation == wire::AtomicOpcode::fetch_add) {
            next = masked_add(old, request.add_swap_data, request.add_swap_mask);
        } else {
            if (((old ^ request.compare_data) & request.compare_mask) != 0) return old;
            next = (old & ~request.add_swap_mask) | (request.add_swap_data & request.add_swap_mask);
        }
        if (__atomic_compare_exchange_n(target, &old, next, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return old;
    }
}

}  // namespace

/// More than we granted breaks the agreement on read depth.
bool Stream::owe(Owed response) noexcept {
    response.request = rx_header_;
    response.messages_before = rx_before_;
    if (owed_.size() >= ird_ || !owed_.push(response))
        return violate(wire::terminate::rdmap_stream_catastrophe);
    return true;
}

bool Stream::take_read_request(std::span<const std::byte> content) noexcept {
    const auto request = wire::parse_read_request(content);
    if (!request) return violate(wire::terminate::rdmap_stream_catastrophe);
    Pin pin;
    const Fault fault = qp_->pin_remote(request->source_stag, request->source_offset,
                                        request->length, Access::remote_read, pin);
    if (fault != Fault::none) return refuse(fault, false);
    // A small one is found to be unreadable when it is copied. A large one could no more be refused
    // once its first bytes are out.
    if (request->length > TxBatch::kCopyLimit &&
        !user_memory_allows(pin.address(), request->length, false))
        return refuse(Fault::unmapped, false);
    Region* region = pin.region();
    if (region != nullptr) {
        // A peer without our flush: this read asks for what it wrote to be durable.
        if (!own_peer_ && request->length == kApplianceFlushBytes &&
            region->access().has(Access::flush_persistent))
            (void)region->persist(region->base(), region->length());
        region->notify(Opcode::read, request->length);
        if (qp_->observer != nullptr) qp_->observer->remote_access(Opcode::read, request->length);
    }
    Owed response;
    response.id = request->sink_stag;
    response.sink = request->sink_offset;
    response.source_key = request->source_stag;
    response.source = request->source_offset;
    response.left = request->length;
    return owe(response);
}

bool Stream::take_atomic_request(std::span<const std::byte> content) noexcept {
    const auto request = wire::parse_atomic_request(content);
    if (!request) return violate(wire::terminate::rdmap_stream_catastrophe);
    Pin pin;
    const Fault fault = qp_->pin_remote(request->stag, request->offset, sizeof(std::uint64_t),
                                        Access::remote_atomic, pin);
    if (fault != Fault::none) return refuse(fault, false);
    if (reinterpret_cast<std::uintptr_t>(pin.address()) % sizeof(std::uint64_t) != 0)
        return violate(wire::terminate::rdmap_operation);
    if (owed_.size() >= ird_) return violate(wire::terminate::rdmap_stream_catastrophe);
    // No call of the kernel does this for us: only memory that goes away right now is missed.
    if (!user_memory_allows(pin.address(), sizeof(std::uint64_t), true))
        return refuse(Fault::unmapped, false);
    const std::uint64_t old = execute(*request, reinterpret_cast<std::uint64_t*>(pin.address()));
    const Opcode opcode = request->operation == wire::AtomicOpcode::fetch_add ? Opcode::atomic_fadd
                                                                              : Opcode::atomic_cas;
    pin.region()->notify(opcode, sizeof old);
    if (qp_->observer != nullptr) qp_->observer->remote_access(opcode, sizeof old);
    Owed response;
    response.opcode = wire::RdmapOpcode::atomic_response;
    response.id = request->request_id;
    response.value = old;
    return owe(response);
}

bool Stream::take_flush_request(std::span<const std::byte> content) noexcept {
    const auto request = wire::parse_flush_request(content);
    if (!request) return violate(wire::terminate::rdmap_stream_catastrophe);
    const bool persistent = request->type == wire::FlushType::persistent;
    Pin pin;
    const Fault fault =
        qp_->pin_remote(request->stag, request->offset, request->length,
                        persistent ? Access::flush_persistent : Access::flush_visible, pin);
    if (fault != Fault::none) return refuse(fault, false);
    int error = 0;
    if (persistent && pin.region() != nullptr) {
        const Status done = pin.region()->persist(pin.address(), request->length);
        // Memory that cannot be made durable never had the right, whatever was registered.
        if (!done && done.error().code == Errc::not_supported)
            return refuse(Fault::no_right, false);
        if (!done) error = done.error().device_errno != 0 ? done.error().device_errno : EIO;
    }
    Owed response;
    response.opcode = wire::RdmapOpcode::flush_response;
    response.id = request->request_id;
    response.value = static_cast<std::uint64_t>(error);
    return owe(response);
}

/// The oldest response is out. It proves that its request, and all before, has been taken.
void Stream::paid() noexcept {
    const std::uint32_t taken = owed_.front().messages_before + 1;
    if (static_cast<std::int32_t>(taken - rx_delivered_) >= 0) untold_ = false;
    owed_.pop();
}

/// False when there is no room now.
bool Stream::build_response() noexcept {
    Owed& owed = owed_.front();
    if (owed.opcode == wire::RdmapOpcode::read_response) return build_read_response(owed);
    std::array<std::byte, wire::kAtomicResponseBytes> content;
    if (!batch_->has_room(content.size(), 1)) return false;
    const std::size_t size =
        owed.opcode == wire::RdmapOpcode::atomic_response
            ? wire::encode(wire::AtomicResponse{owed.id, owed.value}, content)
            : wire::encode(wire::FlushResponse{owed.id, static_cast<std::uint32_t>(owed.value)},
                           content);
    const Payload payload{.kind = Payload::Kind::ours,
                          .address = reinterpret_cast<std::uint64_t>(content.data()),
                          .length = static_cast<std::uint32_t>(size)};
    (void)emit(wire::UntaggedHeader{.opcode = owed.opcode,
                                    .queue = wire::kQueueResponse,
                                    .msn = tx_msn_[wire::kQueueResponse]},
               {&payload, 1});
    paid();
    return true;
}

bool Stream::build_read_response(Owed& owed) noexcept {
    do {
        const auto length =
            static_cast<std::uint32_t>(std::min<std::size_t>(max_payload_, owed.left));
        if (!batch_->has_room(length, 1)) return false;
        owed.started = true;
        const Payload payload{.kind = Payload::Kind::remote,
                              .key = owed.source_key,
                              .address = owed.source,
                              .length = length};
        const Fault fault = emit(wire::TaggedHeader{.opcode = wire::RdmapOpcode::read_response,
                                                    .last = length == owed.left,
                                                    .stag = owed.id,
                                                    .offset = owed.sink},
                                 {&payload, 1});
        if (fault != Fault::none) {  // deregistered since it was asked for
            terminate(wire::terminate::rdmap_invalid_stag, owed.request, owed.messages_before);
            return false;
        }
        owed.source += length;
        owed.sink += length;
        owed.left -= length;
    } while (owed.left != 0);
    paid();
    return true;
}

}  // namespace compat::core::soft
