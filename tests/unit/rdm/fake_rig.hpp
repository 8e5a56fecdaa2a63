// SPDX-License-Identifier: BSD-3-Clause
// core/rdm on a fake device: one endpoint, and a peer that the test plays.
#pragma once

#include <array>
#include <cstring>

#include "core/rdm/endpoint.hpp"
#include "core/rdm/wire.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/unit/rdm/rig.hpp"

namespace compat::core {

using rdm::Hello;
using rdm::MessageKind;
using rdm::Refusal;
using test::Call;
using test::FakeCmId;
using test::FakeQp;

constexpr std::uint16_t kPeerPort = 7204;
constexpr std::uint32_t kPeerProbeKey = 0x9b;
constexpr std::uint64_t kPeerProbeAddress = 0x7000'1234;

struct FakeRig {
    test::FakeDevice device;
    AddressBook book;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<TrackedCq> cq;
    std::unique_ptr<RdmEndpoint> endpoint;
    std::vector<Completion> done;
    std::size_t before = 0;  ///< objects of the program

    FakeRig() {
        Limits& limits = device.current_limits;
        limits.unregistered_local = false;
        limits.imm_without_receive = false;
        limits.remote_access_events = false;
        limits.imm_bytes = 4;
        pd = std::move(*device.allocate_pd());
        cq = std::move(*TrackedCq::create(device, {.size = 64}));
        before = device.live();
    }

    Status open() {
        auto opened = RdmEndpoint::open({.device = &device,
                                         .pd = pd.get(),
                                         .addresses = &book,
                                         .address = loopback(1000),
                                         .transmit_cq = cq.get(),
                                         .receive_cq = cq.get(),
                                         .progress = RdmProgress::manual,
                                         .transmit_depth = 64,
                                         .receive_depth = 16,
                                         .max_inject_rma = 64});
        if (!opened) return failure(opened.error());
        endpoint = std::move(*opened);
        return {};
    }

    FakeCmId& listener() { return *device.cm_ids().front(); }
    /// Somebody asks, on this host if nothing else is said.
    void ask(const std::string& said, const SocketAddress& from = loopback(40'000)) {
        listener().deliver_request(said);
        device.cm_ids().back()->peer = from;
    }

    /// Long enough for every channel to be looked at.
    void poll() {
        for (int round = 0; round < 64; ++round) {
            const auto keep = [this](std::size_t, const Completion& completion) {
                done.push_back(completion);
            };
            while (cq->read(16, keep) != TrackedCq::kEmpty) {
                Completion failed;
                if (cq->read_error(failed)) done.push_back(failed);
            }
        }
    }

    std::uint64_t own_instance() {
        const std::string& said = device.cm_ids().back()->private_data;
        return rdm::parse_hello(std::as_bytes(std::span(said)))->instance;
    }
};

inline std::string hello(std::uint64_t instance, std::uint16_t port = kPeerPort) {
    const auto bytes = rdm::encode({.name = loopback(port),
                                    .instance = instance,
                                    .data_buffers = 32,
                                    .control_buffers = 8,
                                    .buffer_length = rdm::kBufferLength,
                                    .probe_rkey = kPeerProbeKey,
                                    .probe_address = kPeerProbeAddress});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string refusal(Refusal reason) {
    const auto bytes = rdm::encode(reason);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline FakeRig& of(void** state) {
    return *static_cast<FakeRig*>(*state);
}
inline int set_up(void** state) {
    *state = new FakeRig;
    return 0;
}
inline int tear_down(void** state) {
    delete static_cast<FakeRig*>(*state);
    return 0;
}

inline Status send_word(FakeRig& rig, AddressIndex to, std::uintptr_t number = 1) {
    static std::uint64_t word = 5;
    LocalBuffer local;
    return rig.endpoint->send(to, message_of(&word, sizeof word, number, local));
}

inline FakeQp& qp(FakeRig& rig) {
    return *rig.device.qps().back();
}

/// The first that the asking end sends: it only shows that there is somebody.
inline void take_greeting(FakeRig& rig) {
    FakeQp& own = qp(rig);
    assert_int_equal(own.posted.size(), 1);
    const auto header = rdm::parse_header(own.posted[0].inline_bytes);
    assert_true(header.has_value());
    assert_true(header->kind == MessageKind::permit);
    own.complete_send({.wr_id = own.posted[0].request.wr_id});
    own.posted.clear();
    rig.poll();
}

/// The peer answers the request of last.
inline void stand(FakeRig& rig, std::uint64_t instance = 77) {
    rig.device.cm_ids().back()->deliver(CmEventType::established, hello(instance));
    rig.poll();
    take_greeting(rig);
}

/// Opens, and connects to a peer of that instance.
inline AddressIndex connect(FakeRig& rig, std::uint64_t instance = 77) {
    assert_true(rig.open().has_value());
    const AddressIndex peer = *rig.book.insert(loopback(kPeerPort));
    assert_int_equal(send_word(rig, peer).error().code, Errc::would_block);
    stand(rig, instance);
    return peer;
}

/// As if the peer had sent that; nobody has looked yet.
inline void lay_down(FakeQp& own, const rdm::Header& header, std::span<const std::byte> rest = {}) {
    const test::PostedReceive buffer = own.posted_receives.front();
    own.posted_receives.erase(own.posted_receives.begin());
    auto* const memory = static_cast<std::byte*>(buffer.sges[0].address);
    rdm::encode(header, std::span<std::byte, rdm::kHeaderLength>(memory, rdm::kHeaderLength));
    if (!rest.empty()) std::memcpy(memory + rdm::kHeaderLength, rest.data(), rest.size());
    own.complete_receive({.wr_id = buffer.wr_id,
                          .opcode = WcOpcode::receive,
                          .byte_length = rdm::kHeaderLength + rest.size()});
}

inline void arrive(FakeRig& rig, const rdm::Header& header, std::span<const std::byte> rest = {}) {
    lay_down(qp(rig), header, rest);
    rig.poll();
}

/// The peer shows that it is there.
inline void greet(FakeRig& rig) {
    arrive(rig, {.kind = MessageKind::permit, .data_permit = 32, .control_permit = 8});
}

/// Everything that was posted comes back as after a failure of the QP.
inline void flush(FakeRig& rig, FakeQp& own) {
    for (const test::PostedSend& send : own.posted)
        own.complete_send({.wr_id = send.request.wr_id, .status = WcStatus::flushed});
    own.posted.clear();
    for (const test::PostedReceive& receive : own.posted_receives)
        own.complete_receive({.wr_id = receive.wr_id, .status = WcStatus::flushed});
    own.posted_receives.clear();
    rig.poll();
}

}  // namespace compat::core

#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
