#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The checks find what they are there for: each runs on a small tree with one fault in it.

usage: check_lint.py DIRECTORY_OF_THE_CHECKS
"""
import os
import subprocess
import sys
import tempfile

SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"

# (check, path of the file, what it holds below the SPDX line, found)
CASES = [
    ("check_includes.py", "core/base/a.cpp", '#include "core/base/b.hpp"', False),
    ("check_includes.py", "core/base/a.cpp", '#include "core/model/types.hpp"', True),
    ("check_includes.py", "core/model/a.cpp", '#include "core/device/device.hpp"', True),
    ("check_includes.py", "core/device/soft/a.cpp", '#include "core/device/soft/b.hpp"', False),
    ("check_includes.py", "core/device/soft/a.cpp", '#include "core/device/verbs/b.hpp"', True),
    ("check_includes.py", "core/device/soft/a.cpp", '#include "core/engine/b.hpp"', True),
    ("check_includes.py", "core/engine/a.cpp", '#include "core/device/soft/b.hpp"', True),
    ("check_includes.py", "fi_compat/a.cpp", '#include "core/core.hpp"', False),
    ("check_includes.py", "fi_compat/a.cpp", '#include "core/base/log.hpp"', True),
    ("check_includes.py", "fi_compat/a.cpp", '#include "rpma_compat/a.hpp"', True),
    ("check_includes.py", "core/base/a.cpp", "#include <iostream>", True),
    ("check_includes.py", "core/base/a.cpp", "#include <tl/expected.hpp>", True),
    ("check_includes.py", "core/engine/a.cpp", "#include <infiniband/verbs.h>", True),
    ("check_includes.py", "core/engine/a.cpp", "int x = FI_EINVAL;", True),
    ("check_includes.py", "core/engine/a.cpp", "int x; // FI_EINVAL", False),
    ("check_includes.py", "core/engine/a.cpp", "int x = RPMA_E_INVAL;", True),
    ("check_includes.py", "rpma_compat/a.cpp", "int x = ibv_poll_cq(cq, 1, wc);", True),
    ("check_includes.py", "rpma_compat/a.cpp", "ibv_wc* wc;", False),
    ("check_includes.py", "core/base/a.cpp", "void f() { abort(); }", True),
    ("check_includes.py", "unknown.txt", "", True),  # nothing to check is an error
    ("check_texts.py", "a.cpp", "int x;", False),
    ("check_texts.py", "a.py", "x = '/" "work/main'", True),
    ("check_texts.py", "a.md", "see /" "root/notes", True),
    ("check_texts.py", "a.cpp", "// TO" "DO: later", True),
    ("check_texts.py", "a.cpp", "// TO" "DO(#12): later", False),
]


def run(checks, check, path, body):
    with tempfile.TemporaryDirectory() as root:
        file = os.path.join(root, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as source:
            source.write(SPDX + body + "\n")
        with open(os.path.join(root, ".git"), "w", encoding="utf-8") as link:  # as in work trees
            link.write("gitdir: /" "work/main/.git/worktrees/name\n")
        return subprocess.run([sys.executable, os.path.join(checks, check), root],
                              capture_output=True, text=True, check=False)


def main():
    checks = sys.argv[1]
    failures = 0
    for check, path, body, found in CASES:
        result = run(checks, check, path, body)
        if result.returncode != (1 if found else 0):
            failures += 1
            print(f"{check}: {path}: {body!r}: {'missed' if found else 'refused'}")
            print(result.stdout + result.stderr)
    print(f"{len(CASES)} cases, {failures} failures")
    sys.exit(1 if failures else 0)


main()
