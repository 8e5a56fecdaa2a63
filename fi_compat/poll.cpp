// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/poll.hpp"

#include <algorithm>

#include "fi_compat/boundary.hpp"
#include "fi_compat/cntr.hpp"
#include "fi_compat/cq.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

int poll_slot(fid_poll* face, void** contexts, int count) {
    return c_boundary([&] { return PollSet::of(face).poll(contexts, count); });
}
int poll_add(fid_poll* face, struct ::fid* member, std::uint64_t flags) {
    return c_boundary([&] { return flags != 0 ? -FI_EBADFLAGS : PollSet::of(face).add(member); });
}
int poll_del(fid_poll* face, struct ::fid* member, std::uint64_t flags) {
    return c_boundary(
        [&] { return flags != 0 ? -FI_EBADFLAGS : PollSet::of(face).remove(member); });
}

constinit fi_ops kPollFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<PollSet>,
    .bind = kUnsupported,
    .control = kUnsupported,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_poll kPollOps = {
    .size = sizeof(fi_ops_poll),
    .poll = poll_slot,
    .poll_add = poll_add,
    .poll_del = poll_del,
};

bool has_something(struct ::fid* member) {
    return member->fclass == FI_CLASS_CQ ? Cq::of(member).poll() : Cntr::of(member).poll();
}

}  // namespace

PollSet::PollSet(Domain& domain) : Object(FI_CLASS_POLL, nullptr, kPollFiOps), domain_(domain) {
    ops = &kPollOps;
}

int PollSet::add(struct ::fid* member) {
    if (member->fclass != FI_CLASS_CQ && member->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(members_, member) == members_.end()) members_.push_back(member);
    return 0;
}

int PollSet::remove(struct ::fid* member) {
    const std::lock_guard lock(mutex_);
    return std::erase(members_, member) != 0 ? 0 : -FI_EINVAL;
}

int PollSet::poll(void** contexts, int count) {
    const std::lock_guard lock(mutex_);
    int found = 0;
    for (struct ::fid* member : members_)
        if (has_something(member) && found < count) contexts[found++] = member->context;
    return found;
}

int open_poll_set(Domain& domain, const fi_poll_attr& attr, fid_poll** poll_set) {
    if (attr.flags != 0) return -FI_EINVAL;
    *poll_set = (new PollSet(domain))->face();
    return 0;
}

}  // namespace compat::fi
