/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls from a constructor, before main() and before the program's own objects are made, and again
 * from an exit handler: programs do both.
 */
#include <rdma/fabric.h>
#include <rdma/fi_ext.h>
#include <stdio.h>
#include <stdlib.h>

static int g_early_status = -1;

static int use_the_library(void) {
    struct fi_info* info = NULL;
    struct fi_param* params = NULL;
    struct fid* log = NULL;
    int count = 0;
    if (fi_version() != FI_VERSION(2, 5)) return __LINE__;
    if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, NULL, &info) != 0) return __LINE__;
    if (fi_tostr(info, FI_TYPE_INFO) == NULL) return __LINE__;
    fi_freeinfo(info);
    if (fi_open(FI_VERSION(1, 13), "logging", NULL, 0, 0, &log, NULL) != 0) return __LINE__;
    if (fi_close(log) != 0) return __LINE__;
    if (fi_getparams(&params, &count) != 0 || count == 0) return __LINE__;
    fi_freeparams(params);
    return 0;
}

__attribute__((constructor)) static void early(void) {
    g_early_status = use_the_library();
}

static void late(void) {
    const int status = use_the_library();
    if (status == 0) return;
    fprintf(stderr, "at exit: line %d\n", status);
    _Exit(1);
}

int main(void) {
    if (g_early_status != 0) {
        fprintf(stderr, "before main: line %d\n", g_early_status);
        return 1;
    }
    return atexit(late);
}
