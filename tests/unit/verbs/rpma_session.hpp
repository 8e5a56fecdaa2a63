// SPDX-License-Identifier: BSD-3-Clause
// Two ends of a connection through librpma's interface, on the mock device, in one thread.
#pragma once

#include <cstring>

#include "rpma_compat/boundary.hpp"
#include "tests/unit/verbs/failing.hpp"

namespace compat::test {

constexpr const char* kAddress = "127.0.0.1";
constexpr const char* kPort = "7204";
constexpr int kTimedOut = -1'000'000;
constexpr int kUsages = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                        RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV |
                        RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

class RpmaSession {
public:
    RpmaSession() = default;
    RpmaSession(const RpmaSession&) = delete;
    RpmaSession& operator=(const RpmaSession&) = delete;
    ~RpmaSession() { close(); }

    /// Everything; a call that fails is made once more, and must then succeed. What failed first.
    Failure run() {
        const bool done =
            open() && connect_repeatedly() && transfer() && wait() && disconnect() && refuse();
        close();
        if (!done && failure.step.empty()) failure.step = "no end";
        return failure;
    }

    bool open() {
        ibv_context* context = nullptr;
        return twice("get_ibv_context",
                     [&] {
                         return rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL,
                                                           &context);
                     }) &&
               twice("peer_new", [&] { return rpma_peer_new(context, &peer); }) &&
               twice("mr_reg",
                     [&] {
                         return rpma_mr_reg(peer, memory.data(), memory.size(), kUsages, &local);
                     }) &&
               describe() && twice("conn_cfg_new", [&] { return rpma_conn_cfg_new(&cfg); }) &&
               twice("srq_new", [&] { return rpma_srq_new(peer, nullptr, &srq); }) &&
               twice("srq_recv", [&] { return rpma_srq_recv(srq, local, 128, 64, nullptr); }) &&
               twice("conn_cfg_new", [&] { return rpma_conn_cfg_new(&srq_cfg); }) &&
               twice("set_srq", [&] { return rpma_conn_cfg_set_srq(srq_cfg, srq); }) &&
               twice("ep_listen", [&] { return rpma_ep_listen(peer, kAddress, kPort, &ep); });
    }

    bool connect_repeatedly() {
        if (connect()) return true;
        const bool excused = failures == 1;
        drop_connection();
        return excused && connect();
    }

    bool connect() {
        if (!twice("conn_req_new",
                   [&] { return rpma_conn_req_new(peer, kAddress, kPort, cfg, &client_req); }) ||
            !twice("conn_req_recv",
                   [&] { return rpma_conn_req_recv(client_req, local, 192, 64, nullptr); }) ||
            !once("conn_req_connect, client", rpma_conn_req_connect(&client_req, nullptr, &client)))
            return false;
        return accept() && established(client) && established(server);
    }

    bool accept() {
        int fd = -1;
        if (!once("ep_get_fd", rpma_ep_get_fd(ep, &fd))) return false;
        if (!readable(fd)) return once("connection request", kTimedOut);
        return once("ep_next_conn_req", rpma_ep_next_conn_req(ep, srq_cfg, &server_req)) &&
               once("conn_req_connect, server",
                    rpma_conn_req_connect(&server_req, nullptr, &server));
    }

    rpma_conn_event next_event(rpma_conn* conn) {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        int fd = -1;
        rpma_conn_get_event_fd(conn, &fd);
        if (!readable(fd))
            (void)once("connection event", kTimedOut);
        else
            (void)once("conn_next_event", rpma_conn_next_event(conn, &event));
        return event;
    }
    bool established(rpma_conn* conn) { return next_event(conn) == RPMA_CONN_ESTABLISHED; }

    bool transfer() {
        std::memset(memory.data(), 0, memory.size());
        memory[0] = 42;
        const bool posted =
            twice("write",
                  [&] {
                      return rpma_write(client, remote, 64, local, 0, 8, RPMA_F_COMPLETION_ALWAYS,
                                        tag(1));
                  }) &&
            completed(client, 1) && memory[64] == 42 &&
            twice("read",
                  [&] {
                      return rpma_read(client, local, 72, remote, 64, 8, RPMA_F_COMPLETION_ALWAYS,
                                       tag(2));
                  }) &&
            completed(client, 2) && memory[72] == 42 &&
            twice("flush",
                  [&] {
                      return rpma_flush(client, remote, 64, 8, RPMA_FLUSH_TYPE_VISIBILITY,
                                        RPMA_F_COMPLETION_ALWAYS, tag(3));
                  }) &&
            completed(client, 3) &&
            twice("atomic_write",
                  [&] {
                      return rpma_atomic_write(client, remote, 80, memory.data(),
                                               RPMA_F_COMPLETION_ALWAYS, tag(4));
                  }) &&
            completed(client, 4) && memory[80] == 42;
        return posted && messages();
    }

    bool messages() {
        return twice("send to SRQ",
                     [&] {
                         return rpma_send(client, local, 0, 8, RPMA_F_COMPLETION_ALWAYS, tag(5));
                     }) &&
               completed(client, 5) && srq_completed() && memory[128] == 42 &&
               twice("send",
                     [&] {
                         return rpma_send(server, local, 0, 8, RPMA_F_COMPLETION_ALWAYS, tag(6));
                     }) &&
               completed(server, 6) && completed(client, 0) && memory[192] == 42 &&
               twice("recv", [&] { return rpma_recv(client, local, 192, 64, tag(7)); });
    }

