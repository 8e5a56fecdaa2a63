// SPDX-License-Identifier: BSD-3-Clause
// What a process has done, in numbers, on a page that a tool can read while it runs: one block for
// each queue, which is the sum of all queues that ever had it. A block is written by one thread at
// a time, under the lock that its queue has anyway, so that counting is an addition and no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace compat::core {

/// The kinds of operations come first, then their bytes in the same order.
enum class Stat : std::uint8_t {
    sends,
    writes,
    reads,
    atomics,
    flushes,
    receives,
    send_bytes,
    write_bytes,
    read_bytes,
    atomic_bytes,
    flush_bytes,
    receive_bytes,
    // posts to be tried again, by what they met
    queue_full,
    not_connected,  ///< connectionless endpoints only, as the next
    peer_busy,
    receiver_not_ready,  ///< at the receiver
    completions,         ///< successes that the program was told of
    errors,              ///< requests that failed by themselves
    flushed,             ///< requests that failed because the connection had
    count_
};
constexpr std::size_t kStats = static_cast<std::size_t>(Stat::count_);
constexpr std::size_t kStatKinds = static_cast<std::size_t>(Stat::send_bytes);

struct StatRow {
    Stat stat;
    const char* name;
    const char* meaning;
};
std::span<const StatRow> stat_rows() noexcept;

struct alignas(64) StatBlock {
    std::uint64_t cells[kStats];

    /// By whoever holds the lock of the block's queue. Not atomic: readers look at whole words, and
    /// what costs most here is an instruction.
    void add(Stat stat, std::uint64_t amount) noexcept {
        cells[static_cast<std::size_t>(stat)] += amount;
    }
    /// One operation of so many bytes was posted; kind is one of the first kStatKinds.
    void post(Stat kind, std::uint64_t bytes) noexcept {
        cells[static_cast<std::size_t>(kind)] += 1;
        cells[static_cast<std::size_t>(kind) + kStatKinds] += bytes;
    }
    /// It was not posted after all.
    void unpost(Stat kind, std::uint64_t bytes) noexcept {
        cells[static_cast<std::size_t>(kind)] -= 1;
        cells[static_cast<std::size_t>(kind) + kStatKinds] -= bytes;
    }
    // Where there is no lock:
    void add_shared(Stat stat, std::uint64_t amount) noexcept {
        std::atomic_ref(cells[static_cast<std::size_t>(stat)])
            .fetch_add(amount, std::memory_order_relaxed);
    }
    void post_shared(Stat kind, std::uint64_t bytes) noexcept {
        add_shared(kind, 1);
        const auto of_bytes = static_cast<std::size_t>(kind) + kStatKinds;
        add_shared(static_cast<Stat>(of_bytes), bytes);
    }
};
static_assert(sizeof(StatBlock) == 192);

/// What the engine uses for its own purposes is not what the program does.
enum class StatScope : std::uint8_t { program, internal };

/// A queue's block for the time of its life.
class Statistics {
public:
    explicit Statistics(StatScope scope = StatScope::program) noexcept;
    ~Statistics();
    Statistics(const Statistics&) = delete;
    Statistics& operator=(const Statistics&) = delete;
    StatBlock* operator->() const noexcept { return block_; }
    [[nodiscard]] StatBlock& block() const noexcept { return *block_; }

private:
    std::unique_ptr<StatBlock> own_;  ///< of an internal one: on no page
    StatBlock* block_;
};

// For whoever reads the page of a process.

/// The name of its memfd, as /proc shows it.
inline constexpr const char kStatisticsName[] = "fabric-compat-statistics";

struct StatisticsHeader {
    std::uint64_t magic;
    std::uint32_t process;
    std::uint32_t blocks;      ///< so many follow the header, one for each queue
    std::uint32_t cells;       ///< of a block
    std::uint32_t incomplete;  ///< there were more queues than blocks: the sum is too small
};
inline constexpr std::uint64_t kStatisticsMagic = 0x31'54'41'54'53'43'46'00;
inline constexpr std::size_t kStatisticsHeaderBytes = 128;
static_assert(sizeof(StatisticsHeader) <= kStatisticsHeaderBytes);

struct StatTotals {
    std::uint64_t cells[kStats];
    bool incomplete;
};
/// The sums of a page; false when it is none of ours, or another process's.
bool sum_statistics(std::span<const std::byte> page, std::uint32_t process,
                    StatTotals& totals) noexcept;

/// Those of this process; false when it has not counted anything yet.
bool own_statistics(StatTotals& totals) noexcept;

}  // namespace compat::core
