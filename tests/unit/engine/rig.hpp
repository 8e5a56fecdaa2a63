// SPDX-License-Identifier: BSD-3-Clause
// One connection of the engine on a fake device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "core/engine/tracked_cq.hpp"
#include "core/engine/tracked_qp.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/fake_device.hpp"

namespace compat::core {

constexpr std::uint32_t kCqSize = 64;
constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kSignalInterval = 4;  // a quarter of the depth
constexpr std::uint32_t kReceiveDepth = 8;
constexpr std::uint32_t kMaxInline = 64;
constexpr std::size_t kMaxInject = 256;
constexpr std::uint64_t kMaxMessage = 1 << 20;
constexpr std::uint64_t kRemoteAddress = 0x7f00'1234'5000;
constexpr std::uint32_t kRemoteKey = 0xabcd;
constexpr std::uint64_t kSendFlags = 0x5eed;
constexpr std::uint64_t kReceiveFlags = 0xfeed;
constexpr std::uint64_t kRemoteWriteFlags = 0xbeef;

struct Rig {
    test::FakeDevice device;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<TrackedCq> cq;
    std::unique_ptr<TransmitQueue> transmit;
    std::unique_ptr<ReceiveQueue> receive;
    std::unique_ptr<CmId> id;
    std::unique_ptr<TrackedQp> qp;
    Counter sends;
    Counter writes;
    Counter reads;
    Counter receives;
    alignas(64) std::array<std::byte, 4096> memory{};

    [[nodiscard]] test::FakeQp& fake() { return *device.qps().back(); }
    [[nodiscard]] std::vector<test::PostedSend>& posted() { return fake().posted; }
};

struct RigOptions {
    std::uint32_t cq_size = kCqSize;
    std::uint32_t depth = kDepth;
    bool counters = false;
    bool open = true;
    bool automatic = false;
};

/// Makes the connection; a test may change the device first.
inline void connect(Rig& rig, const RigOptions& options = {}) {
    rig.pd = std::move(*rig.device.allocate_pd());
    rig.cq = std::move(
        *TrackedCq::create(rig.device, {.size = options.cq_size, .automatic = options.automatic}));
    rig.transmit = std::move(*TransmitQueue::create(
        *rig.cq, {.depth = options.depth,
                  .split = {.max_sge = 4, .max_sge_read = 2, .max_message = kMaxMessage},
                  .max_inline = kMaxInline,
                  .max_inject = kMaxInject,
                  .bounce_pd = rig.pd.get()}));
    rig.receive = std::move(*ReceiveQueue::create(kReceiveDepth, 4));
    if (options.counters) {
        rig.transmit->set_counter(OpKind::send, &rig.sends);
        rig.transmit->set_counter(OpKind::write, &rig.writes);
        rig.transmit->set_counter(OpKind::read, &rig.reads);
    }
    rig.id = std::move(*rig.device.create_cm_id(nullptr));
    if (!options.open) return;
    rig.qp = std::move(
        *TrackedQp::create(*rig.id, {.send_cq = rig.cq.get(),
                                     .receive_cq = rig.cq.get(),
                                     .transmit = rig.transmit.get(),
                                     .receive = rig.receive.get(),
                                     .qp = {.pd = rig.pd.get(), .send_depth = options.depth},
                                     .port = {.counter = options.counters ? &rig.receives : nullptr,
                                              .write_flags = kRemoteWriteFlags}}));
}

inline int set_up(void** state) {
    *state = new Rig;
    return 0;
}

inline int tear_down(void** state) {
    delete static_cast<Rig*>(*state);
    return 0;
}

inline Rig& of(void** state) {
    return *static_cast<Rig*>(*state);
}

inline void* context_of(std::uintptr_t number) {
    return reinterpret_cast<void*>(number);
}

/// Posts a one-buffer operation with the given flags.
inline Status post(Rig& rig, Opcode opcode, OpFlags flags, std::uint64_t length,
                   std::uintptr_t context, std::uint64_t imm = 0) {
    const LocalBuffer local{rig.memory.data(), length, 7};
    const RemoteRange remote{kRemoteAddress, length, kRemoteKey};
    return rig.transmit->post(
        Operation{.opcode = opcode,
                  .flags = flags,
                  .local = {&local, length != 0 ? 1U : 0U},
                  .remote = {&remote, kind_of(opcode) == OpKind::send ? 0U : 1U},
                  .length = length,
                  .imm = imm,
                  .context = context_of(context),
                  .entry_flags = kSendFlags});
}

inline Status post_write(Rig& rig, OpFlags flags, std::uintptr_t context) {
    return post(rig, Opcode::write, flags, 8, context);
}

/// The device finishes the nth request that was posted.
inline void finish(Rig& rig, std::size_t nth, WcStatus status = WcStatus::success,
                   std::uint32_t vendor_error = 0) {
    WorkCompletion wc;
    wc.wr_id = rig.posted().at(nth).request.wr_id;
    wc.status = status;
    wc.vendor_error = vendor_error;
    rig.fake().complete_send(wc);
}

inline std::vector<Completion> read_all(Rig& rig, std::size_t at_once = 16) {
    std::vector<Completion> entries;
    const auto write = [&entries](std::size_t, const Completion& entry) {
        entries.push_back(entry);
    };
    while (rig.cq->read(at_once, write) > 0) {
    }
    return entries;
}

inline bool is_signaled(Rig& rig, std::size_t nth) {
    return rig.posted().at(nth).request.flags.has(SendFlag::signaled);
}

}  // namespace compat::core
