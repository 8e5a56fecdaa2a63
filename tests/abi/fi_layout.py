#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds libfabric headers against the tables of the ABI, by compiling one assertion a row.

usage: fi_layout.py COMPILER INCLUDE-DIRECTORY LAYOUT CONSTANTS [--release MAJOR.MINOR]

With --release the headers are the distribution's: rows that are newer than it, and names that it
does not have, are left out.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

# What changed its value on purpose between the distribution's release and ours, and what says which
# release it is.
CHANGED = {
    "FI_MAJOR_VERSION", "FI_MINOR_VERSION", "FI_REVISION_VERSION", "FI_ERRNO_MAX",
    "FI_VARIABLE_MSG", "FI_NOTIFY_FLAGS_ONLY", "FI_RESTRICTED_COMP", "FI_EP_SOCK_STREAM",
    "FI_AV_AUTH_KEY", "FI_ATOMIC_OP_LAST", "FI_DATATYPE_LAST",
}


def rows_of(path):
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield line.split()


def version_of(text):
    return tuple(int(part) for part in text.split("."))


def headers_of(directory):
    names = ["fabric.h", *sorted(path.name for path in (directory / "rdma").glob("fi_*.h"))]
    providers = sorted((directory / "rdma" / "providers").glob("fi_*.h"))
    return [f"rdma/{name}" for name in names] + [f"rdma/providers/{path.name}" for path in providers]


def assertions(arguments, text):
    release = version_of(arguments.release) if arguments.release else None

    def is_there(struct):
        return release is None or re.search(rf"\bstruct {struct}\s*\{{", text)

    for struct, field, offset, size, since in rows_of(arguments.layout):
        if not is_there(struct) or (release and version_of(since) > release):
            continue
        if field == "-":
            yield f"sizeof(struct {struct}) == {size}"
            continue
        yield f"offsetof(struct {struct}, {field}) == {offset}"
        if size != "0":
            yield f"sizeof(((struct {struct}*)0)->{field}) == {size}"
    for name, value in rows_of(arguments.constants):
        if release and (name in CHANGED or not re.search(rf"\b{name}\b", text)):
            continue
        suffix = "ULL" if value.startswith("0x") else ""
        yield f"{name} == {value}{suffix}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("compiler")
    parser.add_argument("directory", type=Path)
    parser.add_argument("layout")
    parser.add_argument("constants")
    parser.add_argument("--release")
    arguments = parser.parse_args()
    headers = headers_of(arguments.directory)
    text = "".join((arguments.directory / header).read_text(encoding="utf-8") for header in headers)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    lines = ["#include <stddef.h>", *(f"#include <{header}>" for header in headers)]
    count = 0
    for assertion in assertions(arguments, text):
        lines.append(f'_Static_assert({assertion}, "{assertion}");')
        count += 1
    command = [arguments.compiler, "-x", "c", "-std=gnu11", "-fsyntax-only",
               "-I", str(arguments.directory), "-"]
    result = subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=False)
    print(f"{count} rows")
    return result.returncode or count < 1000


if __name__ == "__main__":
    sys.exit(main())
