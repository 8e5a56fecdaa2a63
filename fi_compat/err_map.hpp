// SPDX-License-Identifier: BSD-3-Clause
// Core errors and completion statuses in libfabric's terms.
#pragma once

#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/core.hpp"

namespace compat::fi {

struct ErrRow {
    core::Errc core;
    int fi;
};

inline constexpr std::array kErrMap{
    ErrRow{core::Errc::invalid_argument, FI_EINVAL},
    ErrRow{core::Errc::no_memory, FI_ENOMEM},
    ErrRow{core::Errc::not_supported, FI_ENOSYS},
    ErrRow{core::Errc::would_block, FI_EAGAIN},
    ErrRow{core::Errc::wrong_state, FI_EOPBADSTATE},
    ErrRow{core::Errc::no_device, FI_ENODEV},
    ErrRow{core::Errc::address_in_use, FI_EADDRINUSE},
    ErrRow{core::Errc::unreachable, FI_EHOSTUNREACH},
    ErrRow{core::Errc::too_long, FI_EMSGSIZE},
    ErrRow{core::Errc::no_key, FI_ENOKEY},
    ErrRow{core::Errc::access_denied, FI_EACCES},
    ErrRow{core::Errc::busy, FI_EBUSY},
    ErrRow{core::Errc::interrupted, FI_EINTR},
    ErrRow{core::Errc::device, FI_EIO},
};

/// A completion status: what fi_cq_err_entry.err says of it. prov_errno carries the number that
/// ibv_wc_status(3) gives it, on every device, so that programs may compare it.
struct WcRow {
    core::WcStatus core;
    int fi_transmit;
    int fi_receive;
    int prov_errno;
};

inline constexpr std::array kWcMap{
    WcRow{core::WcStatus::success, 0, 0, 0},
    WcRow{core::WcStatus::local_length_error, FI_EMSGSIZE, FI_ETRUNC, 1},
    WcRow{core::WcStatus::local_qp_operation_error, FI_EINVAL, FI_EINVAL, 2},
    WcRow{core::WcStatus::local_protection_error, FI_EACCES, FI_EACCES, 4},
    WcRow{core::WcStatus::flushed, FI_ECANCELED, FI_ECANCELED, 5},
    WcRow{core::WcStatus::remote_invalid_request, FI_EREMOTEIO, FI_EREMOTEIO, 9},
    WcRow{core::WcStatus::remote_access_error, FI_EACCES, FI_EACCES, 10},
    WcRow{core::WcStatus::remote_operation_error, FI_EREMOTEIO, FI_EREMOTEIO, 11},
    WcRow{core::WcStatus::retry_exceeded, FI_ECONNRESET, FI_ECONNRESET, 12},
    WcRow{core::WcStatus::rnr_retry_exceeded, FI_ENORX, FI_ENORX, 13},
    WcRow{core::WcStatus::fatal, FI_EIO, FI_EIO, 19},
    WcRow{core::WcStatus::general_error, FI_EIO, FI_EIO, 21},
    WcRow{core::WcStatus::no_message, FI_ENOMSG, FI_ENOMSG, FI_ENOMSG},  // no verbs number
};

/// Whether a table has exactly one row for each enumerator, in their order.
template <class Table>
constexpr bool one_row_each(const Table& table, std::size_t count) {
    std::size_t expected = 0;
    return table.size() == count && std::ranges::all_of(table, [&](const auto& row) {
               return static_cast<std::size_t>(row.core) == expected++;
           });
}
static_assert(one_row_each(kErrMap, static_cast<std::size_t>(core::Errc::count_)),
              "a new Errc needs a row here");
static_assert(one_row_each(kWcMap, static_cast<std::size_t>(core::WcStatus::count_)),
              "a new WcStatus needs a row here");

/// The negative fabric errno of a core error. What the device itself said is more exact than EIO.
constexpr int to_fi(const core::Error& error) {
    if (error.code == core::Errc::device && error.device_errno > 0) return -error.device_errno;
    return -kErrMap[static_cast<std::size_t>(error.code)].fi;
}

/// The positive fabric errno and the prov_errno of a failed completion.
constexpr int wc_fi_errno(core::WcStatus status, bool receive_side) {
    const WcRow& row = kWcMap[static_cast<std::size_t>(status)];
    return receive_side ? row.fi_receive : row.fi_transmit;
}
constexpr int wc_prov_errno(core::WcStatus status) {
    return kWcMap[static_cast<std::size_t>(status)].prov_errno;
}

/// fi_cq_strerror(3): a static text for a prov_errno.
inline const char* prov_errno_text(int prov_errno) noexcept {
    const auto row = std::ranges::find(kWcMap, prov_errno, &WcRow::prov_errno);
    return row != kWcMap.end() ? core::wc_status_text(row->core) : "unknown provider error";
}

}  // namespace compat::fi
