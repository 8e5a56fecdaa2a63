// SPDX-License-Identifier: BSD-3-Clause
// struct fi_info as C owns it: every pointer in it comes from malloc(), because applications free
// and replace what they find (fi_getinfo(3)).
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <memory>

#include "core/core.hpp"

namespace compat::fi {

/// What fi_freeinfo(3) does: the whole list; null is fine.
void free_info(fi_info* info) noexcept;

struct InfoDeleter {
    void operator()(fi_info* info) const noexcept { free_info(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

/// How many bytes of each structure a program has that was linked with a symbol version: reading
/// more of what it passes in would read past its objects.
struct InfoLayout {
    std::size_t info;
    std::size_t tx_attr;
    std::size_t rx_attr;
    std::size_t ep_attr;
    std::size_t domain_attr;
    std::size_t fabric_attr;
};

/// The nodes at which a structure grew; 1.4 to 1.6 are as 1.3, 1.8 and 1.9 as named.
inline constexpr InfoLayout kLayout10{112, 72, 64, 80, 120, 28};  // api_version is tail padding
inline constexpr InfoLayout kLayout11{112, 72, 64, 96, 184, 32};
inline constexpr InfoLayout kLayout12{120, 72, 64, 96, 184, 32};
inline constexpr InfoLayout kLayout13{120, 80, 64, 96, 192, 32};
inline constexpr InfoLayout kLayout17{120, 80, 64, 96, 200, 32};
inline constexpr InfoLayout kLayout18{120, 80, 64, 96, 208, 32};
inline constexpr InfoLayout kLayout19{sizeof(fi_info),        sizeof(fi_tx_attr),
                                      sizeof(fi_rx_attr),     sizeof(fi_ep_attr),
                                      sizeof(fi_domain_attr), sizeof(fi_fabric_attr)};

/// An info with all its attribute structures, zero-filled. Throws std::bad_alloc, as all here do.
InfoPtr make_info();

/// A deep copy of one info (not of those after it), full size whatever the layout of the original.
/// handle, domain and fabric are copied as pointers; nic through its FI_DUP control.
InfoPtr duplicate_info(const fi_info& info, const InfoLayout& layout = kLayout19);

/// Replace a malloc'd member.
void set_text(char*& member, const char* text);
void set_source(fi_info& info, const core::SocketAddress& address);
void set_destination(fi_info& info, const core::SocketAddress& address);

}  // namespace compat::fi
