// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/counter.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include "core/engine/tracked_cq.hpp"

namespace compat::core {

Result<bool> Counter::attach(TrackedCq& queue) noexcept try {
    const std::lock_guard lock(lock_);
    const auto is_queue = [&queue](const Source& source) { return source.queue == &queue; };
    const auto found = std::find_if(sources_.begin(), sources_.end(), is_queue);
    const bool first = found == sources_.end();
    if (first)
        sources_.push_back({&queue, 1});
    else
        ++found->uses;
    return first;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

bool Counter::detach(TrackedCq& queue) noexcept {
    const std::lock_guard lock(lock_);
    const auto is_queue = [&queue](const Source& source) { return source.queue == &queue; };
    const auto found = std::find_if(sources_.begin(), sources_.end(), is_queue);
    if (found == sources_.end() || --found->uses != 0) return false;
    sources_.erase(found);
    return true;
}

void Counter::progress() noexcept {
    const std::lock_guard lock(lock_);
    for (const Source& source : sources_) source.queue->progress();
}

bool Counter::arm() noexcept {
    const std::lock_guard lock(lock_);
    bool quiet = true;
    for (const Source& source : sources_) quiet &= source.queue->arm_events();
    return quiet;
}

void RemoteCounters::remote_access(Opcode opcode, std::uint64_t bytes) noexcept {
    switch (opcode) {
        case Opcode::write:
        case Opcode::write_imm:
        case Opcode::atomic_write:
            if (writes_ != nullptr) writes_->tick(bytes);
            break;
        case Opcode::read:
        case Opcode::atomic_cas:
        case Opcode::atomic_fadd:
            if (reads_ != nullptr) reads_->tick(bytes);
            break;
        case Opcode::send:
        case Opcode::send_imm:
        case Opcode::flush:
        case Opcode::count_: break;  // messages are counted where they are received
    }
}

}  // namespace compat::core
