// SPDX-License-Identifier: BSD-3-Clause
// The judge is judged: a right stream of our own encoder has no broken rules, and each way of
// getting one thing wrong breaks the rule that is there for it. Then the proxy: what goes through
// it arrives unchanged and is what the capture shows.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/mpa.hpp"
#include "tests/e2e/tap/rules.hpp"
#include "tests/support/cmocka.hpp"

namespace {

using namespace compat::core::soft::wire;
using namespace compat::test;
using compat::core::UniqueFd;

using Bytes = std::vector<std::byte>;

// ---- streams ------------------------------------------------------------------------------------

Bytes start_frame(const StartFrame& frame) {
    Bytes out(kMaxStartFrameBytes);
    out.resize(encode_start_frame(frame, out));
    return out;
}

Bytes request(bool crc) {
    return start_frame({.crc = crc,
                        .extension = kExtensionOffer,
                        .enhanced = true,
                        .peer_to_peer = true,
                        .rtr_write = true,
                        .rtr_read = true,
                        .ird = 16,
                        .ord = 16});
}

Bytes reply(bool crc, std::uint8_t extension = kExtensionAccept) {
    return start_frame({.reply = true,
                        .crc = crc,
                        .extension = extension,
                        .enhanced = true,
                        .peer_to_peer = true,
                        .rtr_write = true,
                        .ird = 16,
                        .ord = 16});
}

template <class AnyHeader>
Bytes fpdu(const AnyHeader& header, const Bytes& payload, bool crc) {
    Bytes out(kFpduLengthBytes + kMaxHeaderBytes + payload.size() + 8);
    const std::size_t size = encode_header(header, std::span(out).subspan(kFpduLengthBytes));
    std::copy(payload.begin(), payload.end(),
              out.begin() + static_cast<std::ptrdiff_t>(kFpduLengthBytes + size));
    out.resize(seal_fpdu(out, size + payload.size(), crc));
    return out;
}

template <class Content>
Bytes content(const Content& value) {
    Bytes out(kAtomicRequestBytes);
    out.resize(encode(value, out));
    return out;
}

UntaggedHeader untagged(RdmapOpcode opcode, std::uint32_t queue, std::uint32_t msn) {
    return {.opcode = opcode, .queue = queue, .msn = msn};
}

/// Every kind of message once and more, in both directions.
std::vector<Bytes> client_messages(bool crc) {
    UntaggedHeader first_half = untagged(RdmapOpcode::send, kQueueSend, 1);
    first_half.last = false;
    UntaggedHeader second_half = untagged(RdmapOpcode::send, kQueueSend, 1);
    second_half.message_offset = 1000;
    UntaggedHeader announced = untagged(RdmapOpcode::immediate, kQueueSend, 3);
    announced.extension = true;
    return {
        fpdu(TaggedHeader{}, {}, crc),  // ready to receive
        fpdu(TaggedHeader{.last = false, .stag = 5, .offset = 4096}, Bytes(1001), crc),
        fpdu(TaggedHeader{.stag = 5, .offset = 5097}, Bytes(3), crc),
        fpdu(TaggedHeader{.stag = 6}, Bytes(65000), crc),
        fpdu(first_half, Bytes(1000), crc),
        fpdu(second_half, Bytes(17), crc),
        fpdu(untagged(RdmapOpcode::immediate, kQueueSend, 2), Bytes(8), crc),
        fpdu(announced, Bytes(8), crc),
        fpdu(untagged(RdmapOpcode::send_solicited, kQueueSend, 4), Bytes(5), crc),
        fpdu(untagged(RdmapOpcode::read_request, kQueueRequest, 1),
             content(ReadRequest{.length = 300}), crc),
        fpdu(untagged(RdmapOpcode::atomic_request, kQueueRequest, 2),
             content(AtomicRequest{.request_id = 77, .add_swap_data = 1}), crc),
        fpdu(untagged(RdmapOpcode::flush_request, kQueueRequest, 3),
             content(FlushRequest{.request_id = 78, .length = 4096}), crc),
        fpdu(untagged(RdmapOpcode::read_request, kQueueRequest, 4), content(ReadRequest{}), crc),
    };
}

std::vector<Bytes> server_messages(bool crc) {
    return {
        fpdu(TaggedHeader{.opcode = RdmapOpcode::read_response}, Bytes(300), crc),
        fpdu(untagged(RdmapOpcode::atomic_response, kQueueResponse, 1),
             content(AtomicResponse{77, 41}), crc),
        fpdu(untagged(RdmapOpcode::flush_response, kQueueResponse, 2),
             content(FlushResponse{78, 0}), crc),
        fpdu(TaggedHeader{.opcode = RdmapOpcode::read_response}, {}, crc),
        fpdu(untagged(RdmapOpcode::send, kQueueSend, 1), Bytes(64), crc),
    };
}

Bytes terminate_fpdu(bool crc) {
    Terminate message{.code = terminate::ddp_tagged_bounds,
                      .has_length = true,
                      .ddp_length = 14,
                      .has_ddp_header = true,
                      .has_message_count = true,
                      .message_count = 3};
    encode_header(TaggedHeader{.stag = 9}, message.ddp_header);
    Bytes body(kMaxTerminateBytes);
    body.resize(encode_terminate(message, body));
    return fpdu(untagged(RdmapOpcode::terminate, kQueueTerminate, 1), body, crc);
}

struct Streams {
    Bytes request;
    Bytes reply;
    std::vector<Bytes> client;
    std::vector<Bytes> server;
};

Streams right_streams(bool crc) {
    return {request(crc), reply(crc), client_messages(crc), server_messages(crc)};
}

Bytes joined(const std::vector<Bytes>& parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

// ---- scene --------------------------------------------------------------------------------------

struct Scene {
    std::string path;
    Streams streams;
    Dissection dissection;
    std::vector<std::string> complaints;
    pid_t proxy = -1;
    UniqueFd proxy_output;
    UniqueFd client;
    UniqueFd server;
    UniqueFd listener;
    Bytes sent;
    Bytes received;
    std::thread sender;
};

Scene& scene_of(void** state) {
    return *static_cast<Scene*>(*state);
}

int open_scene(void** state) {
    auto scene = std::make_unique<Scene>();
    std::string path = "tap_selftest_XXXXXX";
    const UniqueFd file(mkstemp(path.data()));
    if (!file) return -1;
    scene->path = path;
    *state = scene.release();
    return 0;
}

int close_scene(void** state) {
    const std::unique_ptr<Scene> scene(&scene_of(state));
    scene->client.reset();
    scene->server.reset();
    if (scene->sender.joinable()) scene->sender.join();
    if (scene->proxy > 0) {
        kill(scene->proxy, SIGKILL);
        waitpid(scene->proxy, nullptr, 0);
    }
    unlink(scene->path.c_str());
    return 0;
}

void judge(Scene& scene) {
    scene.dissection = dissect(scene.path);
    scene.complaints = broken_rules(scene.dissection);
}

/// Writes the streams with segment boundaries every `piece` bytes, then judges them.
void record(Scene& scene, std::size_t piece) {
    CaptureFile file(scene.path);
    TcpFlow flow(file, 40000, 7204);
    flow.data(Side::client, scene.streams.request);
    flow.data(Side::server, scene.streams.reply);
    for (const Side side : {Side::client, Side::server}) {
        const Bytes all =
            joined(side == Side::client ? scene.streams.client : scene.streams.server);
        for (std::size_t from = 0; from < all.size(); from += piece)
            flow.data(side, std::span(all).subspan(from, std::min(piece, all.size() - from)));
    }
    flow.finish(Side::client);
    flow.finish(Side::server);
    judge(scene);
}

void assert_content(const Scene& scene) {
    for (const std::string& complaint : scene.complaints) print_error("%s\n", complaint.c_str());
    assert_true(scene.complaints.empty());
}

void assert_complains(Scene& scene, std::string_view expected) {
    record(scene, 9000);
    const bool found = std::ranges::any_of(scene.complaints, [&](const std::string& complaint) {
        return complaint.find(expected) != std::string::npos;
    });
    if (!found) {
        print_error("no complaint about: %s\n", std::string(expected).c_str());
        for (const std::string& complaint : scene.complaints)
            print_error("but: %s\n", complaint.c_str());
    }
    assert_true(found);
}

// ---- right streams ------------------------------------------------------------------------------

void every_message_we_can_send_satisfies_tshark(void** state) {
    Scene& scene = scene_of(state);
    for (const bool crc : {true, false}) {
        scene.streams = right_streams(crc);
        record(scene, 9000);
        assert_content(scene);
        assert_int_equal(all_with_crc(scene.dissection), crc);
        assert_int_equal(count_opcode(scene.dissection, Side::client, 0), 4);
        assert_int_equal(count_opcode(scene.dissection, Side::server, 2), 2);
        assert_string_equal(summary(scene.dissection, Side::server).c_str(),
                            "server: 2 read response, 1 send, 1 atomic response, 1 flush response");
    }
}

void segment_boundaries_do_not_matter(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    for (const std::size_t piece : {61U, 1448U, 32768U, 1U << 20}) {
        record(scene, piece);
        assert_content(scene);
        assert_int_equal(count_opcode(scene.dissection, Side::client, 0), 4);
    }
}

void terminate_may_end_a_stream_with_requests_outstanding(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.server = {terminate_fpdu(true)};
    record(scene, 9000);
    assert_content(scene);
    assert_int_equal(count_opcode(scene.dissection, Side::server, 7), 1);
}

// ---- one thing wrong ----------------------------------------------------------------------------

void flipped_payload_bit_is_a_bad_crc(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client[1].at(100) ^= std::byte{1};
    assert_complains(scene, "bad CRC");
}

void crc_most_significant_byte_first_is_a_bad_crc(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    std::reverse(scene.streams.client[0].end() - 4, scene.streams.client[0].end());
    assert_complains(scene, "bad CRC");
}

void repeated_message_number_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client.push_back(
        fpdu(untagged(RdmapOpcode::send, kQueueSend, 4), Bytes(5), true));
    assert_complains(scene, "MSN 4, expected 5");
}

void skipped_message_number_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client.erase(scene.streams.client.begin() + 6);
    assert_complains(scene, "MSN 3, expected 2");
}

