// SPDX-License-Identifier: BSD-3-Clause
// Runs a fuzz target without libFuzzer: every seed, every prefix of it, then mutations in a
// sequence that is the same in every run. Each input lies in a heap block of exactly its size, so
// that AddressSanitizer sees a read past its end.
//   <program> [count of mutations]
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/seed_bytes.hpp"

namespace {

using Input = std::vector<std::byte>;

constexpr unsigned long kDefaultCount = 40000;
constexpr std::size_t kLongest = 4096;

class Mutator {
public:
    explicit Mutator(std::vector<Input> inputs) : seeds_(std::move(inputs)) {}

    Input next() {
        Input input = any_seed();
        for (std::size_t steps = 1 + below(6); steps > 0; --steps) step(input);
        if (input.size() > kLongest) input.resize(kLongest);
        return input;
    }

private:
    std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
    std::byte any_byte() { return std::byte(random_() & 0xFF); }
    const Input& any_seed() { return seeds_[below(seeds_.size())]; }

    void step(Input& input) {
        switch (below(7)) {
            case 0: return flip_bit(input);
            case 1: return set_byte(input, any_byte());
            case 2: return set_byte(input, below(2) != 0 ? std::byte{0xFF} : std::byte{0});
            case 3: return input.resize(below(input.size() + 1));
            case 4: return insert(input);
            case 5: return erase(input);
            default: return append_other(input);
        }
    }
    void flip_bit(Input& input) {
        if (!input.empty()) input[below(input.size())] ^= std::byte(1U << below(8));
    }
    void set_byte(Input& input, std::byte value) {
        if (!input.empty()) input[below(input.size())] = value;
    }
    void insert(Input& input) {
        const auto at = input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1));
        input.insert(at, 1 + below(8), any_byte());
    }
    void erase(Input& input) {
        if (input.empty()) return;
        const std::size_t from = below(input.size());
        const std::size_t count = 1 + below(std::min<std::size_t>(8, input.size() - from));
        const auto first = input.begin() + static_cast<std::ptrdiff_t>(from);
        input.erase(first, first + static_cast<std::ptrdiff_t>(count));
    }
    void append_other(Input& input) {
        const Input& other = any_seed();
        input.insert(input.end(), other.begin(), other.end());
    }

    std::mt19937_64 random_{20260801};  // specified by the standard: equal everywhere
    std::vector<Input> seeds_;
};

void run(std::span<const std::byte> input) {
    const Input exact(input.begin(), input.end());
    compat::fuzz::fuzz_one(exact);
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned long count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : kDefaultCount;
    std::vector<Input> inputs;
    for (const std::string_view seed : compat::fuzz::seeds())
        inputs.push_back(compat::fuzz::seed_bytes(seed));
    for (const Input& input : inputs)
        for (std::size_t length = 0; length <= input.size(); ++length)
            run(std::span(input).first(length));
    Mutator mutator(inputs);
    for (unsigned long round = 0; round < count; ++round) run(mutator.next());
    std::printf("%zu seeds, %lu mutations\n", inputs.size(), count);
    return 0;
}
