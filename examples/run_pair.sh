#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a server and a client at a port that nobody has.
#
#   run_pair.sh SERVER CLIENT      each is called with ADDRESS and PORT
#
# The address is COMPAT_TEST_ADDRESS, or 127.0.0.1. The server says "listening" when it does. With
# COMPAT_PRELOAD set both get it as LD_PRELOAD. Exit status 0 if that of both is.
set -u
server=$1 client=$2 address=${COMPAT_TEST_ADDRESS:-127.0.0.1}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

taken() { grep -qiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F:]+ 0A" /proc/net/tcp; }

for try in 1 2 3 4 5; do
    port=$((20000 + (RANDOM * 7 + $$ + try) % 12000))
    taken "$port" && continue
    env ${COMPAT_PRELOAD:+LD_PRELOAD="$COMPAT_PRELOAD"} "$server" "$address" "$port" >"$said" &
    server_pid=$!
    until grep -q ^listening "$said"; do
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.02
    done
    env ${COMPAT_PRELOAD:+LD_PRELOAD="$COMPAT_PRELOAD"} "$client" "$address" "$port"
    client_status=$?
    [ "$client_status" = 0 ] || kill "$server_pid" 2>/dev/null
    wait "$server_pid"
    server_status=$?
    cat "$said"
    echo "the client ended with $client_status, the server with $server_status"
    [ "$client_status" = 0 ] && [ "$server_status" = 0 ]
    exit
done
echo "no free port found" >&2
exit 1
