// SPDX-License-Identifier: BSD-3-Clause
// fi_msg(3): messages of connected endpoints, and of the receive contexts that these share.
#include "fi_compat/boundary.hpp"
#include "fi_compat/endpoint.hpp"
#include "fi_compat/srx.hpp"
#include "fi_compat/transfer.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

constexpr fi_addr_t kThePeer = FI_ADDR_UNSPEC;  // a connection has one

int check_send(const Endpoint& endpoint, core::OpFlags flags, std::uint64_t length) noexcept {
    if (!endpoint.caps().send) return -FI_EOPNOTSUPP;
    if (length > endpoint.limits().max_message) return -FI_EMSGSIZE;
    if (flags.has(core::OpFlag::inject) && length > endpoint.limits().inject_message)
        return -FI_EMSGSIZE;
    return 0;
}

/// Calls with one buffer.
[[gnu::always_inline]] inline ssize_t send(Endpoint& endpoint, core::Opcode opcode,
                                           core::OpFlags flags, const void* buffer,
                                           std::size_t length, void* desc, std::uint64_t data,
                                           void* context) noexcept {
    int bad = check_send(endpoint, flags, length);
    const bool needs_desc = endpoint.desc_required() && !flags.has(core::OpFlag::inject);
    if (bad == 0 && needs_desc && desc == nullptr && length != 0) bad = -FI_EINVAL;
    if (bad != 0) [[unlikely]]
        return endpoint.refuse(bad);
    return endpoint.post(kThePeer, core::SingleOperation{.opcode = opcode,
                                                         .flags = flags,
                                                         .local = {const_cast<void*>(buffer),
                                                                   length, lkey_of(desc, buffer)},
                                                         .imm = data & endpoint.data_mask(),
                                                         .context = context,
                                                         .entry_flags = kSendEntry});
}

ssize_t send_list(Endpoint& endpoint, core::Opcode opcode, core::OpFlags flags, const iovec* iov,
                  void* const* descs, std::size_t count, std::uint64_t data,
                  void* context) noexcept {
    if (count > endpoint.limits().tx_iov) return endpoint.refuse(-FI_EINVAL);
    LocalList local;
    const bool needs_desc = endpoint.desc_required() && !flags.has(core::OpFlag::inject);
    int bad = local.add(iov, descs, count, needs_desc);
    if (bad == 0) bad = check_send(endpoint, flags, local.length());
    if (bad != 0) return endpoint.refuse(bad);
    return endpoint.post(kThePeer, core::Operation{.opcode = opcode,
                                                   .flags = flags,
                                                   .local = local.buffers(),
                                                   .length = local.length(),
                                                   .imm = data & endpoint.data_mask(),
                                                   .context = context,
                                                   .entry_flags = kSendEntry});
}

Endpoint& endpoint_of(const EpFace& face) {
    return static_cast<Endpoint&>(face.endpoint());
}

core::OpFlags plain(const EpFace& face) {
    return face.endpoint().with_entry(face.plain());
}

ssize_t msg_send(fid_ep* fid, const void* buffer, std::size_t length, void* desc, fi_addr_t,
                 void* context) {
    const EpFace& face = EpFace::of(fid);
    return send(endpoint_of(face), core::Opcode::send, plain(face), buffer, length, desc, 0,
                context);
}

ssize_t msg_sendv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t,
                  void* context) {
    const EpFace& face = EpFace::of(fid);
    return send_list(endpoint_of(face), core::Opcode::send, plain(face), iov, descs, count, 0,
                     context);
}

ssize_t msg_sendmsg(fid_ep* fid, const fi_msg* msg, std::uint64_t fi_flags) {
    Endpoint& endpoint = endpoint_of(EpFace::of(fid));
    if (!only_bits(fi_flags, endpoint.granted_flags())) return endpoint.refuse(-FI_EBADFLAGS);
    const core::Opcode opcode =
        carries_data(fi_flags) ? core::Opcode::send_imm : core::Opcode::send;
    return send_list(endpoint, opcode, endpoint.with_entry(to_op_flags(fi_flags)), msg->msg_iov,
                     msg->desc, msg->iov_count, msg->data, msg->context);
}

ssize_t msg_inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t) {
    const EpFace& face = EpFace::of(fid);
    return send(endpoint_of(face), core::Opcode::send, face.injecting(), buffer, length, nullptr, 0,
                nullptr);
}

ssize_t msg_senddata(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                     std::uint64_t data, fi_addr_t, void* context) {
    const EpFace& face = EpFace::of(fid);
    if (!carries_data(face.endpoint().granted_flags()))
        return endpoint_of(face).refuse(-FI_EOPNOTSUPP);
    return send(endpoint_of(face), core::Opcode::send_imm, plain(face), buffer, length, desc, data,
                context);
}

