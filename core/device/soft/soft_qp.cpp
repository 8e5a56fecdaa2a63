// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/soft_qp.hpp"

#include "core/device/soft/soft_device.hpp"

namespace compat::core::soft {
namespace {

constexpr std::uint64_t kAtomicBytes = 8;

bool is_atomic(Opcode opcode) {
    return opcode == Opcode::atomic_cas || opcode == Opcode::atomic_fadd ||
           opcode == Opcode::atomic_write;
}

Status check(const WorkRequest& request) {
    static const std::uint64_t max_message = device().limits().max_message;
    const std::uint64_t length = total_length(request.sges);
    if (length > max_message) return failure(Errc::too_long);
    if (is_atomic(request.opcode) &&
        (length != kAtomicBytes || request.remote_address % kAtomicBytes != 0))
        return failure(Errc::invalid_argument);
    return {};
}

}  // namespace

Status SoftQp::post_send(std::span<const WorkRequest> requests, std::size_t* posted) noexcept {
    std::size_t good = 0;
    Status checked;
    for (; good < requests.size(); ++good) {
        checked = check(requests[good]);
        if (!checked) break;
    }
    const Status status = stream_->post_send(requests.first(good), posted);
    return status ? checked : status;
}

}  // namespace compat::core::soft
