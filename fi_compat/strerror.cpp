// SPDX-License-Identifier: BSD-3-Clause
#include <rdma/fi_errno.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "fi_compat/boundary.hpp"

namespace {

struct Text {
    int number;
    const char* text;
};

constexpr std::array kTexts{
    Text{FI_EOTHER, "Unspecified error"},
    Text{FI_ETOOSMALL, "Provided buffer is too small"},
    Text{FI_EOPBADSTATE, "Object is not in a state that permits the operation"},
    Text{FI_EAVAIL, "Error entry available"},
    Text{FI_EBADFLAGS, "Flags not supported"},
    Text{FI_ENOEQ, "No event queue bound"},
    Text{FI_EDOMAIN, "Object belongs to another domain"},
    Text{FI_ENOCQ, "No completion queue bound"},
    Text{FI_ECRC, "Checksum mismatch"},
    Text{FI_ETRUNC, "Message truncated"},
    Text{FI_ENOKEY, "Memory key not available"},
    Text{FI_ENOAV, "No address vector bound"},
    Text{FI_EOVERRUN, "Queue overrun"},
    Text{FI_ENORX, "Receiver not ready, no receive buffer posted"},
    Text{FI_ENOMR, "Out of memory registrations"},
    Text{FI_EFIREWALLADDR, "Address not reachable through a firewall"},
};
static_assert(kTexts.size() == FI_ERRNO_MAX - FI_ERRNO_OFFSET, "a new error needs a text here");
static_assert(kTexts.back().number == FI_ERRNO_MAX - 1, "texts are in the order of fi_errno.h");

}  // namespace

extern "C" COMPAT_EXPORT const char* fi_strerror(int errnum) {
    const unsigned number =
        errnum < 0 ? 0u - static_cast<unsigned>(errnum) : static_cast<unsigned>(errnum);
    if (number >= FI_ERRNO_MAX) return kTexts.front().text;
    if (number >= FI_ERRNO_OFFSET) return kTexts[number - FI_ERRNO_OFFSET].text;
    // Static, untranslated and known for every number up to EHWPOISON; strerror() would share its
    // buffer with the host.
    const char* text = strerrordesc_np(static_cast<int>(number));
    return text != nullptr ? text : kTexts.front().text;
}
