#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Our libraries in other people's programs: these print and end as they do without.

usage: guest_test.py HOST LIBRARY...
"""
import os
import subprocess
import sys

BASH = """
set -o pipefail; trap 'echo trapped' USR1; kill -USR1 $$
fds=(/proc/$$/fd/*); tasks=(/proc/$$/task/*); echo ${#fds[@]} ${#tasks[@]}; 
while read -r line; do case $line in Sig[BIC]*) echo "$line" ;; esac; done </proc/$$/status
(exit 3) | cat; echo "status $?"; read -r line < <(echo text); echo "$line"; false || exit 42
"""
PYTHON = """
import os, signal, subprocess, sys, threading
print(len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task')))
print([l for l in open('/proc/self/status') if l[:4] in ('SigB', 'SigI', 'SigC')])
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE))
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
print(subprocess.run(['true']).returncode, os.getcwd(), os.umask(0o22))
sys.exit(17)
"""


def output_of(command, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(command, env=environment | variables, capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    host, *libraries = sys.argv[1:]
    preload = ":".join(libraries)
    programs = {
        "bash": (["bash", "-c", BASH], 42),
        "python3": (["/usr/bin/python3", "-S", "-c", PYTHON], 17),
        "state": ([host, "state"], 0),
        "threads": ([host, "threads"], 7),
        "fork and exec": ([host, "exec"], 11),
        "all descriptors closed": ([host, "close"], 9),
        "called at exit": ([host, "atexit"], 5),
    }
    faults = []
    for name, (command, status) in programs.items():
        alone = output_of(command)
        with_us = output_of(command, LD_PRELOAD=preload)
        if with_us != alone or alone[0] != status or alone[2]:
            faults.append(f"{name}: alone {alone}\nwith us {with_us}")
    cycles = output_of([host, "cycles", *libraries])
    if cycles[0] != 3 or cycles[2] or "calls: 0" not in cycles[1]:
        faults.append(f"dlopen and dlclose: {cycles}")
    print("\n".join(faults) or f"{len(programs) + 1} programs ran as they do without us")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
