// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/statistics.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "core/base/config.hpp"
#include "core/base/lock.hpp"
#include "core/base/log.hpp"

namespace compat::core {
namespace {

constexpr std::array kRows{
    StatRow{Stat::sends, "sends", "messages posted"},
    StatRow{Stat::writes, "writes", "remote writes posted"},
    StatRow{Stat::reads, "reads", "remote reads posted"},
    StatRow{Stat::atomics, "atomics", "remote atomics posted"},
    StatRow{Stat::flushes, "flushes", "flushes posted"},
    StatRow{Stat::receives, "receives", "receive buffers posted"},
    StatRow{Stat::send_bytes, "send_bytes", "bytes of these messages"},
    StatRow{Stat::write_bytes, "write_bytes", "bytes of these writes"},
    StatRow{Stat::read_bytes, "read_bytes", "bytes of these reads"},
    StatRow{Stat::atomic_bytes, "atomic_bytes", "bytes of these atomics"},
    StatRow{Stat::flush_bytes, "flush_bytes", "bytes that these flushes name"},
    StatRow{Stat::receive_bytes, "receive_bytes", "bytes of these buffers"},
    StatRow{Stat::queue_full, "queue_full", "posts refused because a queue was full"},
    StatRow{Stat::not_connected, "not_connected", "posts refused until a connection stands"},
    StatRow{Stat::peer_busy, "peer_busy", "posts refused until the peer has taken earlier ones"},
    StatRow{Stat::receiver_not_ready, "receiver_not_ready",
            "messages that came before a receive for them"},
    StatRow{Stat::completions, "completions", "successes that the program was told of"},
    StatRow{Stat::errors, "errors", "requests that failed by themselves"},
    StatRow{Stat::flushed, "flushed", "requests that failed because their connection had"},
};
static_assert(kRows.size() == kStats);

constexpr std::size_t kMaxBlocks = 16384;
constexpr std::size_t kPageBytes = kStatisticsHeaderBytes + kMaxBlocks * sizeof(StatBlock);

/// The page, and which of its blocks are free. Memory is used as far as blocks were.
struct Page {
    Lock lock;
    StatisticsHeader* header = nullptr;
    std::uint32_t free_count = 0;
    std::array<std::uint16_t, kMaxBlocks> free{};  ///< a stack of numbers
};
constinit Page g_page;
/// For all queues that find no place on the page.
constinit StatBlock g_overflow{};

StatBlock* block_at(std::uint32_t number) {
    auto* const base = reinterpret_cast<std::byte*>(g_page.header) + kStatisticsHeaderBytes;
    return reinterpret_cast<StatBlock*>(base) + number;
}

void before_fork() {
    g_page.lock.lock();
}
void after_fork_in_parent() {
    g_page.lock.unlock();
}
/// In a child the page would be the parent's: it gets one of its own, which nobody else sees. The
/// blocks of inherited queues stay theirs.
void after_fork_in_child() {
    const std::uint32_t blocks = g_page.header->blocks;
    mmap(g_page.header, kPageBytes, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    g_page.header->blocks = blocks;
    new (&g_page.lock) Lock;  // nobody else waits for it here
}

void* map_page() {
    // The descriptor stays open: by it a tool of the same user finds the page. It is not used
    // again here, so that a program may close all it did not open.
    const int fd = memfd_create(kStatisticsName, MFD_CLOEXEC);
    if (fd >= 0 && fchmod(fd, S_IRUSR | S_IWUSR) == 0 && ftruncate(fd, kPageBytes) == 0) {
        void* const shared = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared != MAP_FAILED) return shared;
    }
    if (fd >= 0) close(fd);
    return mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void print_at_exit() {
    StatTotals totals;
    if (!own_statistics(totals)) return;  // a child that has done nothing of its own
    std::array<char, 2048> text;
    std::size_t used = 0;
    const auto append = [&](auto... arguments) {
        const int more = std::snprintf(text.data() + used, text.size() - used, arguments...);
        if (more > 0) used = std::min(text.size() - 1, used + static_cast<std::size_t>(more));
    };
    append("fabric-compat statistics of process %d%s:", static_cast<int>(getpid()),
           totals.incomplete ? " (incomplete)" : "");
    for (const StatRow& row : kRows)
        if (const std::uint64_t value = totals.cells[static_cast<std::size_t>(row.stat)];
            value != 0)
            append(" %s %llu", row.name, static_cast<unsigned long long>(value));
    const auto is_zero = [](std::uint64_t cell) { return cell == 0; };
    append("%s\n", std::ranges::all_of(totals.cells, is_zero) ? " nothing was posted" : "");
    if (write(STDERR_FILENO, text.data(), used) < 0) return;
}

/// With the lock held.
bool ensure_page() {
    if (g_page.header != nullptr) return true;
    void* const mapped = map_page();
    if (mapped == MAP_FAILED) return false;
    g_page.header = static_cast<StatisticsHeader*>(mapped);
    if (const int rc = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        rc != 0)
        COMPAT_LOG_ERROR("cannot notice fork(), errno %d", rc);
    if (setting_number(Setting::statistics) != 0) std::atexit(print_at_exit);
    return true;
}

}  // namespace

std::span<const StatRow> stat_rows() noexcept {
    return kRows;
}

Statistics::Statistics(StatScope scope) noexcept : block_(&g_overflow) {
    if (scope == StatScope::internal) {
        own_.reset(new (std::nothrow) StatBlock{});
        if (own_) block_ = own_.get();
        return;
    }
    const std::lock_guard guard(g_page.lock);
    if (!ensure_page()) return;
    StatisticsHeader& header = *g_page.header;
    if (header.magic == 0) {
        header.process = static_cast<std::uint32_t>(getpid());
        header.cells = kStats;
        header.magic = kStatisticsMagic;
    }
    if (g_page.free_count != 0) {
        block_ = block_at(g_page.free[--g_page.free_count]);
    } else if (header.blocks < kMaxBlocks) {
        block_ = block_at(header.blocks);
        ++header.blocks;
    } else {
        header.incomplete = 1;
    }
}

Statistics::~Statistics() {
    if (block_ == &g_overflow || own_) return;
    const std::lock_guard guard(g_page.lock);
    g_page.free[g_page.free_count++] = static_cast<std::uint16_t>(block_ - block_at(0));
}

bool sum_statistics(std::span<const std::byte> page, std::uint32_t process,
                    StatTotals& totals) noexcept {
    totals = {};
    StatisticsHeader header;
    if (page.size() < kStatisticsHeaderBytes) return false;
    std::memcpy(&header, page.data(), sizeof header);
    if (header.magic != kStatisticsMagic || header.process != process || header.cells != kStats)
        return false;
    const std::span blocks = page.subspan(kStatisticsHeaderBytes);
    if (header.blocks > blocks.size() / sizeof(StatBlock)) return false;
    for (std::size_t block = 0; block < header.blocks; ++block) {
        const auto* cells =
            reinterpret_cast<const std::uint64_t*>(&blocks[block * sizeof(StatBlock)]);
        for (std::uint64_t& total : totals.cells)
            total += __atomic_load_n(cells++, __ATOMIC_RELAXED);
    }
    totals.incomplete = header.incomplete != 0;
    return true;
}

bool own_statistics(StatTotals& totals) noexcept {
    totals = {};
    if (g_page.header == nullptr) return false;
    const std::span page(reinterpret_cast<const std::byte*>(g_page.header), kPageBytes);
    return sum_statistics(page, static_cast<std::uint32_t>(getpid()), totals);
}

}  // namespace compat::core
