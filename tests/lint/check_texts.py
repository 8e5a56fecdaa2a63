#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SPDX first lines, and texts that no file of the project may hold.

usage: check_texts.py SOURCE_DIRECTORY
"""
import re
import sys

import project

SPDX = "SPDX-License-Identifier: BSD-3-Clause"
CODE = project.SOURCE_SUFFIXES + (".py", ".sh", ".cmake", ".map", "CMakeLists.txt")

# (pattern, reason)
FORBIDDEN = [
    (r"(?:^|[^A-Za-z0-9_.-])/(?:work|farm|root)/", "a path of somebody's machine"),
    (r"(?:^|[^A-Za-z0-9_.-])/home/\w", "a path of somebody's machine"),
    (r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\(#)", "unfinished work without an issue number"),
    (r"^(?:<{7}|>{7}) ", "a merge conflict"),
]


def check_spdx(findings, path, lines):
    """The first line, or the second behind an interpreter line."""
    head = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    if not head or SPDX not in head[0]:
        findings.error(path, 1, f"the first line lacks {SPDX}")


def main():
    root = sys.argv[1]
    findings = project.Findings()
    checked = 0
    for path in project.files(root):
        text = project.text_of(root, path)
        if "\0" in text:
            continue
        checked += 1
        lines = text.splitlines()
        if path.endswith(CODE) or text.startswith("#!"):
            check_spdx(findings, path, lines)
        for number, line in enumerate(lines, 1):
            for pattern, reason in FORBIDDEN:
                if re.search(pattern, line):
                    findings.error(path, number, reason)
    findings.exit(checked)


main()
