// SPDX-License-Identifier: BSD-3-Clause
// core::Errc to RPMA_E_*. Upstream maps nearly every failure of verbs to RPMA_E_PROVIDER; the
// columns are the kinds of call where it looks closer.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>

#include "core/core.hpp"
#include "rpma_compat/boundary.hpp"

namespace compat::rpma {

struct ErrRow {
    core::Errc core;
    int provider;        ///< any call not named below
    int pd;              ///< allocation of the protection domain
    int advise;          ///< ibv_advise_mr
    int event;           ///< taking a connection event
    int wait;            ///< waiting for a completion
    int fallback_errno;  ///< the log's text when the device gave no errno
};

// A pending event of nobody is NO_EVENT as the manual says, not PROVIDER as librdmacm's EAGAIN
// turns out in upstream: every known program takes the latter for fatal.
constexpr std::array kErrMap{
    ErrRow{core::Errc::invalid_argument, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_INVAL,
           RPMA_E_PROVIDER, RPMA_E_PROVIDER, EINVAL},
    ErrRow{core::Errc::no_memory, RPMA_E_PROVIDER, RPMA_E_NOMEM, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, ENOMEM},
    ErrRow{core::Errc::not_supported, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_NOSUPP,
           RPMA_E_PROVIDER, RPMA_E_PROVIDER, EOPNOTSUPP},
    ErrRow{core::Errc::would_block, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_NO_EVENT, RPMA_E_NO_COMPLETION, EAGAIN},
    ErrRow{core::Errc::wrong_state, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, RPMA_E_UNKNOWN, ENOTCONN},
    ErrRow{core::Errc::no_device, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, RPMA_E_PROVIDER, ENODEV},
    ErrRow{core::Errc::address_in_use, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, RPMA_E_PROVIDER, EADDRINUSE},
    ErrRow{core::Errc::unreachable, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, RPMA_E_PROVIDER, EHOSTUNREACH},
    ErrRow{core::Errc::too_long, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, EMSGSIZE},
    ErrRow{core::Errc::no_key, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, ENOKEY},
    ErrRow{core::Errc::access_denied, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_INVAL,
           RPMA_E_PROVIDER, RPMA_E_PROVIDER, EFAULT},
    ErrRow{core::Errc::busy, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, EBUSY},
    ErrRow{core::Errc::interrupted, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, RPMA_E_NO_COMPLETION, EINTR},
    ErrRow{core::Errc::device, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER, RPMA_E_PROVIDER,
           RPMA_E_PROVIDER, EIO},
};

constexpr bool one_row_per_errc() {
    if (kErrMap.size() != static_cast<std::size_t>(core::Errc::count_)) return false;
    for (std::size_t index = 0; index < kErrMap.size(); ++index)
        if (kErrMap[index].core != static_cast<core::Errc>(index)) return false;
    return true;
}
static_assert(one_row_per_errc(), "a new Errc needs a row here, in the order of the enum");

constexpr const ErrRow& err_row(core::Errc code) {
    return kErrMap[static_cast<std::size_t>(code)];
}

/// What the device said by errno in the core's words.
constexpr core::Errc refined(const core::Error& error) {
    if (error.code != core::Errc::device) return error.code;
    switch (error.device_errno) {
        case ENOMEM: return core::Errc::no_memory;
        case EOPNOTSUPP: return core::Errc::not_supported;
        case EINVAL: return core::Errc::invalid_argument;
        case EFAULT: return core::Errc::access_denied;
        default: return error.code;
    }
}
static_assert(EOPNOTSUPP == ENOTSUP);

}  // namespace compat::rpma
