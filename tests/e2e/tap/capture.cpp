// SPDX-License-Identifier: BSD-3-Clause
#include "tests/e2e/tap/capture.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/device/soft/wire/bytes.hpp"

namespace compat::test {
namespace {

using core::soft::wire::load_be;
using core::soft::wire::store_be;

constexpr std::uint32_t kNanosecondMagic = 0xA1B23C4D;
constexpr std::uint32_t kSnapLength = 0x40000;
constexpr std::uint32_t kEthernet = 1;

constexpr std::size_t kEthernetBytes = 14;
constexpr std::size_t kIpBytes = 20;
constexpr std::size_t kTcpBytes = 20;
constexpr std::size_t kIpAt = kEthernetBytes;
constexpr std::size_t kTcpAt = kIpAt + kIpBytes;
constexpr std::size_t kHeaderBytes = kTcpAt + kTcpBytes;
constexpr std::size_t kMostPayload = 32768;  // within the window that every packet announces

constexpr unsigned kFin = 0x01;
constexpr unsigned kSyn = 0x02;
constexpr unsigned kRst = 0x04;
constexpr unsigned kPsh = 0x08;
constexpr unsigned kAck = 0x10;
constexpr std::uint16_t kWindow = 0xFFFF;
constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint8_t kTcp = 6;

[[noreturn]] void give_up(const char* what, const std::string& path) {
    std::fprintf(stderr, "%s %s: %s\n", what, path.c_str(), std::strerror(errno));
    std::exit(EXIT_FAILURE);
}

/// Ones' complement sum of 16-bit words, RFC 1071; folded and inverted by checksum().
std::uint64_t add_words(std::uint64_t sum, std::span<const std::byte> bytes) {
    for (; bytes.size() >= 2; bytes = bytes.subspan(2)) sum += load_be<std::uint16_t>(bytes.data());
    if (!bytes.empty()) sum += std::to_integer<std::uint64_t>(bytes[0]) << 8;
    return sum;
}

std::uint16_t checksum(std::uint64_t sum) {
    while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

template <class Integer>
void put(std::span<std::byte> packet, std::size_t at, Integer value) {
    store_be(packet.subspan(at).data(), value);
}

void put_ethernet(std::span<std::byte> packet, Side from) {
    const auto last = static_cast<std::uint8_t>(from);  // locally administered addresses
    put<std::uint8_t>(packet, 0, 0x02);
    put<std::uint8_t>(packet, 5, last ^ 1U);
    put<std::uint8_t>(packet, 6, 0x02);
    put<std::uint8_t>(packet, 11, last);
    put(packet, 12, kIpv4);
}

}  // namespace

CaptureFile::CaptureFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
    if (!file_) give_up("cannot write", path);
    const struct {
        std::uint32_t magic = kNanosecondMagic;
        std::uint16_t major = 2;
        std::uint16_t minor = 4;
        std::uint32_t zone = 0;
        std::uint32_t accuracy = 0;
        std::uint32_t snap_length = kSnapLength;
        std::uint32_t link_type = kEthernet;
    } header;
    std::fwrite(&header, sizeof(header), 1, file_.get());
}

void CaptureFile::write_packet(std::span<const std::byte> packet) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const auto size = static_cast<std::uint32_t>(packet.size());
    const std::array<std::uint32_t, 4> header{static_cast<std::uint32_t>(now.tv_sec),
                                              static_cast<std::uint32_t>(now.tv_nsec), size, size};
    std::fwrite(header.data(), sizeof(header), 1, file_.get());
    std::fwrite(packet.data(), packet.size(), 1, file_.get());
    std::fflush(file_.get());  // whoever reads the file after a crash wants the last packet too
}

TcpFlow::TcpFlow(CaptureFile& file, std::uint16_t client_port, std::uint16_t server_port)
    : file_(file), ends_{{0x0A000001, client_port, 1000}, {0x0A000002, server_port, 5000}} {
    packet(Side::client, kSyn, {});
    packet(Side::server, kSyn | kAck, {});
    packet(Side::client, kAck, {});
}

void TcpFlow::data(Side from, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const std::size_t size = std::min(bytes.size(), kMostPayload);
        packet(from, kPsh | kAck, bytes.first(size));
        packet(other(from), kAck, {});
        bytes = bytes.subspan(size);
    }
}

void TcpFlow::finish(Side from) {
    packet(from, kFin | kAck, {});
    packet(other(from), kAck, {});
}

void TcpFlow::reset(Side from) {
    packet(from, kRst | kAck, {});
}

void TcpFlow::packet(Side from, unsigned flags, std::span<const std::byte> payload) {
    End& sender = ends_[static_cast<std::size_t>(from)];
    const End& receiver = ends_[static_cast<std::size_t>(other(from))];
    std::vector<std::byte> bytes(kHeaderBytes + payload.size());
    const std::span<std::byte> out(bytes);
    std::copy(payload.begin(), payload.end(), bytes.begin() + kHeaderBytes);

    put_ethernet(out, from);
    put<std::uint8_t>(out, kIpAt, 0x45);  // version 4, five words of header
    put(out, kIpAt + 2, static_cast<std::uint16_t>(bytes.size() - kIpAt));
    put(out, kIpAt + 4, identification_++);
    put<std::uint16_t>(out, kIpAt + 6, 0x4000);  // do not fragment
    put<std::uint8_t>(out, kIpAt + 8, 64);       // time to live
    put(out, kIpAt + 9, kTcp);
    put(out, kIpAt + 12, sender.address);
    put(out, kIpAt + 16, receiver.address);
    put(out, kIpAt + 10, checksum(add_words(0, out.subspan(kIpAt, kIpBytes))));

    put(out, kTcpAt, sender.port);
    put(out, kTcpAt + 2, receiver.port);
    put(out, kTcpAt + 4, sender.sequence);
    put(out, kTcpAt + 8, (flags & kAck) != 0 ? receiver.sequence : 0U);
    put<std::uint8_t>(out, kTcpAt + 12, 0x50);  // five words of header
    put(out, kTcpAt + 13, static_cast<std::uint8_t>(flags));
    put(out, kTcpAt + 14, kWindow);
    const std::uint64_t pseudo_header =
        add_words(0, out.subspan(kIpAt + 12, 8)) + kTcp + (bytes.size() - kTcpAt);
    put(out, kTcpAt + 16, checksum(add_words(pseudo_header, out.subspan(kTcpAt))));

    file_.write_packet(bytes);
    sender.sequence += static_cast<std::uint32_t>(payload.size());
    if ((flags & (kSyn | kFin)) != 0) ++sender.sequence;
}

}  // namespace compat::test
