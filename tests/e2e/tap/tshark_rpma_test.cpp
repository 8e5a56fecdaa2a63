// SPDX-License-Identifier: BSD-3-Clause
// An unmodified librpma program over the software device's stream, judged by tshark. The client
// goes through tap_proxy, whose port is not the server's: so the two never take a short cut within
// the host.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "core/base/unique_fd.hpp"
#include "tests/e2e/tap/processes.hpp"
#include "tests/e2e/tap/rules.hpp"
#include "tests/support/cmocka.hpp"

namespace {

using namespace compat::test;

constexpr unsigned kWrite = 0;
constexpr unsigned kReadRequest = 1;
constexpr unsigned kReadResponse = 2;
constexpr unsigned kSend = 3;
constexpr unsigned kTerminate = 7;
constexpr unsigned kImmediate = 8;

struct Scene {
    std::string capture;
    std::string preload;
    std::string server_port;
    std::string proxy_port;
    std::optional<Process> server;
    std::optional<Process> proxy;
    std::optional<Process> client;
    Dissection dissection;
    std::vector<std::string> complaints;
};

int open_scene(void** state) {
    auto scene = std::make_unique<Scene>();
    std::string path = "tshark_rpma_XXXXXX";
    const compat::core::UniqueFd file(mkstemp(path.data()));
    const char* preload = std::getenv("COMPAT_PRELOAD");
    if (!file || preload == nullptr) return -1;
    scene->capture = path;
    scene->preload = preload;
    *state = scene.release();
    return 0;
}

int close_scene(void** state) {
    const std::unique_ptr<Scene> scene(static_cast<Scene*>(*state));
    unlink(scene->capture.c_str());
    return 0;
}

bool start_server(Scene& scene) {
    scene.server_port = free_port();
    scene.server.emplace(
        std::vector<std::string>{COMPAT_RPMA_TRAFFIC, "server", "127.0.0.1", scene.server_port},
        scene.preload);
    return scene.server->read_line() == "ready";
}

bool start_proxy(Scene& scene) {
    scene.proxy.emplace(
        std::vector<std::string>{COMPAT_TAP_PROXY, "--listen", "127.0.0.1:0", "--forward",
                                 "127.0.0.1:" + scene.server_port, "--capture", scene.capture},
        "");
    const std::string line = scene.proxy->read_line();
    scene.proxy_port = line.substr(line.rfind(' ') + 1);
    return line.starts_with("listening");
}

void start_client(Scene& scene, const char* role) {
    scene.client.emplace(
        std::vector<std::string>{COMPAT_RPMA_TRAFFIC, role, "127.0.0.1", scene.proxy_port},
        scene.preload);
}

/// Server, proxy and client run to their ends; what the proxy saw is judged.
void run(Scene& scene, const char* client_role) {
    assert_true(start_server(scene));
    assert_true(start_proxy(scene));
    start_client(scene, client_role);
    assert_int_equal(scene.client->wait(), 0);
    assert_int_equal(scene.server->wait(), 0);
    assert_int_equal(scene.proxy->wait(), 0);
    scene.dissection = dissect(scene.capture);
    scene.complaints = broken_rules(scene.dissection);
    for (const Side side : {Side::client, Side::server})
        print_message("%s\n", summary(scene.dissection, side).c_str());
    for (const std::string& complaint : scene.complaints) print_error("%s\n", complaint.c_str());
    assert_true(scene.complaints.empty());
}

void assert_everything_was_sent(const Scene& scene) {
    for (const unsigned opcode : {kWrite, kReadRequest, kSend, kImmediate})
        assert_true(count_opcode(scene.dissection, Side::client, opcode) > 0);
    for (const unsigned opcode : {kReadResponse, kSend})
        assert_true(count_opcode(scene.dissection, Side::server, opcode) > 0);
    for (const Side side : {Side::client, Side::server})
        assert_int_equal(count_opcode(scene.dissection, side, kTerminate), 0);
}

void every_operation_of_librpma_is_right_on_the_wire_with_crc(void** state) {
    Scene& scene = *static_cast<Scene*>(*state);
    setenv("FABRIC_COMPAT_CRC", "on", 1);
    run(scene, "client");
    assert_true(all_with_crc(scene.dissection));
    assert_everything_was_sent(scene);
}

void every_operation_of_librpma_is_right_on_the_wire_without_crc(void** state) {
    Scene& scene = *static_cast<Scene*>(*state);
    setenv("FABRIC_COMPAT_CRC", "off", 1);
    run(scene, "client");
    assert_false(all_with_crc(scene.dissection));
    assert_everything_was_sent(scene);
}

void write_out_of_bounds_ends_in_a_terminate_of_the_server(void** state) {
    Scene& scene = *static_cast<Scene*>(*state);
    setenv("FABRIC_COMPAT_CRC", "on", 1);
    run(scene, "astray");
    assert_int_equal(count_opcode(scene.dissection, Side::server, kTerminate), 1);
    assert_int_equal(count_opcode(scene.dissection, Side::client, kTerminate), 0);
}

}  // namespace

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main() {
    if (!have_tshark()) {
        std::printf("skipped: tshark is not installed\n");
        return 77;
    }
    const CMUnitTest tests[] = {
        SCENE_TEST(every_operation_of_librpma_is_right_on_the_wire_with_crc),
        SCENE_TEST(every_operation_of_librpma_is_right_on_the_wire_without_crc),
        SCENE_TEST(write_out_of_bounds_ends_in_a_terminate_of_the_server),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
