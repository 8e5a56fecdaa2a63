// SPDX-License-Identifier: BSD-3-Clause
// fi_msg(3) and fi_tagged(3) of connectionless endpoints, and of the receive contexts that these
// share. A tag is all that tells the two apart.
#include "fi_compat/boundary.hpp"
#include "fi_compat/rdm_ep.hpp"
#include "fi_compat/srx.hpp"
#include "fi_compat/transfer.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

RdmEp& endpoint_of(const EpFace& face) {
    return static_cast<RdmEp&>(face.endpoint());
}

// --- sending

/// Where a message goes, and as what.
struct To {
    fi_addr_t peer;
    bool tagged = false;
    std::uint64_t tag = 0;
};

int check_send(const RdmEp& endpoint, core::MessageFlags flags, std::uint64_t length) noexcept {
    if (!endpoint.caps().send) return -FI_EOPNOTSUPP;
    if (flags.has(core::MessageFlag::data) && !carries_data(endpoint.granted_flags()))
        return -FI_EOPNOTSUPP;
    if (length > endpoint.limits().max_message) return -FI_EMSGSIZE;
    if (flags.has(core::MessageFlag::inject) && length > endpoint.limits().inject_message)
        return -FI_EMSGSIZE;
    return 0;
}

ssize_t send(RdmEp& endpoint, core::MessageFlags flags, const iovec* iov, void* const* descs,
             std::size_t count, To to, std::uint64_t data, void* context) noexcept {
    if (count > endpoint.limits().tx_iov) return endpoint.refuse(-FI_EINVAL);
    LocalList local;
    const bool needs_desc = endpoint.desc_required() && !flags.has(core::MessageFlag::inject);
    int bad = local.add(iov, descs, count, needs_desc);
    if (bad == 0) bad = check_send(endpoint, flags, local.length());
    if (bad != 0) return endpoint.refuse(bad);
    if (to.tagged) flags |= core::MessageFlag::tagged;
    return endpoint.send(to.peer, {.flags = flags,
                                   .local = local.buffers(),
                                   .length = local.length(),
                                   .tag = to.tag,
                                   .imm = data,
                                   .context = context,
                                   .entry_flags = to.tagged ? kTaggedSendEntry : kSendEntry});
}

core::MessageFlags plain(const EpFace& face) {
    return face.endpoint().with_entry(face.plain_message());
}

ssize_t send_list(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, To to,
                  void* context) noexcept {
    const EpFace& face = EpFace::of(fid);
    return send(endpoint_of(face), plain(face), iov, descs, count, to, 0, context);
}

ssize_t send_one(fid_ep* fid, const void* buffer, std::size_t length, void* desc, To to,
                 void* context) noexcept {
    const iovec iov{const_cast<void*>(buffer), length};
    return send_list(fid, &iov, &desc, 1, to, context);
}

ssize_t send_data(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                  std::uint64_t data, To to, void* context) noexcept {
    const EpFace& face = EpFace::of(fid);
    const iovec iov{const_cast<void*>(buffer), length};
    return send(endpoint_of(face), plain(face) | core::MessageFlag::data, &iov, &desc, 1, to, data,
                context);
}

ssize_t send_message(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, To to,
                     std::uint64_t data, void* context, std::uint64_t fi_flags) noexcept {
    RdmEp& endpoint = endpoint_of(EpFace::of(fid));
    if (!only_bits(fi_flags, endpoint.granted_flags())) return endpoint.refuse(-FI_EBADFLAGS);
    return send(endpoint, endpoint.with_entry(to_message_flags(fi_flags)), iov, descs, count, to,
                data, context);
}

ssize_t inject(fid_ep* fid, core::MessageFlags flags, const void* buffer, std::size_t length,
               std::uint64_t data, To to) noexcept {
    const iovec iov{const_cast<void*>(buffer), length};
    return send(endpoint_of(EpFace::of(fid)), flags, &iov, nullptr, 1, to, data, nullptr);
}
constexpr core::MessageFlags kInject = core::MessageFlag::inject;
constexpr core::MessageFlags kInjectData = core::MessageFlag::inject | core::MessageFlag::data;

ssize_t msg_send(fid_ep* fid, const void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                 void* context) {
    return send_one(fid, buffer, length, desc, {peer}, context);
}
ssize_t msg_sendv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t peer,
                  void* context) {
    return send_list(fid, iov, descs, count, {peer}, context);
}
ssize_t msg_sendmsg(fid_ep* fid, const fi_msg* msg, std::uint64_t flags) {
    return send_message(fid, msg->msg_iov, msg->desc, msg->iov_count, {msg->addr}, msg->data,
                        msg->context, flags);
}
ssize_t msg_inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t peer) {
    return inject(fid, kInject, buffer, length, 0, {peer});
}
ssize_t msg_senddata(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                     std::uint64_t data, fi_addr_t peer, void* context) {
    return send_data(fid, buffer, length, desc, data, {peer}, context);
}
ssize_t msg_injectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                       fi_addr_t peer) {
    return inject(fid, kInjectData, buffer, length, data, {peer});
}

