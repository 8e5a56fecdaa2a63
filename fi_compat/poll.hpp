// SPDX-License-Identifier: BSD-3-Clause
// Poll sets: fi_poll(3).
#pragma once

#include <rdma/fi_eq.h>

#include <mutex>
#include <vector>

#include "fi_compat/domain.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class PollSet final : public Object<PollSet, fid_poll> {
public:
    explicit PollSet(Domain& domain);

    int add(struct ::fid* member);
    int remove(struct ::fid* member);
    /// The contexts of up to count members that have something; makes progress on all.
    int poll(void** contexts, int count);

private:
    Ref<Domain> domain_;
    std::mutex mutex_;
    std::vector<struct ::fid*> members_;
};

}  // namespace compat::fi
