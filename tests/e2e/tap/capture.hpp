// SPDX-License-Identifier: BSD-3-Clause
// Writes byte streams as if a network card had seen them: a pcap file with Ethernet, IPv4 and TCP
// headers made up around the bytes. Needs no capture rights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace compat::test {

class CaptureFile {
public:
    /// Ends the program with a message when the file cannot be written: tests cannot go on.
    explicit CaptureFile(const std::string& path);
    /// One packet, from its Ethernet header on, stamped with the present time.
    void write_packet(std::span<const std::byte> packet);

private:
    struct Close {
        void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    };
    std::unique_ptr<std::FILE, Close> file_;
};

enum class Side : std::uint8_t { client, server };
constexpr Side other(Side side) {
    return side == Side::client ? Side::server : Side::client;
}

/// One TCP connection in the capture. The client is 10.0.0.1, the server 10.0.0.2.
class TcpFlow {
public:
    /// Ports in host order. Writes the three packets of the handshake.
    TcpFlow(CaptureFile& file, std::uint16_t client_port, std::uint16_t server_port);
    /// Bytes that `from` sent, as one segment (or several of at most 32 KiB), each acknowledged.
    void data(Side from, std::span<const std::byte> bytes);
    void finish(Side from);  ///< FIN and its acknowledgement
    void reset(Side from);   ///< RST

private:
    struct End {
        std::uint32_t address;
        std::uint16_t port;
        std::uint32_t sequence;  ///< of the next byte
    };
    void packet(Side from, unsigned flags, std::span<const std::byte> payload);

    CaptureFile& file_;
    End ends_[2];
    std::uint16_t identification_ = 1;
};

}  // namespace compat::test
