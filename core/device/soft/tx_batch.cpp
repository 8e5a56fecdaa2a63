// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/tx_batch.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "core/device/soft/user_memory.hpp"
#include "core/device/soft/wire/crc32c.hpp"

namespace compat::core::soft {
namespace {

constexpr std::size_t kMaxPieces = 8;  // of one FPDU
constexpr std::size_t kFrameBytes =
    wire::kFpduLengthBytes + wire::kMaxHeaderBytes + 3 + wire::kCrcBytes;

bool copy_piece(std::byte* to, const Payload& piece, const Pin& pin) noexcept {
    if (piece.length == 0) return true;
    if (piece.kind != Payload::Kind::ours && !piece.in_post)
        return load_from_user(to, pin.address(), piece.length);
    std::memcpy(to, pin.address(), piece.length);
    return true;
}

}  // namespace

TxBatch::TxBatch(std::shared_ptr<KeyTable> keys)
    : keys_(std::move(keys)), stage_(new std::byte[kStageBytes]) {}

bool TxBatch::has_room(std::size_t payload, std::size_t pieces) const noexcept {
    const std::size_t copied = copies(payload) ? payload : 0;
    return pieces <= kMaxPieces && bytes_ < kMaxBatchBytes &&
           staged_ + kFrameBytes + copied <= kStageBytes && chunk_count_ + 2 + pieces <= kMaxChunks;
}

bool TxBatch::copies(std::size_t payload) const noexcept {
    return with_crc_ || payload <= kCopyLimit;
}

// Neighbouring stretches of the stage are one chunk.
std::byte* TxBatch::stage(std::size_t length) noexcept {
    std::byte* start = stage_.get() + staged_;
    Chunk* last = chunk_count_ > first_chunk_ ? &chunks_[chunk_count_ - 1] : nullptr;
    if (last != nullptr && last->source.kind == Payload::Kind::ours &&
        last->bytes + last->length == start)
        last->length += length;
    else
        chunks_[chunk_count_++] = {start, length, {}};
    staged_ += length;
    bytes_ += length;
    return start;
}

Fault TxBatch::pin(const Payload& piece, Pin& pin) const noexcept {
    switch (piece.kind) {
        case Payload::Kind::ours:
            pin = Pin(nullptr, reinterpret_cast<std::byte*>(piece.address));
            return Fault::none;
        case Payload::Kind::local:
            return keys_->pin_local(
                {reinterpret_cast<void*>(piece.address), piece.length, piece.key}, false, pin);
        case Payload::Kind::remote:
            return keys_->pin_remote(piece.key, piece.address, piece.length, Access::remote_read,
                                     pin);
    }
    return Fault::unknown_key;
}

Fault TxBatch::add_fpdu(std::span<const std::byte> header,
                        std::span<const Payload> pieces) noexcept {
    Pins<kMaxPieces> pins;
    std::size_t payload = 0;
    for (const Payload& piece : pieces) {
        if (const Fault fault = pin(piece, pins.add()); fault != Fault::none) return fault;
        payload += piece.length;
    }
    const std::size_t ulpdu = header.size() + payload;
    const std::size_t padding = wire::fpdu_padding(ulpdu);
    const bool copy = copies(payload);

    // Not part of the batch before all of it could be read.
    std::byte* const start = stage_.get() + staged_;
    wire::encode_fpdu_length(static_cast<std::uint16_t>(ulpdu),
                             std::span<std::byte, 2>(start, wire::kFpduLengthBytes));
    std::byte* out = start + wire::kFpduLengthBytes;
    std::memcpy(out, header.data(), header.size());
    out += header.size();
    for (std::size_t i = 0; copy && i < pieces.size(); ++i) {
        if (!copy_piece(out, pieces[i], pins[i])) return Fault::unmapped;
        out += pieces[i].length;
    }
    stage(static_cast<std::size_t>(out - start));
    for (std::size_t i = 0; !copy && i < pieces.size(); ++i) {
        if (pieces[i].length == 0) continue;
        chunks_[chunk_count_++] = {pins[i].address(), pieces[i].length, pieces[i]};
        bytes_ += pieces[i].length;
        reads_user_memory_ = true;
    }
    std::byte* trailer = stage(padding + wire::kCrcBytes);
    std::memset(trailer, 0, padding);
    const std::size_t covered = static_cast<std::size_t>(trailer - start) + padding;
    wire::encode_crc(with_crc_ ? wire::crc32c({start, covered}) : 0,
                     std::span<std::byte, 4>(trailer + padding, wire::kCrcBytes));
    return Fault::none;
}

TxBatch::Sent TxBatch::gone(const Chunk& chunk) noexcept {
    return chunk.source.kind == Payload::Kind::remote ? Sent::remote_gone : Sent::local_gone;
}

TxBatch::Sent TxBatch::send(int socket) noexcept {
    if (empty()) return Sent::nothing_left;
    if (!reads_user_memory_) return send_chunks(socket);
    std::array<Pin, kMaxChunks> pins;
    for (std::size_t i = first_chunk_; i < chunk_count_; ++i)
        if (chunks_[i].source.kind != Payload::Kind::ours &&
            pin(chunks_[i].source, pins[i]) != Fault::none)
            return gone(chunks_[i]);
    return send_chunks(socket);
}

TxBatch::Sent TxBatch::send_chunks(int socket) noexcept {
    std::array<iovec, kMaxChunks> iov;
    std::size_t count = 0;
    for (std::size_t i = first_chunk_; i < chunk_count_; ++i)
        iov[count++] = {const_cast<std::byte*>(chunks_[i].bytes), chunks_[i].length};
    iov[0] = {static_cast<std::byte*>(iov[0].iov_base) + first_offset_,
              iov[0].iov_len - first_offset_};
    msghdr message{};
    message.msg_iov = iov.data();
    message.msg_iovlen = count;
    ssize_t sent = 0;
    do {
        sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    // What could be read before it has left: it is the first chunk.
    if (sent < 0 && errno == EFAULT) return gone(chunks_[first_chunk_]);
    if (sent < 0) return errno == EAGAIN || errno == ENOBUFS ? Sent::partly : Sent::lost;

    first_offset_ += static_cast<std::size_t>(sent);
    while (first_chunk_ < chunk_count_ && first_offset_ >= chunks_[first_chunk_].length)
        first_offset_ -= chunks_[first_chunk_++].length;
    if (first_chunk_ < chunk_count_) return Sent::partly;
    clear();
    return Sent::all;
}

void TxBatch::clear() noexcept {
    staged_ = bytes_ = chunk_count_ = first_chunk_ = first_offset_ = 0;
    reads_user_memory_ = false;
}

}  // namespace compat::core::soft
