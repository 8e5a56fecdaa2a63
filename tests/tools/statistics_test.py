#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process's statistics are what it posted, while it runs and at its end.

usage: statistics_test.py INFO COUNTED      COMPAT_PRELOAD: what to preload
"""
import json
import os
import re
import stat
import subprocess
import sys

NO_STATISTICS = 3


def start(program, *arguments, **variables):
    environment = {**os.environ, "LD_PRELOAD": os.environ["COMPAT_PRELOAD"], **variables}
    process = subprocess.Popen([program, *arguments], env=environment, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    return process, json.loads(process.stdout.readline())


def ask(info, process, *options):
    done = subprocess.run([info, "--pid", str(process), *options], text=True, capture_output=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def end(process):
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def while_it_runs(info, counted, faults, *arguments):
    process, expected = start(counted, *arguments)
    pid = expected.pop("process")
    status, text, errors = ask(info, pid, "--json")
    if status != 0 or json.loads(text) != expected:
        faults.append(f"{arguments}: {status} {text} {errors}, not {expected}")
    status, text, _ = ask(info, pid)
    if status != 0 or not re.search(rf"^ +{expected['writes']}  writes ", text, re.M):
        faults.append(f"{arguments}: as text: {status} {text}")
    for name in os.listdir(f"/proc/{pid}/fd"):
        link = f"/proc/{pid}/fd/{name}"
        if "fabric-compat-statistics" in os.readlink(link):
            mode = stat.S_IMODE(os.stat(link).st_mode)
            if mode & 0o077:
                faults.append(f"the page can be opened by others: {mode:o}")
    status, errors = end(process)
    if status != 0 or "statistics" in errors:
        faults.append(f"{arguments}: ended with {status}: {errors}")


def at_the_end(counted, faults):
    process, expected = start(counted, FABRIC_COMPAT_STATISTICS="1")
    pid = expected.pop("process")
    status, errors = end(process)
    line = f"fabric-compat statistics of process {pid}: " + " ".join(
        f"{name} {value}" for name, value in expected.items() if value)
    if status != 0 or line not in errors.splitlines():
        faults.append(f"at the end: {status} {errors!r}, not {line!r}")


def of_nothing(counted, faults):
    done = subprocess.run([counted, "idle"], text=True, capture_output=True, timeout=60, check=False,
                          env={**os.environ, "LD_PRELOAD": os.environ["COMPAT_PRELOAD"],
                               "FABRIC_COMPAT_STATISTICS": "1"})
    if done.returncode != 0 or not done.stderr.endswith(": nothing was posted\n"):
        faults.append(f"of a process that posts nothing: {done.returncode} {done.stderr!r}")


def in_a_child(info, counted, faults):
    """What the parent did is not the child's, and is not printed twice."""
    process, expected = start(counted, "fork", FABRIC_COMPAT_STATISTICS="1")
    status, text, _ = ask(info, expected["process"])
    if status != NO_STATISTICS or text:
        faults.append(f"a child has its parent's statistics: {status} {text}")
    status, text, _ = ask(info, process.pid, "--json")
    if status != 0 or json.loads(text)["writes"] != expected["writes"]:
        faults.append(f"a parent has lost its statistics: {status} {text}")
    status, errors = end(process)
    if status != 0 or errors.count("statistics of process") != 1:
        faults.append(f"a parent and its child print {errors!r}")


def main():
    info, counted = sys.argv[1:]
    faults = []
    while_it_runs(info, counted, faults)
    if not any("san" in name for name in os.environ["COMPAT_PRELOAD"].split(":")):
        while_it_runs(info, counted, faults, "close")
    at_the_end(counted, faults)
    of_nothing(counted, faults)
    in_a_child(info, counted, faults)
    status, _, errors = ask(info, os.getpid())
    if status != NO_STATISTICS or "does not use the libraries" not in errors:
        faults.append(f"of this script: {status} {errors}")
    if ask(info, "soon")[0] != 2 or ask(info, 1, "--yaml")[0] != 2:
        faults.append("nonsense is taken for a process")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
