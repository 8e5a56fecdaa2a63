#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that was linked to the distribution's librpma runs with the drop-in where librpma0 is
# not installed. Its file is hidden by a mount namespace; where none can be made: skipped.
#
#   rpma_without_upstream.sh RUN_PAIR SERVER CLIENT     COMPAT_PRELOAD: what to preload
set -u
skipped=77

if [ "${1-}" != hidden ]; then
    library=$(ldd "$2" | awk '$1 == "librpma.so.0" {print $3}')
    [ -e "$library" ] || { echo "the program is not linked to librpma.so.0"; exit 1; }
    unshare=(unshare --mount)
    [ "$(id -u)" = 0 ] || unshare=(unshare --mount --map-root-user)
    "${unshare[@]}" true 2>/dev/null || { echo "skipped: no mount namespace here"; exit $skipped; }
    exec "${unshare[@]}" "$0" hidden "$(readlink -f "$library")" "$@"
fi

library=$2 run_pair=$3 server=$4 client=$5
mount --bind /dev/null "$library" || { echo "skipped: cannot mount"; exit $skipped; }

# Without it the loader finds nothing to load.
if env -u LD_PRELOAD "$client" 127.0.0.1 1 2>/dev/null; [ $? != 127 ]; then
    echo "FAILED: the library is not hidden"
    exit 1
fi
"$run_pair" "$server" "$client" || exit 1

# Found by its name instead; a sanitizer's run time still has to come first.
runtime=${COMPAT_PRELOAD%:*}
[ "$runtime" != "$COMPAT_PRELOAD" ] || runtime=
directory=$(dirname "${COMPAT_PRELOAD##*:}")
LD_LIBRARY_PATH=$directory COMPAT_PRELOAD=$runtime "$run_pair" "$server" "$client"
