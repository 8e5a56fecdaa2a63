// SPDX-License-Identifier: BSD-3-Clause
// Two FI_EP_MSG endpoints through libfabric's interface, on the mock device, in one thread.
#pragma once

#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstring>

#include "tests/unit/verbs/failing.hpp"

namespace compat::test {

constexpr const char* kAddress = "127.0.0.1";
constexpr const char* kPort = "7205";
constexpr int kTimedOut = -1'000'000;
constexpr std::size_t kQueueSize = 64;

class FiSession {
public:
    FiSession() = default;
    FiSession(const FiSession&) = delete;
    FiSession& operator=(const FiSession&) = delete;
    ~FiSession() { close(); }

    /// Everything; a call that fails is made once more, and must then succeed. What failed first.
    Failure run() {
        const bool done = open() && connect_repeatedly() && transfer() && shut_down() && refuse();
        close();
        if (!done && failure.step.empty()) failure.step = "no end";
        return failure;
    }

    bool open() {
        fi_eq_attr eq_attr{};
        eq_attr.wait_obj = FI_WAIT_UNSPEC;
        fi_cq_attr cq_attr{};
        cq_attr.size = kQueueSize;
        cq_attr.format = FI_CQ_FORMAT_DATA;
        cq_attr.wait_obj = wait_object;
        return twice("getinfo", [&] { return get_info(0, &info); }) &&
               twice("getinfo", [&] { return get_info(FI_SOURCE, &passive_info); }) &&
               twice("fabric", [&] { return fi_fabric(info->fabric_attr, &fabric, nullptr); }) &&
               twice("domain", [&] { return fi_domain(fabric, info, &domain, nullptr); }) &&
               twice("eq_open", [&] { return fi_eq_open(fabric, &eq_attr, &eq, nullptr); }) &&
               twice("cq_open", [&] { return fi_cq_open(domain, &cq_attr, &cq, nullptr); }) &&
               twice("mr_reg",
                     [&] {
                         return fi_mr_reg(domain, memory.data(), memory.size(), kAccess, 0, 0, 0,
                                          &mr, nullptr);
                     }) &&
               twice("passive_ep",
                     [&] { return fi_passive_ep(fabric, passive_info, &pep, nullptr); }) &&
               twice("pep_bind", [&] { return fi_pep_bind(pep, &eq->fid, 0); }) &&
               twice("listen", [&] { return fi_listen(pep); });
    }

    bool connect_repeatedly() {
        if (connect()) return true;
        const bool excused = failures == 1;
        drop_connection();
        return excused && connect();
    }

    bool connect() {
        if (!open_endpoint(info, client) || !post_receive() || !start()) return false;
        fi_info* const request = next_request();
        if (request == nullptr) return false;
        const bool accepted = open_endpoint(request, server) &&
                              twice("accept", [&] { return fi_accept(server, nullptr, 0); });
        fi_freeinfo(request);
        return accepted && next_event() == FI_CONNECTED && next_event() == FI_CONNECTED;
    }
    bool start() {
        return twice("connect", [&] { return fi_connect(client, info->dest_addr, nullptr, 0); });
    }
    fi_info* request_of_event() {
        return reinterpret_cast<fi_eq_cm_entry*>(last_event.data())->info;
    }
    fi_info* next_request() { return next_event() == FI_CONNREQ ? request_of_event() : nullptr; }
    bool open_endpoint(fi_info* of, fid_ep*& ep) {
        return twice("endpoint", [&] { return fi_endpoint(domain, of, &ep, nullptr); }) &&
               twice("ep_bind", [&] { return fi_ep_bind(ep, &eq->fid, 0); }) &&
               twice("ep_bind", [&] { return fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV); }) &&
               twice("enable", [&] { return fi_enable(ep); });
    }
    bool post_receive() {
        return twice("recv",
                     [&] { return fi_recv(client, &memory[192], 64, desc(), 0, &marks[0]); });
    }

    bool transfer() {
        std::memset(memory.data(), 0, memory.size());
        memory[0] = 42;
        return twice("write",
                     [&] {
                         return fi_write(client, memory.data(), 8, desc(), 0, remote(64), key(),
                                         &marks[1]);
                     }) &&
               completed(1) && memory[64] == 42 &&
               twice("writemsg", [&] { return write_message(); }) && completed(2) &&
               memory[72] == 42 &&
               twice("read",
                     [&] {
                         return fi_read(client, &memory[80], 8, desc(), 0, remote(64), key(),
                                        &marks[3]);
                     }) &&
               completed(3) && memory[80] == 42 &&
               twice("inject_write",
                     [&] {
                         return fi_inject_write(client, memory.data(), 8, 0, remote(88), key());
                     }) &&
               twice("send",
                     [&] { return fi_send(server, memory.data(), 8, desc(), 0, &marks[4]); }) &&
               completed_both(0, 4) && memory[192] == 42 && post_receive();
    }
    /// One that is acknowledged by the target.
    ssize_t write_message() {
        const iovec local{memory.data(), 8};
        const fi_rma_iov far{remote(72), 8, key()};
        void* descriptor = desc();
        const fi_msg_rma message{&local, &descriptor, 1, 0, &far, 1, &marks[2], 0};
        return fi_writemsg(client, &message, FI_COMPLETION | FI_TRANSMIT_COMPLETE);
    }

