// SPDX-License-Identifier: BSD-3-Clause
// What a listener grants peers that connect and then do not go on.
#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/device/soft/soft_device.hpp"
#include "core/device/soft/wire/mpa.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr const char* kConnectTimeoutMs = "200";
constexpr auto kPatience = 20s;
constexpr rlim_t kDescriptors = 2048;

struct Fixture {
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<CmChannel> channel;
    std::unique_ptr<CmId> listener;
    std::unique_ptr<CmId> id;
    std::unique_ptr<QueuePair> qp;
    std::vector<UniqueFd> peers;
};

int setup(void** state) {
    auto* fixture = new Fixture;
    *state = fixture;
    fixture->pd = std::move(*device().allocate_pd());
    fixture->cq = std::move(*device().create_cq(16, nullptr));
    fixture->channel = std::move(*device().create_cm_channel());
    fixture->listener = std::move(*device().create_cm_id(fixture->channel.get()));
    const auto address = resolve_address("127.0.0.1", "0", Resolve::numeric);
    return fixture->listener->bind(*address) && fixture->listener->listen(0) ? 0 : -1;
}

int teardown(void** state) {
    auto* fixture = static_cast<Fixture*>(*state);
    fixture->qp.reset();
    fixture->id.reset();
    delete fixture;
    return 0;
}

Fixture& of(void** state) {
    return *static_cast<Fixture*>(*state);
}

int connect_peer(Fixture& fixture) {
    const SocketAddress address = fixture.listener->local_address();
    UniqueFd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    assert_true(static_cast<bool>(peer));
    assert_int_equal(::connect(peer.get(), address.get(), address.length()), 0);
    return fixture.peers.emplace_back(std::move(peer)).get();
}

void send_request(int peer) {
    wire::StartFrame frame;
    frame.enhanced = frame.peer_to_peer = frame.rtr_write = true;
    frame.ird = frame.ord = 1;
    std::array<std::byte, wire::kMaxStartFrameBytes> bytes;
    const std::size_t size = wire::encode_start_frame(frame, bytes);
    assert_int_equal(::send(peer, bytes.data(), size, MSG_NOSIGNAL), size);
}

CmEvent expect_event(Fixture& fixture, CmEventType type) {
    pollfd ready{fixture.channel->fd(), POLLIN, 0};
    assert_int_equal(::poll(&ready, 1, std::chrono::milliseconds(kPatience).count()), 1);
    auto event = fixture.channel->get_event();
    assert_true(event.has_value());
    assert_int_equal(event->type, type);
    return std::move(*event);
}

int open_descriptors() {
    DIR* directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
    return count;
}

bool eventually(bool (*condition)(const Fixture&, int), const Fixture& fixture, int value) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition(fixture, value)) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

void accepted_connection_whose_peer_says_nothing_is_lost(void** state) {
    Fixture& fixture = of(state);
    send_request(connect_peer(fixture));
    CmEvent event = expect_event(fixture, CmEventType::connect_request);
    fixture.id = std::move(event.request);
    assert_true(fixture.id->migrate(*fixture.channel).has_value());
    QpAttr attr;
    attr.pd = fixture.pd.get();
    attr.send_cq = attr.receive_cq = fixture.cq.get();
    attr.receive_depth = 1;
    fixture.qp = std::move(*fixture.id->create_qp(attr));
    assert_true(fixture.qp->post_receive({7, {}}).has_value());
    assert_true(fixture.id->accept({}).has_value());
    expect_event(fixture, CmEventType::disconnected);
    WorkCompletion wc;
    assert_int_equal(*fixture.cq->poll({&wc, 1}), 1);
    assert_int_equal(wc.status, WcStatus::flushed);
}

/// Both ends of every connection are in this process: what the listener has not accepted is one
/// descriptor, what it has is two.
void unanswered_connections_are_bounded(void** state) {
    Fixture& fixture = of(state);
    constexpr int kPeers = 400;
    constexpr int kAccepted = 256;
    const int before = open_descriptors();
    for (int i = 0; i < kPeers; ++i) connect_peer(fixture);
    const int bound = before + kPeers + kAccepted;
    assert_true(eventually([](const Fixture&, int count) { return open_descriptors() >= count; },
                           fixture, bound));
    std::this_thread::sleep_for(50ms);  // it looks again every 10 ms
    assert_int_equal(open_descriptors(), bound);
    fixture.peers.clear();
    send_request(connect_peer(fixture));
    expect_event(fixture, CmEventType::connect_request);
}

/// It would wait for ever for a lock that another thread held at the fork.
void child_process_ends_a_listener_whose_lock_was_held(void** state) {
    Fixture& fixture = of(state);
    for (int i = 0; i < 300; ++i) {
        connect_peer(fixture);  // the helper thread is busy with it
        const pid_t child = fork();
        if (child == 0) {
            alarm(10);
            fixture.listener.reset();
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        fixture.peers.clear();
    }
}

}  // namespace
}  // namespace compat::core::soft

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main() {
    using namespace compat::core::soft;
    setenv("FABRIC_COMPAT_CONNECT_TIMEOUT_MS", kConnectTimeoutMs, 1);
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < kDescriptors) return 77;
    limit.rlim_cur = std::max(limit.rlim_cur, kDescriptors);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 77;
    const CMUnitTest tests[] = {
        TEST(accepted_connection_whose_peer_says_nothing_is_lost),
        TEST(unanswered_connections_are_bounded),
        TEST(child_process_ends_a_listener_whose_lock_was_held),
    };
    return cmocka_run_group_tests_name("handshake", tests, nullptr, nullptr);
}
