// SPDX-License-Identifier: BSD-3-Clause
// fi_rma(3): the nine calls, and how each becomes one operation of the engine. The same for both
// types of endpoints: Ep is Endpoint or RdmEp.
#include <limits>

#include "fi_compat/boundary.hpp"
#include "fi_compat/endpoint.hpp"
#include "fi_compat/rdm_ep.hpp"
#include "fi_compat/transfer.hpp"

namespace compat::fi {
namespace {

constexpr std::uint64_t kMaxKey = std::numeric_limits<std::uint32_t>::max();

/// Where the bytes go or come from, as calls without a list name it.
struct Target {
    fi_addr_t peer;
    std::uint64_t address;
    std::uint64_t key;
};

std::uint64_t entry_of(core::Opcode opcode) {
    return opcode == core::Opcode::read ? kReadEntry : kWriteEntry;
}

/// 0, or why an operation of so many bytes cannot be.
int check(const EndpointBase& endpoint, core::Opcode opcode, core::OpFlags flags,
          std::uint64_t length) noexcept {
    const bool reads = opcode == core::Opcode::read;
    if (reads ? !endpoint.caps().read : !endpoint.caps().write) return -FI_EOPNOTSUPP;
    if (length > endpoint.limits().max_rma) return -FI_EMSGSIZE;
    if (flags.has(core::OpFlag::inject) && length > endpoint.limits().inject_rma)
        return -FI_EMSGSIZE;
    return 0;
}

/// 0, or -FI_EKEYREJECTED: no region of this provider has such a key. Without bytes it is not
/// looked at.
int check_key(std::uint64_t key, std::uint64_t length) noexcept {
    return key > kMaxKey && length != 0 ? -FI_EKEYREJECTED : 0;
}

template <class Ep>
Ep& endpoint_of(const EpFace& face) {
    return static_cast<Ep&>(face.endpoint());
}

core::OpFlags plain(const EpFace& face) {
    return face.endpoint().with_entry(face.plain());
}
/// Defaults about source buffers and targets say nothing about a read.
core::OpFlags reading(const EpFace& face) {
    const core::OpFlags flags = plain(face);
    return flags.has(core::OpFlag::entry) ? core::OpFlags(core::OpFlag::entry) : core::OpFlags();
}

/// Calls with one buffer.
template <class Ep>
[[gnu::always_inline]] inline ssize_t transfer(Ep& endpoint, core::Opcode opcode,
                                               core::OpFlags flags, const void* buffer,
                                               std::size_t length, void* desc, Target target,
                                               std::uint64_t data, void* context) noexcept {
    int bad = check(endpoint, opcode, flags, length);
    if (bad == 0) bad = check_key(target.key, length);
    const bool needs_desc = endpoint.desc_required() && !flags.has(core::OpFlag::inject);
    if (bad == 0 && needs_desc && desc == nullptr && length != 0) bad = -FI_EINVAL;
    if (bad != 0) [[unlikely]]
        return endpoint.refuse(bad);
    return endpoint.post(
        target.peer,
        core::SingleOperation{.opcode = opcode,
                              .flags = flags,
                              .has_remote = true,
                              .rkey = static_cast<std::uint32_t>(target.key),
                              .remote_address = target.address,
                              .local = {const_cast<void*>(buffer), length, lkey_of(desc, buffer)},
                              .imm = data & endpoint.data_mask(),
                              .context = context,
                              .entry_flags = entry_of(opcode)});
}

/// Calls with a list of local buffers and one target.
template <class Ep>
ssize_t transfer_list(EpFace& face, core::Opcode opcode, const iovec* iov, void** descs,
                      std::size_t count, Target target, void* context) noexcept {
    Ep& endpoint = endpoint_of<Ep>(face);
    const core::OpFlags flags = opcode == core::Opcode::read ? reading(face) : plain(face);
    if (count > endpoint.limits().tx_iov) return endpoint.refuse(-FI_EINVAL);
    LocalList local;
    const bool needs_desc = endpoint.desc_required() && !flags.has(core::OpFlag::inject);
    int bad = local.add(iov, descs, count, needs_desc);
    if (bad == 0) bad = check(endpoint, opcode, flags, local.length());
    if (bad == 0) bad = check_key(target.key, local.length());
    if (bad != 0) return endpoint.refuse(bad);
    const core::RemoteRange remote{target.address, local.length(),
                                   static_cast<std::uint32_t>(target.key)};
    return endpoint.post(target.peer, core::Operation{.opcode = opcode,
                                                      .flags = flags,
                                                      .local = local.buffers(),
                                                      .remote = {&remote, 1},
                                                      .length = local.length(),
                                                      .context = context,
                                                      .entry_flags = entry_of(opcode)});
}

/// The remote ranges of a message call, checked against the bytes that are to move. Neighbours
/// become one: fewer work requests, and the target of a write with data learns its whole length.
class RemoteList {
public:
    RemoteList() noexcept {}

