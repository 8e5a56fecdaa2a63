# SPDX-License-Identifier: BSD-3-Clause
"""What the lint checks share: the project's files, comments taken out, and how a finding is told."""
import os
import re
import sys

SOURCE_SUFFIXES = (".c", ".h", ".cpp", ".hpp")


def files(root, suffixes=None, below=""):
    """Paths relative to root of the project's text files, build trees and hidden folders left out."""
    for folder, names, leaves in os.walk(os.path.join(root, below)):
        hidden = {n for n in names if n.startswith(".") and n != ".ci"}
        names[:] = sorted(n for n in names if n not in hidden and not is_build(folder, n))
        for leaf in sorted(set(leaves) - {".git"}):  # a file in work trees, with a machine's path
            if suffixes is None or leaf.endswith(suffixes):
                yield os.path.relpath(os.path.join(folder, leaf), root)


def is_build(folder, name):
    return os.path.exists(os.path.join(folder, name, "CMakeCache.txt")) or name in (
        "build", "__pycache__")


def text_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as source:
        return source.read()


_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments(text, strings=False):
    """The text with comments (and strings, if asked) blanked; line numbers stay."""
    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return '""' if strings else found
    return _COMMENT_OR_STRING.sub(blank, text)


class Findings:
    """Collects what is wrong, prints it as compilers do, and gives the exit status."""

    def __init__(self):
        self.errors = 0

    def error(self, path, line, message):
        self.errors += 1
        print(f"{path}:{line}: error: {message}")

    def warning(self, path, line, message):
        print(f"{path}:{line}: warning: {message}")

    def exit(self, checked):
        if checked == 0:
            print("error: nothing was checked")
            sys.exit(1)
        print(f"{checked} files checked, {self.errors} errors")
        sys.exit(1 if self.errors else 0)
