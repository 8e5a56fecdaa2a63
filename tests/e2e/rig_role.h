// SPDX-License-Identifier: BSD-3-Clause
// Where the programs meet, and which of them is served by the library of others.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rig_role {
    size_t test;  // its number
    bool passive;
    int other;  // socket
    pid_t other_pid;
};

/// COMPAT_TEST_ADDRESS, else 127.0.0.1.
const char* rig_address(void);
/// The first of the two: an address of an RDMA device.
bool rig_is_given_an_address(void);

/// With COMPAT_RIG_UPSTREAM=passive or active that role runs without what is preloaded, that is on
/// the library that the program is linked to, or on that in the folder COMPAT_RIG_UPSTREAM_PATH.
/// Does not return then: the program is started again, for rig_resumed_role().
void rig_leave_role_to_upstream(const struct rig_role* role);
/// True in a program that was started again.
bool rig_resumed_role(struct rig_role* role);
