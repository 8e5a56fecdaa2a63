#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a test program, preloaded, where an RDMA device serves COMPAT_TEST_ADDRESS.
set -euo pipefail
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    echo "skipped: no RDMA device"
    exit 77
fi
cd "${TMPDIR:-/tmp}"  # the machine's build folder is the host's: such files cannot be registered
LD_PRELOAD=$COMPAT_PRELOAD exec "$@"
