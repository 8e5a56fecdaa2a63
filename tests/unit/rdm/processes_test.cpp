// SPDX-License-Identifier: BSD-3-Clause
// Connectionless endpoints in several processes: many peers, peers that die, children of fork().
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "tests/unit/rdm/rig.hpp"

namespace compat::core {
namespace {

constexpr auto kLong = std::chrono::seconds(100);

struct Child {
    pid_t pid = -1;
    int from_child = -1;
};

/// Runs body(out) in a child process; what it writes to out the parent reads.
template <class Body>
Child spawn(const Body& body) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        _exit(body(ends[1]) ? 0 : 1);
    }
    close(ends[1]);
    return {pid, ends[0]};
}

/// The exit status, or minus the signal that ended it.
int end_of(const Child& child) {
    int status = 0;
    assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
    close(child.from_child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Returns when no thread of the child runs any more.
void stop(const Child& child) {
    int status = 0;
    assert_int_equal(kill(child.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
    assert_true(WIFSTOPPED(status));
}

std::uint16_t port_from(const Child& child) {
    std::uint16_t port = 0;
    assert_int_equal(read(child.from_child, &port, sizeof port), sizeof port);
    return port;
}

bool tell_port(int out, const Node& node) {
    const std::uint16_t port = node.endpoint->name().port();
    return write(out, &port, sizeof port) == sizeof port;
}

/// Takes messages and answers each with the same word, until it is killed.
bool echo(int out, std::uint16_t port) {
    Node node(NodeOptions{.progress = RdmProgress::automatic, .port = port});
    std::uint64_t word = 0;
    LocalBuffer local;
    const auto post = [&] {
        return node.endpoint->receive(receive_into(&word, sizeof word, 1, local)).has_value();
    };
    if (!post() || !tell_port(out, node)) return false;
    return keep_trying(
        [&] {
            node.poll();
            for (const Completion& done : node.done) {
                if (done.kind != CompletionKind::receive) continue;
                // The name of the sender travels in the word: a port.
                const std::uint64_t answer = word;
                const AddressIndex back = node.meet(loopback(static_cast<std::uint16_t>(answer)));
                static_cast<void>(insist(
                    [&] {
                        return node.endpoint->send(back,
                                                   message_of(&answer, sizeof answer, 2, local));
                    },
                    {&node}));
                post();
            }
            node.done.clear();
            return false;
        },
        kLong);
}

void a_killed_peer_fails_its_operations_and_its_successor_is_reached(void**) {
    std::uint16_t port = 0;
    // The first child: before this process has anything of the library's.
    Child peer = spawn([&](int out) { return echo(out, 0); });
    port = port_from(peer);
    Node node;
    const AddressIndex to_peer = node.meet(loopback(port));
    const std::uint64_t own = node.endpoint->name().port();
    LocalBuffer local;
    for (int life = 0; life < 3; ++life) {
        std::uint64_t answer = 0;
        assert_true(
            node.endpoint->receive(receive_into(&answer, sizeof answer, 1, local)).has_value());
        // After a death the first post may still meet the old connection and fail with it.
        std::size_t failed = 0;
        assert_true(insist(
                        [&] {
                            return node.endpoint->send(to_peer,
                                                       message_of(&own, sizeof own, 2, local));
                        },
                        {&node})
                        .has_value());
        assert_true(keep_trying([&] {
            node.poll();
            return answer == own;
        }));
        assert_true(keep_trying([&] {
            node.poll();
            return node.done.size() == 2;
        }));
        for (const Completion& done : node.done) assert_int_equal(done.status, WcStatus::success);
        node.done.clear();
        // A message of 50,000 bytes that the peer never takes: it stands still before it dies.
        stop(peer);
        static std::array<std::byte, 50'000> large{};
        assert_true(insist(
                        [&] {
                            return node.endpoint->send(
                                to_peer, message_of(large.data(), large.size(), 3, local));
                        },
                        {&node})
                        .has_value());
        assert_int_equal(kill(peer.pid, SIGKILL), 0);
        assert_int_equal(end_of(peer), -SIGKILL);
        assert_true(keep_trying([&] {
            node.poll();
            failed = node.done.size();
            return failed != 0;
        }));
        assert_int_equal(failed, 1);
        assert_ptr_equal(node.done[0].context, context_of(3));
        assert_int_not_equal(node.done[0].status, WcStatus::success);
        node.done.clear();
        peer = spawn([&](int out) {
            const bool ended = echo(out, port);
            return ended;
        });
        assert_int_equal(port_from(peer), port);
    }
    assert_int_equal(kill(peer.pid, SIGKILL), 0);
    assert_int_equal(end_of(peer), -SIGKILL);
}

void raise_file_limit() {
    rlimit limit{};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/// Many endpoints that each send their number and port to the centre and wait for the same back.
bool be_leaves(int in, std::uint64_t first, std::size_t count) {
    std::uint16_t port = 0;
    if (read(in, &port, sizeof port) != sizeof port) return false;
    std::vector<std::unique_ptr<Node>> leaves;
    std::vector<std::uint64_t> words(count);
    std::vector<std::uint64_t> answers(count);
    LocalBuffer local;
    for (std::size_t at = 0; at < count; ++at) {
        leaves.push_back(std::make_unique<Node>(NodeOptions{.cq_size = 8, .receive_depth = 8}));
        Node& leaf = *leaves.back();
        words[at] = (first + at) << 16 | leaf.endpoint->name().port();
        if (!leaf.endpoint->receive(receive_into(&answers[at], 8, 1, local))) return false;
    }
    std::vector<bool> sent(count);
    return keep_trying(
        [&] {
            std::size_t finished = 0;
            for (std::size_t at = 0; at < count; ++at) {
                Node& leaf = *leaves[at];
                if (!sent[at])
                    sent[at] =
                        leaf.endpoint
                            ->send(leaf.meet(loopback(port)), message_of(&words[at], 8, 1, local))
                            .has_value();
                leaf.poll();
                finished += leaf.done.size() == 2 && answers[at] == words[at] ? 1 : 0;
            }
            return finished == count;
        },
        kLong);
}

void a_thousand_peers_fit_one_endpoint(void**) {
    raise_file_limit();
    constexpr std::size_t kProcesses = 4;
    constexpr std::size_t kLeaves = 250;
    constexpr std::size_t kAll = kProcesses * kLeaves;
    std::vector<Child> children;
    int to_child[kProcesses][2];
    for (std::size_t at = 0; at < kProcesses; ++at) {
        assert_int_equal(pipe(to_child[at]), 0);
        children.push_back(
            spawn([&](int) { return be_leaves(to_child[at][0], at * kLeaves, kLeaves); }));
    }
    Node centre(NodeOptions{.cq_size = 4 * kAll, .receive_depth = kAll});
    std::vector<std::uint64_t> words(kAll);
    LocalBuffer local;
    for (std::size_t at = 0; at < kAll; ++at)
        assert_true(centre.endpoint->receive(receive_into(&words[at], 8, at, local)).has_value());
    const std::uint16_t port = centre.endpoint->name().port();
    for (auto& ends : to_child) assert_int_equal(write(ends[1], &port, sizeof port), sizeof port);
    std::vector<bool> seen(kAll);
    std::size_t answered = 0;
    std::size_t sent = 0;
    // The address book learns of a leaf by its message; the answer takes the leaf's connection.
    const bool finished = keep_trying(
        [&] {
            centre.poll();
            const std::vector<Completion> done = std::exchange(centre.done, {});
            for (const Completion& completion : done) {
                sent += completion.kind == CompletionKind::send ? 1 : 0;
                if (completion.kind != CompletionKind::receive) continue;
                const std::uint64_t word = *static_cast<std::uint64_t*>(completion.buffer);
                seen[word >> 16] = true;
                ++answered;
                const AddressIndex leaf =
                    centre.meet(loopback(static_cast<std::uint16_t>(word & 0xffff)));
                const auto answer = [&] {
                    return centre.endpoint->send(leaf, message_of(completion.buffer, 8, 1, local));
                };
                if (!insist(answer, {&centre})) return true;
            }
            return answered == kAll && sent == kAll;
        },
        kLong);
    assert_true(finished);
    for (const bool leaf : seen) assert_true(leaf);
    for (auto& ends : to_child) {
        close(ends[0]);
        close(ends[1]);
    }
    for (const Child& child : children) assert_int_equal(end_of(child), 0);
}

void a_child_process_leaves_its_parents_endpoint_alone(void**) {
    auto a = std::make_unique<Node>(NodeOptions{.progress = RdmProgress::automatic});
    Node b(NodeOptions{.progress = RdmProgress::automatic});
    const AddressIndex to_b = a->meet(b);
    std::uint64_t word = 1;
    std::uint64_t got = 0;
    LocalBuffer local;
    for (std::size_t round = 0; round < 2; ++round) {
        got = 0;
        ++word;
        assert_true(b.endpoint->receive(receive_into(&got, 8, 1, local)).has_value());
        assert_true(insist([&] { return a->endpoint->send(to_b, message_of(&word, 8, 2, local)); },
                           {a.get(), &b})
                        .has_value());
        assert_true(keep_trying([&] {
            a->poll();
            b.poll();
            return b.done.size() > round;
        }));
        assert_int_equal(got, word);
        const Child child = spawn([&](int) {
            a->endpoint.reset();
            b.endpoint.reset();
            return true;
        });
        assert_int_equal(end_of(child), 0);
    }
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_peers_fit_one_endpoint),
        cmocka_unit_test(a_killed_peer_fails_its_operations_and_its_successor_is_reached),
        cmocka_unit_test(a_child_process_leaves_its_parents_endpoint_alone),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