void wrong_message_offset_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client.erase(scene.streams.client.begin() + 4);
    assert_complains(scene, "message offset 1000, expected 0");
}

void wrong_length_leaves_bytes_over(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(false);
    scene.streams.client[2].at(1) = std::byte{40};  // says more than it has
    record(scene, 9000);
    assert_false(scene.complaints.empty());
    scene.streams = right_streams(false);
    scene.streams.client.back().resize(scene.streams.client.back().size() - 4);
    assert_complains(scene, "of them in frames");
}

void wrong_queue_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client.push_back(
        fpdu(untagged(RdmapOpcode::send, kQueueResponse, 1), Bytes(5), true));
    assert_complains(scene, "wrong queue");
}

void tagged_send_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client.push_back(fpdu(TaggedHeader{.opcode = RdmapOpcode::send}, {}, true));
    assert_complains(scene, "opcode does not go with the tagged flag");
}

void wrong_version_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(false);
    scene.streams.client[1].at(2) ^= std::byte{3};
    assert_complains(scene, "DDP version");
    scene.streams = right_streams(false);
    scene.streams.client[1].at(3) ^= std::byte{0xC0};
    assert_complains(scene, "RDMAP version");
}

void extensions_without_agreement_are_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.reply = reply(true, kExtensionOffer | kExtensionAccept);
    assert_complains(scene, "extension that was not agreed on");
    assert_complains(scene, "reserved bits of RDMAP");
}

