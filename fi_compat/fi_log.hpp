// SPDX-License-Identifier: BSD-3-Clause
// The library's log: FI_LOG_LEVEL, FI_LOG_PROV and FI_LOG_SUBSYS on stderr, or the object that the
// program handed in with fi_import_log().
#pragma once

#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>

namespace compat::fi {

/// Installs the core's log sink; every function that creates something calls it first.
void start_logging() noexcept;

/// Whether the user asked for lines of that level. Without FI_LOG_LEVEL there are none.
bool log_wanted(fi_log_level level, fi_log_subsys subsystem) noexcept;

/// One line, whatever the level is.
void write_log(fi_log_level level, fi_log_subsys subsystem, const char* function, int line,
               const char* text) noexcept;

/// Whether somebody wants to know why a call did not do what the program wanted:
/// FABRIC_COMPAT_EXPLAIN, or the log level.
bool explains(fi_log_level level, fi_log_subsys subsystem) noexcept;

/// fi_open("logging"): the object to which a program binds its own log.
int open_logging(struct ::fid** face, void* context);

}  // namespace compat::fi
