#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A trace has each post of a process once, and for each exactly one end.

usage: trace_test.py rpma COUNTED | fabric PROGRAM      COMPAT_PRELOAD: what to preload
"""
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = {"sends": "send", "writes": "write", "reads": "read", "receives": "receive"}
POSTED = ("operation", "queue", "bytes", "local", "lkey", "flags", "context", "peer")


def environment(folder, **variables):
    return {**os.environ, "LD_PRELOAD": os.environ["COMPAT_PRELOAD"],
            "FABRIC_COMPAT_TRACE": str(Path(folder) / "trace"), **variables}


def read(folder):
    """The events of each process; a file that is no JSON ends the test."""
    files = {}
    for path in Path(folder).glob("trace.*.json"):
        events = json.loads(path.read_text())
        pid = int(path.name.split(".")[1])
        assert events[0]["name"] == "process_name" and events[0]["pid"] == pid, path.name
        files[pid] = events[1:]
    return files


def faults_of(events, pid, open_allowed=False):
    faults = []
    by_id = collections.defaultdict(list)
    for event in events:
        by_id[event["id"]].append(event)
        if event["pid"] != pid or event["tid"] <= 0:
            faults.append(f"not of this process: {event}")
    for number, steps in by_id.items():
        phases = "".join(sorted(step["ph"] for step in steps))
        if phases.replace("n", "") != "be" and not (open_allowed and phases == "b"):
            faults.append(f"{number} has {phases}: {steps}")
            continue
        at = {step["ph"]: step for step in steps}
        if any(key not in at["b"]["args"] for key in POSTED):
            faults.append(f"{at['b']} lacks something")
        if at["b"]["args"]["operation"] in ("write", "read") and "rkey" not in at["b"]["args"]:
            faults.append(f"{at['b']} has no key")
        times = [at[phase]["ts"] for phase in "bne" if phase in at]
        if times != sorted(times) or len({step["name"] for step in steps if step["ph"] != "n"}) != 1:
            faults.append(f"{number} is out of order: {steps}")
        sent = at["b"]["name"] != "receive"
        if sent and "e" in at and at["e"]["args"]["status"] == "success" and "n" not in at:
            faults.append(f"nobody acknowledged {steps}")
    return faults


def posts(events):
    return collections.Counter(event["name"] for event in events if event["ph"] == "b")


def statuses(events):
    return collections.Counter(event["args"]["status"] for event in events if event["ph"] == "e")


def start(folder, program, *arguments):
    process = subprocess.Popen([program, *arguments], env=environment(folder), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    return process, json.loads(process.stdout.readline())


def compare_counted(events, expected):
    found = collections.Counter(event["args"]["operation"] for event in events
                                if event["ph"] == "b")
    wanted = {word: expected[name] for name, word in KINDS.items()}
    wanted["flush"] = expected["flushes"]
    faults = [] if found == wanted else [f"{found}, not {wanted}"]
    ends = statuses(events)
    if ends["success"] != expected["completions"]:
        faults.append(f"{ends} but {expected['completions']} completions")
    if ends["work request flushed"] != expected["flushed"]:
        faults.append(f"{ends} but {expected['flushed']} flushed")
    if any("127.0.0.1:" not in event["args"]["peer"] for event in events if event["ph"] == "b"):
        faults.append("a peer has no address")
    return faults


def rpma_case(counted, how, killed):
    with tempfile.TemporaryDirectory() as folder:
        process, expected = start(folder, counted, *how)
        if killed:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        files = read(folder)
        if list(files) != [process.pid]:
            return [f"{how}: files of {list(files)}, not of {process.pid}"]
        events = files[process.pid]
        return faults_of(events, process.pid) + compare_counted(events, expected)


def rpma(counted):
    faults = []
    for how in ((), ("fork",), ("close",)):
        if how == ("close",) and "san" in os.environ["COMPAT_PRELOAD"]:
            continue
        for killed in (False, True):
            faults += rpma_case(counted, how, killed and not how)
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(folder)
        del variables["FABRIC_COMPAT_TRACE"]
        subprocess.run([counted], env=variables, stdin=subprocess.DEVNULL, capture_output=True,
                       cwd=folder, timeout=60, check=True)
        if os.listdir(folder):
            faults.append(f"written though nobody asked: {os.listdir(folder)}")
    return faults


def fabric(program):
    """What the trace has is what the statistics have, process by process."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program], env=environment(folder, FABRIC_COMPAT_STATISTICS="1"),
                              text=True, capture_output=True, timeout=240, check=False)
        if done.returncode != 0:
            return [f"{done.returncode}: {done.stdout}{done.stderr}"]
        files = read(folder)
        told = re.findall(r"statistics of process (\d+):(.*)", done.stderr)
        faults = [] if told else ["no statistics to compare with"]
        for pid, line in told:
            events = files.get(int(pid), [])
            numbers = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", line)}
            wanted = {kind: numbers[name] for name, kind in KINDS.items() if numbers.get(name)}
            if posts(events) != wanted:
                faults.append(f"{pid}: {posts(events)}, not {wanted}")
            faults += faults_of(events, int(pid))
        return faults


if __name__ == "__main__":
    found = {"rpma": rpma, "fabric": fabric}[sys.argv[1]](sys.argv[2])
    print("\n".join(found[:20]))
    sys.exit(bool(found))
