// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/rpma/rig.hpp"

#include <fcntl.h>

#include <cstdio>

#include "rpma_compat/context.hpp"

namespace compat::rpma {
namespace {

void must(int rc) {
    assert_int_equal(rc, kSuccess);
}

void put(Descriptor& descriptor, std::size_t at, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
        descriptor[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::vector<CapturedLog::Line>& captured() {
    static std::vector<CapturedLog::Line> lines;
    return lines;
}

void capture(rpma_log_level level, const char* file, int line, const char* function,
             const char* format, ...) __attribute__((format(printf, 5, 6)));
void capture(rpma_log_level level, const char* file, int line, const char* function,
             const char* format, ...) {
    const test::NewFailurePaused paused;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    captured().push_back({level, file, line, function, format, text});
}

}  // namespace

int set_up(void** state) {
    auto* rig = new Rig;
    *state = rig;
    rig->context = context_of(rig->device);
    return rpma_peer_new(rig->context, &rig->peer);
}

int tear_down(void** state) {
    const std::unique_ptr<Rig> rig(static_cast<Rig*>(*state));
    rig->device.fail_nothing();
    test::fail_new(0);
    rpma_conn_delete(&rig->conn);
    rpma_conn_req_delete(&rig->req);
    rpma_ep_shutdown(&rig->ep);
    rpma_srq_delete(&rig->srq);
    rpma_srq_cfg_delete(&rig->srq_cfg);
    rpma_conn_cfg_delete(&rig->cfg);
    rpma_peer_cfg_delete(&rig->peer_cfg);
    rpma_mr_remote_delete(&rig->remote);
    rpma_mr_dereg(&rig->local);
    rpma_peer_delete(&rig->peer);
    return rig->device.live() == 0 ? 0 : -1;
}

void make_cfg(Rig& rig) {
    must(rpma_conn_cfg_new(&rig.cfg));
}

void make_srq(Rig& rig, std::uint32_t rcq_size) {
    must(rpma_srq_cfg_new(&rig.srq_cfg));
    must(rpma_srq_cfg_set_rcq_size(rig.srq_cfg, rcq_size));
    must(rpma_srq_new(rig.peer, rig.srq_cfg, &rig.srq));
}

void make_ep(Rig& rig) {
    must(rpma_ep_listen(rig.peer, kAddress, kPort, &rig.ep));
}

void make_request(Rig& rig) {
    must(rpma_conn_req_new(rig.peer, kAddress, kPort, rig.cfg, &rig.req));
}

void make_incoming_request(Rig& rig, const std::string& private_data) {
    if (rig.ep == nullptr) make_ep(rig);
    rig.device.cm_ids().front()->deliver_request(private_data);
    must(rpma_ep_next_conn_req(rig.ep, rig.cfg, &rig.req));
}

void connect(Rig& rig, const std::string& private_data) {
    std::string bytes = private_data;
    const rpma_conn_private_data pdata{.ptr = bytes.data(),
                                       .len = static_cast<std::uint8_t>(bytes.size())};
    must(rpma_conn_req_connect(&rig.req, bytes.empty() ? nullptr : &pdata, &rig.conn));
}

void make_conn(Rig& rig) {
    make_request(rig);
    connect(rig);
}

void make_local(Rig& rig, int usage) {
    must(rpma_mr_reg(rig.peer, rig.memory.data(), rig.memory.size(), usage, &rig.local));
}

Descriptor remote_descriptor(int usage) {
    Descriptor descriptor;
    put(descriptor, 0, kRemoteAddress, 8);
    put(descriptor, 8, kRemoteLength, 8);
    put(descriptor, 16, kRemoteKey, 4);
    put(descriptor, 20, static_cast<std::uint64_t>(usage), 1);
    return descriptor;
}

void make_remote(Rig& rig, int usage) {
    const Descriptor descriptor = remote_descriptor(usage);
    must(rpma_mr_remote_delete(&rig.remote));
    must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &rig.remote));
}

void apply_direct_write(Rig& rig, bool supported) {
    if (rig.peer_cfg == nullptr) must(rpma_peer_cfg_new(&rig.peer_cfg));
    must(rpma_peer_cfg_set_direct_write_to_pmem(rig.peer_cfg, supported));
    must(rpma_conn_apply_remote_peer_cfg(rig.conn, rig.peer_cfg));
}

test::FakeQp& qp_of(Rig& rig) {
    return *rig.device.qps().back();
}

test::FakeCmId& id_of(Rig& rig) {
    return *rig.device.cm_ids().back();
}

void set_nonblocking(int fd) {
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

CapturedLog::CapturedLog(rpma_log_level threshold) {
    captured().clear();
    must(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &old_threshold_));
    must(rpma_log_set_function(capture));
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, threshold));
}

CapturedLog::~CapturedLog() {
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, old_threshold_);
    rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);
    captured().clear();
    captured().shrink_to_fit();
}

const std::vector<CapturedLog::Line>& CapturedLog::lines() {
    return captured();
}

const CapturedLog::Line* CapturedLog::find(rpma_log_level level, const std::string& text) {
    for (const Line& line : captured())
        if (line.level == level && line.text.find(text) != std::string::npos) return &line;
    return nullptr;
}

}  // namespace compat::rpma