    bool shut_down() {
        return twice("shutdown", [&] { return fi_shutdown(client, 0); }) &&
               next_event() == FI_SHUTDOWN && next_event() == FI_SHUTDOWN && flushed();
    }
    bool flushed() {
        fi_cq_data_entry entry{};
        ssize_t got = read(entry);
        if (got == -FI_EIO && !once("cq_read", got)) got = read(entry);
        if (got != -FI_EAVAIL) return once("flushed receive", kTimedOut);
        fi_cq_err_entry error{};
        return fi_cq_readerr(cq, &error, 0) == 1 && error.err == FI_ECANCELED &&
               error.op_context == &marks[0];
    }

    bool refuse() {
        drop_connection();
        if (!open_endpoint(info, client) || !start()) return false;
        fi_info* const request = next_request();
        if (request == nullptr) return false;
        const bool rejected =
            twice("reject", [&] { return fi_reject(pep, request->handle, nullptr, 0); });
        fi_freeinfo(request);
        return rejected && next_error().err == FI_ECONNREFUSED;
    }

    std::uint32_t next_event() {
        std::uint32_t type = 0;
        const ssize_t got = fi_eq_sread(eq, &type, last_event.data(), last_event.size(), 10'000, 0);
        if (got == -FI_EAVAIL) (void)once("event", -next_error().err);
        if (got == -FI_EAGAIN || got == -FI_ETIMEDOUT) (void)once("event", kTimedOut);
        return got > 0 ? type : 0;
    }
    fi_eq_err_entry next_error() {
        fi_eq_err_entry error{};
        std::uint32_t type = 0;
        (void)fi_eq_sread(eq, &type, last_event.data(), last_event.size(), 10'000, 0);
        (void)fi_eq_readerr(eq, &error, 0);
        return error;
    }

    ssize_t read(fi_cq_data_entry& entry) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        ssize_t got = -FI_EAGAIN;
        while (got == -FI_EAGAIN && std::chrono::steady_clock::now() < end)
            got = fi_cq_read(cq, &entry, 1);
        return got == -FI_EAGAIN ? kTimedOut : got;
    }
    /// The mark whose operation completed next, or -1.
    long next_completion() {
        fi_cq_data_entry entry{};
        ssize_t got = read(entry);
        if (got < 0 && once("cq_read", static_cast<int>(got)) == false && failures == 1)
            got = read(entry);
        return got == 1 ? static_cast<int*>(entry.op_context) - marks.data() : -1;
    }
    bool completed(long mark) { return next_completion() == mark; }
    bool completed_both(long one, long other) {
        const long first = next_completion();
        const long second = next_completion();
        return (first == one && second == other) || (first == other && second == one);
    }

    void drop_connection() {
        close_fid(server);
        close_fid(client);
        drain();
    }
    /// What is left of connections that were given up.
    void drain() {
        std::uint32_t type = 0;
        fi_eq_err_entry error{};
        for (;;) {
            const ssize_t got = fi_eq_read(eq, &type, last_event.data(), last_event.size(), 0);
            if (got == -FI_EAVAIL) {
                (void)fi_eq_readerr(eq, &error, 0);
            } else if (got > 0) {
                if (type == FI_CONNREQ) {
                    (void)fi_reject(pep, request_of_event()->handle, nullptr, 0);
                    fi_freeinfo(request_of_event());
                }
            } else {
                break;
            }
        }
        fi_cq_data_entry entry{};
        fi_cq_err_entry cq_error{};
        for (ssize_t got = 1; got != -FI_EAGAIN && got != kTimedOut;) {
            got = fi_cq_read(cq, &entry, 1);
            if (got == -FI_EAVAIL) (void)fi_cq_readerr(cq, &cq_error, 0);
        }
    }
    void close() {
        close_fid(server);
        close_fid(client);
        if (eq != nullptr && cq != nullptr) drain();
        close_fid(pep);
        close_fid(mr);
        close_fid(cq);
        close_fid(eq);
        close_fid(domain);
        close_fid(fabric);
        fi_freeinfo(passive_info);
        fi_freeinfo(info);
        info = passive_info = nullptr;
    }

    std::uint64_t remote(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
    }
    std::uint64_t key() const { return fi_mr_key(mr); }
    void* desc() const { return fi_mr_desc(mr); }

    fi_wait_obj wait_object = FI_WAIT_FD;
    fi_info* info = nullptr;
    fi_info* passive_info = nullptr;
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    fid_eq* eq = nullptr;
    fid_cq* cq = nullptr;
    fid_mr* mr = nullptr;
    fid_pep* pep = nullptr;
    fid_ep* client = nullptr;
    fid_ep* server = nullptr;
    alignas(64) std::array<char, 256> memory{};
    std::array<int, 64> marks{};
    alignas(16) std::array<std::byte, 512> last_event{};
    Failure failure;
    int failures = 0;

private:
    static constexpr std::uint64_t kAccess =
        FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

    static int get_info(std::uint64_t flags, fi_info** out) {
        fi_info* hints = fi_allocinfo();
        hints->caps = FI_MSG | FI_RMA;
        hints->ep_attr->type = FI_EP_MSG;
        hints->domain_attr->mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        hints->fabric_attr->prov_name = strdup("verbs");
        const int rc = fi_getinfo(FI_VERSION(1, 17), kAddress, kPort, flags, hints, out);
        fi_freeinfo(hints);
        return rc;
    }
    bool once(const char* step, long code) {
        if (code == 0) return true;
        if (failures++ == 0) failure = {step, static_cast<int>(code)};
        return false;
    }
    template <class Call>
    bool twice(const char* step, const Call& call) {
        return once(step, call()) || (failures == 1 && once(step, call()));
    }
    template <class Fid>
    static void close_fid(Fid*& fid) {
        if (fid != nullptr) (void)fi_close(&fid->fid);
        fid = nullptr;
    }
};

}  // namespace compat::test
