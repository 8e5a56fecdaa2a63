#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each installed header compiles alone, without a warning, in every language that programs use.

usage: headers_alone.py INCLUDE-DIRECTORY
"""
import shutil
import subprocess
import sys
from pathlib import Path

LANGUAGES = [("c", "c11"), ("c", "c17"), ("c++", "c++17"), ("c++", "c++20")]
COMPILERS = {"c": ["gcc", "clang"], "c++": ["g++", "clang++"]}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def fault_of(compiler, language, standard, directory, header):
    """Twice, so that a missing include guard shows, too."""
    source = f"#include <{header}>\n" * 2
    # a user's own directory: in a system directory compilers keep warnings back
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only",
               "-I", str(directory), "-"]
    result = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    return result.stderr if result.returncode != 0 else ""


def main():
    directory = Path(sys.argv[1])
    headers = sorted(str(path.relative_to(directory)) for path in directory.rglob("*.h"))
    compilers = {name for names in COMPILERS.values() for name in names}
    faults = [f"{name} is not installed" for name in sorted(compilers) if not shutil.which(name)]
    count = 0
    for language, standard in [] if faults else LANGUAGES:
        for compiler in COMPILERS[language]:
            for header in headers:
                count += 1
                text = fault_of(compiler, language, standard, directory, header)
                if text:
                    faults.append(f"{compiler} -std={standard} {header}:\n{text}")
    print("\n".join(faults) or f"{len(headers)} headers, {count} compilations")
    return bool(faults) or not headers


if __name__ == "__main__":
    sys.exit(main())