void server_that_talks_first_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.client.clear();
    scene.streams.server = {scene.streams.server.back()};
    assert_complains(scene, "the server sent the first FPDU");
}

void talking_after_a_terminate_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.server.insert(scene.streams.server.begin() + 2, terminate_fpdu(true));
    assert_complains(scene, "FPDU after a Terminate");
}

void missing_responses_are_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.server.erase(scene.streams.server.begin());
    assert_complains(scene, "client asked for 300 bytes and got 0");
    scene.streams = right_streams(true);
    scene.streams.server[1] = fpdu(untagged(RdmapOpcode::atomic_response, kQueueResponse, 1),
                                   content(AtomicResponse{76, 41}), true);
    assert_complains(scene, "atomic responses do not match the requests");
}

void talking_after_a_rejection_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(false);
    scene.streams.reply = start_frame({.reply = true, .rejected = true, .enhanced = true});
    assert_complains(scene, "of them in frames");  // tshark sees none of ours after a rejection
}

void connection_without_start_frames_is_noticed(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    scene.streams.reply.clear();
    assert_complains(scene, "not exactly one start-up request and one reply");
}

// ---- proxy --------------------------------------------------------------------------------------

UniqueFd tcp_socket() {
    return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

std::uint16_t listen_anywhere(Scene& scene) {
    scene.listener = tcp_socket();
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    assert_int_equal(bind(scene.listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    assert_int_equal(listen(scene.listener.get(), 4), 0);
    getsockname(scene.listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

std::uint16_t start_proxy(Scene& scene, std::uint16_t server_port) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    scene.proxy_output.reset(ends[0]);
    UniqueFd output(ends[1]);
    const std::string forward = "127.0.0.1:" + std::to_string(server_port);
    scene.proxy = fork();
    if (scene.proxy == 0) {
        dup2(output.get(), STDOUT_FILENO);
        execl(COMPAT_TAP_PROXY, "tap_proxy", "--listen", "127.0.0.1:0", "--forward",
              forward.c_str(), "--capture", scene.path.c_str(), nullptr);
        _exit(127);
    }
    output.reset();
    char line[100] = {};
    assert_true(read(scene.proxy_output.get(), line, sizeof(line) - 1) > 0);
    unsigned port = 0;
    assert_int_equal(std::sscanf(line, "listening on port %u", &port), 1);
    return static_cast<std::uint16_t>(port);
}

void connect_through_proxy(Scene& scene) {
    const std::uint16_t port = start_proxy(scene, listen_anywhere(scene));
    scene.client = tcp_socket();
    const sockaddr_in address = loopback(port);
    assert_int_equal(
        connect(scene.client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
    scene.server.reset(accept4(scene.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    assert_true(static_cast<bool>(scene.server));
}

void send_all(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t size = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (size <= 0) return;  // the receiver misses the bytes
        bytes = bytes.subspan(static_cast<std::size_t>(size));
    }
}

void assert_arrives(Scene& scene, int fd, const Bytes& expected) {
    scene.received.assign(expected.size(), std::byte{0});
    std::span<std::byte> rest(scene.received);
    while (!rest.empty()) {
        const ssize_t size = recv(fd, rest.data(), rest.size(), 0);
        assert_true(size > 0);
        rest = rest.subspan(static_cast<std::size_t>(size));
    }
    assert_true(scene.received == expected);
}

void assert_proxy_ends_well(Scene& scene) {
    int status = -1;
    assert_int_equal(waitpid(scene.proxy, &status, 0), scene.proxy);
    scene.proxy = -1;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void what_goes_through_the_proxy_arrives_and_is_captured(void** state) {
    Scene& scene = scene_of(state);
    scene.streams = right_streams(true);
    connect_through_proxy(scene);
    const Bytes client = joined(scene.streams.client);
    const Bytes server = joined(scene.streams.server);
    send_all(scene.client.get(), scene.streams.request);
    assert_arrives(scene, scene.server.get(), scene.streams.request);
    send_all(scene.server.get(), scene.streams.reply);
    assert_arrives(scene, scene.client.get(), scene.streams.reply);
    send_all(scene.client.get(), client);
    assert_arrives(scene, scene.server.get(), client);
    send_all(scene.server.get(), server);
    assert_arrives(scene, scene.client.get(), server);
    shutdown(scene.client.get(), SHUT_WR);
    char byte = 0;
    assert_int_equal(recv(scene.server.get(), &byte, 1, 0), 0);
    send_all(scene.server.get(), {});
    scene.server.reset();
    assert_int_equal(recv(scene.client.get(), &byte, 1, 0), 0);
    assert_proxy_ends_well(scene);
    judge(scene);
    assert_content(scene);
    assert_int_equal(count_opcode(scene.dissection, Side::client, 0), 4);
}

void more_than_the_buffers_hold_goes_through_the_proxy(void** state) {
    Scene& scene = scene_of(state);
    connect_through_proxy(scene);
    scene.sent.resize(32 << 20);
    for (std::size_t index = 0; index < scene.sent.size(); ++index)
        scene.sent[index] = std::byte(index % 251);
    scene.sender = std::thread([&scene] { send_all(scene.client.get(), scene.sent); });
    assert_arrives(scene, scene.server.get(), scene.sent);
    scene.sender.join();
}

void reset_goes_through_the_proxy(void** state) {
    Scene& scene = scene_of(state);
    connect_through_proxy(scene);
    const linger hard{1, 0};
    setsockopt(scene.server.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    scene.server.reset();
    char byte = 0;
    assert_int_equal(recv(scene.client.get(), &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_proxy_ends_well(scene);
}

}  // namespace

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main() {
    if (!have_tshark()) {
        std::printf("skipped: tshark is not installed\n");
        return 77;
    }
    const CMUnitTest tests[] = {
        SCENE_TEST(every_message_we_can_send_satisfies_tshark),
        SCENE_TEST(segment_boundaries_do_not_matter),
        SCENE_TEST(terminate_may_end_a_stream_with_requests_outstanding),
        SCENE_TEST(flipped_payload_bit_is_a_bad_crc),
        SCENE_TEST(crc_most_significant_byte_first_is_a_bad_crc),
        SCENE_TEST(repeated_message_number_is_noticed),
        SCENE_TEST(skipped_message_number_is_noticed),
        SCENE_TEST(wrong_message_offset_is_noticed),
        SCENE_TEST(wrong_length_leaves_bytes_over),
        SCENE_TEST(wrong_queue_is_noticed),
        SCENE_TEST(tagged_send_is_noticed),
        SCENE_TEST(wrong_version_is_noticed),
        SCENE_TEST(extensions_without_agreement_are_noticed),
        SCENE_TEST(server_that_talks_first_is_noticed),
        SCENE_TEST(talking_after_a_terminate_is_noticed),
        SCENE_TEST(missing_responses_are_noticed),
        SCENE_TEST(talking_after_a_rejection_is_noticed),
        SCENE_TEST(connection_without_start_frames_is_noticed),
        SCENE_TEST(what_goes_through_the_proxy_arrives_and_is_captured),
        SCENE_TEST(more_than_the_buffers_hold_goes_through_the_proxy),
        SCENE_TEST(reset_goes_through_the_proxy),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
