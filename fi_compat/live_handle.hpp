// SPDX-License-Identifier: BSD-3-Clause
// Programs bring handles back in an fi_info, or to fi_reject(3), when what they name may be gone:
// those that live are listed, and no other is followed.
#pragma once

#include <rdma/fabric.h>

namespace compat::fi {

/// A member of the object behind the handle: listed as long as it lives.
class LiveHandle {
public:
    explicit LiveHandle(const struct ::fid* handle) noexcept;
    LiveHandle(const LiveHandle&) = delete;
    LiveHandle& operator=(const LiveHandle&) = delete;
    ~LiveHandle();

    static bool contains(const struct ::fid* handle) noexcept;

private:
    const struct ::fid* handle_;
    LiveHandle* previous_ = nullptr;
    LiveHandle* next_;
};

}  // namespace compat::fi
