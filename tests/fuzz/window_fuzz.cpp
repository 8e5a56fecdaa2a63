// SPDX-License-Identifier: BSD-3-Clause
// Where in its file a peer of the same host says that a region lies: whatever the numbers, nothing
// is reached outside of what is mapped here, and nothing is noted outside of the notes.
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "core/device/soft/shm/window.hpp"
#include "core/device/soft/user_memory.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace compat::fuzz {
namespace {

using core::soft::page_size;
using core::soft::shm::Window;
using Input = std::span<const std::byte>;

constexpr std::size_t kWords = 2;  // of notes, each on 32 pages
constexpr std::size_t kPages = kWords * 32 - 2;
constexpr std::size_t kSpare = 64;  // pages behind the file that are mapped, but not ours
constexpr int kRequests = 4;        // of one input

std::byte* map(std::size_t bytes) {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FUZZ_REQUIRE(mapped != MAP_FAILED);
    return static_cast<std::byte*>(mapped);
}

/// A file whose notes end where nobody may touch anything. It is never closed.
struct File {
    const std::size_t size = kPages * page_size() - 1;  // ends within a page
    const std::size_t notes_bytes = kWords * sizeof(std::uint64_t);
    std::byte* const base = map((kPages + kSpare) * page_size());
    std::byte* const border = map(2 * page_size()) + page_size();
    std::byte* const notes = border - notes_bytes;
    Window window{base, size, true, reinterpret_cast<std::atomic<std::uint64_t>*>(notes),
                  notes_bytes};

    File() { mprotect(border, page_size(), PROT_NONE); }
};

/// Numbers from the input are near the end of the file more often than chance would have it.
std::uint64_t take(Input& input, std::uint64_t size) {
    std::array<std::byte, 8> bytes{};
    const std::size_t count = std::min(bytes.size(), input.size());
    std::memcpy(bytes.data(), input.data(), count);
    input = input.subspan(count);
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return (number & 1) != 0 ? size - (number >> 1) % (32 * 4096) : number >> 1;
}

constexpr std::string_view kSeeds[] = {
    "01 0000000000000000 0200000000000000 0001000000000000",
    "01 0300000000000000 0200000000000000 0000000000000000",
    "00 0320000000000000 0020000000000000 feffffffffffffff",
    "01 ffffffffffffffff feffffffffffffff 0100000000000000",
};

}  // namespace

std::span<const std::string_view> seeds() {
    return kSeeds;
}

void fuzz_one(Input input) {
    static File& file = *new File;
    if (input.empty()) return;
    const bool write = (input.front() & std::byte{1}) != std::byte{0};
    input = input.subspan(1);
    for (int request = 0; request < kRequests && !input.empty(); ++request) {
        const std::uint64_t offset = take(input, file.size);
        const std::uint64_t length = take(input, file.size);
        const std::uint64_t end = take(input, file.size);
        if (length == 0) continue;  // no request of no bytes comes here
        std::byte* const reached = file.window.reach(offset, length, end, write);
        const bool inside = offset <= file.size && length <= file.size - offset;
        FUZZ_REQUIRE((reached != nullptr) == inside);
        if (inside) FUZZ_REQUIRE(reached == file.base + offset);
    }
    // forget what was made ready, so that the next input finds it as the first did
    std::memset(file.notes, 0, file.notes_bytes);
    madvise(file.base, (kPages + kSpare) * page_size(), MADV_DONTNEED);
}

}  // namespace compat::fuzz
