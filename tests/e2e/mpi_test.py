#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI as the distribution ships it, which loads its libfabric modules with dlopen(): the
launcher tells the truth of it, and a program of two processes runs on us.

usage: mpi_test.py LAUNCHER PROGRAM
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
YES, MAYBE = 0, 3  # fabric-compat-run --check
# every message by libfabric, one-sided operations by messages: ob1 would take shared memory
MESSAGES = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "osc", "pt2pt"]


def output_of(*command):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "FABRIC_COMPAT_STATISTICS": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "FABRIC_COMPAT_DEVICE": "soft"}
    done = subprocess.run([str(word) for word in command], env=environment, timeout=200,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def faults(launcher, program):
    dropins = Path(output_of(launcher, "--print")[1].strip()).resolve()
    modules = Path(output_of("ompi_info", "--parsable", "--path", "pkglibdir")[1]
                   .strip().rpartition(":")[2])
    status, text = output_of(launcher, "--check", modules / "mca_mtl_ofi.so")
    if status != YES or str(dropins) not in text:
        yield f"the module: {status}\n{text}"
    status, text = output_of(launcher, "--check", program)
    if status != MAYBE:
        yield f"the program, which may load the module or not: {status}\n{text}"
    status, text = output_of(launcher, "mpirun.openmpi", "-n", "2", "--oversubscribe", *MESSAGES,
                             program)
    used = [line[5:] for line in text.splitlines() if line.startswith("uses ")]
    if status != 0 or [Path(path).resolve().parent for path in used] != [dropins]:
        yield f"two processes: {status}\n{text}"
    if text.count("fabric-compat statistics of process") != 2 or "sends" not in text:
        yield f"no message went by us:\n{text}"


def main():
    launcher, program = sys.argv[1:]
    if not shutil.which("mpirun.openmpi"):
        print("mpirun.openmpi is not installed")
        return SKIPPED
    found = list(faults(launcher, program))
    print("\n".join(found) or "two processes, each byte checked")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
