#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every C and C++ file is as clang-format 14 would write it; other versions differ in details.

usage: check_format.py SOURCE_DIRECTORY
"""
import shutil
import subprocess
import sys

import project

SKIPPED = 77


def clang_format():
    for name in ("clang-format-14", "clang-format"):
        program = shutil.which(name)
        if program and "version 14." in subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=True).stdout:
            return program
    return None


def main():
    root = sys.argv[1]
    program = clang_format()
    if program is None:
        print("skipped: there is no clang-format 14")
        sys.exit(SKIPPED)
    paths = list(project.files(root, project.SOURCE_SUFFIXES))
    if not paths:
        print("error: nothing was checked")
        sys.exit(1)
    result = subprocess.run([program, "--dry-run", "-Werror", "--style=file", *paths], cwd=root,
                            check=False)
    print(f"{len(paths)} files checked")
    sys.exit(1 if result.returncode else 0)


main()
