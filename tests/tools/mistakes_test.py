#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a new user makes wrong is told with its cause and what to do, to whoever asks with
FABRIC_COMPAT_EXPLAIN=1 or with FABRIC_COMPAT_LOG=warning.

usage: mistakes_test.py RPMA-CLIENT FI-CLIENT MISUSES      COMPAT_PRELOAD: what to preload
"""
import os
import subprocess
import sys

NO_NAME = "name.of.nobody.invalid"
REFUSED = ["127.0.0.1", "1"]  # where nobody listens


def errors_of(program, *arguments, **variables):
    environment = {**os.environ, "LD_PRELOAD": os.environ["COMPAT_PRELOAD"],
                   "ASAN_OPTIONS": "detect_leaks=0"} | variables
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stderr


def main():
    rpma, fabric, misuses = sys.argv[1:]
    cases = [
        (rpma, [NO_NAME, "7000"], {}, [NO_NAME, "is it an address, or a name"]),
        (fabric, [NO_NAME, "7000"], {}, [NO_NAME, "an address or a name"]),
        (rpma, REFUSED, {}, ["no connection to 127.0.0.1:1", "nobody listens there", "its port?"]),
        (fabric, REFUSED, {}, ["no connection to 127.0.0.1:1", "nobody listens there",
                               "its port?"]),
        (fabric, REFUSED, {"FI_PROVIDER": "compact"},
         ["not selected by FI_PROVIDER compact", "compat", "tcp", "or ask for none"]),
        (misuses, [], {}, ["RPMA_MR_USAGE_* say what the region is for"]),
    ]
    faults = []
    for program, arguments, variables, parts in cases:
        name = f"{os.path.basename(program)} {' '.join(arguments)} {variables}"
        for asking in {"FABRIC_COMPAT_EXPLAIN": "1"}, {"FABRIC_COMPAT_LOG": "warning"}:
            status, errors = errors_of(program, *arguments, **asking, **variables)
            if status != 1:
                faults.append(f"{name} {asking}: status {status}: {errors}")
            faults.extend(f"{name} {asking}: no {part!r} in:\n{errors}"
                          for part in parts if part not in errors)
        _, errors = errors_of(program, *arguments, **variables)
        if len(errors.splitlines()) != 1:  # what the program says itself
            faults.append(f"{name}: without being asked:\n{errors}")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