    bool wait() {
        rpma_cq* cq = nullptr;
        rpma_conn_get_cq(client, &cq);
        return twice("write",
                     [&] {
                         return rpma_write(client, remote, 64, local, 0, 8,
                                           RPMA_F_COMPLETION_ALWAYS, tag(8));
                     }) &&
               twice("cq_wait", [&] { return rpma_cq_wait(cq); }) && completed(client, 8);
    }

    bool disconnect() {
        return twice("disconnect", [&] { return rpma_conn_disconnect(client); }) &&
               is_end(next_event(client)) && is_end(next_event(server)) && receive_flushed();
    }
    static bool is_end(rpma_conn_event event) {
        return event == RPMA_CONN_CLOSED || event == RPMA_CONN_LOST;
    }
    /// The receive that was left comes back.
    bool receive_flushed() {
        rpma_cq* cq = nullptr;
        rpma_conn_get_cq(client, &cq);
        ibv_wc wc{};
        return get_wc(cq, wc) && wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 7;
    }

    /// A request that the program says no to.
    bool refuse() {
        drop_connection();
        if (!twice("conn_req_new",
                   [&] { return rpma_conn_req_new(peer, kAddress, kPort, cfg, &client_req); }))
            return false;
        if (!once("conn_req_connect, client", rpma_conn_req_connect(&client_req, nullptr, &client)))
            return failures == 1;
        int fd = -1;
        rpma_ep_get_fd(ep, &fd);
        if (!readable(fd)) return once("connection request", kTimedOut);
        if (once("ep_next_conn_req", rpma_ep_next_conn_req(ep, nullptr, &server_req)))
            (void)once("conn_req_delete", rpma_conn_req_delete(&server_req));
        return next_event(client) == RPMA_CONN_REJECTED;
    }

    bool completed(rpma_conn* conn, std::uint64_t wr_id) {
        rpma_cq* cq = nullptr;
        rpma_conn_get_cq(conn, &cq);
        ibv_wc wc{};
        return get_wc(cq, wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id;
    }
    bool srq_completed() {
        rpma_cq* cq = nullptr;
        rpma_srq_get_rcq(srq, &cq);
        if (cq == nullptr) rpma_conn_get_cq(server, &cq);
        ibv_wc wc{};
        return get_wc(cq, wc) && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV;
    }
    bool get_wc(rpma_cq* cq, ibv_wc& wc) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        int rc = RPMA_E_NO_COMPLETION;
        while (rc == RPMA_E_NO_COMPLETION && std::chrono::steady_clock::now() < end)
            rc = rpma_cq_get_wc(cq, 1, &wc, nullptr);
        if (rc == RPMA_E_NO_COMPLETION) rc = kTimedOut;
        if (rc != 0 && rc != kTimedOut) {
            (void)once("cq_get_wc", rc);
            rc = rpma_cq_get_wc(cq, 1, &wc, nullptr);
        }
        return once("cq_get_wc", rc);
    }

    void drop_connection() {
        rpma_conn_delete(&server);
        rpma_conn_req_delete(&server_req);
        rpma_conn_delete(&client);
        rpma_conn_req_delete(&client_req);
    }
    void close() {
        drop_connection();
        rpma_ep_shutdown(&ep);
        rpma_srq_delete(&srq);
        rpma_conn_cfg_delete(&srq_cfg);
        rpma_conn_cfg_delete(&cfg);
        rpma_mr_remote_delete(&remote);
        rpma_mr_dereg(&local);
        rpma_peer_delete(&peer);
    }

    static const void* tag(std::uint64_t number) { return reinterpret_cast<const void*>(number); }

    rpma_peer* peer = nullptr;
    rpma_mr_local* local = nullptr;
    rpma_mr_remote* remote = nullptr;
    rpma_conn_cfg* cfg = nullptr;
    rpma_conn_cfg* srq_cfg = nullptr;
    rpma_srq* srq = nullptr;
    rpma_ep* ep = nullptr;
    rpma_conn_req* client_req = nullptr;
    rpma_conn_req* server_req = nullptr;
    rpma_conn* client = nullptr;
    rpma_conn* server = nullptr;
    alignas(64) std::array<char, 256> memory{};
    Failure failure;
    int failures = 0;

private:
    bool once(const char* step, int code) {
        if (code == 0) return true;
        if (failures++ == 0) failure = {step, code};
        return false;
    }
    template <class Call>
    bool twice(const char* step, const Call& call) {
        return once(step, call()) || (failures == 1 && once(step, call()));
    }
    bool describe() {
        std::array<char, 64> descriptor{};
        std::size_t size = 0;
        return once("mr_get_descriptor_size", rpma_mr_get_descriptor_size(local, &size)) &&
               once("mr_get_descriptor", rpma_mr_get_descriptor(local, descriptor.data())) &&
               once("mr_remote", rpma_mr_remote_from_descriptor(descriptor.data(), size, &remote));
    }
};

}  // namespace compat::test
