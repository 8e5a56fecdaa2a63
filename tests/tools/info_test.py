#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What fabric-compat-info says, against what programs see.

usage: info_test.py INFO COMPATIBILITY.MD DROPIN-LIBFABRIC [SANITIZER-RUNTIME]
"""
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

KERNEL_DEVICES = Path("/sys/class/infiniband")
NODES = {"libfabric.so.1": [f"FABRIC_1.{n}" for n in range(10)], "librpma.so.0": ["LIBRPMA_1.0"]}


class Suite:
    def __init__(self, info):
        self.info = info
        self.faults = 0

    def output(self, *arguments, program=None, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FABRIC_COMPAT_")}
        done = subprocess.run([program or self.info, *arguments], env=environment | variables,
                              text=True, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def require(self, condition, text):
        if not condition:
            self.faults += 1
            print(text)


def matrix(suite, committed):
    status, text, errors = suite.output("--markdown", FABRIC_COMPAT_DEVICE="soft")
    suite.require(status == 0 and not errors, f"--markdown: {status} {errors}")
    wanted = Path(committed).read_text(encoding="utf-8")
    if text != wanted:
        suite.require(False, f"{committed} is not what the libraries do; make it anew:\n"
                             "FABRIC_COMPAT_DEVICE=soft fabric-compat-info --markdown")
        print("\n".join(difflib.unified_diff(wanted.splitlines(), text.splitlines(), "committed",
                                             "printed", lineterm="")))


def facts(suite):
    status, text, errors = suite.output("--json", FABRIC_COMPAT_CRC="on", FABRIC_COMPAT_LOG="")
    suite.require(status == 0 and not errors, f"--json: {status} {errors}")
    found = json.loads(text)
    suite.require("compat0" in [row["name"] for row in found["devices"]], "no software device")
    nodes = {row["name"]: row["symbol versions"].split(", ") for row in found["libraries"]}
    suite.require(nodes == NODES, f"versions: {nodes}")
    settings = {row["name"]: row for row in found["environment"]}
    suite.require(settings["FABRIC_COMPAT_CRC"]["value"] == "on", "a variable is not seen")
    suite.require(settings["FABRIC_COMPAT_CRC"]["set"], "a variable is not said to be set")
    suite.require(not settings["FABRIC_COMPAT_LOG"]["set"], "an empty variable is said to be set")
    plain = suite.output()
    suite.require(plain[0] == 0 and not plain[2], f"without options: {plain}")
    for word in ("compat0", "FI_EP_MSG", "FABRIC_1.9", "FABRIC_COMPAT_DEVICE"):
        suite.require(word in plain[1], f"no {word} in {plain[1]}")
    return found


def absences(suite):
    in_kernel = sorted(os.listdir(KERNEL_DEVICES)) if KERNEL_DEVICES.is_dir() else []
    _, text, _ = suite.output("--json", FABRIC_COMPAT_DEVICE="soft")
    absent = "\n".join(json.loads(text)["absent"])
    suite.require("RDMA devices: left out by FABRIC_COMPAT_DEVICE=soft" in absent, absent)
    status, text, _ = suite.output("--json", FABRIC_COMPAT_DEVICE="verbs")
    found = json.loads(text)
    absent = "\n".join(found["absent"])
    suite.require("the software device: left out by FABRIC_COMPAT_DEVICE=verbs" in absent, absent)
    names = [row["name"] for row in found["devices"]]
    for name in in_kernel:
        suite.require(name in names or f"{name}: in the kernel" in absent, f"nothing of {name}")
    if not in_kernel:
        suite.require("the kernel has none" in absent, absent)
        endpoints = [row["name"] for row in found["endpoints"]]
        suite.require(not any("verbs" in name for name in endpoints), f"verbs: {endpoints}")


def as_programs_see_it(suite, found, library, runtime):
    """The distribution's fi_info, on our library, sees no capability that we do not say. It asks
    for nothing, and what is granted only to who asks is missing there."""
    if not shutil.which("fi_info"):
        print("not compared: fi_info is not installed")
        return
    preload = f"{runtime}:{library}".strip(":")
    _, text, _ = suite.output("-v", program="fi_info", LD_PRELOAD=preload,
                              ASAN_OPTIONS="detect_leaks=0")
    seen = set()
    for info in text.split("fi_info:\n")[1:]:
        caps = re.search(r"caps: \[ (.*?) \]", info)[1].split(", ")
        name = re.search(r"prov_name: (\S+)", info)[1]
        kind = re.search(r"type: (FI_EP_\w+)", info)[1]
        seen.add((f"{name} {kind}", tuple(sorted(caps))))
    said = {row["name"]: {key for key, value in row.items()
                          if key.startswith("FI_") and value is True}
            for row in found["endpoints"]}
    suite.require({name for name, _ in seen} == set(said), f"fi_info sees {seen}, we say {said}")
    for name, caps in seen:
        suite.require(set(caps) <= said.get(name, set()), f"fi_info sees {name} {caps}")


def command_line(suite):
    for words in (["--no-such"], ["--json", "--json"]):
        status, text, errors = suite.output(*words)
        suite.require(status == 2 and not text and "usage:" in errors, f"{words}: {status}")
    for word in ("--help", "--version"):
        status, text, errors = suite.output(word)
        suite.require(status == 0 and text and not errors, f"{word}: {status} {errors}")


def main():
    suite = Suite(sys.argv[1])
    matrix(suite, sys.argv[2])
    found = facts(suite)
    absences(suite)
    as_programs_see_it(suite, found, sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else "")
    command_line(suite)
    return bool(suite.faults)


if __name__ == "__main__":
    sys.exit(main())
