// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/observer.hpp"

#include <utility>

namespace compat::core::rdm {
namespace {

constinit thread_local bool t_message_was_read = false;

}  // namespace

void MessageSource::remote_access(Opcode, std::uint64_t) noexcept {
    t_message_was_read = true;
}

bool MessageSource::take_access() noexcept {
    return std::exchange(t_message_was_read, false);
}

}  // namespace compat::core::rdm
