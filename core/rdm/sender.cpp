// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <new>

#include "core/engine/traced.hpp"
#include "core/rdm/hub.hpp"

namespace compat::core::rdm {
namespace {

std::span<const LocalBuffer> local_of(const Operation& operation) noexcept {
    return operation.local;
}
std::span<const LocalBuffer> local_of(const SingleOperation& operation) noexcept {
    return {&operation.local, operation.local.length != 0 ? 1U : 0U};
}
std::uint64_t length_of(const Operation& operation) noexcept {
    return operation.length;
}
std::uint64_t length_of(const SingleOperation& operation) noexcept {
    return operation.local.length;
}
void set_local(Operation& operation, std::span<const LocalBuffer> local) noexcept {
    operation.local = local;
}
void set_local(SingleOperation& operation, std::span<const LocalBuffer> local) noexcept {
    operation.local = local[0];
}

bool writes_locally(Opcode opcode) noexcept {
    return kind_of(opcode) == OpKind::read;
}

}  // namespace

/// A refused post makes progress: a program that does nothing but repeat it must get on.
template <class Try>
Status Endpoint::with_progress(const Try& attempt) noexcept {
    const std::lock_guard guard(*matcher_);
    Status status = attempt();
    if (status || status.error().code != Errc::would_block) return status;
    note_program();
    take_cm_events();
    run(1);
    refused_for_ = Stat::queue_full;
    status = attempt();
    if (!status && status.error().code == Errc::would_block) statistics_->add(refused_for_, 1);
    return status;
}

bool Endpoint::reserve(bool entry) noexcept {
    return !entry || attr_.transmit_cq->space().reserve();
}

void Endpoint::release(bool entry) noexcept {
    if (entry) attr_.transmit_cq->space().release(1);
}

Transfer* Endpoint::take_transfer(Connection& connection, Transfer::Kind kind) noexcept {
    Transfer* const transfer = transfers_.take();
    if (transfer == nullptr) return nullptr;
    transfer->kind = kind;
    transfer->connection = &connection;
    transfer->waiting = false;
    transfer->failed = false;
    transfer->entry = false;
    transfer->length = 0;
    transfer->write_status = WcStatus::success;
    transfer->traced = 0;
    connection.transfers.push(*transfer);
    return transfer;
}

void Endpoint::drop_transfer(Transfer& transfer) noexcept {
    Connection& connection = *transfer.connection;
    trace_end(transfer, Trace::kDropped);
    (transfer.waiting ? connection.waiting : connection.transfers).remove(transfer);
    if (transfer.waiting) --waiting_count_;
    if (transfer.waiting && transfer.kind == Transfer::Kind::written) --connection.untold;
    if ((transfer.awaits & Transfer::kAwaitsPeer) != 0) --connection.peer.awaiting_peer;
    if (transfer.slot != nullptr) slots_.give_back(transfer.slot);
    transfers_.give_back(transfer);
}

/// An operation of the program, with a place for its entry; null: no room now.
Transfer* Endpoint::begin(Connection& connection, Transfer::Kind kind, OpKind op,
                          bool entry) noexcept {
    if (!reserve(entry)) return nullptr;
    Transfer* const transfer = take_transfer(connection, kind);
    if (transfer == nullptr) {
        release(entry);
        return nullptr;
    }
    transfer->op = op;
    transfer->entry = entry;
    transfer->awaits = Transfer::kAwaitsDevice;
    if (trace_) transfer->traced = ++traced_;
    return transfer;
}

/// It was not posted, and nobody will be told.
void Endpoint::abandon(Transfer& transfer) noexcept {
    transfer.traced = 0;
    release(transfer.entry);
    drop_transfer(transfer);
}

void Endpoint::push(TrackedCq& cq, const Completion& completion) noexcept {
    // What found no memory was logged: nobody is left to tell.
    static_cast<void>(cq.push(completion));
}

/// The peer could not be reached: one operation tells the program so.
Status Endpoint::complete_unreachable(Peer& peer, OpKind kind, bool entry, void* context,
                                      std::uint64_t flags) noexcept {
    if (!reserve(entry)) return failure(Errc::would_block);
    peer.failed = false;
    if (Counter* own = counter(kind)) own->add_errors(1);
    push(*attr_.transmit_cq, {.context = context,
                              .flags = flags,
                              .kind = completion_kind(kind),
                              .status = WcStatus::retry_exceeded,
                              .reserved = entry});
    if (trace_) trace_->end(++traced_, name_of(kind), wc_status_text(WcStatus::retry_exceeded), 0);
    return {};
}

/// Of the newest operation, which has been accepted.
void Endpoint::trace_post(std::uint64_t at, const Peer& peer, OpKind kind,
                          TracedPost post) noexcept {
    const AddressText name = peer.name.text();
    post.peer = name.c_str();
    trace_->post(traced_, at, name_of(kind), post);
}

void Endpoint::trace_end(Transfer& transfer, const char* status) noexcept {
    if (transfer.traced == 0) return;
    trace_->end(transfer.traced, name_of(transfer.op), status, transfer.length);
    transfer.traced = 0;
}

// --- messages

Status Endpoint::send(AddressIndex to, const Message& message) noexcept {
    return with_progress([&] { return try_send(to, message); });
}

Status Endpoint::try_send(AddressIndex to, const Message& message) noexcept {
    const auto peer = peer_at(to);
    if (!peer) return failure(peer.error());
    const std::uint64_t at = trace_ ? Trace::now() : 0;
    Status sent = send_to(**peer, message);
    if (!sent) return sent;
    statistics_->post(Stat::sends, message.length);
    if (!trace_) return {};
    const FlagText flags({{message.flags.has(MessageFlag::entry), "entry"},
                          {message.flags.has(MessageFlag::inject), "inject"},
                          {message.flags.has(MessageFlag::tagged), "tagged"},
                          {message.flags.has(MessageFlag::data), "data"},
                          {message.flags.has(MessageFlag::delivered), "delivered"},
                          {message.flags.has(MessageFlag::fence), "fence"}});
    TracedPost post = core::describe(
        Operation{.local = message.local, .length = message.length, .context = message.context});
    post.flags = flags.c_str();
    trace_post(at, **peer, OpKind::send, post);
    return {};
}

Status Endpoint::send_to(Peer& peer, const Message& message) noexcept {
    const auto connection = reach(peer);
    if (connection) return send_on(**connection, message);
    if (connection.error().code != Errc::unreachable) return failure(connection.error());
    return complete_unreachable(peer, OpKind::send, message.flags.has(MessageFlag::entry),
                                message.context, message.entry_flags);
}

Status Endpoint::send_on(Connection& connection, const Message& message) noexcept {
    const bool eager = message.length <= kEagerLength;
    const bool entry = message.flags.has(MessageFlag::entry);
    if (!eager && message.flags.has(MessageFlag::inject)) return failure(Errc::too_long);
    const bool fenced = message.flags.has(MessageFlag::fence);
    if (connection.untold != 0) return failure(Errc::would_block);
    if (!connection.data.may_send() || (fenced && connection.peer.awaiting_peer != 0))
        return refuse(Stat::peer_busy);
    Transfer* const transfer = begin(connection, Transfer::Kind::message, OpKind::send, entry);
    if (transfer == nullptr) return failure(Errc::would_block);
    transfer->context = message.context;
    transfer->flags = message.entry_flags;
    transfer->length = message.length;
    transfer->slot = slots_.take();

    Header header{.kind = eager ? MessageKind::eager : MessageKind::rendezvous,
                  .data_permit = connection.data.granted,
                  .control_permit = connection.control.granted,
                  .id = transfer->number,
                  .tag = message.tag,
                  .imm = message.imm,
                  .length = message.length};
    if (message.flags.has(MessageFlag::tagged)) header.flags |= HeaderFlag::tagged;
    if (message.flags.has(MessageFlag::data)) header.flags |= HeaderFlag::data;
    const bool acknowledged = !eager || message.flags.has(MessageFlag::delivered);
    if (acknowledged) header.flags |= HeaderFlag::acknowledge;

    if (Status posted = post_message(*transfer, message, header); !posted) {
        abandon(*transfer);
        return posted;
    }
    ++connection.data.sent;
    connection.data.announced = header.data_permit;
    connection.control.announced = header.control_permit;
    if (acknowledged) {
        transfer->awaits |= Transfer::kAwaitsPeer;
        ++connection.peer.awaiting_peer;
    }
    return {};
}

/// From a slot, which holds the header and behind it the bytes or where they are to be read.
Status Endpoint::post_message(Transfer& transfer, const Message& message, Header& header) noexcept {
    if (transfer.slot == nullptr) return failure(Errc::would_block);
    std::size_t length = kHeaderLength;
    if (header.kind == MessageKind::eager) {
        for (const LocalBuffer& buffer : message.local) {
            std::memcpy(transfer.slot + length, buffer.address, buffer.length);
            length += buffer.length;
        }
    } else {
        if (Status described = describe(transfer, message, header); !described) return described;
        length += header.source_count * kSourceLength;
    }
    encode(header, std::span<std::byte, kHeaderLength>(transfer.slot, kHeaderLength));
    const bool fenced = message.flags.has(MessageFlag::fence);
    const SingleOperation operation{
        .opcode = Opcode::send,
        .flags = fenced ? OpFlag::entry | OpFlag::fence : OpFlags(OpFlag::entry),
        .local = {.address = transfer.slot,
                  .length = length,
                  .lkey = slots_.lkey_of(transfer.slot)},
        .context = &transfer,
        .entry_flags = kInternal};
    return transfer.connection->transmit->post(operation);
}

/// Lets the peer read the message.
Status Endpoint::describe(Transfer& transfer, const Message& message, Header& header) noexcept {
    transfer.regions.reset(new (std::nothrow) Regions);
    if (!transfer.regions) return failure(Errc::no_memory);
    std::byte* out = transfer.slot + kHeaderLength;
    for (std::size_t at = 0; at < message.local.size(); ++at) {
        const LocalBuffer& buffer = message.local[at];
        auto region =
            attr_.pd->register_memory({.address = buffer.address,
                                       .length = buffer.length,
                                       .access = Access::remote_read | Access::read_source});
        if (!region) return failure(region.error());
        if (attr_.remote_reads != nullptr)
            static_cast<void>((*region)->set_observer(&message_source_));
        encode_source({.address = reinterpret_cast<std::uintptr_t>(buffer.address),
                       .length = buffer.length,
                       .rkey = (*region)->rkey()},
                      out);
        out += kSourceLength;
        (*transfer.regions)[at] = std::move(*region);
    }
    header.source_count = static_cast<std::uint8_t>(message.local.size());
    return {};
}

// --- RMA

bool Endpoint::needs_record(OpFlags flags, OpKind kind) const noexcept {
    return flags.has(OpFlag::entry) || counter(kind) != nullptr || trace_;
}

Status Endpoint::register_into(Regions& regions, std::span<LocalBuffer> buffers,
                               AccessFlags access) noexcept {
    for (std::size_t at = 0; at < buffers.size(); ++at) {
        LocalBuffer& buffer = buffers[at];
        if (buffer.lkey != kUnregisteredLkey) continue;
        auto region = attr_.pd->register_memory(
            {.address = buffer.address, .length = buffer.length, .access = access});
        if (!region) return failure(region.error());
        buffer.lkey = (*region)->lkey();
        regions[at] = std::move(*region);
    }
    return {};
}

/// Keys for local memory that came without, on a device that wants them.
template <class AnyOperation>
Status Endpoint::register_local(Transfer& transfer, AnyOperation& operation,
                                std::array<LocalBuffer, kMaxSegments>& local) noexcept {
    const auto given = local_of(operation);
    transfer.regions.reset(new (std::nothrow) Regions);
    if (!transfer.regions) return failure(Errc::no_memory);
    std::copy(given.begin(), given.end(), local.begin());
    AccessFlags access;
    if (writes_locally(operation.opcode)) access = Access::local_write;
    if (!access.empty() && limits_.read_sink_needs_remote_write) access |= Access::remote_write;
    Status registered =
        register_into(*transfer.regions, std::span(local).first(given.size()), access);
    if (registered) set_local(operation, std::span(local).first(given.size()));
    return registered;
}

template <class AnyOperation>
Status Endpoint::post(AddressIndex to, AnyOperation operation) noexcept {
    return with_progress([&] { return try_post(to, operation); });
}
template Status Endpoint::post(AddressIndex to, Operation operation) noexcept;
template Status Endpoint::post(AddressIndex to, SingleOperation operation) noexcept;

template <class AnyOperation>
Status Endpoint::try_post(AddressIndex to, AnyOperation& given) noexcept {
    const auto peer = peer_at(to);
    if (!peer) return failure(peer.error());
    const std::uint64_t at = trace_ ? Trace::now() : 0;
    Status posted = post_to(**peer, given);
    if (!posted) return posted;
    statistics_->post(stat_of(given.opcode), length_of(given));
    if (!trace_) return {};
    const FlagText flags(given.flags);
    TracedPost post = core::describe(given);
    post.flags = flags.c_str();
    trace_post(at, **peer, kind_of(given.opcode), post);
    return {};
}

template <class AnyOperation>
Status Endpoint::post_to(Peer& peer, AnyOperation& given) noexcept {
    const OpKind kind = kind_of(given.opcode);
    const bool entry = given.flags.has(OpFlag::entry);
    const auto reached = reach(peer);
    if (!reached) {
        if (reached.error().code != Errc::unreachable) return failure(reached.error());
        return complete_unreachable(peer, kind, entry, given.context, given.entry_flags);
    }
    Connection& connection = **reached;
    if (connection.untold != 0) return failure(Errc::would_block);
    const bool told = is_told(given.opcode, given.imm);
    // Such a write takes one of the peer's buffers.
    const bool takes_buffer =
        told || (given.opcode == Opcode::write_imm && !limits_.imm_without_receive);
    if (takes_buffer && !connection.data.may_send()) return refuse(Stat::peer_busy);
    const auto local = local_of(given);
    const bool keyless = !limits_.unregistered_local && !given.flags.has(OpFlag::inject) &&
                         std::any_of(local.begin(), local.end(), [](const LocalBuffer& buffer) {
                             return buffer.lkey == kUnregisteredLkey;
                         });
    if (!keyless && !told && !needs_record(given.flags, kind)) {
        Status posted = connection.transmit->post(given);
        if (posted && takes_buffer) ++connection.data.sent;
        return posted;
    }
    const auto transfer_kind = told ? Transfer::Kind::written : Transfer::Kind::rma;
    Transfer* const transfer = begin(connection, transfer_kind, kind, entry);
    if (transfer == nullptr) return failure(Errc::would_block);
    transfer->context = given.context;
    transfer->flags = given.entry_flags;
    for (const LocalBuffer& buffer : local) transfer->length += buffer.length;

    AnyOperation operation = given;
    if (told) operation.opcode = Opcode::write;
    std::array<LocalBuffer, kMaxSegments> keyed;
    Status status;
    if (keyless) status = register_local(*transfer, operation, keyed);
    if (status) {
        operation.context = transfer;
        operation.entry_flags = kInternal;
        operation.flags |= OpFlag::entry;
        status = connection.transmit->post(operation);
    }
    if (!status) {
        abandon(*transfer);
        return status;
    }
    if (takes_buffer) ++connection.data.sent;
    if (told) {
        transfer->imm = given.imm;
        tell_written(*transfer);
    }
    return {};
}

void Endpoint::flush() noexcept {
    const std::lock_guard guard(*matcher_);
    for (Connection* at = connections_.first(); at != nullptr; at = List<Connection>::next(*at))
        if (at->transmit) at->transmit->flush();
}

// --- completions

/// The device is done with it.
void Endpoint::on_posted(Transfer& transfer, WcStatus status, std::uint32_t vendor_error) noexcept {
    if (transfer.kind == Transfer::Kind::pull) return finish_pull(transfer, status);
    if ((transfer.awaits & Transfer::kAwaitsWrite) != 0) {
        // What tells the peer of it comes behind it.
        transfer.awaits &= static_cast<std::uint8_t>(~Transfer::kAwaitsWrite);
        transfer.write_status = status;
        return;
    }
    if (transfer.traced != 0) trace_->acknowledge(transfer.traced, Trace::now());
    if (transfer.slot != nullptr) {
        slots_.give_back(transfer.slot);
        transfer.slot = nullptr;
    }
    transfer.awaits &= static_cast<std::uint8_t>(~Transfer::kAwaitsDevice);
    if (status == WcStatus::success && transfer.failed) status = WcStatus::remote_operation_error;
    if (status != WcStatus::success || transfer.awaits == 0)
        complete(transfer, status, vendor_error);
}

void Endpoint::complete(Transfer& transfer, WcStatus status, std::uint32_t vendor_error) noexcept {
    if (transfer.write_status != WcStatus::success) status = transfer.write_status;
    const bool good = status == WcStatus::success;
    const Completion completion{.context = transfer.context,
                                .flags = transfer.flags,
                                .kind = completion_kind(transfer.op),
                                .status = status,
                                .reserved = transfer.entry,
                                .vendor_error = vendor_error};
    Counter* const own = counter(transfer.op);
    const std::uint64_t length = transfer.length;
    const bool tells = transfer.entry || !good;
    trace_end(transfer, wc_status_text(status));
    // The program may reuse its memory as soon as it is told.
    drop_transfer(transfer);
    if (tells) push(*attr_.transmit_cq, completion);
    if (own == nullptr) return;
    if (!tells) statistics_->add(Stat::completions, 1);
    if (good)
        own->tick(length);
    else
        own->add_errors(1);
}

}  // namespace compat::core::rdm
