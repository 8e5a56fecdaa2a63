#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the dynamic loader sees of a built library.

usage: check_library.py LIBRARY --symbols FILE --soname NAME [--not-needed NAME]...
                        [--upstream LIBRARY] [--no-constructors]
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports_of(library):
    """name@node of everything a program can bind to; the nodes themselves are no symbols."""
    lines = output_of("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines()
    kinds_and_names = [line.split()[-2:] for line in lines]
    return {name.replace("@@", "@") for kind, name in kinds_and_names if kind != "A"}


def dynamic_of(library, tag):
    pattern = rf"\({tag}\).*\[(.*)\]"
    return re.findall(pattern, output_of("readelf", "--wide", "--dynamic", library))


def constructors_of(library):
    """The compiler's own start-up files give one entry, and do nothing in it."""
    sections = output_of("readelf", "--wide", "--sections", library)
    match = re.search(r"\.init_array\s+\w+\s+\w+\s+\w+\s+(\w+)", sections)
    return int(match[1], 16) // 8 - 1 if match else 0


def faults(arguments):
    exports = exports_of(arguments.library)
    expected = set(Path(arguments.symbols).read_text(encoding="utf-8").split())
    yield from (f"missing: {name}" for name in sorted(expected - exports))
    yield from (f"not in the list: {name}" for name in sorted(exports - expected))
    if arguments.upstream:
        upstream = exports_of(arguments.upstream)
        if not upstream:
            yield f"{arguments.upstream} exports nothing"
        yield from (f"upstream has: {name}" for name in sorted(upstream - exports))
    if dynamic_of(arguments.library, "SONAME") != [arguments.soname]:
        yield f"SONAME is {dynamic_of(arguments.library, 'SONAME')}, not {arguments.soname}"
    for needed in dynamic_of(arguments.library, "NEEDED"):
        if any(needed.startswith(name + ".so") for name in arguments.not_needed):
            yield f"needs {needed}"
    if arguments.no_constructors and constructors_of(arguments.library) > 0:
        yield f"{constructors_of(arguments.library)} constructors run when it is loaded"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--symbols", required=True)
    parser.add_argument("--soname", required=True)
    parser.add_argument("--not-needed", action="append", default=[])
    parser.add_argument("--upstream")
    parser.add_argument("--no-constructors", action="store_true")
    arguments = parser.parse_args()
    found = list(faults(arguments))
    for fault in found:
        print(f"{arguments.library}: {fault}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
