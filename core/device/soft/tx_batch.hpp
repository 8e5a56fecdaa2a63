// SPDX-License-Identifier: BSD-3-Clause
// FPDUs on their way into a TCP socket: headers and small payloads are copied into one buffer,
// large payloads are gathered from where they are, and all leaves in one sendmsg(2).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "core/device/soft/memory.hpp"
#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/mpa.hpp"

namespace compat::core::soft {

/// A stretch of memory that some request names; checked whenever it is about to be read.
struct Payload {
    enum class Kind : std::uint8_t { ours, local, remote };
    Kind kind = Kind::ours;
    std::uint32_t key = 0;      ///< local: lkey; remote: rkey
    std::uint64_t address = 0;  ///< ours, local: virtual address; remote: iova
    std::uint32_t length = 0;
    /// local: the program's thread is inside the post that names it, so that a plain copy does.
    bool in_post = false;
};

class TxBatch {
public:
    /// Payload bytes of an FPDU: up to here a copy costs less than one more iovec.
    static constexpr std::size_t kCopyLimit = 2048;

    enum class Sent : std::uint8_t { all, partly, nothing_left, lost, local_gone, remote_gone };

    explicit TxBatch(std::shared_ptr<KeyTable> keys);
    /// From the beginning of the stream on: FPDUs have a CRC, and are copied whole, because their
    /// bytes may change where they are until TCP has taken them.
    void use_crc(bool with_crc) noexcept { with_crc_ = with_crc; }

    /// Whether one more FPDU with so much payload in so many pieces may be added now.
    [[nodiscard]] bool has_room(std::size_t payload, std::size_t pieces) const noexcept;
    [[nodiscard]] bool empty() const noexcept { return chunk_count_ == 0; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Adds an FPDU. Returns a fault when a piece may not be read; nothing is added then.
    template <class Header>
    Fault add(const Header& header, std::span<const Payload> pieces) noexcept {
        std::array<std::byte, wire::kMaxHeaderBytes> bytes;
        const std::size_t size = wire::encode_header(header, bytes);
        return add_fpdu({bytes.data(), size}, pieces);
    }

    /// One sendmsg. `lost`: the connection is broken; `*_gone`: memory in the middle of an FPDU was
    /// deregistered or unmapped, so that the stream cannot go on.
    Sent send(int socket) noexcept;

    /// Drops everything. Nothing of the caller's memory is read any more.
    void clear() noexcept;

private:
    struct Chunk {
        const std::byte* bytes;
        std::size_t length;
        Payload source;  ///< kind ours: `bytes` are in stage_
    };
    static constexpr std::size_t kStageBytes = 128 * 1024;
    static_assert(kStageBytes > wire::kMaxFpduBytes, "a whole FPDU must fit");
    static constexpr std::size_t kMaxChunks = 128;
    static constexpr std::size_t kMaxBatchBytes = 256 * 1024;

    Sent send_chunks(int socket) noexcept;
    Fault add_fpdu(std::span<const std::byte> header, std::span<const Payload> pieces) noexcept;
    static Sent gone(const Chunk& chunk) noexcept;
    [[nodiscard]] bool copies(std::size_t payload) const noexcept;
    Fault pin(const Payload& piece, Pin& pin) const noexcept;
    std::byte* stage(std::size_t length) noexcept;

    std::shared_ptr<KeyTable> keys_;
    bool with_crc_ = false;
    std::unique_ptr<std::byte[]> stage_;
    std::size_t staged_ = 0;
    std::array<Chunk, kMaxChunks> chunks_;
    std::size_t chunk_count_ = 0;
    std::size_t first_chunk_ = 0;
    std::size_t first_offset_ = 0;  ///< bytes of the first chunk that are gone already
    std::size_t bytes_ = 0;
    bool reads_user_memory_ = false;  ///< some chunk is not in stage_
};

}  // namespace compat::core::soft