ssize_t tagged_send(fid_ep* fid, const void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                    std::uint64_t tag, void* context) {
    return send_one(fid, buffer, length, desc, {peer, true, tag}, context);
}
ssize_t tagged_sendv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t peer,
                     std::uint64_t tag, void* context) {
    return send_list(fid, iov, descs, count, {peer, true, tag}, context);
}
ssize_t tagged_sendmsg(fid_ep* fid, const fi_msg_tagged* msg, std::uint64_t flags) {
    return send_message(fid, msg->msg_iov, msg->desc, msg->iov_count, {msg->addr, true, msg->tag},
                        msg->data, msg->context, flags);
}
ssize_t tagged_inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t peer,
                      std::uint64_t tag) {
    return inject(fid, kInject, buffer, length, 0, {peer, true, tag});
}
ssize_t tagged_senddata(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                        std::uint64_t data, fi_addr_t peer, std::uint64_t tag, void* context) {
    return send_data(fid, buffer, length, desc, data, {peer, true, tag}, context);
}
ssize_t tagged_injectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                          fi_addr_t peer, std::uint64_t tag) {
    return inject(fid, kInjectData, buffer, length, data, {peer, true, tag});
}

// --- receiving: Owner is RdmEp or Srx

RdmEp& owner_of(fid_ep* fid, const RdmEp*) {
    return endpoint_of(EpFace::of(fid));
}
Srx& owner_of(fid_ep* fid, const Srx*) {
    return Srx::of(fid);
}
std::uint64_t default_flags(fid_ep* fid, const RdmEp&) {
    return EpFace::of(fid).rx_flags();
}
std::uint64_t default_flags(fid_ep*, const Srx& srx) {
    return srx.rx_flags();
}

/// An endpoint whose receives come from a shared context takes none itself. One without a queue
/// for them can be enabled: programs that only write ask for FI_MSG all the same.
int check_receives(const RdmEp& endpoint) {
    if (!endpoint.caps().receive || endpoint.shares_receives()) return -FI_EOPNOTSUPP;
    return endpoint.tells_receives() ? 0 : -FI_ENOCQ;
}
int check_receives(const Srx&) {
    return 0;
}
std::size_t iov_limit(const RdmEp& endpoint) {
    return endpoint.limits().rx_iov;
}
std::size_t iov_limit(const Srx& srx) {
    return srx.iov_limit();
}
bool directs_receives(const RdmEp& endpoint) {
    return endpoint.caps().directed_receive;
}
bool directs_receives(const Srx& srx) {
    return srx.directed();
}
ssize_t take_claimed(RdmEp& endpoint, const core::MessageReceive& receive, bool discard) {
    return endpoint.take_claimed(receive, discard);
}
ssize_t take_claimed(Srx&, const core::MessageReceive&, bool) {
    return -FI_ENOSYS;
}

/// What a receive waits for.
struct From {
    fi_addr_t peer;
    bool tagged = false;
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;
};

template <class Owner>
core::MessageMatch match_of(const Owner& owner, const From& from) {
    // Without the capability the address of the sender means nothing.
    return {.tagged = from.tagged,
            .tag = from.tag,
            .ignore = from.ignore,
            .from = directs_receives(owner) ? from.peer : core::kNoAddress};
}
static_assert(FI_ADDR_UNSPEC == core::kNoAddress);

template <class Owner>
ssize_t receive(Owner& owner, const iovec* iov, void* const* descs, std::size_t count,
                const From& from, std::uint64_t fi_flags, void* context) noexcept {
    const bool multiple = !from.tagged && is_multi_receive(fi_flags);
    if (const int bad = check_receives(owner); bad != 0) return bad;
    if (count > iov_limit(owner) || (multiple && count != 1)) return -FI_EINVAL;
    LocalList local;
    if (const int bad = local.add(iov, descs, count, owner.desc_required()); bad != 0) return bad;
    const core::MessageReceive wanted{
        .match = match_of(owner, from),
        .local = local.buffers(),
        .context = context,
        .entry_flags = from.tagged ? kTaggedReceiveEntry : kReceiveEntry,
        .entry = owner.receive_entry(fi_flags),
        .multiple = multiple};
    if (claims(fi_flags)) return take_claimed(owner, wanted, discards(fi_flags));
    return owner.receive(wanted);
}

