// SPDX-License-Identifier: BSD-3-Clause
// What a program reads from a completion queue of the engine, and the ring where it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/result.hpp"
#include "core/model/types.hpp"

namespace compat::core {

enum class CompletionKind : std::uint8_t {
    send,
    write,
    read,
    receive,
    remote_write,  ///< a peer's write with immediate data arrived
};

struct Completion {
    void* context = nullptr;
    std::uint64_t flags = 0;   ///< as the facade gave them with the operation; opaque here
    std::uint64_t length = 0;  ///< bytes: of the message that came, or of the peer's write
    void* buffer = nullptr;    ///< receives: where the message starts
    std::uint64_t imm = 0;
    std::uint64_t peer = 0;    ///< receives: as the facade named the endpoint's peer
    std::uint64_t tag = 0;     ///< tagged receives
    std::uint64_t excess = 0;  ///< receives: bytes that found no room (local_length_error)
    CompletionKind kind = CompletionKind::send;
    WcStatus status = WcStatus::success;
    bool has_imm = false;
    bool buffer_released = false;  ///< multi-receive: the program owns the buffer again
    bool reserved = false;         ///< room was set aside when the operation was posted
    std::uint32_t vendor_error = 0;
};

/// A ring that doubles when it is full: nothing that the device reported is ever lost.
class CompletionRing {
public:
    [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
    [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
    [[nodiscard]] const Completion& front() const noexcept { return slots_[head_ & mask_]; }
    void pop() noexcept { ++head_; }

    /// Makes sure that the next `count` pushes find room. Errors: no_memory.
    Status ensure_room(std::size_t count) noexcept {
        if (capacity() - size() >= count) [[likely]]
            return {};
        return grow(count);
    }
    /// Without room, and without memory for more, the completion is dropped and that is logged.
    void push(const Completion& completion) noexcept {
        if (!ensure_room(1)) [[unlikely]]
            return report_loss();
        slots_[tail_++ & mask_] = completion;
    }

private:
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    Status grow(std::size_t count) noexcept;
    static void report_loss() noexcept;

    std::unique_ptr<Completion[]> slots_;
    std::size_t capacity_ = 0;  ///< a power of two
    std::size_t mask_ = 0;
    std::size_t head_ = 0;  ///< both only ever count up
    std::size_t tail_ = 0;
};

}  // namespace compat::core
