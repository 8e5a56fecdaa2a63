#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The inline functions of our headers do what the distribution's do: the same compiler makes the
same machine code of both, so programs built with either call the same slots with the same arguments.

usage: fi_inlines.py COMPILER UPSTREAM-DIRECTORY OUR-DIRECTORY
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADERS = ["fabric", "fi_atomic", "fi_cm", "fi_collective", "fi_domain", "fi_endpoint", "fi_eq",
           "fi_ext", "fi_rma", "fi_tagged", "fi_trigger"]
# Where a later release than the distribution's does something more: the source address of an error
# entry is preset, and what fi_mr_refresh() passes has grown.
CHANGED = {"fi_cq_readerr", "fi_mr_refresh"}


def inlines_of(directory):
    names = set()
    for header in HEADERS:
        text = Path(directory, "rdma", header + ".h").read_text(encoding="utf-8")
        names |= set(re.findall(r"static inline[\s\w*]*?\b(fi_\w+)\s*\(", text))
    return names


def code_of(compiler, directory, names, scratch):
    """Function name to disassembly, without addresses."""
    source = "".join(f"#include <rdma/{header}.h>\n" for header in HEADERS)
    source += "void* const table[] = {" + ", ".join(f"(void*){name}" for name in names) + "};\n"
    target = Path(scratch, "inlines.o")
    subprocess.run([compiler, "-w", "-x", "c", "-O2", "-fno-asynchronous-unwind-tables",
                    "-ffunction-sections", "-I", directory, "-c", "-", "-o", target],
                   input=source, text=True, check=True)
    listing = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", target],
                             capture_output=True, text=True, check=True).stdout
    code = {}
    for match in re.finditer(r"^[0-9a-f]+ <(\w+)>:\n(.*?)(?:\n\n|\Z)", listing, re.S | re.M):
        body = re.sub(r"^\s+[0-9a-f]+:\s*", "", match[2], flags=re.M)
        code[match[1]] = re.sub(r"\b[0-9a-f]+ <\w+(\+0x[0-9a-f]+)?>", r"<\1>", body).strip()
    return code


def main():
    compiler, upstream, ours = sys.argv[1:]
    missing = inlines_of(upstream) - inlines_of(ours)
    names = sorted(inlines_of(upstream) & inlines_of(ours))
    with tempfile.TemporaryDirectory() as scratch:
        left = code_of(compiler, upstream, names, scratch)
        right = code_of(compiler, ours, names, scratch)
    differing = {name for name in names if left[name] != right[name]}
    for name in sorted(missing):
        print(f"{name}: missing")
    for name in sorted(differing - CHANGED):
        print(f"{name}: upstream's is\n{left[name]}\nours is\n{right[name]}")
    print(f"{len(names)} functions compared")
    return bool(missing or differing - CHANGED or len(names) < 100)


if __name__ == "__main__":
    sys.exit(main())