ssize_t peek(RdmEp& endpoint, const From& from, std::uint64_t fi_flags, void* context) noexcept {
    if (const int bad = check_receives(endpoint); bad != 0) return bad;
    return endpoint.peek({.match = match_of(endpoint, from),
                          .context = context,
                          .entry_flags = kTaggedReceiveEntry,
                          .claim = claims(fi_flags),
                          .discard = discards(fi_flags)});
}
ssize_t peek(Srx&, const From&, std::uint64_t, void*) noexcept {
    return -FI_ENOSYS;
}

template <class Owner>
ssize_t receive_list(fid_ep* fid, const iovec* iov, void** descs, std::size_t count,
                     const From& from, void* context) noexcept {
    Owner& owner = owner_of(fid, static_cast<const Owner*>(nullptr));
    return receive(owner, iov, descs, count, from, default_flags(fid, owner), context);
}

template <class Owner>
ssize_t msg_recvv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t peer,
                  void* context) {
    return receive_list<Owner>(fid, iov, descs, count, {peer}, context);
}
template <class Owner>
ssize_t msg_recv(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                 void* context) {
    const iovec iov{buffer, length};
    return receive_list<Owner>(fid, &iov, &desc, 1, {peer}, context);
}
template <class Owner>
ssize_t msg_recvmsg(fid_ep* fid, const fi_msg* msg, std::uint64_t flags) {
    if (!only_bits(flags, kReceiveFlags)) return -FI_EBADFLAGS;
    return receive(owner_of(fid, static_cast<const Owner*>(nullptr)), msg->msg_iov, msg->desc,
                   msg->iov_count, {msg->addr}, flags, msg->context);
}

template <class Owner>
ssize_t tagged_recvv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t peer,
                     std::uint64_t tag, std::uint64_t ignore, void* context) {
    return receive_list<Owner>(fid, iov, descs, count, {peer, true, tag, ignore}, context);
}
template <class Owner>
ssize_t tagged_recv(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                    std::uint64_t tag, std::uint64_t ignore, void* context) {
    const iovec iov{buffer, length};
    return receive_list<Owner>(fid, &iov, &desc, 1, {peer, true, tag, ignore}, context);
}
template <class Owner>
ssize_t tagged_recvmsg(fid_ep* fid, const fi_msg_tagged* msg, std::uint64_t flags) {
    if (!only_bits(flags, kTaggedReceiveFlags)) return -FI_EBADFLAGS;
    // Only what is looked at, or was claimed, can be dropped: fi_tagged(3), FI_DISCARD.
    if (discards(flags) && !peeks(flags) && !claims(flags)) return -FI_EINVAL;
    Owner& owner = owner_of(fid, static_cast<const Owner*>(nullptr));
    const From from{msg->addr, true, msg->tag, msg->ignore};
    if (peeks(flags)) return peek(owner, from, flags, msg->context);
    return receive(owner, msg->msg_iov, msg->desc, msg->iov_count, from, flags, msg->context);
}

}  // namespace

constinit fi_ops_msg kRdmMsgOps = {
    .size = sizeof(fi_ops_msg),
    .recv = msg_recv<RdmEp>,
    .recvv = msg_recvv<RdmEp>,
    .recvmsg = msg_recvmsg<RdmEp>,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

constinit fi_ops_tagged kRdmTaggedOps = {
    .size = sizeof(fi_ops_tagged),
    .recv = tagged_recv<RdmEp>,
    .recvv = tagged_recvv<RdmEp>,
    .recvmsg = tagged_recvmsg<RdmEp>,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};

constinit fi_ops_msg kRdmSrxMsgOps = {
    .size = sizeof(fi_ops_msg),
    .recv = msg_recv<Srx>,
    .recvv = msg_recvv<Srx>,
    .recvmsg = msg_recvmsg<Srx>,
    .send = kUnsupported,
    .sendv = kUnsupported,
    .sendmsg = kUnsupported,
    .inject = kUnsupported,
    .senddata = kUnsupported,
    .injectdata = kUnsupported,
};

constinit fi_ops_tagged kRdmSrxTaggedOps = {
    .size = sizeof(fi_ops_tagged),
    .recv = tagged_recv<Srx>,
    .recvv = tagged_recvv<Srx>,
    .recvmsg = tagged_recvmsg<Srx>,
    .send = kUnsupported,
    .sendv = kUnsupported,
    .sendmsg = kUnsupported,
    .inject = kUnsupported,
    .senddata = kUnsupported,
    .injectdata = kUnsupported,
};

}  // namespace compat::fi
