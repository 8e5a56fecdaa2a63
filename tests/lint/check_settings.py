#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The README's table of environment variables is the one that print-settings prints.

usage: check_settings.py SOURCE_DIRECTORY PRINT_SETTINGS
"""
import difflib
import subprocess
import sys

import project


def main():
    root, program = sys.argv[1:]
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    readme = project.text_of(root, "README.md")
    if printed.strip() and printed in readme:
        sys.exit(0)
    rows = [line for line in readme.splitlines() if line.startswith("| `FABRIC_COMPAT_")]
    print("README.md lacks what print-settings prints:")
    print("\n".join(difflib.unified_diff(rows, printed.splitlines()[2:], "README.md",
                                         "core/base/config.cpp", lineterm="")))
    sys.exit(1)


main()
