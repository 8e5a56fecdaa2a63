// SPDX-License-Identifier: BSD-3-Clause
// What this process shows to the peers of its host: regions, and a slot for each connection.
#pragma once

#include <mutex>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/device/soft/memory.hpp"
#include "core/device/soft/shm/files.hpp"
#include "core/device/soft/shm/layout.hpp"
#include "core/device/soft/wire/ddp.hpp"

namespace compat::core::soft::shm {

/// A connection's place in the export: lent to one peer.
struct Loan {
    Slot* slot = nullptr;
    std::uint32_t index = 0;
    std::uint32_t epoch = 0;
};

/// A region's place in the export.
struct Shown {
    Entry* entry = nullptr;  ///< null: it is not shown
    std::uint32_t rkey = 0;
    std::uint64_t file = 0;
};

class Export {
public:
    /// Null: switched off, or not possible here. Made at first need, never destroyed; a child
    /// process has its own.
    static Export* of_process() noexcept;

    /// requested: the program has chosen the key. Not shown: peers then use the stream.
    Shown publish(std::uint32_t rkey, bool requested, std::uint32_t pd,
                  const Region& region) noexcept;
    /// No peer begins to use the key any more; returns when none does.
    void withdraw(const Shown& shown) noexcept;

    /// A closed slot; none (slot is null) when all are in use.
    Loan lend() noexcept;
    /// Only when the peer cannot use it any more.
    void take_back(const Loan& loan) noexcept;

    /// Without slot, epoch, PD and rights.
    [[nodiscard]] wire::Presence presence() const noexcept;

private:
    Export(UniqueFd file, std::byte* mapping, std::uint64_t inode) noexcept;
    static Export* create() noexcept;
    Slot& slot(std::size_t index) noexcept;
    Entry* place_for(std::uint32_t rkey, bool requested, std::uint32_t pd) noexcept;

    UniqueFd file_;
    std::byte* const mapping_;
    const std::uint64_t inode_;
    const std::uint64_t nonce_;  ///< peers read it here, too, to see that they may
    Files files_;
    std::mutex lock_;
    std::vector<std::uint32_t> free_;
    std::atomic<std::uint32_t> slots_used_{0};
    std::uint32_t next_epoch_ = 1;
};

}  // namespace compat::core::soft::shm