ssize_t msg_injectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                       fi_addr_t) {
    const EpFace& face = EpFace::of(fid);
    if (!carries_data(face.endpoint().granted_flags()))
        return endpoint_of(face).refuse(-FI_EOPNOTSUPP);
    return send(endpoint_of(face), core::Opcode::send_imm, face.injecting(), buffer, length,
                nullptr, data, nullptr);
}

/// Where a receive goes, and the rules it must keep.
struct Receiver {
    core::ReceiveQueue* queue;
    std::size_t iov_limit;
    bool needs_desc;
};

ssize_t receive(const Receiver& receiver, const iovec* iov, void* const* descs, std::size_t count,
                bool entry, bool multiple, void* context) noexcept {
    if (receiver.queue == nullptr) return -FI_EOPBADSTATE;
    if (count > receiver.iov_limit || (multiple && count != 1)) return -FI_EINVAL;
    LocalList local;
    if (const int bad = local.add(iov, descs, count, receiver.needs_desc); bad != 0) return bad;
    return to_return(receiver.queue->post({.local = local.buffers(),
                                           .context = context,
                                           .entry_flags = kReceiveEntry,
                                           .entry = entry,
                                           .multiple = multiple}));
}

Receiver receiver_of(Endpoint& endpoint) {
    return {endpoint.receives(), endpoint.limits().rx_iov, endpoint.desc_required()};
}
Receiver receiver_of(Srx& srx) {
    return {srx.queue(), srx.iov_limit(), srx.desc_required()};
}

/// An endpoint whose receives come from a shared context takes none itself.
int check_receives(const Endpoint& endpoint) {
    return endpoint.caps().receive && !endpoint.shares_receives() ? 0 : -FI_EOPNOTSUPP;
}

ssize_t msg_recvv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t,
                  void* context) {
    const EpFace& face = EpFace::of(fid);
    Endpoint& endpoint = endpoint_of(face);
    if (const int bad = check_receives(endpoint); bad != 0) return bad;
    return receive(receiver_of(endpoint), iov, descs, count,
                   endpoint.receive_entry(face.rx_flags()), is_multi_receive(face.rx_flags()),
                   context);
}

ssize_t msg_recv(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t source,
                 void* context) {
    const iovec iov{buffer, length};
    return msg_recvv(fid, &iov, &desc, 1, source, context);
}

ssize_t msg_recvmsg(fid_ep* fid, const fi_msg* msg, std::uint64_t fi_flags) {
    Endpoint& endpoint = endpoint_of(EpFace::of(fid));
    if (const int bad = check_receives(endpoint); bad != 0) return bad;
    if (!only_bits(fi_flags, kReceiveFlags)) return -FI_EBADFLAGS;
    return receive(receiver_of(endpoint), msg->msg_iov, msg->desc, msg->iov_count,
                   endpoint.receive_entry(fi_flags), is_multi_receive(fi_flags), msg->context);
}

ssize_t srx_recvv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t,
                  void* context) {
    Srx& srx = Srx::of(fid);
    return receive(receiver_of(srx), iov, descs, count, srx.receive_entry(srx.rx_flags()),
                   is_multi_receive(srx.rx_flags()), context);
}

ssize_t srx_recv(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t source,
                 void* context) {
    const iovec iov{buffer, length};
    return srx_recvv(fid, &iov, &desc, 1, source, context);
}

ssize_t srx_recvmsg(fid_ep* fid, const fi_msg* msg, std::uint64_t fi_flags) {
    Srx& srx = Srx::of(fid);
    if (!only_bits(fi_flags, kReceiveFlags)) return -FI_EBADFLAGS;
    return receive(receiver_of(srx), msg->msg_iov, msg->desc, msg->iov_count,
                   srx.receive_entry(fi_flags), is_multi_receive(fi_flags), msg->context);
}

}  // namespace

constinit fi_ops_msg kMsgOps = {
    .size = sizeof(fi_ops_msg),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

constinit fi_ops_msg kSrxMsgOps = {
    .size = sizeof(fi_ops_msg),
    .recv = srx_recv,
    .recvv = srx_recvv,
    .recvmsg = srx_recvmsg,
    .send = kUnsupported,
    .sendv = kUnsupported,
    .sendmsg = kUnsupported,
    .inject = kUnsupported,
    .senddata = kUnsupported,
    .injectdata = kUnsupported,
};

}  // namespace compat::fi
