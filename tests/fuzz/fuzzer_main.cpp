// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer's entry points. libFuzzer brings main(). With COMPAT_FUZZ_WRITE_SEEDS set to a
// directory the seeds are written there first, for use as the corpus.
#include <cstdint>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/seed_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    compat::fuzz::fuzz_one(std::as_bytes(std::span(data, size)));
    return 0;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    const char* directory = std::getenv("COMPAT_FUZZ_WRITE_SEEDS");
    if (directory == nullptr) return 0;
    int number = 0;
    for (const std::string_view seed : compat::fuzz::seeds()) {
        const auto bytes = compat::fuzz::seed_bytes(seed);
        std::ofstream file(std::string(directory) + "/seed" + std::to_string(number++),
                           std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }
    return 0;
}
