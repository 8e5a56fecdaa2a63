// SPDX-License-Identifier: BSD-3-Clause
// The active side towards somebody else's responder, played by this test: Linux's siw may not see
// the first message until another one comes, and must not see the end of the connection before it.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/device/soft/cm.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/mpa.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 20s;

struct Fixture {
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<CmChannel> channel;
    std::unique_ptr<CmId> id;
    std::unique_ptr<QueuePair> qp;
    UniqueFd listener;
    UniqueFd peer;
    std::vector<std::byte> received;
    std::thread closing;
};

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

/// Waits for bytes, or for the end of the stream: then false.
bool receive_more(Fixture& fixture) {
    pollfd ready{fixture.peer.get(), POLLIN, 0};
    assert_int_equal(::poll(&ready, 1, std::chrono::milliseconds(kPatience).count()), 1);
    std::array<std::byte, 4096> bytes;
    const ssize_t count = ::recv(fixture.peer.get(), bytes.data(), bytes.size(), 0);
    assert_true(count >= 0);
    fixture.received.insert(fixture.received.end(), bytes.begin(), bytes.begin() + count);
    return count != 0;
}

/// The opcode of the next message; its content is not kept.
wire::RdmapOpcode next_message(Fixture& fixture, wire::ReadRequest* request = nullptr) {
    auto fpdu = wire::parse_fpdu(fixture.received, false);
    while (fpdu.status == wire::Parse::need_more) {
        assert_true(receive_more(fixture));
        fpdu = wire::parse_fpdu(fixture.received, false);
    }
    const auto parsed = wire::parse_segment(fpdu.ulpdu);
    assert_false(parsed.violation.has_value());
    const auto opcode = parsed.segment.opcode();
    if (opcode == wire::RdmapOpcode::write) assert_true(parsed.segment.payload.empty());
    if (opcode == wire::RdmapOpcode::read_request && request != nullptr)
        *request = *wire::parse_read_request(parsed.segment.payload);
    fixture.received.erase(fixture.received.begin(),
                           fixture.received.begin() + static_cast<std::ptrdiff_t>(fpdu.consumed));
    return opcode;
}

void answer(Fixture& fixture, const wire::ReadRequest& request) {
    std::array<std::byte, 64> bytes;
    wire::TaggedHeader header;
    header.opcode = wire::RdmapOpcode::read_response;
    header.stag = request.sink_stag;
    const std::size_t ulpdu =
        wire::encode_header(header, std::span(bytes).subspan(wire::kFpduLengthBytes));
    const std::size_t size = wire::seal_fpdu(bytes, ulpdu, false);
    assert_int_equal(::send(fixture.peer.get(), bytes.data(), size, MSG_NOSIGNAL), size);
}

