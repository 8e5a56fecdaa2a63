// SPDX-License-Identifier: BSD-3-Clause
// tap_proxy --listen ADDRESS:PORT --forward ADDRESS:PORT --capture FILE [--connections N]
// Passes TCP connections on and writes what both sides sent as a pcap file, without any right to
// capture. Prints "listening on port P" once it listens (port 0: any), ends after N connections
// have ended (1 unless told) or on SIGTERM. IPv4.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "tests/e2e/tap/capture.hpp"

namespace {

using namespace compat::test;
using compat::core::UniqueFd;

constexpr std::size_t kChunk = 32768;

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) {
    stop_requested = 1;
}

void prepare_to_be_stopped() {
    struct sigaction action {};
    action.sa_handler = request_stop;
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT}) {
        sigaction(signal, &action, nullptr);
        sigaddset(&signals, signal);
    }
    sigprocmask(SIG_BLOCK, &signals, nullptr);
}

[[noreturn]] void give_up(const char* what) {
    std::perror(what);
    std::exit(EXIT_FAILURE);
}

std::optional<sockaddr_in> parse_address(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const std::string host(text.substr(0, colon));
    const unsigned long port = std::strtoul(text.data() + colon + 1, nullptr, 10);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (port > 0xFFFF || inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
        return std::nullopt;
    return address;
}

struct Options {
    std::optional<sockaddr_in> listen;
    std::optional<sockaddr_in> forward;
    std::string capture;
    unsigned long connections = 1;
};

std::optional<Options> parse_options(int argc, char** argv) {
    Options options;
    for (int index = 1; index + 1 < argc; index += 2) {
        const std::string_view option = argv[index];
        const char* value = argv[index + 1];
        if (option == "--listen")
            options.listen = parse_address(value);
        else if (option == "--forward")
            options.forward = parse_address(value);
        else if (option == "--capture")
            options.capture = value;
        else if (option == "--connections")
            options.connections = std::strtoul(value, nullptr, 10);
        else
            return std::nullopt;
    }
    if (argc % 2 == 0 || !options.listen || !options.forward || options.capture.empty())
        return std::nullopt;
    return options;
}

const sockaddr* generic(const sockaddr_in& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

void prepare(int fd) {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

UniqueFd open_listener(sockaddr_in address) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd.get(), generic(address), sizeof(address)) != 0) give_up("bind");
    if (listen(fd.get(), 16) != 0) give_up("listen");
    socklen_t size = sizeof(address);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    std::printf("listening on port %u\n", ntohs(address.sin_port));
    std::fflush(stdout);
    return fd;
}

/// A client, the server it wanted, and for each direction the bytes read and not yet passed on.
class Connection {
public:
    Connection(UniqueFd client, UniqueFd server, std::uint16_t client_port,
               std::uint16_t server_port, CaptureFile& file)
        : ends_{End{std::move(client), {}, false}, End{std::move(server), {}, false}},
          flow_(file, client_port, server_port) {
        for (const End& end : ends_) prepare(end.fd.get());
    }

    [[nodiscard]] bool ended() const { return ended_; }

    /// Two entries: read while nothing waits to be passed on, write while something does.
    void want(std::vector<pollfd>& polls) const {
        for (const Side side : {Side::client, Side::server}) {
            const bool read = !end(side).finished && end(side).pending.empty();
            const bool write = !end(other(side)).pending.empty();
            polls.push_back({read || write ? end(side).fd.get() : -1,
                             static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0)), 0});
        }
    }

    void handle(Side side, short events) {
        if (ended_ || events == 0) return;
        if (!end(other(side)).pending.empty()) pass_on(other(side));
        if (!ended_ && !end(side).finished && end(side).pending.empty()) take(side);
    }

private:
    struct End {
        UniqueFd fd;
        std::vector<std::byte> pending;  ///< read from here, not yet written to the other end
        bool finished;                   ///< sent its FIN
    };
    [[nodiscard]] End& end(Side side) { return ends_[static_cast<std::size_t>(side)]; }
    [[nodiscard]] const End& end(Side side) const { return ends_[static_cast<std::size_t>(side)]; }

    void take(Side from) {
        std::byte chunk[kChunk];
        const ssize_t size = recv(end(from).fd.get(), chunk, sizeof(chunk), 0);
        if (size > 0) {
            const auto bytes = std::span(chunk).first(static_cast<std::size_t>(size));
            flow_.data(from, bytes);
            end(from).pending.assign(bytes.begin(), bytes.end());
            pass_on(from);
        } else if (size == 0) {
            finish(from);
        } else if (errno != EAGAIN && errno != EINTR) {
            break_off(from);
        }
    }

    void pass_on(Side from) {
        std::vector<std::byte>& pending = end(from).pending;
        const ssize_t size =
            send(end(other(from)).fd.get(), pending.data(), pending.size(), MSG_NOSIGNAL);
        if (size > 0)
            pending.erase(pending.begin(), pending.begin() + size);
        else if (errno != EAGAIN && errno != EINTR)
            break_off(other(from));
    }

    void finish(Side from) {
        flow_.finish(from);
        end(from).finished = true;
        shutdown(end(other(from)).fd.get(), SHUT_WR);
        ended_ = end(other(from)).finished;
    }

    /// The side is gone the hard way; the other one learns it the same way.
    void break_off(Side from) {
        flow_.reset(from);
        const linger hard{1, 0};
        setsockopt(end(other(from)).fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        ended_ = true;
    }

    End ends_[2];
    TcpFlow flow_;
    bool ended_ = false;
};

class Proxy {
public:
    explicit Proxy(const Options& options)
        : forward_(*options.forward),
          left_(options.connections),
          file_(options.capture),
          listener_(open_listener(*options.listen)) {}

    void run() {
        sigset_t no_signals;  // a stop request arrives in ppoll() and nowhere else
        sigemptyset(&no_signals);
        while (left_ > 0 && stop_requested == 0) {
            std::vector<pollfd> polls{{listener_.get(), POLLIN, 0}};
            for (const Connection& connection : connections_) connection.want(polls);
            if (ppoll(polls.data(), polls.size(), nullptr, &no_signals) < 0) continue;
            std::size_t index = 1;
            for (Connection& connection : connections_)
                for (const Side side : {Side::client, Side::server})
                    connection.handle(side, polls[index++].revents);
            left_ -= std::min(
                left_, connections_.remove_if([](const Connection& each) { return each.ended(); }));
            if (polls[0].revents != 0) accept_one();
        }
    }

private:
    void accept_one() {
        sockaddr_in peer{};
        socklen_t size = sizeof(peer);
        UniqueFd client(
            accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC));
        if (client.get() < 0) return;
        UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(server.get(), generic(forward_), sizeof(forward_)) != 0) {
            std::perror("connect");  // the client sees its connection closed
            return;
        }
        connections_.emplace_back(std::move(client), std::move(server), ntohs(peer.sin_port),
                                  ntohs(forward_.sin_port), file_);
    }

    sockaddr_in forward_;
    unsigned long left_;
    CaptureFile file_;
    UniqueFd listener_;
    std::list<Connection> connections_;
};

}  // namespace

int main(int argc, char** argv) {
    const auto options = parse_options(argc, argv);
    if (!options) {
        std::fprintf(stderr,
                     "usage: tap_proxy --listen ADDRESS:PORT --forward ADDRESS:PORT --capture FILE "
                     "[--connections N]\n");
        return EXIT_FAILURE;
    }
    prepare_to_be_stopped();
    Proxy(*options).run();
    return EXIT_SUCCESS;
}
