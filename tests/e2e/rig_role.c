// SPDX-License-Identifier: BSD-3-Clause
#include "rig_role.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* const kRole = "COMPAT_RIG_ROLE";

const char* rig_address(void) {
    const char* address = getenv("COMPAT_TEST_ADDRESS");
    return address != NULL ? address : "127.0.0.1";
}

bool rig_is_given_an_address(void) {
    return getenv("COMPAT_TEST_ADDRESS") != NULL;
}

void rig_leave_role_to_upstream(const struct rig_role* role) {
    const char* upstream = getenv("COMPAT_RIG_UPSTREAM");
    if (upstream == NULL || strcmp(upstream, role->passive ? "passive" : "active") != 0) return;
    char text[64];
    snprintf(text, sizeof text, "%zu %d %d %d", role->test, role->passive, role->other,
             (int)role->other_pid);
    setenv(kRole, text, 1);
    unsetenv("LD_PRELOAD");
    const char* path = getenv("COMPAT_RIG_UPSTREAM_PATH");
    if (path != NULL) setenv("LD_LIBRARY_PATH", path, 1);
    fcntl(role->other, F_SETFD, 0);
    char name[] = "/proc/self/exe";
    char* arguments[] = {name, NULL};
    execv(name, arguments);
    perror("cannot start the role of upstream");
    _exit(EXIT_FAILURE);
}

bool rig_resumed_role(struct rig_role* role) {
    const char* text = getenv(kRole);
    if (text == NULL) return false;
    int passive = 0;
    int pid = 0;
    if (sscanf(text, "%zu %d %d %d", &role->test, &passive, &role->other, &pid) != 4) return false;
    role->passive = passive != 0;
    role->other_pid = pid;
    unsetenv(kRole);
    return true;
}
