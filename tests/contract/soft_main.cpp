// SPDX-License-Identifier: BSD-3-Clause
// The contract on the software device, over the loopback interface.
#include <unistd.h>

#include "core/device/soft/soft_device.hpp"
#include "tests/contract/rig.hpp"

namespace {

compat::core::SocketAddress numeric(const char* address) {
    return compat::core::resolve_address(address, "0", compat::core::Resolve::numeric)
        .value_or(compat::core::SocketAddress{});
}

bool is_ours(const compat::core::SocketAddress& address) {
    const int fd = socket(address.family(), SOCK_STREAM, 0);
    const bool ours = fd >= 0 && bind(fd, address.get(), address.length()) == 0;
    if (fd >= 0) close(fd);
    return ours;
}

}  // namespace

int main(int argc, char** argv) {
    compat::contract::Subject subject;
    subject.device = &compat::core::soft::device();
    subject.address = numeric("127.0.0.1");
    if (const auto address6 = numeric("::1"); is_ours(address6)) subject.address6 = address6;
    subject.foreign = numeric("192.0.2.1");  // TEST-NET-1: nobody's
    subject.holds_memory = false;
    subject.answers_come_last = true;
    compat::contract::set_subject(subject);
    return compat::contract::run_contract(argc, argv);
}
