// SPDX-License-Identifier: BSD-3-Clause
// Data of a write that the device's immediate data cannot hold goes in a message behind it. It
// arrives when the bytes of the write are in place: a queue pair keeps the order of the two.
#include "core/rdm/hub.hpp"

namespace compat::core::rdm {

bool Endpoint::is_told(Opcode opcode, std::uint64_t imm) const noexcept {
    if (opcode != Opcode::write_imm || limits_.imm_bytes >= sizeof imm) return false;
    return limits_.imm_bytes == 0 || (imm >> (8 * limits_.imm_bytes)) != 0;
}

/// The write is on its way. It completes with the message, whose permission it has taken.
void Endpoint::tell_written(Transfer& transfer) noexcept {
    Connection& connection = *transfer.connection;
    transfer.awaits |= Transfer::kAwaitsWrite;
    const Status posted = post_written(transfer);
    if (posted) return;
    ++connection.untold;
    wait(transfer);
    if (posted.error().code != Errc::would_block) drain(connection);
}

Status Endpoint::post_written(Transfer& transfer) noexcept {
    return send_control(
        *transfer.connection,
        {.kind = MessageKind::written, .imm = transfer.imm, .length = transfer.length}, &transfer);
}

/// As one whose data came with it, which took no buffer: this message's own is not its affair.
void Endpoint::on_written(Connection& connection, const Header& header) noexcept {
    on_remote_write(connection, {.length = header.length, .imm = header.imm, .has_imm = true});
}

}  // namespace compat::core::rdm
