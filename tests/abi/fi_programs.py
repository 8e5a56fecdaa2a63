#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's own programs on our library, by LD_PRELOAD and by LD_LIBRARY_PATH.

usage: fi_programs.py DROPIN-LIBRARY [SANITIZER-RUNTIME]
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
CASES = [
    (["fi_info"], ["provider: compat\n", "type: FI_EP_MSG\n", "domain: lo\n"]),
    (["fi_info", "-v", "-a", "FI_SOCKADDR_IN"],
     ["fi_info:\n    caps: [ FI_MSG, FI_RMA,", "src_addr: fi_sockaddr_in://127.0.0.1:0\n",
      "prov_name: compat\n", "nic: (null)\n"]),
    (["fi_info", "-p", "tcp", "-t", "FI_EP_MSG"], ["provider: tcp\n"]),
    (["fi_info", "-l"], ["compat:\n"]),
    (["fi_info", "-e"], ["# FI_PROVIDER: String\n", "# FABRIC_COMPAT_DEVICE: String\n"]),
    (["fi_info", "--version"], ["libfabric: 2.5.1\n"]),
    (["fi_strerror", "260"], ["Flags not supported\n"]),
]


def output_of(command, environment):
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True,
                            text=True, timeout=60, check=False)
    return result.stdout, result.returncode, result.stderr


def faults(environment):
    for command, expected in CASES:
        text, status, errors = output_of(command, environment)
        if status != 0:
            yield f"{' '.join(command)}: status {status}: {errors}"
        for part in expected:
            if part not in text:
                yield f"{' '.join(command)}: no {part!r} in\n{text}"


def main():
    library = Path(sys.argv[1])
    runtime = sys.argv[2] if len(sys.argv) > 2 else ""
    if not shutil.which("fi_info"):
        print("fi_info is not installed")
        return SKIPPED
    quiet = {"ASAN_OPTIONS": "detect_leaks=0"}  # fi_info leaks its hints
    preload = {"LD_PRELOAD": f"{runtime}:{library}".strip(":"), **quiet}
    path = {"LD_LIBRARY_PATH": str(library.parent), "LD_PRELOAD": runtime, **quiet}
    found = [*faults(preload), *faults(path)]
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
