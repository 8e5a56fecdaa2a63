#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a library still has every symbol and type that its recorded baseline has, unchanged.

usage: abi_diff.py check BASELINE LIBRARY INCLUDE-DIRECTORY
       abi_diff.py renew BASELINE LIBRARY INCLUDE-DIRECTORY

Additions are no fault. The library needs debugging information.
"""
import shutil
import subprocess
import sys
import tempfile

# What is not in an installed header is nobody's business.
RECORD = ["abidw", "--drop-private-types", "--exported-interfaces-only", "--drop-undefined-syms",
          "--no-elf-needed", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
          "--no-parameter-names"]


def renew(baseline, library, include):
    command = [*RECORD, "--headers-dir", include, "--out-file", baseline, library]
    subprocess.run(command, check=True)


def check(baseline, library, include):
    # Two records are compared: of a library abidiff takes types for private whose place in the
    # headers the baseline does not tell.
    with tempfile.TemporaryDirectory() as folder:
        record = f"{folder}/record.abi"
        renew(record, library, include)
        result = subprocess.run(["abidiff", "--no-added-syms", baseline, record], check=False)
    if result.returncode != 0:
        sys.exit(f"{library} is not what {baseline} says")


def main():
    action, *arguments = sys.argv[1:]
    if not shutil.which("abidiff"):
        sys.exit("abidiff is not installed")
    {"check": check, "renew": renew}[action](*arguments)


if __name__ == "__main__":
    main()