    int add(const fi_rma_iov* iov, std::size_t count, std::uint64_t length) noexcept {
        std::uint64_t total = 0;
        for (std::size_t at = 0; at < count; ++at) {
            if (const int bad = check_key(iov[at].key, iov[at].len); bad != 0) return bad;
            if (__builtin_add_overflow(total, iov[at].len, &total)) return -FI_EINVAL;
            add({iov[at].addr, iov[at].len, static_cast<std::uint32_t>(iov[at].key)});
        }
        return total == length ? 0 : -FI_EINVAL;
    }
    [[nodiscard]] std::span<const core::RemoteRange> ranges() const noexcept {
        return {ranges_, count_};
    }

private:
    void add(const core::RemoteRange& range) noexcept {
        core::RemoteRange* last = count_ != 0 ? &ranges_[count_ - 1] : nullptr;
        if (last != nullptr && last->rkey == range.rkey &&
            last->address + last->length == range.address) {
            last->length += range.length;
        } else if (last == nullptr || range.length != 0) {
            // Of several ranges without bytes the first one says where nothing goes.
            if (last != nullptr && last->length == 0) --count_;
            ranges_[count_++] = range;
        }
    }

    union {  // uninitialised, as in LocalList
        core::RemoteRange ranges_[core::kMaxSegments];
    };
    std::size_t count_ = 0;
};

template <class Ep>
ssize_t transfer_message(fid_ep* fid, core::Opcode opcode, const fi_msg_rma* msg,
                         std::uint64_t fi_flags) noexcept {
    Ep& endpoint = endpoint_of<Ep>(EpFace::of(fid));
    const std::uint64_t takes = opcode == core::Opcode::read
                                    ? endpoint.granted_flags() & ~kOnlyOfWrites
                                    : endpoint.granted_flags();
    if (!only_bits(fi_flags, takes)) return endpoint.refuse(-FI_EBADFLAGS);
    const bool fits = msg->iov_count <= endpoint.limits().tx_iov &&
                      msg->rma_iov_count <= endpoint.limits().rma_iov;
    if (!fits) return endpoint.refuse(-FI_EINVAL);
    const core::OpFlags flags = endpoint.with_entry(to_op_flags(fi_flags));
    const bool needs_desc = endpoint.desc_required() && !flags.has(core::OpFlag::inject);
    LocalList local;
    RemoteList remote;
    int bad = local.add(msg->msg_iov, msg->desc, msg->iov_count, needs_desc);
    if (bad == 0) bad = remote.add(msg->rma_iov, msg->rma_iov_count, local.length());
    if (bad == 0) bad = check(endpoint, opcode, flags, local.length());
    if (bad != 0) return endpoint.refuse(bad);
    if (carries_data(fi_flags)) opcode = core::Opcode::write_imm;
    return endpoint.post(msg->addr, core::Operation{.opcode = opcode,
                                                    .flags = flags,
                                                    .local = local.buffers(),
                                                    .remote = remote.ranges(),
                                                    .length = local.length(),
                                                    .imm = msg->data & endpoint.data_mask(),
                                                    .context = msg->context,
                                                    .entry_flags = entry_of(opcode)});
}

template <class Ep>
ssize_t rma_read(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                 std::uint64_t address, std::uint64_t key, void* context) {
    const EpFace& face = EpFace::of(fid);
    return transfer(endpoint_of<Ep>(face), core::Opcode::read, reading(face), buffer, length, desc,
                    {peer, address, key}, 0, context);
}

template <class Ep>
ssize_t rma_readv(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t peer,
                  std::uint64_t address, std::uint64_t key, void* context) {
    return transfer_list<Ep>(EpFace::of(fid), core::Opcode::read, iov, descs, count,
                             {peer, address, key}, context);
}

template <class Ep>
ssize_t rma_readmsg(fid_ep* fid, const fi_msg_rma* msg, std::uint64_t flags) {
    return transfer_message<Ep>(fid, core::Opcode::read, msg, flags);
}

template <class Ep>
ssize_t rma_write(fid_ep* fid, const void* buffer, std::size_t length, void* desc, fi_addr_t peer,
                  std::uint64_t address, std::uint64_t key, void* context) {
    const EpFace& face = EpFace::of(fid);
    return transfer(endpoint_of<Ep>(face), core::Opcode::write, plain(face), buffer, length, desc,
                    {peer, address, key}, 0, context);
}

template <class Ep>
ssize_t rma_writev(fid_ep* fid, const iovec* iov, void** descs, std::size_t count, fi_addr_t peer,
                   std::uint64_t address, std::uint64_t key, void* context) {
    return transfer_list<Ep>(EpFace::of(fid), core::Opcode::write, iov, descs, count,
                             {peer, address, key}, context);
}

template <class Ep>
ssize_t rma_writemsg(fid_ep* fid, const fi_msg_rma* msg, std::uint64_t flags) {
    return transfer_message<Ep>(fid, core::Opcode::write, msg, flags);
}

template <class Ep>
ssize_t rma_inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t peer,
                   std::uint64_t address, std::uint64_t key) {
    const EpFace& face = EpFace::of(fid);
    return transfer(endpoint_of<Ep>(face), core::Opcode::write, face.injecting(), buffer, length,
                    nullptr, {peer, address, key}, 0, nullptr);
}

template <class Ep>
ssize_t rma_writedata(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                      std::uint64_t data, fi_addr_t peer, std::uint64_t address, std::uint64_t key,
                      void* context) {
    const EpFace& face = EpFace::of(fid);
    if (!carries_data(face.endpoint().granted_flags()))
        return endpoint_of<Ep>(face).refuse(-FI_EOPNOTSUPP);
    return transfer(endpoint_of<Ep>(face), core::Opcode::write_imm, plain(face), buffer, length,
                    desc, {peer, address, key}, data, context);
}

template <class Ep>
ssize_t rma_injectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                       fi_addr_t peer, std::uint64_t address, std::uint64_t key) {
    const EpFace& face = EpFace::of(fid);
    if (!carries_data(face.endpoint().granted_flags()))
        return endpoint_of<Ep>(face).refuse(-FI_EOPNOTSUPP);
    return transfer(endpoint_of<Ep>(face), core::Opcode::write_imm, face.injecting(), buffer,
                    length, nullptr, {peer, address, key}, data, nullptr);
}

template <class Ep>
constexpr fi_ops_rma kCalls = {
    .size = sizeof(fi_ops_rma),
    .read = rma_read<Ep>,
    .readv = rma_readv<Ep>,
    .readmsg = rma_readmsg<Ep>,
    .write = rma_write<Ep>,
    .writev = rma_writev<Ep>,
    .writemsg = rma_writemsg<Ep>,
    .inject = rma_inject<Ep>,
    .writedata = rma_writedata<Ep>,
    .injectdata = rma_injectdata<Ep>,
};

}  // namespace

constinit fi_ops_rma kRmaOps = kCalls<Endpoint>;
constinit fi_ops_rma kRdmRmaOps = kCalls<RdmEp>;

}  // namespace compat::fi