void accept_connection(Fixture& fixture) {
    fixture.peer = UniqueFd(::accept4(fixture.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    assert_true(static_cast<bool>(fixture.peer));
    auto request = wire::parse_start_frame(fixture.received, false);
    while (request.status == wire::Parse::need_more) {
        assert_true(receive_more(fixture));
        request = wire::parse_start_frame(fixture.received, false);
    }
    wire::StartFrame reply = request.frame;  // flags that it does not know are echoed, as by siw
    reply.reply = true;
    reply.rtr_read = false;
    fixture.received.clear();
    std::array<std::byte, wire::kMaxStartFrameBytes> bytes;
    const std::size_t size = wire::encode_start_frame(reply, bytes);
    assert_int_equal(::send(fixture.peer.get(), bytes.data(), size, MSG_NOSIGNAL), size);
}

void expect_event(Fixture& fixture, CmEventType type) {
    pollfd ready{fixture.channel->fd(), POLLIN, 0};
    assert_int_equal(::poll(&ready, 1, std::chrono::milliseconds(kPatience).count()), 1);
    const auto event = fixture.channel->get_event();
    assert_true(event.has_value());
    assert_int_equal(event->type, type);
}

int setup(void** state) {
    auto* fixture = new Fixture;
    *state = fixture;
    fixture->listener = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto any_port = resolve_address("127.0.0.1", "0", Resolve::numeric);
    if (::bind(fixture->listener.get(), any_port->get(), any_port->length()) != 0) return -1;
    if (::listen(fixture->listener.get(), 1) != 0) return -1;
    fixture->pd = std::move(*device().allocate_pd());
    fixture->cq = std::move(*device().create_cq(16, nullptr));
    fixture->channel = std::move(*device().create_cm_channel());
    fixture->id = std::move(*device().create_cm_id(fixture->channel.get()));
    const SocketAddress there = local_address_of(fixture->listener.get());
    if (!fixture->id->resolve({}, there, 1000)) return -1;
    QpAttr attr;
    attr.pd = fixture->pd.get();
    attr.send_cq = attr.receive_cq = fixture->cq.get();
    fixture->qp = std::move(*fixture->id->create_qp(attr));
    ConnectionParameters parameters;
    parameters.initiator_depth = parameters.responder_resources = 8;
    return fixture->id->connect(parameters) ? 0 : -1;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    fixture->peer.reset();
    if (fixture->closing.joinable()) fixture->closing.join();
    fixture->qp.reset();
    fixture->id.reset();
    delete fixture;
    return 0;
}

/// The connection stands, and the peer has not answered the first message.
wire::ReadRequest leave_first_message_unanswered(Fixture& fixture) {
    accept_connection(fixture);
    expect_event(fixture, CmEventType::established);
    wire::ReadRequest request;
    assert_int_equal(next_message(fixture), wire::RdmapOpcode::write);
    assert_int_equal(next_message(fixture, &request), wire::RdmapOpcode::read_request);
    return request;
}

void first_message_is_repeated_until_it_is_answered(void** state) {
    Fixture& fixture = of(state);
    const auto request = leave_first_message_unanswered(fixture);
    for (int i = 0; i < 3; ++i) assert_int_equal(next_message(fixture), wire::RdmapOpcode::write);
    answer(fixture, request);
    assert_true(fixture.id->disconnect().has_value());
    expect_event(fixture, CmEventType::disconnected);
    assert_false(receive_more(fixture));
}

void disconnect_waits_until_the_first_message_is_answered(void** state) {
    Fixture& fixture = of(state);
    const auto request = leave_first_message_unanswered(fixture);
    assert_true(fixture.id->disconnect().has_value());
    for (int i = 0; i < 2; ++i)  // an end of the stream would come instead
        assert_int_equal(next_message(fixture), wire::RdmapOpcode::write);
    answer(fixture, request);
    expect_event(fixture, CmEventType::disconnected);
    assert_false(receive_more(fixture));
}

void close_waits_until_the_first_message_is_answered(void** state) {
    Fixture& fixture = of(state);
    const auto request = leave_first_message_unanswered(fixture);
    fixture.closing = std::thread([&fixture] { fixture.qp.reset(); });
    for (int i = 0; i < 2; ++i) assert_int_equal(next_message(fixture), wire::RdmapOpcode::write);
    answer(fixture, request);
    assert_false(receive_more(fixture));
}

/// In the other order: the identifier first.
void abandoned_connection_ends_when_the_first_message_is_answered(void** state) {
    Fixture& fixture = of(state);
    const auto request = leave_first_message_unanswered(fixture);
    fixture.id.reset();
    for (int i = 0; i < 2; ++i) assert_int_equal(next_message(fixture), wire::RdmapOpcode::write);
    answer(fixture, request);
    assert_false(receive_more(fixture));
}

void peer_that_never_answers_is_left(void** state) {
    Fixture& fixture = of(state);
    leave_first_message_unanswered(fixture);
    assert_true(fixture.id->disconnect().has_value());
    expect_event(fixture, CmEventType::disconnected);
    while (receive_more(fixture)) continue;
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core::soft;
    const CMUnitTest tests[] = {
        TEST(first_message_is_repeated_until_it_is_answered),
        TEST(disconnect_waits_until_the_first_message_is_answered),
        TEST(close_waits_until_the_first_message_is_answered),
        TEST(abandoned_connection_ends_when_the_first_message_is_answered),
        TEST(peer_that_never_answers_is_left),
    };
    return cmocka_run_group_tests_name("first_message", tests, nullptr, nullptr);
}
