// SPDX-License-Identifier: BSD-3-Clause
// The contract on an RDMA device: the one that owns the address in COMPAT_TEST_RDMA_ADDRESS.
#include <cstdio>
#include <cstdlib>

#include "core/base/log.hpp"
#include "core/device/verbs/verbs_device.hpp"
#include "tests/contract/rig.hpp"

namespace {

using compat::core::SocketAddress;

constexpr int kSkipped = 77;

SocketAddress numeric(const char* address) {
    return compat::core::resolve_address(address, "0", compat::core::Resolve::numeric)
        .value_or(SocketAddress{});
}

void log_to_stderr(compat::core::LogLevel, const char* file, int line, const char*,
                   const char* text) {
    std::fprintf(stderr, "%s:%d: %s\n", file, line, text);
}

}  // namespace

int main(int argc, char** argv) {
    if (std::getenv("COMPAT_TEST_LOG") != nullptr)
        compat::core::set_log_sink(log_to_stderr, compat::core::LogLevel::debug);
    const char* const text = std::getenv("COMPAT_TEST_RDMA_ADDRESS");
    compat::contract::Subject subject;
    if (text != nullptr) {
        subject.address = numeric(text);
        subject.device = compat::core::verbs::owner_of(subject.address);
    }
    if (subject.device == nullptr) {
        std::printf("skipped: no RDMA device owns the address %s\n", text ? text : "(not set)");
        return kSkipped;
    }
    const bool iwarp = subject.device->limits().transport == compat::core::Transport::iwarp;
    subject.foreign = numeric("192.0.2.1");  // TEST-NET-1: nobody's
    subject.exact_private_data = iwarp;
    subject.cpu_atomics = false;
    subject.any_iova = false;
    subject.exact_errors = false;
    subject.places_in_order = false;  // the kernel's soft devices copy as memcpy() pleases
    subject.acknowledges = subject.holds_messages = subject.keeps_rights = !iwarp;
    subject.tells_solicited = subject.either_side_begins = !iwarp;
    compat::contract::set_subject(subject);
    return compat::contract::run_contract(argc, argv);
}
