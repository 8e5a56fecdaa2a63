#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The comparison with a baseline finds what it is there for: small libraries with one change each.

usage: abi_diff_test.py COMPILER
"""
import subprocess
import sys
import tempfile
from pathlib import Path

DIFF = Path(__file__).with_name("abi_diff.py")
HEADER = """
enum color { RED, GREEN };
struct table { int (*call)(int depth); };
struct shape { int width; long height; enum color color; struct table* table; };
struct hidden;
int draw(const struct shape* shape, int scale);
void clear(struct hidden* hidden);
"""
SOURCE = """
#include "shape.h"
struct hidden { int number; };
int draw(const struct shape* shape, int scale) { return shape->width * (int)scale; }
void clear(struct hidden* hidden) { hidden->number = 0; }
"""
# what changes, where, by what, is it a fault
CASES = [
    ("nothing", "", "", False),
    ("a new function", "struct hidden {", "void more(void) {}\nstruct hidden {", False),
    ("a private structure", "{ int number; }", "{ long number; }", False),
    ("a function is gone", "void clear(", "static void clear(", True),
    ("a parameter's type", "int scale", "long scale", True),
    ("a field's type", "long height", "int height", True),
    ("a field in between", "int width;", "int width; int depth;", True),
    ("a field at the end", "struct table* table;", "struct table* table; int more;", True),
    ("an enumerator's value", "RED, GREEN", "GREEN, RED", True),
    ("a slot's parameter", "int depth", "long depth", True),
]


def build(compiler, folder, old, new):
    for name, text in (("shape.h", HEADER), ("shape.c", SOURCE)):
        (folder / name).write_text(text.replace(old, new) if old else text, encoding="utf-8")
    subprocess.run([compiler, "-g", "-O1", "-fPIC", "-shared", "-w", folder / "shape.c",
                    "-o", folder / "libshape.so"], check=True)
    return folder / "libshape.so"


def run(action, baseline, library):
    return subprocess.run([sys.executable, DIFF, action, baseline, library, library.parent],
                          capture_output=True, text=True, check=False)


def main():
    compiler = sys.argv[1]
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        baseline = folder / "baseline.abi"
        if run("renew", baseline, build(compiler, folder, "", "")).returncode != 0:
            sys.exit("no baseline was made")
        for what, old, new, is_fault in CASES:
            result = run("check", baseline, build(compiler, folder, old, new))
            if (result.returncode != 0) != is_fault:
                failures += 1
                print(f"{what}: {'missed' if is_fault else 'refused'}\n{result.stdout}{result.stderr}")
    print(f"{len(CASES)} libraries, {failures} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
