#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether our librpma.h has upstream's constants and functions, no more and no less, and
rpma_facts.c compares every constant.

usage: rpma_names.py UPSTREAM_HEADER OUR_HEADER FACTS SYMBOLS
"""
import re
import sys
from pathlib import Path


def code_of(path):
    return re.sub(r"/\*.*?\*/", "", Path(path).read_text(encoding="utf-8"), flags=re.S)


def constants_of(code):
    macros = set(re.findall(r"^\s*#\s*define\s+(RPMA_\w+)", code, re.M))
    for body in re.findall(r"\benum\s+\w+\s*\{(.*?)\}", code, re.S):
        macros |= set(re.findall(r"\bRPMA_\w+", body))
    return macros


def functions_of(code):
    return set(re.findall(r"\b(rpma_\w+)\s*\(", code)) - {"rpma_log_function"}


def main(upstream_header, our_header, facts, symbols):
    upstream, ours = code_of(upstream_header), code_of(our_header)
    compared = set(re.findall(r"\bRPMA_\w+", code_of(facts)))
    exported = {line.split("@")[0] for line in Path(symbols).read_text().split()}
    differences = [
        ("constants missing in our header", constants_of(upstream) - constants_of(ours)),
        ("constants of our header that upstream lacks", constants_of(ours) - constants_of(upstream)),
        ("constants that rpma_facts.c does not compare", constants_of(upstream) - compared),
        ("functions missing in our header", functions_of(upstream) - functions_of(ours)),
        ("functions of our header that upstream lacks", functions_of(ours) - functions_of(upstream)),
        ("functions declared but not exported", functions_of(ours) - exported),
        ("functions exported but not declared", exported - functions_of(ours)),
    ]
    if len(constants_of(upstream)) < 40 or len(functions_of(upstream)) < 80:
        sys.exit(f"{upstream_header} was not understood")
    for what, names in differences:
        for name in sorted(names):
            print(f"{what}: {name}")
    return any(names for _, names in differences)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
