// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "core/device/device.hpp"
#include "core/device/soft/stream.hpp"

namespace compat::core::soft {

/// The program's handle of a QP: checks what does not depend on the connection, and hands over.
class SoftQp final : public QueuePair {
public:
    SoftQp(std::shared_ptr<Stream> stream, std::uint32_t number, bool plain_posts)
        : stream_(std::move(stream)), number_(number) {
        if (plain_posts) plain_end_.store(shm::Direct::kMostPlain + 1, std::memory_order_relaxed);
    }
    ~SoftQp() override { stream_->detach(); }

    [[nodiscard]] std::uint32_t number() const noexcept override { return number_; }
    Status post_send(std::span<const WorkRequest> requests, std::size_t* posted) noexcept override;
    Status plain_write(PlainRequest& request) noexcept override {
        return stream_->post_plain(Opcode::write, request);
    }
    Status plain_read(PlainRequest& request) noexcept override {
        return stream_->post_plain(Opcode::read, request);
    }
    Status plain_send(PlainRequest& request) noexcept override {
        return stream_->post_plain(Opcode::send, request);
    }
    Status post_receive(const ReceiveRequest& request) noexcept override {
        return stream_->post_receive(request);
    }
    Status cancel_receive(std::uint64_t wr_id) noexcept override {
        return stream_->cancel_receive(wr_id);
    }
    Status set_observer(RemoteAccessObserver* observer) noexcept override {
        stream_->set_observer(observer);
        return {};
    }
    void fail() noexcept override { stream_->fail_qp(); }

private:
    std::shared_ptr<Stream> stream_;
    const std::uint32_t number_;
};

}  // namespace compat::core::soft
